-- what:  Where the memory that holds KV went.
-- grain: one row per level, replica, tier and line
-- key:   level, replica_id, tier, line
-- columns:
--   level       VARCHAR  level of a sweep, null when the run has one level
--   replica_id  VARCHAR  engine replica
--   tier        VARCHAR  hbm; host (offloaded KV, or all KV of a CPU engine); host_offload; remote
--   line        VARCHAR  parts: weights, kv_used_peak, kv_block_tails, kv_cached, kv_free or kv_pool,
--                        activations, cuda_graphs, non_torch, beyond_limit, rest; total; beside it:
--                        per_request, requests_fit, admission, pool_check, pool_printed,
--                        device_used
--   meaning     VARCHAR  what the line is, or why it is unknown
--   origin      VARCHAR  file or rule that the line comes from
--   bytes       BIGINT   [bytes] of one GPU, null when unknown
--   tokens      BIGINT   [tokens] of KV, null for other lines
--   request_count BIGINT per_request: requests running then; requests_fit: requests that fit;
--                        admission: max_num_seqs; null for other lines
--   share       DOUBLE   of the total's bytes, or of its tokens when bytes are unknown; null for lines
--                        that are no parts
--   is_part     BOOLEAN  the line is a part of total
--   line_no     INTEGER  order
-- notes: the parts add up to total exactly; rest is the difference, and negative when stated
--        facts contradict each other. Without the size of the memory, total is that of the KV pool
--        and weights and other parts are left out. Lines beside the total hold it against requests,
--        limits and telemetry.
with

parts as (

    select * from int_ledger_parts

),

sums as (

    select
        level,
        replica_id,
        tier,
        any_value(memory_origin) as memory_origin,
        any_value(size_reason) as size_reason,
        cast(sum(bytes) as bigint) as part_bytes,
        cast(sum(tokens) as bigint) as part_tokens,
        any_value(memory_bytes) as memory_bytes,
        any_value(memory_bytes) - coalesce(cast(sum(bytes) as bigint), 0) as open_bytes,
        cast(floor(any_value(memory_bytes) * (1 - any_value(limit_ratio))) as bigint)
            as forbidden_bytes,
        bool_or(bytes is null) as has_unknown
    from parts
    group by level, replica_id, tier

),

explained as (

    select
        *,
        case
            when forbidden_bytes is null then 0
            else greatest(least(forbidden_bytes, open_bytes), 0)
        end as beyond_bytes
    from sums

),

closing as (

    select
        level,
        replica_id,
        tier,
        unnest([
            case when beyond_bytes > 0 then ledger_line(
                9,
                'beyond_limit',
                'memory that gpu_memory_utilization keeps the engine from planning with',
                'settings',
                bytes := beyond_bytes
            ) end,
            case when memory_bytes is not null then ledger_line(
                10,
                'rest',
                case
                    when open_bytes < 0
                        then 'the stated parts exceed the memory: facts contradict each other'
                    when has_unknown
                        then 'not explained; holds the parts that are unknown above'
                    else 'not explained by any file'
                end,
                'total less the lines above',
                bytes := open_bytes - beyond_bytes
            ) end,
            ledger_line(
                11,
                'total',
                case
                    when memory_bytes is not null then 'memory of one GPU'
                    when tier = 'remote' then 'size of the store outside the engine'
                    when size_reason is not null
                        then 'KV pool in tokens; bytes unknown: ' || size_reason
                    else 'KV pool only: the size of the memory is not stated'
                end,
                coalesce(memory_origin, 'settings'),
                bytes := coalesce(memory_bytes, part_bytes),
                tokens := part_tokens
            )
        ]) as entry
    from explained

),

lines as (

    select
        level,
        replica_id,
        tier,
        line,
        meaning,
        origin,
        bytes,
        tokens,
        cast(null as bigint) as request_count,
        true as is_part,
        line_no
    from parts
    union all
    select
        level,
        replica_id,
        tier,
        closing.entry.line,
        closing.entry.meaning,
        closing.entry.origin,
        closing.entry.bytes,
        closing.entry.tokens,
        cast(null as bigint) as request_count,
        closing.entry.line <> 'total' as is_part,
        closing.entry.line_no
    from closing
    where closing.entry.line is not null
    union all
    select
        level,
        replica_id,
        tier,
        line,
        meaning,
        origin,
        bytes,
        tokens,
        request_count,
        false as is_part,
        line_no
    from int_ledger_checks

)

select
    level,
    replica_id,
    tier,
    line,
    meaning,
    origin,
    bytes,
    tokens,
    request_count,
    case
        when is_part or line = 'total'
            then coalesce(
                bytes / nullif(max(case when line = 'total' then bytes end) over memory, 0),
                case
                    when max(case when line = 'total' then bytes end) over memory is null
                        then
                            tokens
                            / nullif(max(case when line = 'total' then tokens end) over memory, 0)
                end
            )
    end as share,
    is_part,
    line_no
from lines
window memory as (partition by level, replica_id, tier)
