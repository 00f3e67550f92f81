-- what:  What the engine did under KV pressure, as each source shows it.
-- grain: one row per action and source
-- key:   action_no
-- columns:
--   action_no    BIGINT   number, in order of time
--   level        VARCHAR  level of a sweep, null when the run has one level
--   replica_id   VARCHAR  engine replica
--   source_id    INTEGER  file that shows it
--   kind         VARCHAR  preempt, flip, recompute_step, swap_out, retract, pause, copies_out, copies_in or offload_store_failed
--   proof        VARCHAR  counter, log, resume, copies or gauges
--   mode         VARCHAR  recompute, swap, retract or null
--   request_id   VARCHAR  request, when named
--   event_count  BIGINT   events behind the row
--   tokens       BIGINT   tokens recomputed, null when unknown
--   is_prompt    BOOLEAN  whether it dates the action (a counter of vLLM V1 is late by the victim's stall)
--   earliest_ns  BIGINT   [ns] an earlier action that this evidence cannot exclude
--   low_ns       BIGINT   [ns] not before
--   high_ns      BIGINT   [ns] not after
--   ts_ns        BIGINT   [ns] best estimate
-- notes: a stamp of a log is the floor of its moment, by the step of its file; resume steps are those with more generation tokens than generation requests; a request that vanishes from a step at the ceiling counts as preempted only when its blocks go in the same step and such a step follows.
with

limits as (

    select * from int_engine_limits

),

stamp_steps as (

    select
        source_id,
        cast(max(least(number, 1e9)) as bigint) as stamp_ns
    from stg_settings
    where name = 'log_stamp_resolution_ns' and number >= 0
    group by source_id

),

from_counter as (

    select
        level,
        replica_id,
        source_id,
        'preempt' as kind,
        'counter' as proof,
        cast(null as varchar) as mode,
        cast(null as varchar) as request_id,
        cast(preemption_delta as bigint) as event_count,
        cast(null as bigint) as tokens,
        false as is_prompt,
        case
            when possible_since_ns is null
                then
                    coalesce(previous_ts_ns, ts_ns)
                    - cast(threshold('counter_lag_s') * 1e9 as bigint)
            -- its victim waited in the queue all along, then it was recomputed
            else
                least(
                    greatest(
                        possible_since_ns,
                        coalesce(previous_ts_ns, ts_ns)
                        - cast(threshold('counter_delay_s') * 1e9 as bigint)
                    ),
                    coalesce(previous_ts_ns, ts_ns)
                    - cast(threshold('counter_resume_s') * 1e9 as bigint)
                )
        end - uncertainty_ns as earliest_ns,
        coalesce(previous_ts_ns, ts_ns) - uncertainty_ns as low_ns,
        ts_ns + uncertainty_ns as high_ns
    from int_kv_pressure
    where preemption_delta > 0

),

from_gauges as (

    select
        level,
        replica_id,
        source_id,
        'flip' as kind,
        'gauges' as proof,
        cast(null as varchar) as mode,
        cast(null as varchar) as request_id,
        1 as event_count,
        cast(null as bigint) as tokens,
        true as is_prompt,
        flip_since_ns - uncertainty_ns as earliest_ns,
        previous_ts_ns - uncertainty_ns as low_ns,
        ts_ns + uncertainty_ns as high_ns
    from int_kv_pressure
    where is_flip

),

steps as (

    select
        iterations.*,
        iterations.context_requests + iterations.generation_requests as request_count,
        lag(iterations.context_requests + iterations.generation_requests) over in_order
            as previous_request_count,
        lag(iterations.kv_used_ratio) over in_order as previous_kv_ratio,
        iterations.generation_tokens
        > iterations.generation_requests * (1 + limits.speculative_tokens) as is_resume
    from int_iterations_timed as iterations
    inner join limits
        on
            iterations.replica_id = limits.replica_id
            and iterations.level is not distinct from limits.level
    window
        in_order as (
            partition by iterations.chain_id, iterations.replica_id
            order by iterations.step_no
        )

),

resumes as (

    select
        level,
        replica_id,
        source_id,
        'recompute_step' as kind,
        'resume' as proof,
        'recompute' as mode,
        cast(null as varchar) as request_id,
        1 as event_count,
        cast(generation_tokens - generation_requests + 1 as bigint) as tokens,
        false as is_prompt,
        start_ns - error_ns - cast(threshold('counter_lag_s') * 1e9 as bigint) as earliest_ns,
        start_ns - error_ns as low_ns,
        end_ns + error_ns as high_ns
    from steps
    where is_resume

),

resume_ends as (

    select
        chain_id,
        replica_id,
        end_ns + error_ns as high_ns
    from steps
    where is_resume

),

drops as (

    select
        steps.level,
        steps.replica_id,
        steps.source_id,
        'preempt' as kind,
        'resume' as proof,
        'recompute' as mode,
        cast(null as varchar) as request_id,
        cast(steps.previous_request_count - steps.request_count as bigint) as event_count,
        cast(null as bigint) as tokens,
        true as is_prompt,
        steps.start_ns - steps.error_ns as earliest_ns,
        steps.start_ns - steps.error_ns as low_ns,
        steps.start_ns + steps.error_ns as high_ns
    from steps
    asof join resume_ends
        on
            steps.chain_id = resume_ends.chain_id
            and steps.replica_id = resume_ends.replica_id
            and steps.end_ns <= resume_ends.high_ns
    where
        steps.request_count < steps.previous_request_count
        and steps.previous_kv_ratio >= threshold('kv_step_ceiling_ratio')
        and steps.kv_used_ratio >= threshold('kv_high_ratio')
        -- a finished request gave its blocks back in the step before, a victim gives them now
        and steps.kv_used_ratio <= steps.previous_kv_ratio
        and resume_ends.high_ns - steps.end_ns <= threshold('counter_delay_s') * 1e9

),

log_lines as (

    select
        events.level,
        events.replica_id,
        events.source_id,
        events.kind,
        'log' as proof,
        events.mode,
        events.request_id,
        coalesce(
            events.event_count,
            cast(
                greatest(
                    coalesce(
                        events.cumulative_count - lag(events.cumulative_count) over (
                            partition by chains.chain_id, events.replica_id, events.kind
                            order by events.ts_ns, events.line_no + chains.first_no
                        ),
                        events.cumulative_count,
                        1
                    ),
                    1
                ) as bigint
            )
        ) as event_count,
        events.tokens,
        true as is_prompt,
        events.ts_ns - coalesce(events.uncertainty_ns, 0) as earliest_ns,
        events.ts_ns - coalesce(events.uncertainty_ns, 0) as low_ns,
        events.ts_ns + coalesce(stamp_steps.stamp_ns, 1000000000)
        + coalesce(events.uncertainty_ns, 0) as high_ns
    from stg_log__events as events
    inner join int_files_chained as chains
        on events.source_id = chains.source_id and chains.kind = 'events'
    left join stamp_steps on events.source_id = stamp_steps.source_id
    where events.kind in ('preempt', 'swap_out', 'retract', 'pause', 'offload_store_failed')

),

counted_lines as (

    select
        lines.*,
        coalesce(stamp_steps.stamp_ns, 1000000000) as stamp_ns,
        coalesce(lag(lines.ts_ns) over in_order, lines.ts_ns) - coalesce(lines.uncertainty_ns, 0)
            as since_ns
    from stg_log__stats as lines
    inner join int_files_chained as chains
        on lines.source_id = chains.source_id and chains.kind = 'stats'
    left join stamp_steps on lines.source_id = stamp_steps.source_id
    window
        in_order as (
            partition by chains.chain_id, lines.replica_id
            order by lines.line_no + chains.first_no
        )

),

log_counts as (

    select
        level,
        replica_id,
        source_id,
        'preempt' as kind,
        'log' as proof,
        cast(null as varchar) as mode,
        cast(null as varchar) as request_id,
        preemption_count as event_count,
        cast(null as bigint) as tokens,
        true as is_prompt,
        since_ns as earliest_ns,
        since_ns as low_ns,
        ts_ns + stamp_ns + coalesce(uncertainty_ns, 0) as high_ns
    from counted_lines
    where preemption_count > 0

),

swap_copies as (

    select
        level,
        replica_id,
        source_id,
        case kind when 'dtoh' then 'copies_out' else 'copies_in' end as kind,
        'copies' as proof,
        'swap' as mode,
        cast(null as varchar) as request_id,
        1 as event_count,
        cast(null as bigint) as tokens,
        true as is_prompt,
        start_ns - cast(threshold('copy_lead_ms') * 1e6 as bigint) - coalesce(uncertainty_ns, 0)
            as earliest_ns,
        start_ns - cast(threshold('copy_lead_ms') * 1e6 as bigint) - coalesce(uncertainty_ns, 0)
            as low_ns,
        start_ns + coalesce(uncertainty_ns, 0) as high_ns
    from (
        select
            transfers.*,
            sources.uncertainty_ns
        from transfers
        inner join stg_sources as sources on transfers.source_id = sources.source_id
        where transfers.is_kv_swap
    ) as swaps

),

actions as (

    select * from from_counter
    union all
    select * from from_gauges
    union all
    select * from resumes
    union all
    select * from drops
    union all
    select * from log_lines
    union all
    select * from log_counts
    union all
    select * from swap_copies

)

select
    row_number()
        over (order by high_ns, low_ns, kind, proof, source_id, level, replica_id)
        as action_no,
    *,
    (low_ns + high_ns) // 2 as ts_ns
from actions
