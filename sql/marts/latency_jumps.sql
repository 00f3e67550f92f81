-- what:  Jumps of token latency and of waits for the first token, with their cause where the data shows it.
-- grain: one row per jump
-- key:   jump_id
-- columns:
--   level          VARCHAR  level of a sweep, null when the run has one level
--   replica_id     VARCHAR  engine replica
--   jump_id        BIGINT   number in the run, in order of time
--   cause          VARCHAR  kv, prefill, cpu, gpu_clock, communication, profiler, jit, graph_capture, concurrency, client, max_sequences, token_budget, head_of_line or unknown
--   metric         VARCHAR  itl_p50, itl_max or ttft
--   evidence       VARCHAR  closed words: what shows the cause, or what was excluded and what could not be looked at
--   before_ms      DOUBLE   [ms] trailing median
--   after_ms       DOUBLE   [ms] highest value during the jump
--   size_mads      DOUBLE   [MADs] null for jumps of the tail alone
--   width_ms       DOUBLE   [ms] duration
--   kv_used_ratio  DOUBLE   highest KV occupancy during the jump, null when unknown
--   at_ns          BIGINT   [ns] start
--   error_ns       BIGINT   [ns] width of a bucket
--   end_ns         BIGINT   [ns] end
-- notes: compared with the median of the jump_before_s ahead; slow growth with the context is no jump, nor is a ramp that follows the batch. A batch explains no more growth than its own. A jump that peaked before the first action of a swap point is not its effect.
with

jumps as (

    select * from int_jump_spans

),

-- a jump that peaked before the engine's first action came from something else
points as (

    select
        jumps.level,
        jumps.replica_id,
        jumps.jump_no,
        bool_or(jumps.peak_ns > points.at_ns - points.error_ns) as is_after_action,
        bool_or(
            jumps.peak_ns > points.at_ns - points.error_ns
            and points.class in ('confirmed', 'probable')
        ) as is_swap_point
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
            and events.ts_ns
            >= jumps.at_ns - cast(threshold('jump_said_s') * 1e9 as bigint) - events.error_ns
            and events.ts_ns <= jumps.end_ns + events.error_ns
            -- one such moment does not explain what goes on long after it
            and events.ts_ns
            >= jumps.end_ns - jumps.bucket_ns
            - 2 * cast(threshold('jump_said_s') * 1e9 as bigint) - events.error_ns
    group by jumps.level, jumps.replica_id, jumps.jump_no

),

queues as (

    select
        jumps.level,
        jumps.replica_id,
        jumps.jump_no,
        max(samples.kv_used_ratio) filter (where samples.ts_ns >= jumps.at_ns) as kv_used_ratio,
        median(samples.kv_used_ratio) filter (where samples.ts_ns < jumps.at_ns) as kv_before_ratio,
        median(samples.kv_used_ratio) filter (where samples.ts_ns >= jumps.at_ns)
            as kv_during_ratio,
        median(samples.running_count) filter (
            where samples.ts_ns < jumps.at_ns and samples.running_count > 0
        ) as running_before,
        median(samples.running_count) filter (where samples.ts_ns >= jumps.at_ns) as running_during,
        max(samples.running_count) filter (where samples.ts_ns >= jumps.at_ns) as running_most,
        fsum(samples.prompt_tokens) filter (where samples.ts_ns < jumps.at_ns)
        / nullif(fsum(samples.ts_ns - samples.previous_ts_ns) filter (
            where samples.ts_ns < jumps.at_ns and samples.prompt_tokens is not null
        ), 0) as prompt_rate_before,
        fsum(samples.prompt_tokens) filter (where samples.ts_ns >= jumps.at_ns)
        / nullif(fsum(samples.ts_ns - samples.previous_ts_ns) filter (
            where samples.ts_ns >= jumps.at_ns and samples.prompt_tokens is not null
        ), 0) as prompt_rate_during
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
        median(samples.value) filter (where samples.ts_ns < jumps.at_ns) as clock_before,
        median(samples.value) filter (where samples.ts_ns >= jumps.at_ns) as clock_during
    from jumps
    inner join gpu_samples as samples
        on
            jumps.level is not distinct from samples.level
            and samples.counter = 'sm_clock_mhz'
            and samples.ts_ns >= jumps.at_ns - cast(threshold('jump_before_s') * 1e9 as bigint)
            and jumps.end_ns >= samples.ts_ns
    group by jumps.level, jumps.replica_id, jumps.jump_no

),

