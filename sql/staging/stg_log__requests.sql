-- what:  What serving logs state about a request that ended, on the run clock.
-- grain: one row per line
-- key:   source_id, line_no
-- columns:
--   level             VARCHAR  level of a sweep, null when the run has one level
--   replica_id        VARCHAR  engine replica
--   source_id         INTEGER  log file
--   line_no           BIGINT   line in the file
--   request_id        VARCHAR  request, or slot and task of llama.cpp
--   prompt_tokens     BIGINT   [tokens] of the prompt; llama.cpp: of it processed, without the reused part
--   cached_tokens     BIGINT   [tokens] of the prompt found in a cache
--   output_tokens     BIGINT   [tokens] generated
--   retraction_count  BIGINT   times it lost its place under KV pressure (SGLang)
--   attempt_count     BIGINT   times it was scheduled from the queue (SGLang)
--   queue_ms          DOUBLE   [ms] waiting in the queue
--   prefill_ms        DOUBLE   [ms] prompt processing
--   decode_ms         DOUBLE   [ms] token generation
--   run_ms            DOUBLE   [ms] from the first schedule to the end
--   total_ms          DOUBLE   [ms] from arrival to the end
--   token_ms          DOUBLE   [ms] mean per generated token
--   ts_ns             BIGINT   [ns] run clock
--   uncertainty_ns    BIGINT   [ns] of the source's clock; null when it is not tied to the run clock
select
    sources.level,
    coalesce(sources.replica || '/', '') || coalesce(entries.engine, '0') as replica_id,
    entries.source_id,
    entries.line_no,
    entries.request_id,
    entries.prompt_tokens,
    entries.cached_tokens,
    entries.output_tokens,
    entries.retraction_count,
    entries.attempt_count,
    entries.queue_ms,
    entries.prefill_ms,
    entries.decode_ms,
    entries.run_ms,
    entries.total_ms,
    entries.token_ms,
    entries.src_ns + sources.offset_ns as ts_ns,
    sources.uncertainty_ns
from raw_log_requests as entries
inner join stg_sources as sources on entries.source_id = sources.source_id
