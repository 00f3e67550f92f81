-- what:  KV occupancy and queue of every source that states them.
-- grain: one row per source, replica and sample
-- key:   source_id, replica_id, origin, sample_no
-- columns:
--   level             VARCHAR  level of a sweep, null when the run has one level
--   replica_id        VARCHAR  engine replica
--   source_id         INTEGER  file; of files that continue each other the first
--   origin            VARCHAR  metrics, log or iterations
--   semantics         VARCHAR  what counts as used KV
--   kv_used_ratio     DOUBLE   device KV occupancy, null when not stated or zero all along under load
--   running_count     DOUBLE   requests running
--   waiting_count     DOUBLE   requests waiting for capacity, null when not stated
--   swapped_count     DOUBLE   requests swapped out, null when not stated
--   preemption_total  DOUBLE   preemption or retraction counter, null when not stated
--   finished_total    DOUBLE   finished-request counter, null when not stated
--   prompt_tokens     DOUBLE   [tokens] prompt tokens computed since the previous sample, null when not counted
--   gen_tokens        DOUBLE   [tokens] tokens generated since the previous sample, null when not counted
--   is_action_logged  BOOLEAN  the source logs every preemption, so that its gauges say nothing about them
--   sample_no         BIGINT   number in the source, in all of them where files continue each other
--   ts_ns             BIGINT   [ns] run clock
--   previous_ts_ns    BIGINT   [ns] last sample of the same source and replica at least half an interval earlier; of a burst of scrapes only its last
--   interval_ns       BIGINT   [ns] median distance of samples of the source and replica
--   uncertainty_ns    BIGINT   [ns] of the clock and of the sampling of one value
-- notes: after a stall a scraper catches up with a burst whose first answers are stale, so distances skip it; log stamps are whole-second floors: the middle of the second is taken. Gauges of live tokens (SGLang) are written by the scheduler, so that once it idles they keep their last values for scrape after scrape: of a long stretch of them only the first sample counts.
with

metric_values as (

    select
        metrics.level,
        metrics.replica_id,
        metrics.source_id,
        metrics.scrape_no as sample_no,
        metrics.ts_ns,
        coalesce(metrics.uncertainty_ns, 0) + metrics.scrape_dur_ns as uncertainty_ns,
        roles.role,
        roles.semantics,
        metrics.value * roles.scale as value
    from int_metric_values as metrics
    inner join metric_roles as roles
        on
            metrics.name = roles.name
            and (roles.label is null or metrics.label = roles.label)
    where metrics.le is null

),

from_metrics as (

    select
        level,
        replica_id,
        source_id,
        'metrics' as origin,
        max(semantics) filter (where role in ('kv_used_ratio', 'kv_used')) as semantics,
        coalesce(
            max(value) filter (where role = 'kv_used_ratio'),
            max(value) filter (where role = 'kv_used')
            / nullif(max(value) filter (where role = 'kv_capacity'), 0)
        ) as kv_used_ratio,
        max(value) filter (where role = 'running') as running_count,
        max(value) filter (where role = 'waiting') as waiting_count,
        max(value) filter (where role = 'swapped') as swapped_count,
        sum(value) filter (where role = 'preemption_total') as preemption_total,
        sum(value) filter (where role = 'finished_total') as finished_total,
        sum(value) filter (where role = 'prompt_tokens_total') as prompt_total,
        sum(value) filter (where role = 'generation_tokens_total') as gen_total,
        cast(null as double) as prompt_tokens_per_s,
        cast(null as double) as gen_tokens_per_s,
        false as is_action_logged,
        sample_no,
        max(ts_ns) as ts_ns,
        max(uncertainty_ns) as uncertainty_ns
    from metric_values
    group by level, replica_id, source_id, sample_no

),

from_log as (

    select
        level,
        replica_id,
        source_id,
        'log' as origin,
        semantics,
        kv_used_ratio,
        cast(running_count as double) as running_count,
        cast(waiting_count - coalesce(deferred_count, 0) as double) as waiting_count,
        cast(swapped_count as double) as swapped_count,
        cast(null as double) as preemption_total,
        cast(null as double) as finished_total,
        cast(null as double) as prompt_total,
        cast(null as double) as gen_total,
        prompt_tokens_per_s,
        gen_tokens_per_s,
        coalesce(is_action_logged, false) as is_action_logged,
        line_no as sample_no,
        -- whatever the clock's offset: stamps of whole seconds share their fraction
        ts_ns + case
            when
                min(ts_ns % 1000000000) over file = max(ts_ns % 1000000000) over file
                and (count(*) over file > 1 or ts_ns % 1000000000 = 0)
                then 500000000
            else 0
        end as ts_ns,
        coalesce(uncertainty_ns, 0) + 500000000 as uncertainty_ns
    from stg_log__stats
    window file as (partition by source_id)

),

from_iterations as (

    select
        level,
        replica_id,
        source_id,
        'iterations' as origin,
        semantics,
        kv_used_ratio,
        cast(context_requests + generation_requests as double) as running_count,
        cast(null as double) as waiting_count,
        cast(null as double) as swapped_count,
        cast(null as double) as preemption_total,
        cast(null as double) as finished_total,
        cast(null as double) as prompt_total,
        cast(null as double) as gen_total,
        cast(null as double) as prompt_tokens_per_s,
        cast(null as double) as gen_tokens_per_s,
        false as is_action_logged,
        line_no as sample_no,
        end_ns as ts_ns,
        error_ns as uncertainty_ns
    from int_iterations_timed

),