-- the share of wall time in which the rank that arrived first waited for the last one
collectives as (

    select
        matched.level,
        max(matched.skew_ns) as skew_ns,
        max(kernels.end_ns) as ts_ns
    from int_collectives_matched as matched
    inner join kernel_phases as kernels
        on matched.source_id = kernels.source_id and matched.kernel_no = kernels.kernel_no
    where matched.is_last
    group by matched.level, matched.source_id, matched.kernel_no

),

ranks as (

    select
        jumps.level,
        jumps.replica_id,
        jumps.jump_no,
        fsum(collectives.skew_ns) filter (where collectives.ts_ns < jumps.at_ns)
        / nullif(jumps.at_ns - min(collectives.ts_ns) filter (
            where collectives.ts_ns < jumps.at_ns
        ), 0) as wait_before,
        fsum(collectives.skew_ns) filter (where collectives.ts_ns >= jumps.at_ns)
        / nullif(jumps.end_ns - jumps.at_ns, 0) as wait_during
    from jumps
    inner join collectives
        on
            jumps.level is not distinct from collectives.level
            and collectives.ts_ns >= jumps.at_ns - cast(threshold('jump_before_s') * 1e9 as bigint)
            and jumps.end_ns >= collectives.ts_ns
    group by jumps.level, jumps.replica_id, jumps.jump_no, jumps.at_ns, jumps.end_ns

),

logged as (

    select distinct level from sources
    where role = 'log'

),

facts as (

    select
        jumps.*,
        jumps.after_ms / nullif(jumps.before_ms, 0) as growth,
        queues.kv_used_ratio,
        coalesce(points.is_after_action, false) as is_pressure,
        coalesce(points.is_swap_point, false) as is_swap_point,
        points.jump_no is not null as is_near_point,
        coalesce(said.has_profiler, false) as has_profiler,
        coalesce(said.has_jit, false) as has_jit,
        coalesce(said.has_graph_capture, false) as has_graph_capture,
        clients.zero_during > threshold('client_zero_gap_ratio')
        and coalesce(clients.zero_before, 0) <= threshold('client_zero_gap_ratio')
        -- a step as long as the silence is the engine's doing
        and coalesce(steps.longest_ms < threshold('jump_step_share') * jumps.after_ms, true)
            as is_client,
        steps.jump_no is not null as has_steps,
        (
            coalesce(
                steps.slow_prefill_ms >= threshold('jump_step_share') * nullif(steps.slow_ms, 0),
                steps.prefill_ms >= threshold('jump_step_share') * steps.busy_ms
            )
            or coalesce(
                steps.longest_prefill_ms >= threshold('jump_step_share') * jumps.after_ms, false
            )
        )
        -- a median that rose with the steps of decode alone did not rise by prefill
        and coalesce(
            jumps.metric != 'itl_p50'
            or steps.decode_during_ms - steps.decode_before_ms
            < threshold('jump_step_share') * (jumps.after_ms - jumps.before_ms),
            true
        ) as is_prefill_step,
        queues.prompt_rate_during
        >= threshold('jump_prompt_factor') * queues.prompt_rate_before as is_prefill_counted,
        steps.decode_during_ms >= threshold('jump_median_factor') * steps.decode_before_ms
        and steps.batch_during <= threshold('jump_batch_factor') * steps.batch_before
        and coalesce(
            abs(steps.kv_during_ratio - steps.kv_before_ratio) <= threshold('kv_flat_ratio'), true
        ) as is_slow_step,
        jumps.metric = 'itl_p50'
        and queues.running_most <= threshold('jump_batch_factor') * queues.running_before
        and queues.prompt_rate_during
        <= threshold('jump_batch_factor') * queues.prompt_rate_before
        and abs(queues.kv_during_ratio - queues.kv_before_ratio) <= threshold('kv_flat_ratio')
            as is_slow_counted,
        devices.clock_during < (1 - threshold('jump_clock_ratio')) * devices.clock_before
            as is_slow_clock,
        ranks.wait_during - coalesce(ranks.wait_before, 0)
        >= threshold('jump_step_share') * (1 - jumps.before_ms / nullif(jumps.after_ms, 0))
            as is_skewed,
        greatest(
            queues.running_during / nullif(queues.running_before, 0),
            steps.batch_during / nullif(steps.batch_before, 0)
        ) as batch_factor,
        coalesce(
            steps.decode_during_ms >= threshold('jump_batch_factor') * steps.decode_before_ms, true
        ) as is_decode_slower,
        logged.level is not null or exists (from logged as l where l.level is null) as has_log,
        clients.zero_during is not null as has_client,
        devices.clock_before is not null and devices.clock_during is not null as has_clock
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
    left join ranks
        on
            jumps.replica_id = ranks.replica_id
            and jumps.level is not distinct from ranks.level
            and jumps.jump_no = ranks.jump_no
    left join logged on jumps.level = logged.level
    left join int_jump_steps as steps
        on
            jumps.replica_id = steps.replica_id
            and jumps.level is not distinct from steps.level
            and jumps.jump_no = steps.jump_no

),

