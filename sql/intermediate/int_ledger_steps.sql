-- what:  The typical decode and prefill step of each engine, as measured.
-- grain: one row per level, replica and step class
-- key:   level, replica_id, step_class
-- columns:
--   level          VARCHAR  level of a sweep, null when the run has one level
--   replica_id     VARCHAR  engine replica
--   step_class     VARCHAR  decode or prefill
--   origin         VARCHAR  iterations, trace, or the origin of the token latency
--   meaning        VARCHAR  what the step time is
--   step_ms        DOUBLE   [ms] decode: median; prefill: mean
--   batch          DOUBLE   sequences of the step (decode), median
--   token_count    DOUBLE   [tokens] of the step: decode as batch, prefill mean of prompt tokens
--   kv_ratio       DOUBLE   0-1 KV occupancy in these steps, median
--   kv_read_tokens DOUBLE   [tokens] summed KV length of the batch, median, null when not labelled
--   idle_ms        DOUBLE   [ms] of it in which the GPU computed nothing, null without a trace
-- notes: decode steps hold no prefill and no recompute. Iteration lines come first, then steps of the
--        GPU trace (from the end of the GPU work before to the end of theirs), then the median gap
--        between tokens, then running / tokens per second (prefill steps are in it); gaps not when
--        the engine speculates: then a gap is no step.
with

iterations as (

    select * from stg_log__iterations
    where not coalesce(is_dummy, false) and elapsed_ms > 0

),

latency as (

    select
        level,
        replica_id,
        origin,
        running_count,
        coalesce(itl_p50_ms, 1e3 * running_count / nullif(tokens_per_s, 0)) as gap_ms,
        case
            when itl_p50_ms is not null then 'median gap between tokens of a stream'
            else 'requests running / tokens per second; prefill steps are in it'
        end as meaning,
        case
            when itl_p50_ms is null and origin = 'log' then 5
            when itl_p50_ms is null then 4
            when origin = 'tokens' then 1
            when origin = 'histogram' then 2
            else 3
        end as preference
    from token_latency

),

speculating as (

    select coalesce(max(number), 0) as speculative_tokens
    from int_settings_effective
    where name = 'num_speculative_tokens'

),

logged_decode as (

    select
        iterations.level,
        iterations.replica_id,
        'decode' as step_class,
        'iterations' as origin,
        'step time that the engine printed' as meaning,
        quantile_cont(iterations.elapsed_ms, 0.5) as step_ms,
        quantile_cont(cast(iterations.generation_requests as double), 0.5) as batch,
        quantile_cont(cast(iterations.generation_tokens as double), 0.5) as token_count,
        quantile_cont(iterations.kv_used_ratio, 0.5) as kv_ratio,
        cast(null as double) as kv_read_tokens,
        cast(null as double) as idle_ms
    from iterations
    cross join speculating
    where
        iterations.context_requests = 0
        and iterations.generation_requests > 0
        and iterations.generation_tokens
        <= iterations.generation_requests * (1 + speculating.speculative_tokens)
    group by iterations.level, iterations.replica_id

),

logged_prefill as (

    select
        level,
        replica_id,
        'prefill' as step_class,
        'iterations' as origin,
        'step time that the engine printed' as meaning,
        sum(cast(round(elapsed_ms * 1e6) as bigint)) / 1e6 / count(*) as step_ms,
        cast(null as double) as batch,
        sum(context_tokens) / count(*) as token_count,
        cast(null as double) as kv_ratio,
        cast(null as double) as kv_read_tokens,
        cast(null as double) as idle_ms
    from iterations
    where context_tokens > 0
    group by level, replica_id

),

traced_steps as (

    select
        level,
        replica_id,
        phase,
        generation_requests,
        generation_tokens,
        context_tokens,
        kv_read_tokens,
        coalesce(bubble_before_ns, 0) as bubble_ns,
        coalesce(bubble_before_ns, 0) + gpu_end_ns - gpu_start_ns as span_ns,
        gpu_busy_ns
    from steps
    where
        gpu_end_ns > gpu_start_ns
        and phase in ('decode', 'prefill')
        and coalesce(recomputed_tokens, 0) = 0
        and confidence >= threshold('phase_confidence_min')

),

traced as (

    select
        level,
        replica_id,
        phase as step_class,
        'trace' as origin,
        if(
            phase = 'decode',
            'GPU time of a decode step and the pause before it, from the trace',
            'GPU time of a prefill step, from the trace'
        ) as meaning,
        if(
            phase = 'decode',
            quantile_cont(span_ns, 0.5) / 1e6,
            sum(span_ns - bubble_ns) / 1e6 / count(*)
        ) as step_ms,
        quantile_cont(cast(generation_requests as double), 0.5) as batch,
        if(
            phase = 'decode',
            quantile_cont(cast(generation_tokens as double), 0.5),
            sum(context_tokens) / count(context_tokens)
        ) as token_count,
        cast(null as double) as kv_ratio,
        quantile_cont(cast(kv_read_tokens as double), 0.5) as kv_read_tokens,
        if(phase = 'decode', quantile_cont(greatest(span_ns - gpu_busy_ns, 0), 0.5) / 1e6, null)
            as idle_ms
    from traced_steps
    group by level, replica_id, phase

),

best_latency as (

    select
        level,
        replica_id,
        min(preference) as preference
    from latency
    where gap_ms > 0
    group by level, replica_id

),

gap_decode as (

    select
        latency.level,
        latency.replica_id,
        'decode' as step_class,
        min(latency.origin) as origin,
        latency.meaning,
        quantile_cont(latency.gap_ms, 0.5) as step_ms,
        quantile_cont(latency.running_count, 0.5) as batch,
        quantile_cont(latency.running_count, 0.5) as token_count,
        cast(null as double) as kv_ratio,
        cast(null as double) as kv_read_tokens,
        cast(null as double) as idle_ms
    from latency
    inner join best_latency
        on
            latency.level is not distinct from best_latency.level
            and latency.replica_id = best_latency.replica_id
            and latency.preference = best_latency.preference
    cross join speculating
    where latency.gap_ms > 0 and speculating.speculative_tokens = 0
    group by latency.level, latency.replica_id, latency.meaning

),

candidates as (

    select
        *,
        1 as preference
    from logged_decode
    union all
    select
        *,
        1 as preference
    from logged_prefill
    union all
    select
        *,
        2 as preference
    from traced
    where token_count > 0 or step_class = 'decode'
    union all
    select
        *,
        3 as preference
    from gap_decode

)

select * exclude (preference)
from candidates
qualify
    row_number() over (partition by level, replica_id, step_class order by preference, origin) = 1
