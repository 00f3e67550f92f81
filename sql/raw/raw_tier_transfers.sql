-- what:  KV moved between the device and another tier, as logs state it.
-- grain: one row per line and direction
-- key:   source_id, line_no, direction
-- columns:
--   source_id            INTEGER  file the row came from
--   line_no              BIGINT   line in the file, from 1
--   src_ns               BIGINT   [ns] time on the file's own clock
--   engine               VARCHAR  engine or replica, '0' when none
--   scope                VARCHAR  rank that moved its part, empty when not stated
--   tier                 VARCHAR  lmcache, mooncake, hicache or host
--   direction            VARCHAR  store (device to tier), load (tier to device), prefetch (outer to inner tier) or both
--   request_id           VARCHAR  request, when named
--   tokens               BIGINT   [tokens] moved
--   asked_tokens         BIGINT   [tokens] that should have been moved, null when not stated
--   total_tokens         BIGINT   [tokens] of the request, null when not stated
--   bytes                BIGINT   bytes moved
--   duration_ms          DOUBLE   [ms] busy time as printed
--   printed_bytes_per_s  DOUBLE   [bytes/s] the tool's own rate
-- notes: never add store and load; rates of a tool are per busy time, not wall clock.
select
    cast(null as integer) as source_id,
    cast(null as bigint) as line_no,
    cast(null as bigint) as src_ns,
    cast(null as varchar) as engine,
    cast(null as varchar) as scope,
    cast(null as varchar) as tier,
    cast(null as varchar) as direction,
    cast(null as varchar) as request_id,
    cast(null as bigint) as tokens,
    cast(null as bigint) as asked_tokens,
    cast(null as bigint) as total_tokens,
    cast(null as bigint) as bytes,
    cast(null as double) as duration_ms,
    cast(null as double) as printed_bytes_per_s
where false
