-- what:  Time spans in which the KV cache was under pressure, from all sources together.
-- grain: one row per replica and span
-- key:   level, replica_id, start_ns
-- columns:
--   level       VARCHAR  level of a sweep, null when the run has one level
--   replica_id  VARCHAR  engine replica
--   start_ns    BIGINT   [ns] first sample under pressure, less the stretch before it in which the gauges exclude no action (at most three intervals)
--   end_ns      BIGINT   [ns] last sample under pressure, plus one sampling interval
with

spans as (

    select
        level,
        replica_id,
        greatest(
            coalesce(least(previous_ts_ns, possible_since_ns), possible_since_ns, ts_ns),
            ts_ns
            - greatest(
                3 * coalesce(interval_ns, 0), cast(threshold('pressure_before_s') * 1e9 as bigint)
            )
        ) as start_ns,
        ts_ns
        + greatest(coalesce(interval_ns, 0), cast(threshold('pressure_after_s') * 1e9 as bigint))
            as end_ns
    from int_kv_pressure
    where is_pressure

),

marked as (

    select
        *,
        start_ns > max(end_ns) over (
            partition by level, replica_id order by start_ns, end_ns
            rows between unbounded preceding and 1 preceding
        ) as is_new
    from spans

),

numbered as (

    select
        *,
        count(case when is_new then 1 end) over (
            partition by level, replica_id order by start_ns, end_ns
            rows between unbounded preceding and current row
        ) as period_no
    from marked

)

select
    level,
    replica_id,
    min(start_ns) as start_ns,
    max(end_ns) as end_ns
from numbered
group by level, replica_id, period_no
