-- what:  What the engine shows in each level of a sweep: KV occupancy, batch, queue, preemptions, rate.
-- grain: one row per level
-- key:   level
-- needs: int_sweep_levels
-- columns:
--   level              VARCHAR  label
--   preemption_count   BIGINT   preemptions, the counter's word before others; null when nothing was recorded
--   tokens_per_s       DOUBLE   [tokens/s] while tokens came, over all replicas
--   itl_p50_ms         DOUBLE   [ms] median over buckets
--   itl_p99_ms         DOUBLE   [ms] median over buckets
--   kv_used_ratio_max  DOUBLE   highest KV occupancy, 0-1
--   kv_used_ratio_mean DOUBLE   mean KV occupancy, 0-1
--   running_max        BIGINT   most requests running in one replica
--   waiting_max        BIGINT   most requests waiting in one replica
--   queued_ratio       DOUBLE   share of busy samples in which requests wait, 0-1
--   kv_full_ratio      DOUBLE   share of busy samples in which requests wait and KV is at its ceiling, 0-1
--   running_queued     DOUBLE   median of running requests in one replica while others wait
--   running_limit      DOUBLE   stated max_num_seqs, null when not stated
--   step_budget_ratio  DOUBLE   tokens of the median step over max_num_batched_tokens; null without iteration log
--   dram_use_ratio     DOUBLE   mean share of the peak DRAM bandwidth by hardware counters, null when not counted
--   read_bytes         DOUBLE   [bytes] weights and mean live KV: what a decode step reads, null when unknown
with

occupancy as (

    select
        levels.level,
        max(curve.used_ratio) as kv_used_ratio_max,
        favg(curve.used_ratio) as kv_used_ratio_mean,
        max(curve.running_count) as running_max,
        max(curve.waiting_count) as waiting_max,
        favg(cast(curve.waiting_count > 0 as double))
        filter (where curve.running_count > 0) as queued_ratio,
        favg(
            cast(
                curve.waiting_count > 0
                and curve.used_ratio >= threshold('kv_step_ceiling_ratio') as double
            )
        ) filter (where curve.running_count > 0) as kv_full_ratio,
        median(curve.running_count) filter (where curve.waiting_count > 0) as running_queued
    from kv_occupancy as curve
    inner join int_sweep_levels as levels
        on
            (levels.origin = 'folder' and curve.level = levels.level)
            or (curve.ts_ns >= levels.start_ns and curve.ts_ns < levels.end_ns)
    where curve.tier = 'hbm'
    group by levels.level

),

rates as (

    select
        levels.level,
        curve.replica_id,
        fsum(curve.tokens_per_s * curve.bucket_ns)
        / nullif(sum(curve.bucket_ns), 0) as tokens_per_s,
        quantile_disc(curve.itl_p50_ms, 0.5) as itl_p50_ms,
        quantile_disc(curve.itl_p99_ms, 0.5) as itl_p99_ms
    from token_latency as curve
    inner join int_sweep_levels as levels
        on
            (levels.origin = 'folder' and curve.level = levels.level)
            or (curve.ts_ns >= levels.start_ns and curve.ts_ns < levels.end_ns)
    where curve.tokens_per_s > 0
    group by levels.level, curve.replica_id

),

latency as (

    select
        level,
        fsum(tokens_per_s) as tokens_per_s,
        max(itl_p50_ms) as itl_p50_ms,
        max(itl_p99_ms) as itl_p99_ms
    from rates
    group by level

),

told as (

    select
        levels.level,
        events.proof,
        sum(events.event_count) as preemption_count
    from engine_events as events
    inner join int_sweep_levels as levels
        on
            (levels.origin = 'folder' and events.level = levels.level)
            or (events.ts_ns >= levels.start_ns and events.ts_ns < levels.end_ns)
    where events.kind in ('preempt', 'retract')
    group by levels.level, events.proof

),

preemptions as (

    select
        level,
        arg_max(preemption_count, (proof = 'counter', preemption_count)) as preemption_count
    from told
    group by level

),

moved as (

    select
        level,
        source_id,
        device_id,
        ts_ns,
        case
            when count(*) filter (where counter = 'dram_active_pct') > 0
                then max(value) filter (where counter = 'dram_active_pct')
            else sum(value) filter (where counter in ('dram_read_pct', 'dram_write_pct'))
        end as dram_pct
    from gpu_samples
    where counter in ('dram_active_pct', 'dram_read_pct', 'dram_write_pct')
    group by level, source_id, device_id, ts_ns

),

traffic as (

    select
        levels.level,
        favg(moved.dram_pct) / 100 as dram_use_ratio
    from moved
    inner join int_sweep_levels as levels
        on
            (levels.origin = 'folder' and moved.level = levels.level)
            or (moved.ts_ns >= levels.start_ns and moved.ts_ns < levels.end_ns)
    group by levels.level

),

limits as (

    select
        level,
        max(running_limit) filter (where is_stated) as running_limit
    from int_engine_limits
    group by level

),

step_tokens as (

    select
        levels.level,
        median(
            coalesce(steps.context_tokens, 0) + coalesce(steps.generation_tokens, 0)
        ) as step_tokens
    from stg_log__iterations as steps
    inner join int_sweep_levels as levels
        on
            (levels.origin = 'folder' and steps.level = levels.level)
            or (steps.ts_ns >= levels.start_ns and steps.ts_ns < levels.end_ns)
    where not coalesce(steps.is_dummy or steps.is_warmup, false)
    group by levels.level

),

budgets as (

    select
        level,
        number as token_budget
    from int_settings_effective
    where name = 'max_num_batched_tokens' and number > 0

)

select
    levels.level,
    cast(
        case
            when occupancy.level is not null then coalesce(preemptions.preemption_count, 0)
            else preemptions.preemption_count
        end as bigint
    ) as preemption_count,
    latency.tokens_per_s,
    latency.itl_p50_ms,
    latency.itl_p99_ms,
    occupancy.kv_used_ratio_max,
    occupancy.kv_used_ratio_mean,
    occupancy.running_max,
    occupancy.waiting_max,
    occupancy.queued_ratio,
    occupancy.kv_full_ratio,
    occupancy.running_queued,
    case
        when levels.origin = 'limit' then try_cast(levels.level as double)
        else limits.running_limit
    end as running_limit,
    step_tokens.step_tokens / budgets.token_budget as step_budget_ratio,
    traffic.dram_use_ratio,
    sizes.weight_bytes + occupancy.kv_used_ratio_mean * sizes.kv_pool_bytes as read_bytes
from int_sweep_levels as levels
left join occupancy on levels.level = occupancy.level
left join latency on levels.level = latency.level
left join preemptions on levels.level = preemptions.level
left join traffic on levels.level = traffic.level
left join limits
    on case when levels.origin = 'folder' then levels.level end is not distinct from limits.level
left join step_tokens on levels.level = step_tokens.level
left join budgets
    on case when levels.origin = 'folder' then levels.level end is not distinct from budgets.level
left join int_model_sizes as sizes
    on case when levels.origin = 'folder' then levels.level end is not distinct from sizes.level
