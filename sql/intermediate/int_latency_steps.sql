-- what:  Token latency per time bucket from the engine's iteration log.
-- grain: one row per bucket
-- key:   level, replica_id, ts_ns
-- columns:
--   level           VARCHAR  level of a sweep, null when the run has one level
--   replica_id      VARCHAR  engine replica
--   token_count     BIGINT   tokens that the steps generated
--   itl_p50_ms      DOUBLE   [ms] median step time of steps that decode
--   itl_p90_ms      DOUBLE   [ms]
--   itl_p99_ms      DOUBLE   [ms]
--   itl_max_ms      DOUBLE   [ms]
--   context_tokens  BIGINT   prefill tokens of the steps
--   ts_ns           BIGINT   [ns] start of the bucket
--   bucket_ns       BIGINT   [ns] width
-- notes: a step is one token for each request in it; waits of preempted requests are not in it.
select
    level,
    replica_id,
    cast(sum(generation_requests + context_requests) as bigint) as token_count,
    quantile_cont(elapsed_ms, 0.5) filter (where generation_requests > 0) as itl_p50_ms,
    quantile_cont(elapsed_ms, 0.9) filter (where generation_requests > 0) as itl_p90_ms,
    quantile_cont(elapsed_ms, 0.99) filter (where generation_requests > 0) as itl_p99_ms,
    max(elapsed_ms) filter (where generation_requests > 0) as itl_max_ms,
    cast(sum(context_tokens) as bigint) as context_tokens,
    end_ns // cast(threshold('latency_bucket_s') * 1e9 as bigint)
    * cast(threshold('latency_bucket_s') * 1e9 as bigint) as ts_ns,
    cast(threshold('latency_bucket_s') * 1e9 as bigint) as bucket_ns
from int_iterations_timed
group by level, replica_id, end_ns // cast(threshold('latency_bucket_s') * 1e9 as bigint)
