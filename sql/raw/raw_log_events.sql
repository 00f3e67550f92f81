-- what:  Single events that a serving log states.
-- grain: one row per event line
-- key:   source_id, line_no
-- columns:
--   source_id         INTEGER  file the row came from
--   line_no           BIGINT   line in the file, from 1
--   src_ns            BIGINT   [ns] time on the file's own clock
--   engine            VARCHAR  engine or replica, '0' when none
--   kind              VARCHAR  preempt, swap_out, offload_store_failed, jit, oom, fatal, worker_stall, graph_capture, ready, shutdown, profiler_start, profiler_stop, request_received, request_added, request_finished, request_aborted, kv_transfer, retract, pause, recompute, kv_full, cache_evict, prompt_truncated, tier_error, kv_expired
--   mode              VARCHAR  recompute, swap, retract or null
--   request_id        VARCHAR  request, when named
--   cumulative_count  BIGINT   cumulative count printed with the event (vLLM V0 preemption)
--   tokens            BIGINT   tokens concerned (request_received: its max_tokens)
--   bytes             BIGINT   bytes concerned
--   duration_ms       DOUBLE   [ms] duration printed with the event
--   load_bytes        BIGINT   [bytes] kv_transfer: the part of bytes that came back to the device; null when not told apart
--   load_ms           DOUBLE   [ms] kv_transfer: the part of duration_ms spent on load_bytes
--   event_count       BIGINT   requests (retract, pause) or blocks (offload_store_failed) concerned, null when the line states none
-- notes: the text of the line is never kept.
select
    cast(null as integer) as source_id,
    cast(null as bigint) as line_no,
    cast(null as bigint) as src_ns,
    cast(null as varchar) as engine,
    cast(null as varchar) as kind,
    cast(null as varchar) as mode,
    cast(null as varchar) as request_id,
    cast(null as bigint) as cumulative_count,
    cast(null as bigint) as tokens,
    cast(null as bigint) as bytes,
    cast(null as double) as duration_ms,
    cast(null as bigint) as load_bytes,
    cast(null as double) as load_ms,
    cast(null as bigint) as event_count
where false
