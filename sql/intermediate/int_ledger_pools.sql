-- what:  KV pools of each engine: how much they hold and how much running requests took at most.
-- grain: one row per level, replica and pool
-- key:   level, replica_id, pool
-- columns:
--   level            VARCHAR  level of a sweep, null when the run has one level
--   replica_id       VARCHAR  engine replica
--   facts_level      VARCHAR  level to look settings up with
--   pool             VARCHAR  device, offload or remote
--   tier             VARCHAR  memory that holds it: hbm, host, remote, or host_offload on a CPU engine
--   use_origin       VARCHAR  series that shows the peak, null when none does
--   size_reason      VARCHAR  why bytes are unknown, null when they are known
--   capacity_tokens  BIGINT   [tokens] that it holds, null when unknown
--   capacity_bytes   BIGINT   [bytes] on one GPU, null when unknown
--   used_tokens      BIGINT   [tokens] at the peak, null when unknown
--   used_bytes       BIGINT   [bytes] at the peak on one GPU, null when unknown
--   tail_tokens      BIGINT   [tokens] of that in last blocks that are not full, half a block per
--                             running request; null when requests or block size are unknown
--   cached_tokens    BIGINT   [tokens] of prefixes kept beside those used, null when not stated
--   used_ratio       DOUBLE   0-1 at the peak
--   running_at_peak  DOUBLE   requests running at the peak, null when not counted
--   running_peak     DOUBLE   most requests running
--   block_size       DOUBLE   [tokens] per block
--   waiting_samples  BIGINT   samples in which requests waited
--   full_samples     BIGINT   of these, samples with the pool at its ceiling
-- notes: a CPU engine keeps its device pool in host memory; its tier says so. Block tails only where
--        blocks are what the engine counts. A remote store is known in bytes.
with

places as (

    select * from int_ledger_places

),

sizes as (

    select * from int_model_sizes

),

use as (

    select * from int_ledger_kv_use

),

devices as (

    select
        level,
        bool_or(value = 'cpu') as is_cpu
    from int_settings_effective
    where name = 'device_type'
    group by level

),

device_pools as (

    select
        places.level,
        places.replica_id,
        places.facts_level,
        'device' as pool,
        case when coalesce(devices.is_cpu, false) then 'host' else 'hbm' end as tier,
        use.origin as use_origin,
        sizes.kv_reason,
        coalesce(sizes.kv_capacity_tokens, use.capacity_tokens) as capacity_tokens,
        sizes.kv_pool_bytes as stated_bytes,
        sizes.kv_bytes_per_token_gpu as token_bytes,
        use.used_ratio_peak,
        use.used_tokens_peak,
        use.used_bytes_peak,
        use.semantics,
        use.cached_ratio,
        use.running_at_peak,
        use.running_peak,
        sizes.block_size,
        use.waiting_samples,
        use.full_samples
    from places
    left join sizes on places.facts_level is not distinct from sizes.level
    left join devices on places.facts_level is not distinct from devices.level
    left join use
        on
            places.level is not distinct from use.level
            and places.replica_id = use.replica_id
            and use.tier = 'hbm'

),

offload_pools as (

    select
        places.level,
        places.replica_id,
        places.facts_level,
        'offload' as pool,
        case when coalesce(devices.is_cpu, false) then 'host_offload' else 'host' end as tier,
        use.origin as use_origin,
        sizes.kv_reason,
        coalesce(sizes.host_capacity_tokens, use.capacity_tokens) as capacity_tokens,
        sizes.host_pool_bytes as stated_bytes,
        sizes.kv_bytes_per_token_gpu as token_bytes,
        use.used_ratio_peak,
        use.used_tokens_peak,
        use.used_bytes_peak,
        use.semantics,
        use.cached_ratio,
        use.running_at_peak,
        use.running_peak,
        sizes.block_size,
        use.waiting_samples,
        use.full_samples
    from places
    left join sizes on places.facts_level is not distinct from sizes.level
    left join devices on places.facts_level is not distinct from devices.level
    left join use
        on
            places.level is not distinct from use.level
            and places.replica_id = use.replica_id
            and use.tier = 'host'
    where sizes.host_capacity_tokens > 0 or use.used_ratio_peak is not null

),

remote_pools as (

    select
        level,
        coalesce(nullif(replica_id, ''), '0') as replica_id,
        level as facts_level,
        'remote' as pool,
        'remote' as tier,
        any_value(tier) as use_origin,
        'a store outside the engine counts bytes' as kv_reason,
        cast(null as double) as capacity_tokens,
        cast(max(capacity_bytes) as double) as stated_bytes,
        cast(null as double) as token_bytes,
        max(used_bytes / nullif(capacity_bytes, 0)) as used_ratio_peak,
        cast(null as double) as used_tokens_peak,
        cast(max(used_bytes) as double) as used_bytes_peak,
        cast(null as varchar) as semantics,
        cast(null as double) as cached_ratio,
        cast(null as double) as running_at_peak,
        cast(null as double) as running_peak,
        cast(null as double) as block_size,
        cast(null as bigint) as waiting_samples,
        cast(null as bigint) as full_samples
    from stg_log__tier_samples
    where capacity_bytes > 0
    group by level, coalesce(nullif(replica_id, ''), '0')

),

pools as (

    select * from device_pools
    union all
    select * from offload_pools
    union all
    select * from remote_pools

),

counted as (

    select
        *,
        cast(round(capacity_tokens) as bigint) as whole_capacity_tokens,
        cast(round(coalesce(capacity_tokens * token_bytes, stated_bytes)) as bigint)
            as capacity_bytes,
        cast(round(coalesce(used_tokens_peak, used_ratio_peak * capacity_tokens)) as bigint)
            as used_tokens
    from pools

)

select
    level,
    replica_id,
    facts_level,
    pool,
    tier,
    use_origin,
    case
        when capacity_bytes is not null then null
        when capacity_tokens is null then 'no file states how many tokens the KV cache holds'
        else coalesce(kv_reason, 'the shape of the model is not stated')
    end as size_reason,
    whole_capacity_tokens as capacity_tokens,
    capacity_bytes,
    used_tokens,
    cast(
        round(
            coalesce(
                used_tokens * token_bytes, used_ratio_peak * capacity_bytes, used_bytes_peak
            )
        ) as bigint
    ) as used_bytes,
    case
        when
            pool = 'device'
            and used_tokens is not null
            and running_at_peak * (block_size - 1) > 0
            and semantics in ('referenced_blocks', 'used_blocks')
            then cast(
                round(least(running_at_peak * (block_size - 1) / 2, used_tokens)) as bigint
            )
    end as tail_tokens,
    cast(round(cached_ratio * whole_capacity_tokens) as bigint) as cached_tokens,
    coalesce(used_ratio_peak, used_tokens / nullif(whole_capacity_tokens, 0)) as used_ratio,
    running_at_peak,
    running_peak,
    block_size,
    waiting_samples,
    full_samples
from counted
