-- what:  Latency jumps: neighbouring buckets that stand out, as one span.
-- grain: one row per jump
-- key:   level, replica_id, jump_no
-- columns:
--   level       VARCHAR  level of a sweep, null when the run has one level
--   replica_id  VARCHAR  engine replica
--   jump_no     BIGINT   jump in the level and replica
--   metric      VARCHAR  itl_p50 when the median rose, else itl_max
--   before_ms   DOUBLE   [ms] before
--   after_ms    DOUBLE   [ms] highest value during the jump
--   size_mads   DOUBLE   [MADs] largest distance
--   is_abrupt   BOOLEAN  half of the median's growth came between two neighbouring buckets, or there is none to compare
--   at_ns       BIGINT   [ns] start of the first bucket
--   peak_ns     BIGINT   [ns] end of the bucket with the highest value
--   end_ns      BIGINT   [ns] end of the last bucket
--   bucket_ns   BIGINT   [ns] width of a bucket
-- notes: itl_p50 sorts after itl_max: a jump in which the median rose even once is named after it.
with

started as (

    select
        *,
        coalesce(ts_ns - lag(ts_ns) over in_order > threshold('jump_merge_s') * 1e9, true)
            as is_start
    from int_jump_buckets
    window in_order as (partition by level, replica_id order by ts_ns)

),

numbered as (

    select
        *,
        count(case when is_start then 1 end) over (
            partition by level, replica_id order by ts_ns
            rows between unbounded preceding and current row
        ) as jump_no
    from started

)

select
    level,
    replica_id,
    jump_no,
    max(metric) as metric,
    arg_min(before_ms, ts_ns) filter (where metric = widest_metric) as before_ms,
    max(value_ms) filter (where metric = widest_metric) as after_ms,
    max(size_mads) as size_mads,
    bool_or(rise_ms is null)
    or max(rise_ms)
    >= threshold('jump_abrupt_share') * (
        max(value_ms) filter (where metric = widest_metric)
        - arg_min(before_ms, ts_ns) filter (where metric = widest_metric)
    ) as is_abrupt,
    min(ts_ns) as at_ns,
    arg_max(ts_ns + bucket_ns, value_ms) filter (where metric = widest_metric) as peak_ns,
    max(ts_ns + bucket_ns) as end_ns,
    max(bucket_ns) as bucket_ns
from (
    select
        *,
        max(metric) over (partition by level, replica_id, jump_no) as widest_metric
    from numbered
) as widest
group by level, replica_id, jump_no
