-- what:  KV pools of each engine: how much they hold and how much running requests took at most.
-- grain: one row per level, replica and pool
-- key:   level, replica_id, pool
-- columns:
--   level            VARCHAR  level of a sweep, null when the run has one level
--   replica_id       VARCHAR  engine replica
--   facts_level      VARCHAR  level to look settings up with
--   pool             VARCHAR  device or offload
--   tier             VARCHAR  memory that holds it: hbm, host, or host_offload on a CPU engine
--   use_origin       VARCHAR  series that shows the peak, null when none does
--   size_reason      VARCHAR  why bytes are unknown, null when they are known
--   capacity_tokens  BIGINT   [tokens] that it holds, null when unknown
--   capacity_bytes   BIGINT   [bytes] on one GPU, null when unknown
--   used_tokens      BIGINT   [tokens] at the peak, null when unknown
--   used_bytes       BIGINT   [bytes] at the peak on one GPU, null when unknown
--   used_ratio       DOUBLE   0-1 at the peak
-- notes: a CPU engine keeps its device pool in host memory; its tier says so.
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
        use.used_tokens_peak
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
        use.used_tokens_peak
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

pools as (

    select * from device_pools
    union all
    select * from offload_pools

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
    cast(round(coalesce(used_tokens * token_bytes, used_ratio_peak * capacity_bytes)) as bigint)
        as used_bytes,
    coalesce(used_ratio_peak, used_tokens / nullif(whole_capacity_tokens, 0)) as used_ratio
from counted
