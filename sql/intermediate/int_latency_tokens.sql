-- what:  Token latency per time bucket from token arrivals.
-- grain: one row per bucket
-- key:   level, replica_id, ts_ns
-- columns:
--   level           VARCHAR  level of a sweep, null when the run has one level
--   replica_id      VARCHAR  engine replica
--   token_count     BIGINT   tokens that arrived
--   itl_p50_ms      DOUBLE   [ms] median chunk gap
--   itl_p90_ms      DOUBLE   [ms]
--   itl_p99_ms      DOUBLE   [ms]
--   itl_max_ms      DOUBLE   [ms]
--   zero_gap_ratio  DOUBLE   share of gaps below 0.1 ms: chunks that arrived together
--   ts_ns           BIGINT   [ns] start of the bucket
--   bucket_ns       BIGINT   [ns] width
-- notes: quantiles interpolate linearly (type 7); a gap counts in the bucket in which it ends.
with

bucketed as (

    select
        level,
        replica_id,
        tokens,
        gap_ns,
        cast(threshold('latency_bucket_s') * 1e9 as bigint) as bucket_ns,
        ts_ns
    from int_token_arrivals

),

summed as (

    select
        level,
        replica_id,
        cast(sum(tokens) as bigint) as token_count,
        -- one list of quantiles collects the gaps once
        quantile_cont(gap_ns, [0.5, 0.9, 0.99]) as quantiles_ns,
        max(gap_ns) as longest_gap_ns,
        count(*) filter (where gap_ns < 100000) / nullif(count(gap_ns), 0) as zero_gap_ratio,
        ts_ns // bucket_ns * bucket_ns as ts_ns,
        any_value(bucket_ns) as bucket_ns
    from bucketed
    group by level, replica_id, ts_ns // bucket_ns * bucket_ns, bucketed.bucket_ns

)

select
    level,
    replica_id,
    token_count,
    quantiles_ns[1] / 1e6 as itl_p50_ms,
    quantiles_ns[2] / 1e6 as itl_p90_ms,
    quantiles_ns[3] / 1e6 as itl_p99_ms,
    longest_gap_ns / 1e6 as itl_max_ms,
    zero_gap_ratio,
    ts_ns,
    bucket_ns
from summed
