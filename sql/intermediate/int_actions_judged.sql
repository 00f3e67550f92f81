-- what:  Engine actions that count: under KV pressure, or stated by the engine, and not refuted.
-- grain: one row per counting action
-- key:   action_no
-- columns:
--   action_no    BIGINT   action
--   level        VARCHAR  level of a sweep, null when the run has one level
--   replica_id   VARCHAR  engine replica
--   source_id    INTEGER  file that shows it
--   kind         VARCHAR  as in int_engine_actions
--   proof        VARCHAR  counter, log, resume, copies or gauges
--   mode         VARCHAR  recompute, swap or null
--   request_id   VARCHAR  request, when named
--   event_count  BIGINT   events behind the row
--   tokens       BIGINT   tokens recomputed
--   is_prompt    BOOLEAN  whether it dates the action
--   earliest_ns  BIGINT   [ns] an earlier action that this evidence cannot exclude
--   low_ns       BIGINT   [ns] not before
--   high_ns      BIGINT   [ns] not after
--   ts_ns        BIGINT   [ns] best estimate
--   mark_ns      BIGINT   [ns] when it counts for the episode: a late proof counts at the end of the pressure that it belongs to
-- notes: a flip is refuted when the counter or the iteration log covers its time, moves or resumes nothing within counter_delay_s and the waiting requests were let in again. A preemption, retraction, pause or swap that the engine's log states needs no gauge: the engine does it only when KV is short (of one pool of several, or between two samples).
with

actions as (

    select * from int_engine_actions

),

periods as (

    select * from int_pressure_periods

),

-- what could contradict a flip of the gauges: a preemption counter, or the steps of an iteration log
witnesses as (

    select
        level,
        replica_id,
        'counter' as proof,
        max(ts_ns) as last_ns,
        max(ts_ns) filter (where running_count = 0) as last_idle_ns,
        max(ts_ns) filter (where waiting_count = 0) as last_unblocked_ns
    from int_kv_samples
    where preemption_total is not null
    group by level, replica_id
    union all
    select
        level,
        replica_id,
        'resume' as proof,
        max(ts_ns) as last_ns,
        max(ts_ns) filter (where running_count = 0) as last_idle_ns,
        cast(null as bigint) as last_unblocked_ns
    from int_kv_samples
    where origin = 'iterations'
    group by level, replica_id

),

proofs as (

    select
        level,
        replica_id,
        proof,
        high_ns
    from actions
    where proof = 'counter' or kind = 'recompute_step'

),

refuted as (

    select distinct actions.action_no
    from actions
    inner join witnesses
        on
            actions.replica_id = witnesses.replica_id
            and actions.level is not distinct from witnesses.level
    left join proofs
        on
            actions.replica_id = proofs.replica_id
            and actions.level is not distinct from proofs.level
            and witnesses.proof = proofs.proof
            and proofs.high_ns between actions.low_ns
            and actions.high_ns + cast(threshold('counter_delay_s') * 1e9 as bigint)
    where
        actions.proof = 'gauges'
        and proofs.high_ns is null
        and (
            witnesses.last_ns
            >= actions.high_ns + cast(threshold('counter_delay_s') * 1e9 as bigint)
            or witnesses.last_idle_ns > actions.high_ns
            or (
                witnesses.last_unblocked_ns > actions.high_ns
                and witnesses.last_ns > witnesses.last_unblocked_ns + 3000000000
            )
        )

)

select
    actions.action_no,
    any_value(actions.level) as level,
    any_value(actions.replica_id) as replica_id,
    any_value(actions.source_id) as source_id,
    any_value(actions.kind) as kind,
    any_value(actions.proof) as proof,
    any_value(actions.mode) as mode,
    any_value(actions.request_id) as request_id,
    any_value(actions.event_count) as event_count,
    any_value(actions.tokens) as tokens,
    any_value(actions.is_prompt) as is_prompt,
    any_value(actions.earliest_ns) as earliest_ns,
    any_value(actions.low_ns) as low_ns,
    any_value(actions.high_ns) as high_ns,
    any_value(actions.ts_ns) as ts_ns,
    coalesce(least(any_value(actions.high_ns), max(periods.end_ns)), any_value(actions.high_ns))
        as mark_ns
from actions
left join periods
    on
        actions.replica_id = periods.replica_id
        and actions.level is not distinct from periods.level
        and actions.high_ns >= periods.start_ns
        and periods.end_ns >= actions.low_ns
        - case
            when actions.is_prompt then 0 else cast(threshold('counter_delay_s') * 1e9 as bigint)
        end
left join refuted on actions.action_no = refuted.action_no
where
    refuted.action_no is null
    and (
        periods.start_ns is not null
        or (
            actions.proof = 'log' and actions.kind in ('preempt', 'retract', 'pause', 'swap_out')
        )
    )
group by actions.action_no
