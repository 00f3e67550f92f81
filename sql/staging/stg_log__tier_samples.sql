-- what:  Occupancy of a KV tier outside the engine, on the run clock.
-- grain: one row per line
-- key:   source_id, line_no
-- columns:
--   level               VARCHAR  level of a sweep, null when the run has one level
--   replica_id          VARCHAR  replica of the file, empty when the run has one
--   source_id           INTEGER  log file
--   line_no             BIGINT   line in the file
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
--   ts_ns               BIGINT   [ns] run clock
--   uncertainty_ns      BIGINT   [ns] of the source's clock; null when it is not tied to the run clock
select
    sources.level,
    coalesce(sources.replica, '') as replica_id,
    entries.source_id,
    entries.line_no,
    entries.tier,
    entries.used_bytes,
    entries.capacity_bytes,
    entries.used_ratio,
    entries.key_count,
    entries.evictions,
    entries.eviction_tries,
    entries.evicted_keys,
    entries.evicted_bytes,
    entries.failed_allocations,
    entries.is_cumulative,
    entries.src_ns + sources.offset_ns as ts_ns,
    sources.uncertainty_ns
from raw_tier_samples as entries
inner join stg_sources as sources on entries.source_id = sources.source_id
