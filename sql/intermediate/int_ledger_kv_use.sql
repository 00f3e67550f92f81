-- what:  Highest and typical KV use of each engine and tier, and what held requests back.
-- grain: one row per level, replica and tier
-- key:   level, replica_id, tier
-- columns:
--   level              VARCHAR  level of a sweep, null when the run has one level
--   replica_id         VARCHAR  engine replica
--   tier               VARCHAR  hbm (the engine's own device, whatever it is), host or remote
--   origin             VARCHAR  series that shows the peak: iterations, metrics or log
--   semantics          VARCHAR  what counts as used at the peak
--   used_ratio_peak    DOUBLE   0-1, highest seen
--   used_ratio_median  DOUBLE   0-1, median of the samples with running requests
--   running_median     DOUBLE   requests running, median of the samples with running requests
--   running_at_peak    DOUBLE   requests running when the highest use was seen, null when not counted
--   running_peak       DOUBLE   most requests running
--   used_tokens_peak   DOUBLE   [tokens] highest seen, null when only ratios are known
--   used_bytes_peak    DOUBLE   [bytes] highest seen, null when only ratios are known
--   cached_ratio       DOUBLE   0-1 cached prefixes that nobody used at the peak, null when not stated
--   capacity_tokens    DOUBLE   [tokens] as the occupancy series knows it
--   waiting_samples    BIGINT   samples in which requests waited
--   full_samples       BIGINT   of these, samples without room for one more request like those running
-- notes: peaks are taken over all series of an engine, medians over the finest one. Where running
--        requests are not counted, samples with used KV stand in. Cached prefixes are stated by
--        SGLang from 0.5.12 only; other engines count their blocks as free.
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
        arg_max(semantics, (used_ratio, -ts_ns, origin)) as semantics,
        arg_max(ts_ns, (used_ratio, -ts_ns, origin)) as peak_ns,
        arg_max(running_count, (used_ratio, -ts_ns, origin)) as running_at_peak,
        max(running_count) as running_peak,
        max(used_ratio) as used_ratio_peak,
        cast(max(used_tokens) as double) as used_tokens_peak,
        cast(max(used_bytes) as double) as used_bytes_peak,
        cast(max(capacity_tokens) as double) as capacity_tokens,
        count(*) filter (where waiting_count > 0) as waiting_samples,
        count(*) filter (
            where
            waiting_count > 0
            and used_ratio >= threshold('kv_high_ratio')
            and used_ratio * (
                1 + threshold('kv_footprint_requests') / greatest(coalesce(running_count, 1), 1)
            ) >= 1
        ) as full_samples
    from samples
    group by level, replica_id, tier

),

cached as (

    select
        peaks.level,
        peaks.replica_id,
        max(metrics.value) filter (where metrics.name = 'sglang:kv_evictable_tokens')
        / nullif(
            max(metrics.value) filter (where metrics.name = 'sglang:max_total_num_tokens'), 0
        ) as cached_ratio
    from int_metric_values as metrics
    inner join peaks
        on
            metrics.level is not distinct from peaks.level
            and metrics.replica_id = peaks.replica_id
            and metrics.ts_ns = peaks.peak_ns
    where
        peaks.tier = 'hbm'
        and metrics.name in ('sglang:kv_evictable_tokens', 'sglang:max_total_num_tokens')
    group by peaks.level, peaks.replica_id

)

select
    peaks.level,
    peaks.replica_id,
    peaks.tier,
    peaks.origin,
    peaks.semantics,
    peaks.used_ratio_peak,
    typical.used_ratio_median,
    typical.running_median,
    cast(peaks.running_at_peak as double) as running_at_peak,
    cast(peaks.running_peak as double) as running_peak,
    peaks.used_tokens_peak,
    peaks.used_bytes_peak,
    case when peaks.tier = 'hbm' then cached.cached_ratio end as cached_ratio,
    peaks.capacity_tokens,
    peaks.waiting_samples,
    peaks.full_samples
from peaks
left join typical
    on
        peaks.level is not distinct from typical.level
        and peaks.replica_id = typical.replica_id
        and peaks.tier = typical.tier
left join cached
    on peaks.level is not distinct from cached.level and peaks.replica_id = cached.replica_id
