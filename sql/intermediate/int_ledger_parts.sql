-- what:  Known parts of each memory that holds KV, before the rest and the total.
-- grain: one row per level, replica, tier and line
-- key:   level, replica_id, tier, line
-- columns:
--   level         VARCHAR  level of a sweep, null when the run has one level
--   replica_id    VARCHAR  engine replica
--   tier          VARCHAR  hbm, host, host_offload or remote
--   line          VARCHAR  weights, kv_used_peak, kv_block_tails, kv_cached, kv_free, kv_pool,
--                          activations, cuda_graphs or non_torch
--   meaning       VARCHAR  what the line is, or why it is unknown
--   origin        VARCHAR  file or rule that the line comes from
--   memory_origin VARCHAR  file that states the size of the memory
--   size_reason   VARCHAR  why the bytes of the pool are unknown, null when they are known
--   bytes         BIGINT   [bytes] on one GPU, null when unknown
--   tokens        BIGINT   [tokens] of KV, null for other lines
--   memory_bytes  BIGINT   [bytes] size of the memory, null when unknown or not a GPU's
--   limit_ratio   DOUBLE   share of the memory that the engine may take, null when not stated
--   line_no       INTEGER  order
-- notes: kv_pool stands in for used and free when no occupancy was recorded. The tokens of a request
--        end inside its last block: half a block per running request is booked apart. Parts beside the KV
--        appear where the size of the memory is known. An old engine states the peak of its
--        framework with the weights in it; they are taken off.
with

given as (

    select
        level,
        map_from_entries(list((name, number) order by name)) as numbers,
        map_from_entries(list((name, origin) order by name)) as origins
    from int_settings_effective
    group by level

),

stated as (

    select
        level,
        numbers['activation_memory_bytes'] as activation_bytes,
        numbers['peak_torch_memory_bytes'] as framework_peak_bytes,
        numbers['non_torch_memory_bytes'] as non_torch_bytes,
        numbers['gpu_memory_utilization'] as limit_ratio,
        coalesce(origins['activation_memory_bytes'], origins['peak_torch_memory_bytes'])
            as activation_origin,
        origins['non_torch_memory_bytes'] as non_torch_origin
    from given

),

captures as (

    select
        level,
        max(bytes) as graph_bytes
    from stg_log__events
    where kind = 'graph_capture' and bytes > 0
    group by level

),

gathered as (

    select
        pools.*,
        sizes.weight_bytes,
        sizes.weight_origin,
        sizes.weight_reason,
        gpu.memory_origin,
        cast(round(gpu.memory_bytes) as bigint) as memory_bytes,
        stated.limit_ratio,
        coalesce(stated.activation_bytes, stated.framework_peak_bytes - sizes.weight_bytes)
            as activation_bytes,
        stated.activation_origin,
        captures.graph_bytes,
        stated.non_torch_bytes,
        stated.non_torch_origin,
        pools.used_tokens is not null or pools.used_bytes is not null as is_watched,
        coalesce(pools.tail_tokens, 0) as booked_tail_tokens,
        cast(
            round(
                coalesce(pools.tail_tokens, 0) * cast(pools.used_bytes as double)
                / nullif(pools.used_tokens, 0)
            ) as bigint
        ) as tail_bytes,
        case
            when pools.cached_tokens > pools.capacity_tokens - pools.used_tokens
                then pools.capacity_tokens - pools.used_tokens
            else pools.cached_tokens
        end as booked_cached_tokens,
        gpu.memory_bytes is not null as is_sized
    from int_ledger_pools as pools
    left join int_model_sizes as sizes on pools.facts_level is not distinct from sizes.level
    left join int_gpu_facts as gpu
        on pools.facts_level is not distinct from gpu.level and pools.tier = 'hbm'
    left join stated on pools.facts_level is not distinct from stated.level
    left join captures on pools.level is not distinct from captures.level

),

booked as (

    select
        *,
        cast(
            round(
                booked_cached_tokens * cast(capacity_bytes as double) / nullif(capacity_tokens, 0)
            ) as bigint
        ) as cached_bytes
    from gathered

),

listed as (

    select
        level,
        replica_id,
        tier,
        memory_origin,
        size_reason,
        memory_bytes,
        limit_ratio,
        unnest([
            case when is_sized then ledger_line(
                1,
                'weights',
                coalesce(
                    weight_reason || '; they are part of the rest',
                    'model weights, read in every step'
                ),
                weight_origin,
                bytes := weight_bytes
            ) end,
            case when is_watched then ledger_line(
                2,
                'kv_used_peak',
                if(
                    pool = 'device',
                    'KV of running requests at the highest occupancy seen',
                    'KV moved out of the device at the highest occupancy seen'
                ),
                use_origin,
                bytes := used_bytes - coalesce(tail_bytes, 0),
                tokens := used_tokens - booked_tail_tokens
            ) end,
            case when is_watched and booked_tail_tokens > 0 then ledger_line(
                3,
                'kv_block_tails',
                'room in the last blocks of running requests, estimated as half a block each',
                'requests running then x block size',
                bytes := tail_bytes,
                tokens := booked_tail_tokens
            ) end,
            case when is_watched and booked_cached_tokens > 0 then ledger_line(
                4,
                'kv_cached',
                'cached prefixes that no running request used then; evicted when room is needed',
                'sglang:kv_evictable_tokens',
                bytes := cached_bytes,
                tokens := booked_cached_tokens
            ) end,
            case when is_watched then ledger_line(
                5,
                'kv_free',
                case
                    when pool <> 'device' then 'room that was left then'
                    when booked_cached_tokens is not null then 'KV room that nothing used then'
                    else 'KV blocks that nobody referenced then; cached prefixes may lie in them'
                end,
                use_origin,
                bytes := capacity_bytes - used_bytes - coalesce(cached_bytes, 0),
                tokens := capacity_tokens - used_tokens - coalesce(booked_cached_tokens, 0)
            ) end,
            case when not is_watched then ledger_line(
                5,
                'kv_pool',
                coalesce(size_reason, 'KV pool; its use was not recorded'),
                'settings',
                bytes := capacity_bytes,
                tokens := capacity_tokens
            ) end,
            case when is_sized and activation_bytes is not null then ledger_line(
                6,
                'activations',
                'peak of the activations in the profiling step',
                activation_origin,
                bytes := activation_bytes
            ) end,
            case when is_sized and graph_bytes is not null then ledger_line(
                7,
                'cuda_graphs',
                'memory that capturing CUDA graphs took',
                'engine log',
                bytes := graph_bytes
            ) end,
            case when is_sized and non_torch_bytes is not null then ledger_line(
                8,
                'non_torch',
                'driver, NCCL and other memory outside the framework',
                non_torch_origin,
                bytes := non_torch_bytes
            ) end
        ]) as entry
    from booked

)

select
    level,
    replica_id,
    tier,
    listed.entry.line,
    listed.entry.meaning,
    listed.entry.origin,
    memory_origin,
    size_reason,
    listed.entry.bytes,
    listed.entry.tokens,
    memory_bytes,
    limit_ratio,
    listed.entry.line_no
from listed
where listed.entry.line is not null
