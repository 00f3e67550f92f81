-- what:  Per-step iteration lines on the run clock.
-- grain: one row per iteration line
-- key:   source_id, line_no
-- columns:
--   level                VARCHAR  level of a sweep, null when the run has one level
--   replica_id           VARCHAR  engine replica
--   source_id            INTEGER  log file
--   line_no              BIGINT   line in the file
--   semantics            VARCHAR  what counts as used KV, null where the engine has one meaning
--   iteration            BIGINT   step number as printed
--   context_requests     BIGINT   requests in prefill
--   context_tokens       BIGINT   prefill tokens
--   generation_requests  BIGINT   requests in decode
--   generation_tokens    BIGINT   decode tokens
--   elapsed_ms           DOUBLE   [ms] step time as printed
--   kv_used_ratio        DOUBLE   KV occupancy after the step
--   previous_device_ms   DOUBLE   [ms] device time of the step before
--   is_dummy             BOOLEAN  data-parallel padding step
--   is_warmup            BOOLEAN  step that holds compilation or warm-up
--   ts_ns                BIGINT   [ns] run clock, start of the stamp's resolution (whole seconds in text logs)
--   uncertainty_ns       BIGINT   [ns] of the source's clock; null when it is not tied to the run clock
select
    sources.level,
    coalesce(sources.replica || '/', '') || coalesce(entries.engine, '0') as replica_id,
    entries.source_id,
    entries.line_no,
    entries.kv_semantics as semantics,
    entries.iteration,
    entries.context_requests,
    entries.context_tokens,
    entries.generation_requests,
    entries.generation_tokens,
    entries.elapsed_ms,
    entries.kv_used_ratio,
    entries.previous_device_ms,
    entries.is_dummy,
    entries.is_warmup,
    entries.src_ns + sources.offset_ns as ts_ns,
    sources.uncertainty_ns
from raw_log_iterations as entries
inner join stg_sources as sources on entries.source_id = sources.source_id
