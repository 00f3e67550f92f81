-- what:  What the engine's steps did before and during each latency jump.
-- grain: one row per jump
-- key:   level, replica_id, jump_no
-- columns:
--   level               VARCHAR  level of a sweep, null when the run has one level
--   replica_id          VARCHAR  engine replica
--   jump_no             BIGINT   jump in the level and replica
--   step_count          BIGINT   steps during the jump
--   prefill_ms          DOUBLE   [ms] time of steps with context tokens during the jump
--   busy_ms             DOUBLE   [ms] time of all steps during the jump
--   slow_ms             DOUBLE   [ms] what slow steps during the jump took beyond a decode step before it; null without one
--   slow_prefill_ms     DOUBLE   [ms] part of it in steps with context tokens
--   longest_ms          DOUBLE   [ms] longest step during the jump
--   longest_prefill_ms  DOUBLE   [ms] longest one with context tokens
--   decode_before_ms    DOUBLE   [ms] median of decode-only steps in the trailing window
--   decode_during_ms    DOUBLE   [ms] median of decode-only steps during the jump
--   batch_before        DOUBLE   median requests in decode-only steps before
--   batch_during        DOUBLE   during
--   kv_before_ratio     DOUBLE   median KV occupancy before
--   kv_during_ratio     DOUBLE   during
with

steps as (

    select
        *,
        context_requests = 0 and generation_tokens = generation_requests as is_decode
    from int_iterations_timed

),

near as (

    select
        jumps.level,
        jumps.replica_id,
        jumps.jump_no,
        steps.end_ns >= jumps.at_ns as is_during,
        steps.context_tokens,
        steps.elapsed_ms,
        steps.generation_requests,
        steps.kv_used_ratio,
        steps.is_decode,
        case when steps.end_ns < jumps.at_ns and steps.is_decode then steps.elapsed_ms end
            as quiet_ms
    from int_jump_spans as jumps
    inner join steps
        on
            jumps.replica_id = steps.replica_id
            and jumps.level is not distinct from steps.level
            and steps.end_ns >= jumps.at_ns - cast(threshold('jump_before_s') * 1e9 as bigint)
            and steps.end_ns <= jumps.end_ns + jumps.bucket_ns

),

compared as (

    select
        *,
        median(quiet_ms) over (partition by level, replica_id, jump_no) as decode_before_ms
    from near

)

select
    level,
    replica_id,
    jump_no,
    count(*) filter (where is_during) as step_count,
    fsum(elapsed_ms) filter (where is_during and context_tokens > 0) as prefill_ms,
    fsum(elapsed_ms) filter (where is_during) as busy_ms,
    fsum(elapsed_ms - decode_before_ms) filter (
        where is_during and elapsed_ms >= threshold('jump_median_factor') * decode_before_ms
    ) as slow_ms,
    fsum(elapsed_ms - decode_before_ms) filter (
        where is_during
        and context_tokens > 0
        and elapsed_ms >= threshold('jump_median_factor') * decode_before_ms
    ) as slow_prefill_ms,
    max(elapsed_ms) filter (where is_during) as longest_ms,
    max(elapsed_ms) filter (where is_during and context_tokens > 0) as longest_prefill_ms,
    any_value(decode_before_ms) as decode_before_ms,
    median(elapsed_ms) filter (where is_during and is_decode) as decode_during_ms,
    median(generation_requests) filter (where not is_during and is_decode) as batch_before,
    median(generation_requests) filter (where is_during and is_decode) as batch_during,
    median(kv_used_ratio) filter (where not is_during) as kv_before_ratio,
    median(kv_used_ratio) filter (where is_during) as kv_during_ratio
from compared
group by level, replica_id, jump_no
