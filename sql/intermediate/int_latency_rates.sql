-- what:  Tokens per time bucket from counters and statistics lines: rates without latencies.
-- grain: one row per bucket and origin
-- key:   level, replica_id, origin, ts_ns
-- columns:
--   level         VARCHAR  level of a sweep, null when the run has one level
--   replica_id    VARCHAR  engine replica
--   origin        VARCHAR  counters or log
--   tokens_per_s  DOUBLE   [tokens/s] generated
--   ts_ns         BIGINT   [ns] start of the bucket
--   bucket_ns     BIGINT   [ns] width
with

counters as (

    select
        metrics.level,
        metrics.replica_id,
        metrics.source_id,
        sum(metrics.value) as value,
        max(metrics.ts_ns) as ts_ns
    from int_metric_values as metrics
    inner join metric_roles as roles on metrics.name = roles.name
    where roles.role = 'generation_tokens_total'
    group by metrics.level, metrics.replica_id, metrics.source_id, metrics.scrape_no

),

steps as (

    select
        *,
        value - lag(value) over (partition by source_id, replica_id order by ts_ns) as token_change,
        ts_ns - lag(ts_ns) over (partition by source_id, replica_id order by ts_ns) as step_ns
    from counters

),

counted as (

    select
        level,
        replica_id,
        'counters' as origin,
        sum(token_change) * 1e9 / nullif(sum(step_ns), 0) as tokens_per_s,
        ts_ns // cast(threshold('latency_bucket_s') * 1e9 as bigint) as bucket_no
    from steps
    where token_change >= 0
    group by level, replica_id, ts_ns // cast(threshold('latency_bucket_s') * 1e9 as bigint)

),

lines as (

    select
        *,
        ts_ns - lag(ts_ns) over in_order as gap_ns,
        lag(waiting_count) over in_order as previous_waiting
    from stg_log__stats
    where gen_tokens_per_s is not null
    window in_order as (partition by source_id, replica_id order by line_no)

),

-- SGLang averages since its line before, so that its first line after idling averages the idle time
judged as (

    select
        *,
        coalesce(
            semantics = 'live_tokens'
            and previous_waiting = 0
            and gap_ns > 3 * median(gap_ns) over (partition by source_id, replica_id) + 2000000000,
            false
        ) as is_after_idle
    from lines

),

printed as (

    select
        level,
        replica_id,
        'log' as origin,
        favg(gen_tokens_per_s) as tokens_per_s,
        ts_ns // cast(threshold('latency_bucket_s') * 1e9 as bigint) as bucket_no
    from judged
    where not is_after_idle
    group by level, replica_id, ts_ns // cast(threshold('latency_bucket_s') * 1e9 as bigint)

)

select
    level,
    replica_id,
    origin,
    tokens_per_s,
    bucket_no * cast(threshold('latency_bucket_s') * 1e9 as bigint) as ts_ns,
    cast(threshold('latency_bucket_s') * 1e9 as bigint) as bucket_ns
from (
    select * from counted
    union all
    select * from printed
) as rates
