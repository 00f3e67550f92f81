-- what:  Occupancy of a KV tier outside the engine, as its log states it.
-- grain: one row per line
-- key:   source_id, line_no
-- columns:
--   source_id           INTEGER  file the row came from
--   line_no             BIGINT   line in the file, from 1
--   src_ns              BIGINT   [ns] time on the file's own clock
--   tier                VARCHAR  mooncake
--   used_bytes          BIGINT   bytes in use
--   capacity_bytes      BIGINT   bytes of the tier
--   used_ratio          DOUBLE   occupancy of the tier, 0-1, as printed
--   key_count           BIGINT   objects held
--   evictions           DOUBLE   evictions that freed something; see is_cumulative
--   eviction_tries      DOUBLE   evictions tried; see is_cumulative
--   evicted_keys        DOUBLE   objects evicted; see is_cumulative
--   evicted_bytes       BIGINT   bytes evicted; see is_cumulative
--   failed_allocations  DOUBLE   stores refused for lack of space; null when the version does not print it
--   is_cumulative       BOOLEAN  counts are since the start, else of the interval
select
    cast(null as integer) as source_id,
    cast(null as bigint) as line_no,
    cast(null as bigint) as src_ns,
    cast(null as varchar) as tier,
    cast(null as bigint) as used_bytes,
    cast(null as bigint) as capacity_bytes,
    cast(null as double) as used_ratio,
    cast(null as bigint) as key_count,
    cast(null as double) as evictions,
    cast(null as double) as eviction_tries,
    cast(null as double) as evicted_keys,
    cast(null as bigint) as evicted_bytes,
    cast(null as double) as failed_allocations,
    cast(null as boolean) as is_cumulative
where false
