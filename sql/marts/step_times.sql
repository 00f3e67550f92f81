-- what:  Durations of engine steps by what they compute, from iteration logs and GPU traces.
-- grain: one row per level, replica, origin and step class
-- key:   level, replica_id, origin, step_class
-- columns:
--   level            VARCHAR  level of a sweep, null when the run has one level
--   replica_id       VARCHAR  engine replica
--   origin           VARCHAR  iterations (log of every step) or trace (GPU work of a step)
--   step_class       VARCHAR  decode, mixed (decode and prefill) or prefill
--   step_count       BIGINT   steps of the class
--   elapsed_p10_ms   DOUBLE   [ms] step time
--   elapsed_p25_ms   DOUBLE   [ms]
--   elapsed_p50_ms   DOUBLE   [ms]
--   elapsed_p75_ms   DOUBLE   [ms]
--   elapsed_p90_ms   DOUBLE   [ms]
--   elapsed_p99_ms   DOUBLE   [ms]
--   elapsed_total_s  DOUBLE   [s] summed step time
--   gpu_busy_ms      DOUBLE   [ms] mean time in which the device computed, null without trace
--   bubble_ms        DOUBLE   [ms] mean idle time of the device before a step, null without trace
--   sequence_count   DOUBLE   mean requests in a step, null when not stated
--   context_tokens   DOUBLE   mean prefill tokens of a step, null when not stated
-- notes: a step of a trace counts when its phase is acted upon; its time runs from its first to its last GPU work on each device.
with

logged as (

    select
        level,
        replica_id,
        'iterations' as origin,
        case
            when generation_requests = 0 then 'prefill'
            when context_requests = 0 then 'decode'
            else 'mixed'
        end as step_class,
        elapsed_ms,
        cast(null as bigint) as gpu_busy_ns,
        cast(null as bigint) as bubble_before_ns,
        generation_requests + context_requests as sequence_count,
        context_tokens
    from int_iterations_timed
    where generation_requests + context_requests > 0

),

traced as (

    select
        level,
        replica_id,
        'trace' as origin,
        phase as step_class,
        (gpu_end_ns - gpu_start_ns) / 1e6 as elapsed_ms,
        gpu_busy_ns,
        bubble_before_ns,
        sequence_count,
        context_tokens
    from steps
    where
        phase in ('decode', 'mixed', 'prefill')
        and confidence >= threshold('phase_confidence_min')
        and gpu_end_ns > gpu_start_ns

),

timed as (

    select * from logged
    union all
    select * from traced

)

select
    level,
    replica_id,
    origin,
    step_class,
    count(*) as step_count,
    quantile_cont(elapsed_ms, 0.1) as elapsed_p10_ms,
    quantile_cont(elapsed_ms, 0.25) as elapsed_p25_ms,
    quantile_cont(elapsed_ms, 0.5) as elapsed_p50_ms,
    quantile_cont(elapsed_ms, 0.75) as elapsed_p75_ms,
    quantile_cont(elapsed_ms, 0.9) as elapsed_p90_ms,
    quantile_cont(elapsed_ms, 0.99) as elapsed_p99_ms,
    fsum(elapsed_ms) / 1e3 as elapsed_total_s,
    favg(gpu_busy_ns / 1e6) as gpu_busy_ms,
    favg(bubble_before_ns / 1e6) as bubble_ms,
    favg(sequence_count) as sequence_count,
    favg(context_tokens) as context_tokens
from timed
group by level, replica_id, origin, step_class
order by level, replica_id, origin, step_class
