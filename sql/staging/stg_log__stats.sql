-- what:  Periodic engine statistics lines on the run clock.
-- grain: one row per stats line
-- key:   source_id, line_no
-- columns:
--   level                VARCHAR  level of a sweep, null when the run has one level
--   replica_id           VARCHAR  engine replica
--   source_id            INTEGER  log file
--   line_no              BIGINT   line in the file
--   semantics            VARCHAR  what counts as used KV
--   engine_count         INTEGER  engines aggregated in the line
--   prompt_tokens_per_s  DOUBLE   [tokens/s] mean since the previous line
--   gen_tokens_per_s     DOUBLE   [tokens/s] mean since the previous line
--   running_count        BIGINT   requests running
--   waiting_count        BIGINT   requests waiting
--   swapped_count        BIGINT   requests swapped out
--   deferred_count       BIGINT   waiting for other reasons than capacity
--   preemption_count     BIGINT   preemptions in the interval, null when not printed
--   kv_used_ratio        DOUBLE   device KV occupancy
--   host_kv_used_ratio   DOUBLE   host KV occupancy
--   prefix_hit_ratio     DOUBLE   prefix-cache hit rate as printed
--   external_hit_ratio   DOUBLE   external prefix hit rate as printed
--   kv_used_tokens       BIGINT   [tokens] in the main KV pool
--   side_kv_used_ratio   DOUBLE   fullest of the pools beside the main one
--   accept_length        DOUBLE   tokens accepted per step and request with speculation
--   is_cuda_graph        BOOLEAN  whether the last step ran as a graph
--   is_action_logged     BOOLEAN  the producer logs every preemption
--   ts_ns                BIGINT   [ns] run clock
--   uncertainty_ns       BIGINT   [ns] of the source's clock; null when it is not tied to the run clock
select
    sources.level,
    coalesce(sources.replica || '/', '') || coalesce(entries.engine, '0') as replica_id,
    entries.source_id,
    entries.line_no,
    entries.kv_semantics as semantics,
    entries.engine_count,
    entries.prompt_tokens_per_s,
    entries.gen_tokens_per_s,
    entries.running_count,
    entries.waiting_count,
    entries.swapped_count,
    entries.deferred_count,
    entries.preemption_count,
    entries.kv_used_ratio,
    entries.host_kv_used_ratio,
    entries.prefix_hit_ratio,
    entries.external_hit_ratio,
    entries.kv_used_tokens,
    entries.side_kv_used_ratio,
    entries.accept_length,
    entries.is_cuda_graph,
    entries.is_action_logged,
    entries.src_ns + sources.offset_ns as ts_ns,
    sources.uncertainty_ns
from raw_log_stats as entries
inner join stg_sources as sources on entries.source_id = sources.source_id
