-- what:  Cache lookups that serving logs state, on the run clock.
-- grain: one row per line
-- key:   source_id, line_no
-- columns:
--   level            VARCHAR  level of a sweep, null when the run has one level
--   replica_id       VARCHAR  engine replica
--   source_id        INTEGER  log file
--   line_no          BIGINT   line in the file
--   tier             VARCHAR  hbm (the engine's prefix cache), host (offloading in the engine) or lmcache
--   request_id       VARCHAR  request, null for a batch of prefills
--   lookup_tokens    BIGINT   [tokens] looked up, null when not stated
--   hit_tokens       BIGINT   [tokens] found; null while the answer is pending
--   engine_tokens    BIGINT   [tokens] that the engine holds already, null when not stated
--   load_tokens      BIGINT   [tokens] to be loaded from the tier, null when not stated
--   is_load_skipped  BOOLEAN  found but too little to be worth a load
--   ts_ns            BIGINT   [ns] run clock
--   uncertainty_ns   BIGINT   [ns] of the source's clock; null when it is not tied to the run clock
select
    sources.level,
    coalesce(sources.replica || '/', '') || coalesce(entries.engine, '0') as replica_id,
    entries.source_id,
    entries.line_no,
    entries.tier,
    entries.request_id,
    entries.lookup_tokens,
    entries.hit_tokens,
    entries.engine_tokens,
    entries.load_tokens,
    entries.is_load_skipped,
    entries.src_ns + sources.offset_ns as ts_ns,
    sources.uncertainty_ns
from raw_cache_lookups as entries
inner join stg_sources as sources on entries.source_id = sources.source_id