judged as (

    select
        *,
        case
            when is_swap_point then 'kv'
            when has_profiler then 'profiler'
            when has_jit then 'jit'
            when has_graph_capture then 'graph_capture'
            when is_client then 'client'
            when
                metric = 'itl_p50'
                and batch_factor >= threshold('jump_batch_factor')
                and growth <= threshold('jump_batch_factor') * batch_factor
                and is_decode_slower
                then 'concurrency'
            when is_prefill_step then 'prefill'
            when is_skewed then 'communication'
            when is_slow_clock then 'gpu_clock'
            when is_slow_step then 'cpu'
            when is_prefill_counted and not has_steps then 'prefill'
            when is_slow_counted and not has_steps then 'cpu'
            when is_pressure then 'kv'
            else 'unknown'
        end as cause
    from facts

),

-- a ramp of latency that follows the batch is no jump
kept as (

    select
        *,
        [
            ('KV', kv_used_ratio is not null),
            ('prefill', coalesce(is_prefill_step, is_prefill_counted) is not null),
            ('slower steps', is_slow_step is not null),
            ('more requests', batch_factor is not null),
            ('profiler, JIT, graph capture', has_log),
            ('client', has_client),
            ('GPU clock', has_clock),
            ('rank skew', is_skewed is not null)
        ] as checks
    from judged
    where cause != 'concurrency' or is_abrupt

),

listed as (

    select
        *,
        coalesce(nullif(array_to_string([x[1] for x in checks if x[2]], ', '), ''), 'nothing')
            as excluded,
        coalesce(nullif(array_to_string([x[1] for x in checks if not x[2]], ', '), ''), 'nothing')
            as missing
    from kept

),

told as (

    select
        level,
        replica_id,
        cause,
        metric,
        case
            when cause = 'kv' and is_swap_point then 'lies in a swap point'
            when cause = 'kv' then 'lies in KV pressure with preemptions, nothing else explains it'
            when cause = 'profiler' then 'the profiler was started or stopped'
            when cause = 'jit' then 'a kernel was compiled during inference'
            when cause = 'graph_capture' then 'CUDA graphs were captured'
            when cause = 'client' then 'chunks arrived together at the client: it fell behind'
            when cause = 'prefill' and is_prefill_step
                then 'steps with prefill tokens took most of the time'
            when cause = 'prefill'
                then 'prompt tokens per second rose with the latency; no iteration log'
            when cause = 'communication'
                then 'ranks waited for the last one in collective operations'
            when cause = 'gpu_clock' then 'the clock of the GPU fell'
            when cause = 'cpu' and is_slow_step
                then 'decode-only steps took longer at the same batch, KV flat: host or GPU clock'
            when cause = 'cpu'
                then 'tokens took longer at the same batch and prefill, KV flat: host or GPU clock'
            when cause = 'concurrency' then 'more requests ran at once'
            else concat('excluded: ', excluded, '; no data for: ', missing)
        end
        || case
            when cause != 'kv' and is_near_point
                then '; KV pressure with preemptions came with it or after it'
            else ''
        end as evidence,
        before_ms,
        after_ms,
        size_mads,
        kv_used_ratio,
        at_ns,
        bucket_ns as error_ns,
        end_ns
    from listed
    union all by name
    select * from int_first_token_jumps

)

select
    level,
    replica_id,
    row_number() over (order by at_ns, level, replica_id, metric) as jump_id,
    cause,
    metric,
    evidence,
    before_ms,
    after_ms,
    size_mads,
    (end_ns - at_ns) / 1e6 as width_ms,
    kv_used_ratio,
    at_ns,
    error_ns,
    end_ns
from told
