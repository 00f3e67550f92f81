-- what:  Token latency per time bucket from the server's histograms.
-- grain: one row per bucket
-- key:   level, replica_id, ts_ns
-- columns:
--   level        VARCHAR  level of a sweep, null when the run has one level
--   replica_id   VARCHAR  engine replica
--   token_count  BIGINT   tokens in the histogram
--   itl_p50_ms   DOUBLE   [ms] interpolated inside the histogram's bound
--   itl_p90_ms   DOUBLE   [ms]
--   itl_p99_ms   DOUBLE   [ms]
--   itl_max_ms   DOUBLE   [ms] upper bound of the slowest token, null when beyond the last bound
--   ts_ns        BIGINT   [ns] start of the bucket
--   bucket_ns    BIGINT   [ns] width
-- notes: linear interpolation inside a bound as in PromQL; inside the first bound its upper end is given, there is no resolution below.
with

counted as (

    select
        level,
        replica_id,
        le,
        sum(cumulative_count) as cumulative_count,
        ts_ns // cast(threshold('latency_bucket_s') * 1e9 as bigint)
        * cast(threshold('latency_bucket_s') * 1e9 as bigint) as ts_ns
    from int_itl_tail
    group by level, replica_id, le, ts_ns // cast(threshold('latency_bucket_s') * 1e9 as bigint)

),

bounded as (

    select
        *,
        max(cumulative_count) over (partition by level, replica_id, ts_ns) as total_count,
        lag(cumulative_count, 1, 0.0) over in_order as count_below,
        lag(le, 1, 0.0) over in_order as bound_below
    from counted
    window in_order as (partition by level, replica_id, ts_ns order by le)

),

wanted as (

    select unnest([0.5, 0.9, 0.99, 1.0]) as quantile

),

placed as (

    select
        bounded.level,
        bounded.replica_id,
        bounded.ts_ns,
        wanted.quantile,
        bounded.total_count,
        case
            when
                wanted.quantile = 1.0
                then case when isinf(bounded.le) then null else bounded.le end
            when isinf(bounded.le) or bounded.bound_below = 0
                then
                    greatest(bounded.bound_below, case
                        when isinf(bounded.le) then 0 else bounded.le
                    end)
            else
                bounded.bound_below + (bounded.le - bounded.bound_below)
                * (wanted.quantile * bounded.total_count - bounded.count_below)
                / nullif(bounded.cumulative_count - bounded.count_below, 0)
        end as value_s
    from bounded
    cross join wanted
    where bounded.total_count > 0
    qualify
        bounded.cumulative_count >= wanted.quantile * bounded.total_count and row_number() over (
            partition by
                bounded.level, bounded.replica_id, bounded.ts_ns, wanted.quantile,
                bounded.cumulative_count >= wanted.quantile * bounded.total_count
            order by bounded.le
        ) = 1

)

select
    level,
    replica_id,
    cast(max(total_count) as bigint) as token_count,
    max(value_s) filter (where quantile = 0.5) * 1e3 as itl_p50_ms,
    max(value_s) filter (where quantile = 0.9) * 1e3 as itl_p90_ms,
    max(value_s) filter (where quantile = 0.99) * 1e3 as itl_p99_ms,
    max(value_s) filter (where quantile = 1.0) * 1e3 as itl_max_ms,
    ts_ns,
    cast(threshold('latency_bucket_s') * 1e9 as bigint) as bucket_ns
from placed
group by level, replica_id, ts_ns
