-- what:  Known parts of each memory that holds KV, before the rest and the total.
-- grain: one row per level, replica, tier and line
-- key:   level, replica_id, tier, line
-- columns:
--   level         VARCHAR  level of a sweep, null when the run has one level
--   replica_id    VARCHAR  engine replica
--   tier          VARCHAR  hbm, host or host_offload
--   line          VARCHAR  weights, kv_used_peak, kv_free, kv_pool, activations, cuda_graphs or
--                          non_torch
--   meaning       VARCHAR  what the line is, or why it is unknown
--   origin        VARCHAR  file or rule that the line comes from
--   memory_origin VARCHAR  file that states the size of the memory
--   size_reason   VARCHAR  why the bytes of the pool are unknown, null when they are known
--   bytes         BIGINT   [bytes] on one GPU, null when unknown
--   tokens        BIGINT   [tokens] of KV, null for other lines
--   memory_bytes  BIGINT   [bytes] size of the memory, null when unknown or not a GPU's
--   limit_ratio   DOUBLE   share of the memory that the engine may take, null when not stated
--   line_no       INTEGER  order
-- notes: kv_pool stands in for used and free when no occupancy was recorded. Parts beside the KV
--        appear where the size of the memory is known. An old engine states the peak of its
--        framework with the weights in it; they are taken off.
with

stated as (

    select
        level,
        max(number) filter (where name = 'activation_memory_bytes') as activation_bytes,
        max(number) filter (where name = 'peak_torch_memory_bytes') as framework_peak_bytes,
        max(number) filter (where name = 'non_torch_memory_bytes') as non_torch_bytes,
        max(number) filter (where name = 'gpu_memory_utilization') as limit_ratio,
        max(origin) filter (
            where name in ('activation_memory_bytes', 'peak_torch_memory_bytes')
        ) as activation_origin,
        max(origin) filter (where name = 'non_torch_memory_bytes') as non_torch_origin
    from int_settings_effective
    group by level

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
        gpu.memory_bytes is not null as is_sized
    from int_ledger_pools as pools
    left join int_model_sizes as sizes on pools.facts_level is not distinct from sizes.level
    left join int_gpu_facts as gpu
        on pools.facts_level is not distinct from gpu.level and pools.tier = 'hbm'
    left join stated on pools.facts_level is not distinct from stated.level
    left join captures on pools.level is not distinct from captures.level

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
                bytes := used_bytes,
                tokens := used_tokens
            ) end,
            case when is_watched then ledger_line(
                3,
                'kv_free',
                if(
                    pool = 'device',
                    'KV blocks that nobody referenced then; cached prefixes may lie in them',
                    'room that was left then'
                ),
                use_origin,
                bytes := capacity_bytes - used_bytes,
                tokens := capacity_tokens - used_tokens
            ) end,
            case when not is_watched then ledger_line(
                3,
                'kv_pool',
                coalesce(size_reason, 'KV pool; its use was not recorded'),
                'settings',
                bytes := capacity_bytes,
                tokens := capacity_tokens
            ) end,
            case when is_sized and activation_bytes is not null then ledger_line(
                4,
                'activations',
                'peak of the activations in the profiling step',
                activation_origin,
                bytes := activation_bytes
            ) end,
            case when is_sized and graph_bytes is not null then ledger_line(
                5,
                'cuda_graphs',
                'memory that capturing CUDA graphs took',
                'engine log',
                bytes := graph_bytes
            ) end,
            case when is_sized and non_torch_bytes is not null then ledger_line(
                6,
                'non_torch',
                'driver, NCCL and other memory outside the framework',
                non_torch_origin,
                bytes := non_torch_bytes
            ) end
        ]) as entry
    from gathered

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
