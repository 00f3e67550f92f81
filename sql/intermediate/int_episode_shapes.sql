-- what:  How KV and latency moved before each episode, what KV lacked at its peak, and what came after.
-- grain: one row per episode
-- key:   level, replica_id, episode_no
-- columns:
--   level               VARCHAR  level of a sweep, null when the run has one level
--   replica_id          VARCHAR  engine replica
--   episode_no          BIGINT   episode in the level and replica
--   recovery            VARCHAR  recovered, slower_after (KV has room again, steps stay slow) or not_seen; null when nothing tells
--   missing_kv_ratio    DOUBLE   share of the cache that the requests waiting at the worst moment lacked, null when queues are unknown
--   kv_rise_per_s       DOUBLE   [1/s] growth of KV occupancy on the ramp before, null without one
--   kv_itl_correlation  DOUBLE   correlation of KV occupancy and median ITL before, null when one of them stood still
--   ramp_ceiling_ns     BIGINT   [ns] when that ramp reaches the ceiling, null without one
-- notes: the ramp is the shape_before_s ahead of the first sample near full. Near 1 both rise together, as decode that reads more KV each step does; the jump itself is left out. Missing KV is the mean footprint times the requests that wait although slots are free, less what is free.
with

spans as (

    select
        *,
        pressure_at_ns - cast(threshold('shape_before_s') * 1e9 as bigint) as before_ns
    from int_episode_spans

),

samples as (

    select * from int_kv_pressure where kv_used_ratio is not null

),

-- one source per replica: the finest
chosen as (

    select
        level,
        replica_id,
        arg_min(source_id, (interval_ns, source_id, origin)) as source_id,
        arg_min(origin, (interval_ns, source_id, origin)) as origin
    from samples
    where interval_ns is not null
    group by level, replica_id

),

-- few next to all samples: buckets are looked for among those before their own episode
near as materialized (

    select
        spans.level,
        spans.replica_id,
        spans.episode_no,
        samples.kv_used_ratio,
        samples.ts_ns
    from spans
    inner join chosen
        on
            spans.replica_id = chosen.replica_id
            and spans.level is not distinct from chosen.level
    inner join samples
        on
            chosen.source_id = samples.source_id
            and chosen.replica_id = samples.replica_id
            and chosen.origin = samples.origin
            and samples.ts_ns between spans.before_ns and spans.pressure_at_ns
    where samples.running_count > 0

),

buckets as (

    select
        spans.level,
        spans.replica_id,
        spans.episode_no,
        any_value(spans.pressure_at_ns) as pressure_at_ns,
        latency.ts_ns,
        any_value(latency.ts_ns - spans.pressure_at_ns) / 1e9 as second,
        any_value(latency.itl_p50_ms) as itl_p50_ms,
        favg(near.kv_used_ratio) as kv_used_ratio
    from spans
    inner join token_latency as latency
        on
            spans.replica_id = latency.replica_id
            and spans.level is not distinct from latency.level
            and spans.before_ns <= latency.ts_ns
            and spans.pressure_at_ns >= latency.ts_ns + latency.bucket_ns
    inner join near
        on
            spans.replica_id = near.replica_id
            and spans.level is not distinct from near.level
            and spans.episode_no = near.episode_no
            and latency.ts_ns <= near.ts_ns
            and latency.ts_ns + latency.bucket_ns > near.ts_ns
    group by spans.level, spans.replica_id, spans.episode_no, latency.ts_ns

),

means as (

    select
        *,
        max(pressure_at_ns) over episode as ramp_end_ns,
        favg(second) over episode as mean_second,
        favg(kv_used_ratio) over episode as mean_kv,
        favg(itl_p50_ms) over episode as mean_itl,
        count(*) over episode as bucket_count
    from buckets
    window episode as (partition by level, replica_id, episode_no)

),

sums as (

    select
        level,
        replica_id,
        episode_no,
        any_value(bucket_count) as bucket_count,
        any_value(ramp_end_ns) as ramp_end_ns,
        any_value(mean_second) as mean_second,
        any_value(mean_kv) as mean_kv,
        count(itl_p50_ms) as itl_count,
        fsum((second - mean_second) * (second - mean_second)) as second_square,
        fsum((kv_used_ratio - mean_kv) * (kv_used_ratio - mean_kv)) as kv_square,
        fsum((itl_p50_ms - mean_itl) * (itl_p50_ms - mean_itl)) as itl_square,
        fsum((second - mean_second) * (kv_used_ratio - mean_kv)) as second_kv,
        fsum((kv_used_ratio - mean_kv) * (itl_p50_ms - mean_itl)) as kv_itl,
        max(kv_used_ratio) - min(kv_used_ratio) as kv_range_ratio
    from means
    group by level, replica_id, episode_no

),

