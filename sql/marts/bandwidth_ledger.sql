-- what:  What a step must move through memory, how long that takes at best, and what it took.
-- grain: one row per level, replica, step class and line
-- key:   level, replica_id, step_class, line
-- columns:
--   level         VARCHAR  level of a sweep, null when the run has one level
--   replica_id    VARCHAR  engine replica
--   step_class    VARCHAR  decode or prefill
--   line          VARCHAR  weights, kv_read, compute, floor, achievable, measured, ratio_to_floor,
--                          cannot_tell
--   meaning       VARCHAR  what the line is, or why it cannot be told
--   origin        VARCHAR  file or rule that the line comes from
--   bytes         BIGINT   [bytes] of one GPU, null for lines that move none
--   time_ms       DOUBLE   [ms] of one step
--   tokens_per_s  DOUBLE   [tokens/s] of the batch at that step time
--   ratio         DOUBLE   measured / floor
--   line_no       INTEGER  order
-- notes: floor = (weights + KV of the batch) / bandwidth for decode; for prefill the larger of that
--        of the weights and FLOPs / peak. One GPU's share of each; the batch reads weights once.
with

floors as (

    select
        *,
        case
            when reason is not null then null
            when step_class = 'decode'
                then decode_floor_ms(weight_bytes, coalesce(kv_read_bytes, 0), bytes_per_s)
            else greatest(transfer_ms(weight_bytes, bytes_per_s), compute_ms)
        end as floor_ms
    from int_ledger_work

),

reached as (

    select
        *,
        floor_ms / threshold('hbm_achievable_ratio') as achievable_ms
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
                'read once for the whole batch',
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
                if(kv_read_bytes is null, null, 'KV occupancy x pool bytes'),
                bytes := kv_read_bytes,
                time_ms := transfer_ms(kv_read_bytes, bytes_per_s)
            ) end,
            case when compute_ms is not null then ledger_line(
                3,
                'compute',
                'FLOPs of the prompt tokens at the dense peak rate, attention scores left out',
                'model shape and compute rate',
                time_ms := compute_ms,
                tokens_per_s := step_tokens_per_s(token_count, compute_ms)
            ) end,
            case when floor_ms is not null then ledger_line(
                4,
                'floor',
                'no step of this kind can be shorter on this memory',
                rate_origin,
                bytes := weight_bytes + coalesce(kv_read_bytes, 0),
                time_ms := floor_ms,
                tokens_per_s := step_tokens_per_s(token_count, floor_ms)
            ) end,
            case when floor_ms is not null then ledger_line(
                5,
                'achievable',
                'floor at the share of the peak that good kernels reach',
                'threshold hbm_achievable_ratio',
                time_ms := achievable_ms,
                tokens_per_s := step_tokens_per_s(token_count, achievable_ms)
            ) end,
            case when step_ms is not null then ledger_line(
                6,
                'measured',
                step_meaning,
                step_origin,
                time_ms := step_ms,
                tokens_per_s := step_tokens_per_s(token_count, step_ms)
            ) end,
            case when step_ms is not null and floor_ms is not null then ledger_line(
                7,
                'ratio_to_floor',
                'measured / floor; above 1: launch, scheduling, compute, waiting',
                step_origin,
                ratio := step_ms / nullif(floor_ms, 0)
            ) end,
            case when reason is not null or step_ms is null then ledger_line(
                8,
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
