-- what:  Time buckets whose token latency stands out from the half minute before.
-- grain: one row per bucket that stands out
-- key:   level, replica_id, ts_ns
-- columns:
--   level       VARCHAR  level of a sweep, null when the run has one level
--   replica_id  VARCHAR  engine replica
--   metric      VARCHAR  itl_p50 or itl_max
--   value_ms    DOUBLE   [ms] the bucket's value
--   before_ms   DOUBLE   [ms] median of the trailing window
--   rise_ms     DOUBLE   [ms] growth of the median since the bucket before, null in the first one
--   size_mads   DOUBLE   distance from before_ms in median absolute deviations
--   ts_ns       BIGINT   [ns] start of the bucket
--   bucket_ns   BIGINT   [ns] width
-- notes: a median that only moves from one bound of a histogram to the next may be a small change, so that one has to grow by more.
with

buckets as (

    select * from token_latency where itl_p50_ms is not null

),

compared as (

    select
        *,
        median(itl_p50_ms) over before as before_p50_ms,
        mad(itl_p50_ms) over before as spread_p50_ms,
        median(itl_max_ms) over before as before_max_ms,
        count(*) over before as before_count,
        itl_p50_ms - lag(itl_p50_ms) over in_order as rise_ms
    from buckets
    window before as (
        partition by level, replica_id, origin
        order by ts_ns
        range between cast(threshold('jump_before_s') * 1e9 as bigint) preceding and 1 preceding -- noqa: PRS
    ),
    in_order as (partition by level, replica_id, origin order by ts_ns)

),

judged as (

    select
        *,
        before_count >= threshold('jump_min_buckets')
        and itl_p50_ms >= before_p50_ms * case
            when origin = 'histogram' then threshold('jump_histogram_factor')
            else threshold('jump_median_factor')
        end
        and itl_p50_ms - before_p50_ms
        >= threshold('jump_spread_factor') * greatest(spread_p50_ms, 0.02 * before_p50_ms)
            as is_median_jump,
        before_count >= threshold('jump_min_buckets')
        and itl_max_ms >= threshold('stall_min_ms')
        and itl_max_ms >= threshold('jump_tail_factor') * before_max_ms as is_tail_jump
    from compared

)

select
    level,
    replica_id,
    case when is_median_jump then 'itl_p50' else 'itl_max' end as metric,
    case when is_median_jump then itl_p50_ms else itl_max_ms end as value_ms,
    case when is_median_jump then before_p50_ms else before_max_ms end as before_ms,
    rise_ms,
    case
        when is_median_jump
            then
                (itl_p50_ms - before_p50_ms)
                / nullif(greatest(spread_p50_ms, 0.02 * before_p50_ms), 0)
    end as size_mads,
    ts_ns,
    bucket_ns
from judged
where is_median_jump or is_tail_jump
