-- what:  The KV-cache occupancy curve.
-- grain: one row per time, replica and tier
-- key:   level, replica_id, tier, ts_ns
-- columns:
--   level            VARCHAR  level of a sweep, null when the run has one level
--   replica_id       VARCHAR  engine replica
--   tier             VARCHAR  hbm, host or remote
--   origin           VARCHAR  metrics, iterations or log
--   semantics        VARCHAR  what counts as used: referenced_blocks, live_tokens, used_blocks or reserved_tokens
--   used_ratio       DOUBLE   used share of the tier, 0-1
--   used_tokens      DOUBLE   [tokens] used, null when the size is unknown
--   used_bytes       DOUBLE   [bytes] used, null when the size is unknown
--   capacity_tokens  BIGINT   [tokens] size of the tier, null when unknown
--   running_count    BIGINT   requests running, null when not stated
--   waiting_count    BIGINT   requests waiting, null when not stated
--   ts_ns            BIGINT   [ns] run clock
-- notes: one origin per replica: scrapes when they come at least every 1.5 s, else the iteration log, else the statistics lines. Levels of different semantics must not be compared.
with

sized as (

    select
        levels.level,
        sizes.kv_capacity_tokens as capacity_tokens,
        sizes.kv_pool_bytes as capacity_bytes
    from (select distinct level from int_kv_samples) as levels
    left join int_model_sizes as sizes on levels.level is not distinct from sizes.level

),

quality as (

    select
        level,
        replica_id,
        source_id,
        origin,
        case
            when origin = 'metrics' and median(interval_ns) <= 1500000000 then 1
            -- statistics of every step know the queue, too
            when origin = 'log' and median(interval_ns) <= 200000000 then 2
            when origin = 'iterations' then 3
            when origin = 'metrics' then 4
            else 5
        end as preference
    from int_kv_samples
    where kv_used_ratio is not null
    group by level, replica_id, source_id, origin

),

chosen as (

    select
        *,
        min(preference) over (partition by level, replica_id) as best_preference
    from quality

),

on_device as (

    select
        samples.level,
        samples.replica_id,
        'hbm' as tier,
        any_value(samples.origin) as origin,
        max(samples.semantics) as semantics,
        max(samples.kv_used_ratio) as used_ratio,
        cast(max(samples.running_count) as bigint) as running_count,
        cast(max(samples.waiting_count) as bigint) as waiting_count,
        samples.ts_ns
    from int_kv_samples as samples
    inner join chosen
        on
            samples.source_id = chosen.source_id
            and samples.replica_id = chosen.replica_id
            and samples.level is not distinct from chosen.level
            and samples.origin = chosen.origin
    where chosen.preference = chosen.best_preference and samples.kv_used_ratio is not null
    group by samples.level, samples.replica_id, samples.ts_ns

),

scraped_host as (

    select
        metrics.level,
        metrics.replica_id,
        'host' as tier,
        'metrics' as origin,
        max(roles.semantics) as semantics,
        coalesce(
            max(metrics.value * roles.scale) filter (where roles.role = 'host_used_ratio'),
            max(metrics.value * roles.scale) filter (where roles.role = 'host_used')
            / nullif(max(metrics.value) filter (where roles.role = 'host_capacity'), 0)
        ) as used_ratio,
        cast(null as bigint) as running_count,
        cast(null as bigint) as waiting_count,
        metrics.ts_ns
    from int_metric_values as metrics
    inner join metric_roles as roles on metrics.name = roles.name
    where roles.role in ('host_used_ratio', 'host_used', 'host_capacity')
    group by metrics.level, metrics.replica_id, metrics.ts_ns

),

logged_host as (

    select
        level,
        replica_id,
        'host' as tier,
        'log' as origin,
        max(semantics) as semantics,
        max(host_kv_used_ratio) as used_ratio,
        cast(max(running_count) as bigint) as running_count,
        cast(max(waiting_count) as bigint) as waiting_count,
        ts_ns
    from stg_log__stats
    where
        host_kv_used_ratio is not null
        and not exists (select 1 from scraped_host where scraped_host.used_ratio > 0)
    group by level, replica_id, ts_ns

),

on_host as (

    -- an engine without a host tier exposes a gauge that stays 0 all along
    select *
    from scraped_host
    qualify max(used_ratio) over (partition by level, replica_id) > 0
    union all
    select * from logged_host

)

select
    tiers.level,
    tiers.replica_id,
    tiers.tier,
    tiers.origin,
    tiers.semantics,
    tiers.used_ratio,
    case when tiers.tier = 'hbm' then tiers.used_ratio * sized.capacity_tokens end as used_tokens,
    case when tiers.tier = 'hbm' then tiers.used_ratio * sized.capacity_bytes end as used_bytes,
    case when tiers.tier = 'hbm' then cast(sized.capacity_tokens as bigint) end as capacity_tokens,
    tiers.running_count,
    tiers.waiting_count,
    tiers.ts_ns
from (
    select * from on_device
    union all
    select * from on_host
) as tiers
left join sized on tiers.level is not distinct from sized.level
