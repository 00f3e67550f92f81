-- what:  KV stress tests among the loads: fixed lengths, nothing shared, KV from empty to full.
-- grain: one row per level and replica that is one
-- key:   level, replica_id
-- needs: requests, kv_occupancy
-- columns:
--   level               VARCHAR  level of a sweep, null when the run has one level
--   replica_id          VARCHAR  engine replica
--   verdict             VARCHAR  paging (a swap point at the ceiling), both (rise, then paging),
--                                bandwidth (rise without a swap point), flat, not_full (the ceiling was not reached) or
--                                no_latency
--   request_count       BIGINT   requests behind it
--   prompt_tokens       BIGINT   [tokens] of each prompt, median
--   output_tokens       BIGINT   [tokens] of each output, median
--   swap_count          BIGINT   confirmed and probable swap points
--   used_ratio_first    DOUBLE   0-1 KV occupancy in the first sample
--   used_ratio_peak     DOUBLE   0-1 highest KV occupancy
--   kv_itl_correlation  DOUBLE   correlation of KV occupancy and median ITL on the way to the ceiling, null
--                                when one stood still
--   itl_low_ms          DOUBLE   [ms] median ITL while KV was in the lower third of its way
--   itl_high_ms         DOUBLE   [ms] median ITL in the upper third, before the ceiling
--   start_ns            BIGINT   [ns] first sample with used KV
--   full_ns             BIGINT   [ns] first sample near the peak, or the first swap point if that is earlier
-- notes: near 1 both curves rise together, as decode that reads more KV each step does; a swap point
--        at the ceiling is paging. Loads whose prompts hit the prefix cache are no stress tests: what is
--        shared takes no room.
with

asked as (

    select
        level,
        count(*) as request_count,
        quantile_disc(prompt_tokens, 0.05) as prompt_low,
        quantile_disc(prompt_tokens, 0.5) as prompt_tokens,
        quantile_disc(prompt_tokens, 0.95) as prompt_high,
        quantile_disc(output_tokens, 0.05) as output_low,
        quantile_disc(output_tokens, 0.5) as output_tokens,
        quantile_disc(output_tokens, 0.95) as output_high
    from requests
    where
        not coalesce(is_error, false)
        and not coalesce(is_warmup, false)
        and prompt_tokens > 0
        and output_tokens > 0
    group by level

),

fixed as (

    select *
    from asked
    where
        request_count >= threshold('stress_min_requests')
        and prompt_high - prompt_low <= threshold('stress_length_ratio') * prompt_tokens
        and output_high - output_low <= threshold('stress_length_ratio') * output_tokens

),

hits as (

    select
        level,
        sum(hit_tokens) / nullif(sum(lookup_tokens), 0) as hit_ratio
    from cache_hits
    where tier = 'hbm'
    group by level

),

curve as (

    select
        kv_occupancy.*,
        max(used_ratio) over (partition by level, replica_id) as used_ratio_peak
    from kv_occupancy
    where tier = 'hbm' and used_ratio is not null

),

points as (

    select
        level,
        replica_id,
        count(*) as swap_count,
        min(at_ns) as swap_ns
    from swap_points
    where class in ('confirmed', 'probable')
    group by level, replica_id

),

ramps as (

    select
        level,
        replica_id,
        arg_min(used_ratio, ts_ns) as used_ratio_first,
        max(used_ratio) as used_ratio_peak,
        min(ts_ns) filter (where used_ratio > 0) as start_ns,
        min(ts_ns) filter (
            where used_ratio >= threshold('kv_step_ceiling_ratio') * used_ratio_peak
        ) as near_peak_ns
    from curve
    group by level, replica_id

),

tests as (

    select
        ramps.level,
        ramps.replica_id,
        fixed.request_count,
        fixed.prompt_tokens,
        fixed.output_tokens,
        coalesce(points.swap_count, 0) as swap_count,
        ramps.used_ratio_first,
        ramps.used_ratio_peak,
        ramps.start_ns,
        least(ramps.near_peak_ns, points.swap_ns) as full_ns
    from ramps
    inner join fixed on ramps.level is not distinct from fixed.level
    left join hits on ramps.level is not distinct from hits.level
    left join points
        on
            ramps.level is not distinct from points.level
            and ramps.replica_id = points.replica_id
    where
        ramps.used_ratio_first < threshold('stress_empty_ratio')
        and ramps.used_ratio_peak >= threshold('kv_high_ratio')
        and ramps.near_peak_ns - ramps.start_ns >= threshold('stress_ramp_s') * 1e9
        and coalesce(hits.hit_ratio, 0) < threshold('advice_reuse_min_ratio')

),

paired as (

    select
        tests.level,
        tests.replica_id,
        latency.itl_p50_ms,
        curve.used_ratio / curve.used_ratio_peak as way_ratio
    from tests
    inner join token_latency as latency
        on
            tests.level is not distinct from latency.level
            and tests.replica_id = latency.replica_id
            and latency.itl_p50_ms is not null
            and tests.start_ns <= latency.ts_ns
            and tests.full_ns >= latency.ts_ns + latency.bucket_ns
    asof inner join curve
        on
            latency.replica_id = curve.replica_id
            and coalesce(latency.level, '') = coalesce(curve.level, '')
            and latency.ts_ns + latency.bucket_ns >= curve.ts_ns

),

shapes as (

    select
        level,
        replica_id,
        round(corr(way_ratio, itl_p50_ms), 4) as kv_itl_correlation,
        quantile_cont(itl_p50_ms, 0.5) filter (where way_ratio < 1 / 3) as itl_low_ms,
        quantile_cont(itl_p50_ms, 0.5) filter (where way_ratio >= 2 / 3) as itl_high_ms
    from paired
    group by level, replica_id

),

joined as (

    select
        tests.*,
        if(isnan(shapes.kv_itl_correlation), null, shapes.kv_itl_correlation)
            as kv_itl_correlation,
        shapes.itl_low_ms,
        shapes.itl_high_ms,
        coalesce(
            shapes.kv_itl_correlation >= threshold('kv_itl_together')
            and shapes.itl_high_ms >= (1 + threshold('advice_gain_ratio')) * shapes.itl_low_ms,
            false
        ) as is_rising
    from tests
    left join shapes
        on
            tests.level is not distinct from shapes.level
            and tests.replica_id = shapes.replica_id

)

select
    level,
    replica_id,
    case
        when swap_count > 0 and is_rising then 'both'
        when swap_count > 0 then 'paging'
        when used_ratio_peak < threshold('kv_step_ceiling_ratio') then 'not_full'
        when itl_high_ms is null or itl_low_ms is null then 'no_latency'
        when is_rising then 'bandwidth'
        else 'flat'
    end as verdict,
    request_count,
    prompt_tokens,
    output_tokens,
    swap_count,
    used_ratio_first,
    used_ratio_peak,
    kv_itl_correlation,
    itl_low_ms,
    itl_high_ms,
    start_ns,
    full_ns
from joined
