-- what:  What the engine's steps did before and during each latency jump.
-- grain: one row per jump
-- key:   level, replica_id, jump_no
-- columns:
--   level             VARCHAR  level of a sweep, null when the run has one level
--   replica_id        VARCHAR  engine replica
--   jump_no           BIGINT   jump in the level and replica
--   step_count        BIGINT   steps during the jump
--   prefill_ms        DOUBLE   [ms] time of steps with context tokens during the jump
--   busy_ms           DOUBLE   [ms] time of all steps during the jump
--   decode_before_ms  DOUBLE   [ms] median of decode-only steps in the trailing window
--   decode_during_ms  DOUBLE   [ms] median of decode-only steps during the jump
--   batch_before      DOUBLE   median requests in decode-only steps before
--   batch_during      DOUBLE   during
--   kv_before_ratio   DOUBLE   median KV occupancy before
--   kv_during_ratio   DOUBLE   during
with

steps as (

    select
        *,
        context_requests = 0 and generation_tokens = generation_requests as is_decode
    from int_iterations_timed

)

select
    jumps.level,
    jumps.replica_id,
    jumps.jump_no,
    count(*) filter (where steps.end_ns >= jumps.at_ns) as step_count,
    fsum(steps.elapsed_ms) filter (where steps.end_ns >= jumps.at_ns and steps.context_tokens > 0)
        as prefill_ms,
    fsum(steps.elapsed_ms) filter (where steps.end_ns >= jumps.at_ns) as busy_ms,
    median(steps.elapsed_ms) filter (where steps.end_ns < jumps.at_ns and steps.is_decode)
        as decode_before_ms,
    median(steps.elapsed_ms) filter (where steps.end_ns >= jumps.at_ns and steps.is_decode)
        as decode_during_ms,
    median(steps.generation_requests) filter (
        where steps.end_ns < jumps.at_ns and steps.is_decode
    ) as batch_before,
    median(steps.generation_requests) filter (where steps.end_ns >= jumps.at_ns and steps.is_decode)
        as batch_during,
    median(steps.kv_used_ratio) filter (where steps.end_ns < jumps.at_ns) as kv_before_ratio,
    median(steps.kv_used_ratio) filter (where steps.end_ns >= jumps.at_ns) as kv_during_ratio
from int_jump_spans as jumps
inner join steps
    on
        jumps.replica_id = steps.replica_id
        and jumps.level is not distinct from steps.level
        and steps.end_ns >= jumps.at_ns - cast(threshold('jump_before_s') * 1e9 as bigint)
        and steps.end_ns <= jumps.end_ns + jumps.bucket_ns
group by jumps.level, jumps.replica_id, jumps.jump_no
