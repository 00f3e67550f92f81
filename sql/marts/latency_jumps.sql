-- what:  Jumps of token latency, with their cause where the data shows it.
-- grain: one row per jump
-- key:   jump_id
-- columns:
--   level          VARCHAR  level of a sweep, null when the run has one level
--   replica_id     VARCHAR  engine replica
--   jump_id        BIGINT   number in the run, in order of time
--   cause          VARCHAR  kv, prefill, cpu, gpu_clock, profiler, jit, graph_capture, concurrency, client or unknown
--   metric         VARCHAR  itl_p50 or itl_max
--   evidence       VARCHAR  closed words: what shows the cause, or what was excluded
--   before_ms      DOUBLE   [ms] trailing median
--   after_ms       DOUBLE   [ms] highest value during the jump
--   size_mads      DOUBLE   [MADs] null for jumps of the tail alone
--   width_ms       DOUBLE   [ms] duration
--   kv_used_ratio  DOUBLE   highest KV occupancy during the jump, null when unknown
--   at_ns          BIGINT   [ns] start
--   error_ns       BIGINT   [ns] width of a bucket
--   end_ns         BIGINT   [ns] end
-- notes: compared with the median of the jump_before_s ahead; slow growth with the context is no jump.
with

jumps as (

    select * from int_jump_spans

),

points as (

    select
        jumps.level,
        jumps.replica_id,
        jumps.jump_no
    from jumps
    inner join swap_points as points
        on
            jumps.replica_id = points.replica_id
            and jumps.level is not distinct from points.level
            and points.e_proof is not null
            and jumps.end_ns >= points.pressure_at_ns
            and jumps.at_ns <= points.end_ns + cast(threshold('counter_lag_s') * 1e9 as bigint)
    group by jumps.level, jumps.replica_id, jumps.jump_no

),

said as (

    select
        jumps.level,
        jumps.replica_id,
        jumps.jump_no,
        bool_or(events.kind in ('profiler_start', 'profiler_stop')) as has_profiler,
        bool_or(events.kind = 'jit') as has_jit,
        bool_or(events.kind = 'graph_capture') as has_graph_capture
    from jumps
    inner join engine_events as events
        on
            jumps.replica_id = events.replica_id
            and jumps.level is not distinct from events.level
            and events.kind in ('profiler_start', 'profiler_stop', 'jit', 'graph_capture')
            and events.ts_ns >= jumps.at_ns - 5000000000 - events.error_ns
            and events.ts_ns <= jumps.end_ns + events.error_ns
    group by jumps.level, jumps.replica_id, jumps.jump_no

),

queues as (

    select
        jumps.level,
        jumps.replica_id,
        jumps.jump_no,
        max(samples.kv_used_ratio) filter (where samples.ts_ns >= jumps.at_ns) as kv_used_ratio,
        median(samples.running_count) filter (where samples.ts_ns < jumps.at_ns) as running_before,
        median(samples.running_count) filter (where samples.ts_ns >= jumps.at_ns) as running_during
    from jumps
    inner join int_kv_samples as samples
        on
            jumps.replica_id = samples.replica_id
            and jumps.level is not distinct from samples.level
            and samples.origin != 'iterations'
            and samples.ts_ns >= jumps.at_ns - cast(threshold('jump_before_s') * 1e9 as bigint)
            and jumps.end_ns >= samples.ts_ns
    group by jumps.level, jumps.replica_id, jumps.jump_no

),

-- chunks that arrive together say that the client fell behind
clients as (

    select
        jumps.level,
        jumps.replica_id,
        jumps.jump_no,
        median(latency.zero_gap_ratio) filter (where latency.ts_ns < jumps.at_ns) as zero_before,
        median(latency.zero_gap_ratio) filter (where latency.ts_ns >= jumps.at_ns) as zero_during
    from jumps
    inner join int_latency_tokens as latency
        on
            jumps.replica_id = latency.replica_id
            and jumps.level is not distinct from latency.level
            and latency.ts_ns >= jumps.at_ns - cast(threshold('jump_before_s') * 1e9 as bigint)
            and jumps.end_ns >= latency.ts_ns
    group by jumps.level, jumps.replica_id, jumps.jump_no

),

