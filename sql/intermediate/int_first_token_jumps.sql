-- what:  Waits for the first token that jumped although KV had room, with what held the requests back.
-- grain: one row per stretch of slow first tokens whose reason the queue shows
-- key:   level, replica_id, at_ns
-- needs: requests
-- columns:
--   level          VARCHAR  level of a sweep, null when the run has one level
--   replica_id     VARCHAR  engine replica
--   cause          VARCHAR  max_sequences, token_budget or head_of_line
--   metric         VARCHAR  ttft
--   evidence       VARCHAR  closed words
--   before_ms      DOUBLE   [ms] median time to the first token in the trailing window
--   after_ms       DOUBLE   [ms] longest time to the first token
--   size_mads      DOUBLE   always null
--   kv_used_ratio  DOUBLE   highest KV occupancy meanwhile
--   at_ns          BIGINT   [ns] arrival of the first slow request
--   error_ns       BIGINT   [ns] distance of the samples of the queue
--   end_ns         BIGINT   [ns] first token of the last slow request
-- notes: a stretch in which KV was under pressure, or whose queue shows no reason for most of its samples, has no row. Without a stated limit no slot can be said to be missing or free.
with

compared as (

    select
        level,
        replica_id,
        arrival_ns,
        first_token_ns,
        ttft_ms,
        median(ttft_ms) over before as before_ms,
        count(*) over before as before_count
    from requests
    where
        arrival_ns is not null
        and first_token_ns is not null
        and ttft_ms is not null
        and not coalesce(is_error, false)
    window before as (
        partition by level, replica_id
        order by arrival_ns
        range between cast(threshold('jump_before_s') * 1e9 as bigint) preceding and 1 preceding -- noqa: PRS
    )

),

slow as (

    select
        *,
        coalesce(
            arrival_ns - max(first_token_ns) over (
                partition by level, replica_id order by arrival_ns
                rows between unbounded preceding and 1 preceding
            ) > threshold('jump_merge_s') * 1e9,
            true
        ) as is_start
    from compared
    where
        before_count >= threshold('jump_min_buckets')
        and ttft_ms >= threshold('first_token_min_ms')
        and ttft_ms >= threshold('jump_tail_factor') * before_ms

),

numbered as (

    select
        *,
        count(case when is_start then 1 end) over (
            partition by level, replica_id order by arrival_ns
            rows between unbounded preceding and current row
        ) as stretch_no
    from slow

),

stretches as (

    select
        level,
        replica_id,
        stretch_no,
        arg_min(before_ms, arrival_ns) as before_ms,
        max(ttft_ms) as after_ms,
        min(arrival_ns) as at_ns,
        max(first_token_ns) as end_ns
    from numbered
    group by level, replica_id, stretch_no
    having count(*) >= 2

),

calm as (

    select * from stretches
    where not exists (
        select 1 from swap_points as points
        where
            points.replica_id = stretches.replica_id
            and points.level is not distinct from stretches.level
            and points.pressure_at_ns <= stretches.end_ns
            and points.end_ns >= stretches.at_ns
    )

),

budgets as (

    select
        level,
        max(number) as token_budget
    from int_settings_effective
    where name = 'max_num_batched_tokens'
    group by level

),

queues as (

    select
        calm.level,
        calm.replica_id,
        calm.stretch_no,
        count(*) as sample_count,
        count(*) filter (
            where limits.is_stated
            and samples.waiting_count >= 1
            and samples.running_count >= limits.running_limit
        ) as full_count,
        count(*) filter (
            where limits.is_stated
            and samples.waiting_count >= 1
            and samples.running_count < limits.running_limit
            and samples.kv_used_ratio < threshold('kv_high_ratio')
            and samples.prompt_tokens = 0
        ) as held_count,
        max(samples.kv_used_ratio) as kv_used_ratio,
        max(samples.interval_ns) as interval_ns
    from calm
    inner join int_kv_samples as samples
        on
            calm.replica_id = samples.replica_id
            and calm.level is not distinct from samples.level
            and samples.origin != 'iterations'
            and samples.waiting_count is not null
            and samples.ts_ns between calm.at_ns and calm.end_ns
    left join int_engine_limits as limits
        on
            calm.replica_id = limits.replica_id
            and calm.level is not distinct from limits.level
    group by calm.level, calm.replica_id, calm.stretch_no

),

steps as (

    select
        calm.level,
        calm.replica_id,
        calm.stretch_no,
        fsum(steps.elapsed_ms) as busy_ms,
        fsum(steps.elapsed_ms) filter (
            where steps.context_tokens + steps.generation_tokens
            >= threshold('jump_budget_ratio') * coalesce(own.token_budget, shared.token_budget)
        ) as full_ms
    from calm
    inner join int_iterations_timed as steps
        on
            calm.replica_id = steps.replica_id
            and calm.level is not distinct from steps.level
            and steps.end_ns between calm.at_ns and calm.end_ns
    left join budgets as own on calm.level = own.level
    left join budgets as shared on shared.level is null
    group by calm.level, calm.replica_id, calm.stretch_no

),

judged as (

    select
        calm.*,
        queues.kv_used_ratio,
        coalesce(queues.interval_ns, 0) as interval_ns,
        case
            when queues.full_count >= threshold('jump_step_share') * queues.sample_count
                then 'max_sequences'
            when steps.full_ms >= threshold('jump_step_share') * steps.busy_ms then 'token_budget'
            when queues.held_count >= threshold('jump_step_share') * queues.sample_count
                then 'head_of_line'
        end as cause
    from calm
    left join queues
        on
            calm.replica_id = queues.replica_id
            and calm.level is not distinct from queues.level
            and calm.stretch_no = queues.stretch_no
    left join steps
        on
            calm.replica_id = steps.replica_id
            and calm.level is not distinct from steps.level
            and calm.stretch_no = steps.stretch_no

)

select
    level,
    replica_id,
    cause,
    'ttft' as metric,
    case cause
        when 'max_sequences'
            then 'requests waited while as many ran as may, KV with room'
        when 'token_budget'
            then 'steps were full of prefill up to the token budget, KV with room'
        else 'requests waited with slots and KV free, no prefill: the first in line held them'
    end as evidence,
    before_ms,
    after_ms,
    cast(null as double) as size_mads,
    kv_used_ratio,
    at_ns,
    interval_ns as error_ns,
    end_ns
from judged
where cause is not null
