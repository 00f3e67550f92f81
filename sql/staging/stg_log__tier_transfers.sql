-- what:  KV moved between the device and another tier, on the run clock.
-- grain: one row per line and direction
-- key:   source_id, line_no, direction
-- columns:
--   level                VARCHAR  level of a sweep, null when the run has one level
--   replica_id           VARCHAR  engine replica
--   source_id            INTEGER  log file
--   line_no              BIGINT   line in the file
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
--   ts_ns                BIGINT   [ns] run clock
--   uncertainty_ns       BIGINT   [ns] of the source's clock; null when it is not tied to the run clock
select
    sources.level,
    coalesce(sources.replica || '/', '') || coalesce(entries.engine, '0') as replica_id,
    entries.source_id,
    entries.line_no,
    entries.scope,
    entries.tier,
    entries.direction,
    entries.request_id,
    entries.tokens,
    entries.asked_tokens,
    entries.total_tokens,
    entries.bytes,
    entries.duration_ms,
    entries.printed_bytes_per_s,
    entries.src_ns + sources.offset_ns as ts_ns,
    sources.uncertainty_ns
from raw_tier_transfers as entries
inner join stg_sources as sources on entries.source_id = sources.source_id