samples as (

    select * from from_metrics
    union all
    select * from from_log
    union all
    select * from from_iterations

),

ranges as (

    select
        level,
        replica_id,
        origin,
        source_id,
        min(ts_ns) as start_ns,
        max(ts_ns) as end_ns
    from samples
    group by level, replica_id, origin, source_id

),

chained as (

    select
        level,
        replica_id,
        origin,
        min(source_id) as first_source_id
    from (
        select
            *,
            coalesce(start_ns > max(end_ns) over (
                partition by level, replica_id, origin order by start_ns, source_id
                rows between unbounded preceding and 1 preceding
            ), true) as is_apart
        from ranges
    ) as in_turn
    group by level, replica_id, origin
    having bool_and(is_apart) and count(*) > 1

),

joined as (

    select samples.*
    from samples
    left join chained
        on
            samples.replica_id = chained.replica_id
            and samples.level is not distinct from chained.level
            and samples.origin = chained.origin
    where chained.first_source_id is null
    union all
    select
        samples.* replace (
            chained.first_source_id as source_id,
            row_number() over (
                partition by samples.level, samples.replica_id, samples.origin
                order by samples.ts_ns, samples.source_id, samples.sample_no
            ) as sample_no
        )
    from samples
    inner join chained
        on
            samples.replica_id = chained.replica_id
            and samples.level is not distinct from chained.level
            and samples.origin = chained.origin

),

-- only these gauges can stand still, and they are few next to the lines of a log
gauged as (

    select distinct
        source_id,
        replica_id,
        origin
    from joined
    where origin = 'metrics' and semantics = 'live_tokens'

),

read_again as (

    select
        joined.*,
        [
            joined.kv_used_ratio,
            joined.running_count,
            joined.waiting_count,
            joined.preemption_total,
            joined.prompt_total,
            joined.gen_total
        ] as readings
    from joined
    semi join gauged
        on
            joined.source_id = gauged.source_id
            and joined.replica_id = gauged.replica_id
            and joined.origin = gauged.origin

),

compared as (

    select
        *,
        coalesce(readings != lag(readings) over (
            partition by source_id, replica_id, origin order by ts_ns, sample_no
        ), true) as is_change
    from read_again

),

stretches as (

    select
        *,
        sum(cast(is_change as integer)) over (
            partition by source_id, replica_id, origin order by ts_ns, sample_no
            rows between unbounded preceding and current row
        ) as stretch_no
    from compared

),

spans as (

    select
        *,
        max(ts_ns) over stretch - min(ts_ns) over stretch as stretch_ns
    from stretches
    window stretch as (partition by source_id, replica_id, origin, stretch_no)

),

-- an engine without running requests may well stand still; a busy one does not
fresh as (

    select * exclude (readings, is_change, stretch_no, stretch_ns) from spans
    where
        is_change
        or coalesce(semantics, '') != 'live_tokens'
        or coalesce(running_count, 0) = 0
        or stretch_ns < threshold('gauge_plateau_s') * 1e9
    union all
    select joined.*
    from joined
    anti join gauged
        on
            joined.source_id = gauged.source_id
            and joined.replica_id = gauged.replica_id
            and joined.origin = gauged.origin

),

stepped as (

    select
        *,
        lead(ts_ns) over in_order - ts_ns as next_step_ns,
        ts_ns - lag(ts_ns) over in_order as step_ns,
        prompt_total - lag(prompt_total) over in_order as prompt_change,
        gen_total - lag(gen_total) over in_order as gen_change
    from fresh
    window in_order as (partition by source_id, replica_id, origin order by ts_ns, sample_no)

),

judged as (

    select
        *,
        -- lines of one second have one time
        cast(median(case when step_ns > 0 then step_ns end) over source as bigint) as interval_ns,
        max(kv_used_ratio) over source as highest_kv_ratio,
        max(running_count) over source as most_running
    from stepped
    window source as (partition by source_id, replica_id, origin)

),

-- samples that the next one does not repeat
marks as (

    select
        source_id,
        replica_id,
        origin,
        ts_ns
    from judged
    where origin != 'metrics' or coalesce(next_step_ns >= interval_ns // 2, true)

)

select
    judged.level,
    judged.replica_id,
    judged.source_id,
    judged.origin,
    judged.semantics,
    case
        when judged.highest_kv_ratio > 0 or judged.most_running = 0 then judged.kv_used_ratio
    end as kv_used_ratio,
    judged.running_count,
    judged.waiting_count,
    judged.swapped_count,
    judged.preemption_total,
    judged.finished_total,
    coalesce(
        greatest(judged.prompt_change, 0), judged.prompt_tokens_per_s * judged.step_ns / 1e9
    ) as prompt_tokens,
    coalesce(
        greatest(judged.gen_change, 0), judged.gen_tokens_per_s * judged.step_ns / 1e9
    ) as gen_tokens,
    judged.is_action_logged,
    judged.sample_no,
    judged.ts_ns,
    marks.ts_ns as previous_ts_ns,
    judged.interval_ns,
    judged.uncertainty_ns
from judged
asof left join marks
    on
        judged.source_id = marks.source_id
        and judged.replica_id = marks.replica_id
        and judged.origin = marks.origin
        and judged.ts_ns - coalesce(judged.interval_ns // 2, 1) >= marks.ts_ns
