-- what:  Inter-token latency histograms of the server, as counts per scrape interval.
-- grain: one row per replica, scrape and bound
-- key:   level, replica_id, source_id, scrape_no, le
-- columns:
--   level             VARCHAR  level of a sweep, null when the run has one level
--   replica_id        VARCHAR  engine replica
--   source_id         INTEGER  metrics file
--   scrape_no         BIGINT   scrape that ends the interval
--   le                DOUBLE   [s] upper bound
--   cumulative_count  DOUBLE   tokens of the interval at or below the bound
--   ts_ns             BIGINT   [ns] end of the interval
--   previous_ts_ns    BIGINT   [ns] start of the interval
-- notes: a falling bound is a restart: the interval is left out with all its bounds. Two names of one histogram are one.
with

bounds as (

    select
        metrics.level,
        metrics.replica_id,
        metrics.source_id,
        metrics.scrape_no,
        metrics.le,
        max(metrics.value) as value,
        max(metrics.ts_ns) as ts_ns
    from int_metric_values as metrics
    inner join metric_roles as roles on metrics.name = roles.name
    where roles.role = 'itl_bucket' and metrics.le is not null
    group by metrics.level, metrics.replica_id, metrics.source_id, metrics.scrape_no, metrics.le

),

stepped as (

    select
        *,
        value - lag(value) over in_order as value_change,
        lag(ts_ns) over in_order as previous_ts_ns
    from bounds
    window in_order as (partition by source_id, replica_id, le order by ts_ns, scrape_no)

)

select
    level,
    replica_id,
    source_id,
    scrape_no,
    le,
    value_change as cumulative_count,
    ts_ns,
    previous_ts_ns
from stepped
where value_change is not null
qualify min(value_change) over (partition by source_id, replica_id, scrape_no) >= 0
