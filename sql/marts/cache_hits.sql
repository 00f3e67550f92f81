-- what:  Prompt tokens looked up in the prefix cache and found, by tier.
-- grain: one row per level, replica, tier, origin and interval
-- key:   level, replica_id, tier, origin, source_id, interval_no
-- columns:
--   level          VARCHAR  level of a sweep, null when the run has one level
--   replica_id     VARCHAR  engine replica
--   source_id      INTEGER  file
--   tier           VARCHAR  hbm, host (offloading in the engine) or remote (another connector)
--   origin         VARCHAR  counters, metrics (ready ratio) or log (printed lookups, or a printed ratio)
--   lookup_tokens  BIGINT   [tokens] looked up in the interval, null when only a ratio is known
--   hit_tokens     BIGINT   [tokens] found in the interval, null when only a ratio is known
--   hit_ratio      DOUBLE   found / looked up, 0-1; null when nothing was looked up
--   interval_no    BIGINT   scrape or line that ends the interval
--   ts_ns          BIGINT   [ns] start of the interval
--   end_ns         BIGINT   [ns] end of the interval
-- notes: sum(hit_tokens) / sum(lookup_tokens) is the rate between the first and the last scrape. A
--        hit says that the token was not computed again, not that its KV is near. Ratios stand in
--        only for tiers that no counter covers; the latest one is the best.
with

counted as (

    select
        level,
        replica_id,
        source_id,
        tier,
        'counters' as origin,
        cast(sum(tokens) filter (where role = 'lookup') as bigint) as lookup_tokens,
        cast(sum(tokens) filter (where role = 'hit') as bigint) as hit_tokens,
        scrape_no as interval_no,
        min(ts_ns) as ts_ns,
        max(end_ns) as end_ns
    from int_cache_steps
    group by level, replica_id, source_id, tier, scrape_no

),

used as (

    select
        *,
        sum(lookup_tokens) over (partition by level, replica_id, tier) as tier_lookup_tokens
    from counted

),

from_counters as (

    select
        level,
        replica_id,
        source_id,
        tier,
        origin,
        lookup_tokens,
        hit_tokens,
        case
            when lookup_tokens > 0 then least(hit_tokens / lookup_tokens, 1.0)
        end as hit_ratio,
        interval_no,
        ts_ns,
        end_ns
    from used
    where tier = 'hbm' or tier_lookup_tokens > 0

),

-- a request that is not admitted is looked up again in every step: its first answer counts
first_lookups as (

    select
        level,
        replica_id,
        source_id,
        case when tier = 'hbm' then 'hbm' else 'external' end as tier,
        lookup_tokens - coalesce(engine_tokens, 0) as lookup_tokens,
        greatest(hit_tokens - coalesce(engine_tokens, 0), 0) as hit_tokens,
        line_no as interval_no,
        ts_ns
    from stg_log__cache_lookups
    where lookup_tokens > coalesce(engine_tokens, 0) and hit_tokens is not null
    qualify
        request_id is null
        or row_number() over (
            partition by source_id, replica_id, tier, request_id order by line_no
        ) = 1

),

from_lookups as (

    select
        level,
        replica_id,
        source_id,
        tier,
        'log' as origin,
        lookup_tokens,
        least(hit_tokens, lookup_tokens) as hit_tokens,
        least(hit_tokens / lookup_tokens, 1.0) as hit_ratio,
        interval_no,
        coalesce(
            lag(ts_ns) over (
                partition by source_id, level, replica_id, tier order by ts_ns, interval_no
            ),
            ts_ns
        ) as ts_ns,
        ts_ns as end_ns
    from first_lookups
    where not exists (
        select 1 from from_counters
        where
            from_counters.level is not distinct from first_lookups.level
            and from_counters.tier = first_lookups.tier
    )

),

printed as (

    select
        *,
        bool_or(origin = 'metrics') over (partition by level, tier) as has_exposed
    from int_cache_printed

),

from_ratios as (

    select
        printed.level,
        printed.replica_id,
        printed.source_id,
        printed.tier,
        printed.origin,
        cast(null as bigint) as lookup_tokens,
        cast(null as bigint) as hit_tokens,
        printed.hit_ratio,
        printed.sample_no as interval_no,
        printed.ts_ns,
        printed.end_ns
    from printed
    where
        (printed.origin = 'metrics' or not printed.has_exposed)
        and not exists (
            select 1 from from_counters
            where
                from_counters.level is not distinct from printed.level
                and from_counters.tier = printed.tier
        )
        and not exists (
            select 1 from from_lookups
            where
                from_lookups.level is not distinct from printed.level
                and from_lookups.tier = printed.tier
        )

),

together as (

    select * from from_counters
    union all
    select * from from_lookups
    union all
    select * from from_ratios

),

offload_signs as (

    select distinct name from int_metric_values
    union all
    select name from int_settings_effective
    where name = 'host_kv_bytes' and number > 0
    union all
    select value as name from int_settings_effective
    where name = 'kv_connector'

),

offloading as (

    select count(*) > 0 as is_native
    from offload_signs
    where
        name = 'host_kv_bytes'
        or regexp_matches(name, '^vllm:(simple_)?kv_offload')
        or regexp_matches(lower(name), 'offload.*connector')

)

select
    together.level,
    together.replica_id,
    together.source_id,
    case
        when together.tier <> 'external' then together.tier
        when offloading.is_native then 'host'
        else 'remote'
    end as tier,
    together.origin,
    together.lookup_tokens,
    together.hit_tokens,
    together.hit_ratio,
    together.interval_no,
    together.ts_ns,
    together.end_ns
from together
cross join offloading
