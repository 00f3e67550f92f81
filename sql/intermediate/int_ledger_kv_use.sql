-- what:  Highest and typical KV use of each engine and tier.
-- grain: one row per level, replica and tier
-- key:   level, replica_id, tier
-- columns:
--   level              VARCHAR  level of a sweep, null when the run has one level
--   replica_id         VARCHAR  engine replica
--   tier               VARCHAR  hbm (the engine's own device, whatever it is), host or remote
--   origin             VARCHAR  series that shows the peak: iterations, metrics or log
--   used_ratio_peak    DOUBLE   0-1, highest seen
--   used_ratio_median  DOUBLE   0-1, median of the samples with running requests
--   running_median     DOUBLE   requests running, median of the samples with running requests
--   used_tokens_peak   DOUBLE   [tokens] highest seen, null when only ratios are known
--   capacity_tokens    DOUBLE   [tokens] as the occupancy series knows it
-- notes: peaks are taken over all series of an engine, medians over the finest one. Where running
--        requests are not counted, samples with used KV stand in.
with

samples as (

    select * from kv_occupancy where used_ratio is not null

),

finest as (

    select
        level,
        replica_id,
        tier,
        arg_min(
            origin,
            case origin when 'iterations' then 1 when 'metrics' then 2 else 3 end
        ) as origin
    from samples
    group by level, replica_id, tier

),

typical as (

    select
        samples.level,
        samples.replica_id,
        samples.tier,
        quantile_cont(samples.used_ratio, 0.5) as used_ratio_median,
        quantile_cont(samples.running_count, 0.5) as running_median
    from samples
    inner join finest
        on
            samples.level is not distinct from finest.level
            and samples.replica_id = finest.replica_id
            and samples.tier = finest.tier
            and samples.origin = finest.origin
    where coalesce(samples.running_count, ceil(samples.used_ratio)) > 0
    group by samples.level, samples.replica_id, samples.tier

),

peaks as (

    select
        level,
        replica_id,
        tier,
        arg_max(origin, (used_ratio, -ts_ns, origin)) as origin,
        max(used_ratio) as used_ratio_peak,
        cast(max(used_tokens) as double) as used_tokens_peak,
        cast(max(capacity_tokens) as double) as capacity_tokens
    from samples
    group by level, replica_id, tier

)

select
    peaks.level,
    peaks.replica_id,
    peaks.tier,
    peaks.origin,
    peaks.used_ratio_peak,
    typical.used_ratio_median,
    typical.running_median,
    peaks.used_tokens_peak,
    peaks.capacity_tokens
from peaks
left join typical
    on
        peaks.level is not distinct from typical.level
        and peaks.replica_id = typical.replica_id
        and peaks.tier = typical.tier
