-- what:  Per-step iteration lines of serving logs.
-- grain: one row per iteration line
-- key:   source_id, line_no
-- columns:
--   source_id            INTEGER  file the row came from
--   line_no              BIGINT   line in the file, from 1
--   src_ns               BIGINT   [ns] time on the file's own clock
--   engine               VARCHAR  engine or replica, '0' when none
--   iteration            BIGINT   step number as printed
--   context_requests     BIGINT   requests in prefill
--   context_tokens       BIGINT   prefill tokens of the step
--   generation_requests  BIGINT   requests in decode
--   generation_tokens    BIGINT   decode tokens of the step (more than requests: recompute or speculation)
--   elapsed_ms           DOUBLE   [ms] step time as printed
--   kv_used_ratio        DOUBLE   device KV occupancy after the step, 0-1; null when not printed
--   is_dummy             BOOLEAN  data-parallel padding step
--   kv_semantics         VARCHAR  referenced_blocks or used_blocks, null where the engine has one meaning
--   previous_device_ms   DOUBLE   [ms] device time of the step before this one of the same engine, null when that holds an idle wait
--   is_warmup            BOOLEAN  step that holds compilation or warm-up
select
    cast(null as integer) as source_id,
    cast(null as bigint) as line_no,
    cast(null as bigint) as src_ns,
    cast(null as varchar) as engine,
    cast(null as bigint) as iteration,
    cast(null as bigint) as context_requests,
    cast(null as bigint) as context_tokens,
    cast(null as bigint) as generation_requests,
    cast(null as bigint) as generation_tokens,
    cast(null as double) as elapsed_ms,
    cast(null as double) as kv_used_ratio,
    cast(null as boolean) as is_dummy,
    cast(null as varchar) as kv_semantics,
    cast(null as double) as previous_device_ms,
    cast(null as boolean) as is_warmup
where false
