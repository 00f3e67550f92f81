-- what:  Periodic engine statistics lines of serving logs.
-- grain: one row per stats line
-- key:   source_id, line_no
-- columns:
--   source_id            INTEGER  file the row came from
--   line_no              BIGINT   line in the file, from 1
--   src_ns               BIGINT   [ns] time on the file's own clock
--   engine               VARCHAR  engine or replica named by the line or its envelope, '0' when none
--   engine_count         INTEGER  engines aggregated in the line (1 when not aggregated)
--   kv_semantics         VARCHAR  referenced_blocks, live_tokens, used_blocks or reserved_tokens
--   prompt_tokens_per_s  DOUBLE   [tokens/s] mean since the previous line
--   gen_tokens_per_s     DOUBLE   [tokens/s] mean since the previous line
--   running_count        BIGINT   requests running at log time
--   waiting_count        BIGINT   requests waiting at log time
--   swapped_count        BIGINT   requests swapped out or paused at log time
--   deferred_count       BIGINT   waiting requests deferred for other reasons than capacity
--   preemption_count     BIGINT   preemptions in the interval; null when the version does not print it
--   kv_used_ratio        DOUBLE   device KV occupancy, 0-1
--   host_kv_used_ratio   DOUBLE   host (swap) KV occupancy, 0-1
--   prefix_hit_ratio     DOUBLE   prefix-cache hit rate as printed, 0-1 (window differs by version)
--   external_hit_ratio   DOUBLE   external (connector) prefix hit rate, 0-1
--   kv_used_tokens       BIGINT   [tokens] in the main KV pool, null when not printed
--   side_kv_used_ratio   DOUBLE   fullest of the pools beside the main one (sliding window, state), 0-1; kv_used_ratio is the fullest of all
--   accept_length        DOUBLE   tokens accepted per step and request with speculation
--   is_cuda_graph        BOOLEAN  whether the last step ran as a graph
--   is_action_logged     BOOLEAN  the producer logs every preemption, so that its gauges need not be read for them
select
    cast(null as integer) as source_id,
    cast(null as bigint) as line_no,
    cast(null as bigint) as src_ns,
    cast(null as varchar) as engine,
    cast(null as integer) as engine_count,
    cast(null as varchar) as kv_semantics,
    cast(null as double) as prompt_tokens_per_s,
    cast(null as double) as gen_tokens_per_s,
    cast(null as bigint) as running_count,
    cast(null as bigint) as waiting_count,
    cast(null as bigint) as swapped_count,
    cast(null as bigint) as deferred_count,
    cast(null as bigint) as preemption_count,
    cast(null as double) as kv_used_ratio,
    cast(null as double) as host_kv_used_ratio,
    cast(null as double) as prefix_hit_ratio,
    cast(null as double) as external_hit_ratio,
    cast(null as bigint) as kv_used_tokens,
    cast(null as double) as side_kv_used_ratio,
    cast(null as double) as accept_length,
    cast(null as boolean) as is_cuda_graph,
    cast(null as boolean) as is_action_logged
where false