devices as (

    select
        jumps.level,
        jumps.replica_id,
        jumps.jump_no,
        median(samples.value) filter (
            where samples.counter = 'sm_clock_mhz' and samples.ts_ns < jumps.at_ns
        ) as clock_before,
        median(samples.value) filter (
            where samples.counter = 'sm_clock_mhz' and samples.ts_ns >= jumps.at_ns
        ) as clock_during
    from jumps
    inner join gpu_samples as samples
        on
            jumps.level is not distinct from samples.level
            and samples.ts_ns >= jumps.at_ns - cast(threshold('jump_before_s') * 1e9 as bigint)
            and jumps.end_ns >= samples.ts_ns
    group by jumps.level, jumps.replica_id, jumps.jump_no

),

judged as (

    select
        jumps.*,
        coalesce(
            clients.zero_during > threshold('client_zero_gap_ratio')
            and coalesce(clients.zero_before, 0) <= threshold('client_zero_gap_ratio'),
            false
        ) as is_client,
        coalesce(
            devices.clock_during < (1 - threshold('jump_clock_ratio')) * devices.clock_before,
            false
        ) as is_slow_clock,
        queues.kv_used_ratio,
        points.jump_no is not null as is_kv,
        coalesce(said.has_profiler, false) as has_profiler,
        coalesce(said.has_jit, false) as has_jit,
        coalesce(said.has_graph_capture, false) as has_graph_capture,
        steps.jump_no is not null as has_steps,
        coalesce(steps.prefill_ms >= threshold('jump_step_share') * steps.busy_ms, false)
            as is_prefill,
        coalesce(
            steps.decode_during_ms >= threshold('jump_median_factor') * steps.decode_before_ms
            and steps.batch_during <= threshold('jump_batch_factor') * steps.batch_before
            and coalesce(
                abs(steps.kv_during_ratio - steps.kv_before_ratio) <= threshold('kv_flat_ratio'),
                true
            ),
            false
        ) as is_slow_step,
        coalesce(
            queues.running_during >= threshold('jump_batch_factor') * queues.running_before
            or steps.batch_during >= threshold('jump_batch_factor') * steps.batch_before,
            false
        ) as is_more_concurrent
    from jumps
    left join points
        on
            jumps.replica_id = points.replica_id
            and jumps.level is not distinct from points.level
            and jumps.jump_no = points.jump_no
    left join said
        on
            jumps.replica_id = said.replica_id
            and jumps.level is not distinct from said.level
            and jumps.jump_no = said.jump_no
    left join queues
        on
            jumps.replica_id = queues.replica_id
            and jumps.level is not distinct from queues.level
            and jumps.jump_no = queues.jump_no
    left join clients
        on
            jumps.replica_id = clients.replica_id
            and jumps.level is not distinct from clients.level
            and jumps.jump_no = clients.jump_no
    left join devices
        on
            jumps.replica_id = devices.replica_id
            and jumps.level is not distinct from devices.level
            and jumps.jump_no = devices.jump_no
    left join int_jump_steps as steps
        on
            jumps.replica_id = steps.replica_id
            and jumps.level is not distinct from steps.level
            and jumps.jump_no = steps.jump_no

)

select
    level,
    replica_id,
    row_number() over (order by at_ns, level, replica_id) as jump_id,
    case
        when is_kv then 'kv'
        when has_profiler then 'profiler'
        when has_jit then 'jit'
        when has_graph_capture then 'graph_capture'
        when is_client then 'client'
        when is_prefill then 'prefill'
        when is_slow_clock then 'gpu_clock'
        when is_slow_step then 'cpu'
        when is_more_concurrent then 'concurrency'
        else 'unknown'
    end as cause,
    metric,
    case
        when is_kv then 'lies in a swap point'
        when has_profiler then 'the profiler was started or stopped'
        when has_jit then 'a kernel was compiled during inference'
        when has_graph_capture then 'CUDA graphs were captured'
        when is_client then 'chunks arrived together at the client: it fell behind'
        when is_prefill then 'steps with prefill tokens took most of the time'
        when is_slow_clock then 'the clock of the GPU fell'
        when is_slow_step
            then 'decode-only steps took longer at the same batch, KV flat: CPU, host or GPU clock'
        when is_more_concurrent then 'more requests ran at once'
        when has_steps then 'excluded: KV, prefill, slower steps, more requests, profiler, JIT'
        else 'excluded: KV, more requests, profiler, JIT; no iteration log to tell prefill'
    end as evidence,
    before_ms,
    after_ms,
    size_mads,
    (end_ns - at_ns) / 1e6 as width_ms,
    kv_used_ratio,
    at_ns,
    bucket_ns as error_ns,
    end_ns
from judged