ramps as (

    select
        level,
        replica_id,
        episode_no,
        case
            when
                bucket_count >= threshold('jump_min_buckets')
                and kv_range_ratio >= threshold('kv_flat_ratio')
                and second_kv > 0
                -- a straight line explains most of it
                and second_kv * second_kv >= 0.5 * second_square * kv_square
                then round(second_kv / second_square, 6)
        end as kv_rise_per_s,
        case
            when
                itl_count >= threshold('jump_min_buckets')
                and kv_range_ratio >= threshold('kv_flat_ratio')
                and itl_square > 0
                then round(kv_itl / sqrt(kv_square * itl_square), 4)
        end as kv_itl_correlation,
        ramp_end_ns,
        mean_second,
        mean_kv
    from sums

),

lacking as (

    select
        spans.level,
        spans.replica_id,
        spans.episode_no,
        max(
            least(samples.waiting_count, limits.running_limit - samples.running_count)
            * samples.kv_footprint_ratio
            - (1 - samples.kv_used_ratio)
        ) filter (where samples.waiting_count >= 1) as missing_kv_ratio
    from spans
    inner join samples
        on
            spans.replica_id = samples.replica_id
            and spans.level is not distinct from samples.level
            and samples.ts_ns between spans.pressure_at_ns and spans.end_ns
    inner join int_engine_limits as limits
        on
            spans.replica_id = limits.replica_id
            and spans.level is not distinct from limits.level
    group by spans.level, spans.replica_id, spans.episode_no

),

paces as (

    select
        spans.level,
        spans.replica_id,
        spans.episode_no,
        any_value(spans.recovered_at_ns) as recovered_at_ns,
        median(latency.itl_p50_ms) filter (
            where latency.ts_ns + latency.bucket_ns <= spans.pressure_at_ns
        ) as before_ms,
        count(*) filter (where latency.ts_ns + latency.bucket_ns <= spans.pressure_at_ns)
            as before_count,
        median(latency.itl_p50_ms) filter (where latency.ts_ns >= spans.recovered_at_ns)
            as after_ms,
        count(*) filter (where latency.ts_ns >= spans.recovered_at_ns) as after_count
    from spans
    left join token_latency as latency
        on
            spans.replica_id = latency.replica_id
            and spans.level is not distinct from latency.level
            and latency.itl_p50_ms is not null
            and spans.before_ns <= latency.ts_ns
            and latency.ts_ns
            <= spans.recovered_at_ns + cast(threshold('shape_before_s') * 1e9 as bigint)
    group by spans.level, spans.replica_id, spans.episode_no

)

select
    spans.level,
    spans.replica_id,
    spans.episode_no,
    case
        when spans.recovered_at_ns is null then 'not_seen'
        when
            paces.before_count >= threshold('jump_min_buckets')
            and paces.after_count >= threshold('jump_min_buckets')
            and paces.after_ms >= threshold('jump_median_factor') * paces.before_ms
            then 'slower_after'
        else 'recovered'
    end as recovery,
    case when lacking.missing_kv_ratio is not null then greatest(lacking.missing_kv_ratio, 0) end
        as missing_kv_ratio,
    ramps.kv_rise_per_s,
    ramps.kv_itl_correlation,
    cast(
        ramps.ramp_end_ns
        + 1e9 * (ramps.mean_second + (1 - ramps.mean_kv) / nullif(ramps.kv_rise_per_s, 0)) as bigint
    ) as ramp_ceiling_ns
from spans
left join ramps
    on
        spans.replica_id = ramps.replica_id
        and spans.level is not distinct from ramps.level
        and spans.episode_no = ramps.episode_no
left join lacking
    on
        spans.replica_id = lacking.replica_id
        and spans.level is not distinct from lacking.level
        and spans.episode_no = lacking.episode_no
left join paces
    on
        spans.replica_id = paces.replica_id
        and spans.level is not distinct from paces.level
        and spans.episode_no = paces.episode_no
