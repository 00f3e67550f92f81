-- what:  What a step must move through memory, how long that takes at best, and what it took.
-- grain: one row per level, replica, step class and line
-- key:   level, replica_id, step_class, line
-- columns:
--   level         VARCHAR  level of a sweep, null when the run has one level
--   replica_id    VARCHAR  engine replica
--   step_class    VARCHAR  decode or prefill
--   line          VARCHAR  weights, kv_read, kv_write, activations, collectives, compute, floor,
--                          achievable, measured, moved, gpu_idle, unexplained, ratio_to_floor,
--                          cannot_tell
--   meaning       VARCHAR  what the line is, or why it cannot be told
--   origin        VARCHAR  file or rule that the line comes from
--   bytes         BIGINT   [bytes] of one GPU and one step, null for lines that move none
--   time_ms       DOUBLE   [ms] of one step
--   tokens_per_s  DOUBLE   [tokens/s] of the batch at that step time; of the floor: the ceiling
--   ratio         DOUBLE   floor: its share of the measured time; moved: share of the peak bandwidth;
--                          ratio_to_floor: measured / floor
--   line_no       INTEGER  order
-- notes: floor = (weights + KV of the batch) / bandwidth for decode; for prefill the larger of that
--        of the weights and FLOPs / peak. KV writes and activations are listed beside it: caches may
--        absorb them. The batch reads weights once, of experts those that it is expected to touch.
--        Measured = achievable + collectives + gpu_idle + unexplained; the last is negative when a
--        step beats what is called achievable. One GPU's share of everything.
with

floors as (

    select
        *,
        case
            when reason is not null then null
            when step_class = 'decode'
                then decode_floor_ms(weight_bytes, coalesce(kv_read_bytes, 0), bytes_per_s)
            else step_floor_ms(weight_bytes, bytes_per_s, compute_ms)
        end as floor_ms,
        case
            when reason is null
                then step_floor_ms(
                    weight_bytes + coalesce(kv_read_bytes, 0), bytes_per_s, compute_ms
                )
        end as limit_ms,
        case when collective_bytes > 0 then transfer_ms(collective_bytes, link_bytes_per_s) end
            as collective_ms
    from int_ledger_work

),

reached as (

    select
        *,
        limit_ms / threshold('hbm_achievable_ratio') as achievable_ms,
        step_ms
        - limit_ms / threshold('hbm_achievable_ratio')
        - coalesce(collective_ms, 0)
        - coalesce(idle_ms, 0) as unexplained_ms
    from floors

),

listed as (

    select
        level,
        replica_id,
        step_class,
        unnest([
            case when weight_bytes is not null then ledger_line(
                1,
                'weights',
                'read once for the whole batch' || coalesce(
                    '; ' || cast(round(touched_ratio * 100) as integer)
                    || ' % of the experts expected',
                    ''
                ),
                weight_origin,
                bytes := weight_bytes,
                time_ms := transfer_ms(weight_bytes, bytes_per_s)
            ) end,
            case when step_class = 'decode' then ledger_line(
                2,
                'kv_read',
                if(
                    kv_read_bytes is null,
                    'unknown; the floor counts the weights alone',
                    'KV of the running batch, shared blocks once'
                ),
                kv_origin,
                bytes := kv_read_bytes,
                time_ms := transfer_ms(kv_read_bytes, bytes_per_s)
            ) end,
            case when kv_write_bytes is not null then ledger_line(
                3,
                'kv_write',
                'KV of the new tokens; beside the floor',
                'tokens of the step x KV bytes per token',
                bytes := kv_write_bytes,
                time_ms := transfer_ms(kv_write_bytes, bytes_per_s)
            ) end,
            case when activation_bytes is not null then ledger_line(
                4,
                'activations',
                'in and out of every layer; the L2 cache may hold them: beside the floor',
                'model shape',
                bytes := activation_bytes,
                time_ms := transfer_ms(activation_bytes, bytes_per_s)
            ) end,
            case when collective_bytes > 0 then ledger_line(
                5,
                'collectives',
                if(
                    collective_ms is null,
                    'sent in all-reduces of tensor parallelism; rate of the link unknown',
                    'sent in all-reduces of tensor parallelism, at the peak of NVLink'
                ),
                'model shape',
                bytes := collective_bytes,
                time_ms := collective_ms
            ) end,
            case when compute_ms is not null then ledger_line(
                6,
                'compute',
                if(
                    step_class = 'decode',
                    'FLOPs of the batch at the dense peak rate',
                    'FLOPs of the prompt tokens at the dense peak rate, attention scores left out'
                ),
                'model shape and compute rate',
                time_ms := compute_ms,
                tokens_per_s := step_tokens_per_s(token_count, compute_ms)
            ) end,
            case when floor_ms is not null then ledger_line(
                7,
                'floor',
                'no step of this kind can be shorter on this memory',
                rate_origin,
                bytes := weight_bytes + coalesce(kv_read_bytes, 0),
                time_ms := floor_ms,
                tokens_per_s := step_tokens_per_s(token_count, floor_ms),
                ratio := floor_ms / nullif(step_ms, 0)
            ) end,
            case when floor_ms is not null then ledger_line(
                8,
                'achievable',
                if(
                    limit_ms > floor_ms,
                    'compute time, which is longer than the floor, at the usual share of the peak',
                    'floor at the share of the peak that good kernels reach'
                ),
                'threshold hbm_achievable_ratio',
                time_ms := achievable_ms,
                tokens_per_s := step_tokens_per_s(token_count, achievable_ms)
            ) end,
            case when step_ms is not null then ledger_line(
                9,
                'measured',
                step_meaning,
                step_origin,
                time_ms := step_ms,
                tokens_per_s := step_tokens_per_s(token_count, step_ms)
            ) end,
            case when traffic_ratio is not null then ledger_line(
                10,
                'moved',
                'DRAM traffic that counters saw while the GPU worked on such steps',
                traffic_origin,
                bytes := traffic_ratio * bytes_per_s * (step_ms - coalesce(idle_ms, 0)) / 1e3,
                ratio := traffic_ratio
            ) end,
            case when idle_ms is not null then ledger_line(
                11,
                'gpu_idle',
                'the GPU waited for the host, for copies or for other ranks',
                step_origin,
                time_ms := idle_ms
            ) end,
            case when unexplained_ms is not null then ledger_line(
                12,
                'unexplained',
                if(
                    unexplained_ms < 0,
                    'the step beats what counts as achievable: more of the peak than usual',
                    'measured less achievable and the parts named above: launches, small kernels, '
                    || 'sampling, waiting'
                ),
                'measured less the lines above',
                time_ms := unexplained_ms
            ) end,
            case when step_ms is not null and floor_ms is not null then ledger_line(
                13,
                'ratio_to_floor',
                'measured / floor; above 1: launch, scheduling, compute, waiting',
                step_origin,
                ratio := step_ms / nullif(floor_ms, 0)
            ) end,
            case when reason is not null or step_ms is null then ledger_line(
                14,
                'cannot_tell',
                coalesce(
                    'no floor: ' || reason,
                    'no measured step: neither iteration lines nor token times'
                ),
                null
            ) end
        ]) as entry
    from reached

)

select
    level,
    replica_id,
    step_class,
    listed.entry.line,
    listed.entry.meaning,
    listed.entry.origin,
    listed.entry.bytes,
    listed.entry.time_ms,
    listed.entry.tokens_per_s,
    listed.entry.ratio,
    listed.entry.line_no
from listed
where listed.entry.line is not null
