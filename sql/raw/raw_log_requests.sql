-- what:  What serving logs state about a request that ended.
-- grain: one row per line
-- key:   source_id, line_no
-- columns:
--   source_id         INTEGER  file the row came from
--   line_no           BIGINT   line in the file, from 1
--   src_ns            BIGINT   [ns] time on the file's own clock
--   engine            VARCHAR  engine or replica, '0' when none
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
-- notes: a line may state only a part of a request (llama.cpp: prompt, generation and total on lines of their own).
select
    cast(null as integer) as source_id,
    cast(null as bigint) as line_no,
    cast(null as bigint) as src_ns,
    cast(null as varchar) as engine,
    cast(null as varchar) as request_id,
    cast(null as bigint) as prompt_tokens,
    cast(null as bigint) as cached_tokens,
    cast(null as bigint) as output_tokens,
    cast(null as bigint) as retraction_count,
    cast(null as bigint) as attempt_count,
    cast(null as double) as queue_ms,
    cast(null as double) as prefill_ms,
    cast(null as double) as decode_ms,
    cast(null as double) as run_ms,
    cast(null as double) as total_ms,
    cast(null as double) as token_ms
where false
