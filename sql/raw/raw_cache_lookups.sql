-- what:  Cache lookups that serving logs state.
-- grain: one row per line
-- key:   source_id, line_no
-- columns:
--   source_id        INTEGER  file the row came from
--   line_no          BIGINT   line in the file, from 1
--   src_ns           BIGINT   [ns] time on the file's own clock
--   engine           VARCHAR  engine or replica, '0' when none
--   tier             VARCHAR  hbm (the engine's prefix cache), host (offloading in the engine) or lmcache
--   request_id       VARCHAR  request, null for a batch of prefills
--   lookup_tokens    BIGINT   [tokens] looked up, null when not stated
--   hit_tokens       BIGINT   [tokens] found; null while the answer is pending
--   engine_tokens    BIGINT   [tokens] that the engine holds already, null when not stated
--   load_tokens      BIGINT   [tokens] to be loaded from the tier, null when not stated
--   is_load_skipped  BOOLEAN  found but too little to be worth a load
-- notes: a lookup is not a load; the same request looked up again and again is one that is not admitted.
select
    cast(null as integer) as source_id,
    cast(null as bigint) as line_no,
    cast(null as bigint) as src_ns,
    cast(null as varchar) as engine,
    cast(null as varchar) as tier,
    cast(null as varchar) as request_id,
    cast(null as bigint) as lookup_tokens,
    cast(null as bigint) as hit_tokens,
    cast(null as bigint) as engine_tokens,
    cast(null as bigint) as load_tokens,
    cast(null as boolean) as is_load_skipped
where false
