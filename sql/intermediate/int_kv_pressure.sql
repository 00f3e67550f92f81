-- what:  Every KV sample judged: pressure, blocked admission, flips of the gauges.
-- grain: one row per source, replica and sample
-- key:   source_id, replica_id, origin, sample_no
-- columns:
--   level               VARCHAR  level of a sweep, null when the run has one level
--   replica_id          VARCHAR  engine replica
--   source_id           INTEGER  file
--   origin              VARCHAR  metrics, log or iterations
--   kv_used_ratio       DOUBLE   device KV occupancy
--   kv_rolling_ratio    DOUBLE   highest occupancy in the rolling window around the sample
--   kv_footprint_ratio  DOUBLE   mean share of the KV cache that one running request holds
--   running_count       DOUBLE   requests running
--   waiting_count       DOUBLE   requests waiting, those swapped out included
--   preemption_delta    DOUBLE   counter rise since the previous sample, resets count as zero; null without counter
--   is_pressure         BOOLEAN  rolling maximum within one mean footprint of full, and high at all
--   is_near_full         BOOLEAN  the sample itself lies within one mean footprint of full
--   is_blocked          BOOLEAN  under pressure, requests wait although the running limit is not reached
--   is_flip             BOOLEAN  where actions are not logged: under pressure, running falls by more than finished while requests wait and are not let in
--   sample_no           BIGINT   number in the source
--   ts_ns               BIGINT   [ns] run clock
--   previous_ts_ns      BIGINT   [ns] previous sample
--   possible_since_ns   BIGINT   [ns] last sample before the unbroken stretch in which these gauges exclude no action, null outside
--   flip_since_ns       BIGINT   [ns] of that stretch at most the gap of an episode of observed time; coarse samples and holes prove no quiet
--   interval_ns         BIGINT   [ns] median distance of samples of the source
--   uncertainty_ns      BIGINT   [ns] of the clock and of the sampling
-- notes: where nobody waits and the counter stands still for counter_resume_s no action is possible, however full the cache. Without ten samples that wait outside pressure the usual deficit is unknown and only a rise of the waiting queue makes a flip. A cache that is reserved to the last token preempts nothing. Where neither finished requests nor preemptions are counted, a fall of running is the end of a request unless the cache grows: generated tokens are a fair share of the new ones (of the falls at the ceiling about that share are preemptions), and KV rises while the number of running requests stands still.
with

rolled as (

    select
        * replace (waiting_count + coalesce(swapped_count, 0) as waiting_count),
        max(kv_used_ratio) over around as kv_rolling_ratio,
        -- sums over windows differ in their last digits
        round(avg(kv_used_ratio / nullif(running_count, 0)) over around, 9) as kv_footprint_ratio,
        lag(kv_used_ratio) over in_order as previous_kv_ratio,
        lag(running_count) over in_order as previous_running,
        lag(waiting_count + coalesce(swapped_count, 0)) over in_order as previous_waiting,
        preemption_total - lag(preemption_total) over in_order as preemption_change,
        -- a victim that waits in no sample ran again and spoke: the counter would have moved
        coalesce(
            lag(preemption_total) over in_order = first_value(preemption_total) over after_resume,
            false
        ) as is_counter_still,
        finished_total - lag(finished_total) over in_order as finished_change
    from int_kv_samples
    window
        in_order as (partition by source_id, replica_id, origin order by ts_ns, sample_no),
        around as (
            partition by source_id, replica_id, origin
            order by ts_ns
            range between cast(threshold('pressure_before_s') * 1e9 as bigint) preceding -- noqa: PRS
            and cast(threshold('pressure_after_s') * 1e9 as bigint) following
        ),
        after_resume as (
            partition by source_id, replica_id, origin
            order by ts_ns
            range between cast(threshold('counter_resume_s') * 1e9 as bigint) following -- noqa: PRS
            and unbounded following
        )

),

judged as (

    select
        rolled.*,
        limits.running_limit,
        greatest(
            threshold('kv_high_ratio'),
            1 - threshold('kv_footprint_requests') * rolled.kv_footprint_ratio
        ) as near_full_ratio,
        limits.running_limit - rolled.running_count as deficit_count
    from rolled
    inner join int_engine_limits as limits
        on rolled.replica_id = limits.replica_id and rolled.level is not distinct from limits.level

),

pressed as (

    select
        *,
        coalesce(kv_rolling_ratio >= near_full_ratio, false) as is_pressure,
        coalesce(kv_used_ratio >= near_full_ratio, false) as is_near_full
    from judged

),

usual as (

    select
        source_id,
        replica_id,
        origin,
        case when count(*) >= 10 then max(deficit_count) end as usual_deficit_count
    from pressed
    where not is_pressure and waiting_count >= 1
    group by source_id, replica_id, origin

),

-- gauges without any count: can a fall of running be a preemption at all?
growing as (

    select
        source_id,
        replica_id,
        origin,
        coalesce(fsum(gen_tokens) / nullif(fsum(gen_tokens) + fsum(prompt_tokens), 0), 1)
        >= threshold('kv_growth_min_ratio')
        and not coalesce(
            count(*) filter (where is_in_place) >= threshold('kv_growth_min_samples')
            -- two standard deviations below one half
            and count(*) filter (where is_in_place and kv_used_ratio > previous_kv_ratio)
            < count(*) filter (where is_in_place) / 2 - sqrt(count(*) filter (where is_in_place)),
            false
        ) as is_growing
    from (
        select
            *,
            -- a full cache cannot grow
            running_count = previous_running
            and previous_kv_ratio < threshold('kv_full_ratio') as is_in_place
        from pressed
        where is_pressure
    ) as samples
    group by source_id, replica_id, origin

),

flagged as (

    select
        judged.level,
        judged.replica_id,
        judged.source_id,
        judged.origin,
        judged.kv_used_ratio,
        judged.kv_rolling_ratio,
        judged.kv_footprint_ratio,
        judged.running_count,
        judged.waiting_count,
        case
            when judged.preemption_change is not null then greatest(judged.preemption_change, 0)
        end as preemption_delta,
        judged.is_pressure,
        judged.is_near_full,
        coalesce(
            judged.is_pressure and judged.waiting_count >= 1 and judged.deficit_count > 0,
            false
        ) as is_blocked,
        coalesce(
            judged.is_pressure
            and not judged.is_action_logged
            and judged.semantics is distinct from 'reserved_tokens'
            and judged.waiting_count >= 1
            and judged.deficit_count > 0
            -- null where finished requests are not counted, below zero at a reset
            and coalesce(
                judged.finished_change >= 0,
                judged.preemption_total is not null or growing.is_growing
            )
            and judged.running_count
            < judged.previous_running - coalesce(judged.finished_change, 0)
            and (
                judged.waiting_count > judged.previous_waiting
                or (
                    judged.deficit_count > usual.usual_deficit_count
                    and judged.kv_used_ratio <= judged.previous_kv_ratio
                )
            ),
            false
        ) as is_flip,
        coalesce(
            case
                -- between coarse samples the cache can have been full and empty again
                when judged.interval_ns > threshold('pressure_before_s') * 1e9
                    then
                        greatest(judged.kv_used_ratio, judged.previous_kv_ratio)
                        >= threshold('kv_high_ratio')
                -- a victim that waits longer than the interval would be in the queue of the sample
                else
                    judged.kv_rolling_ratio >= threshold('kv_high_ratio')
                    and (
                        judged.waiting_count >= 1
                        or (
                            judged.is_near_full
                            and not judged.is_counter_still
                            and judged.interval_ns > threshold('stall_min_ms') * 1e6
                        )
                    )
            end,
            false
        ) as is_possible,
        judged.sample_no,
        judged.ts_ns,
        judged.previous_ts_ns,
        judged.interval_ns,
        judged.uncertainty_ns
    from pressed as judged
    left join usual
        on
            judged.source_id = usual.source_id
            and judged.replica_id = usual.replica_id
            and judged.origin = usual.origin
    left join growing
        on
            judged.source_id = growing.source_id
            and judged.replica_id = growing.replica_id
            and judged.origin = growing.origin

),

stretched as (

    select
        *,
        count(case when not is_possible then 1 end) over until_now as stretch_no,
        -- the record can begin in the middle of it
        coalesce(
            previous_ts_ns,
            ts_ns - cast(threshold('episode_gap_intervals') as bigint) * coalesce(interval_ns, 0)
        ) as before_ns,
        -- time without samples says nothing of quiet
        sum(least(coalesce(ts_ns - previous_ts_ns, interval_ns), 2 * interval_ns)) over until_now
            as observed_ns,
        cast(
            greatest(
                threshold('episode_gap_s') * 1e9,
                threshold('episode_gap_intervals') * interval_ns
            ) as hugeint
        ) as gap_ns
    from flagged
    window until_now as (
        partition by source_id, replica_id, origin order by ts_ns, sample_no
        rows between unbounded preceding and current row
    )

),

dated as (

    select
        *,
        min(case when is_possible then before_ns end) over (
            partition by source_id, replica_id, origin, stretch_no
        ) as stretch_since_ns,
        min(case when is_possible then before_ns end) over (
            partition by source_id, replica_id, origin, stretch_no
            order by observed_ns
            range between coalesce(gap_ns, 0) preceding and current row -- noqa: PRS
        ) as gap_since_ns
    from stretched

)

select
    level,
    replica_id,
    source_id,
    origin,
    kv_used_ratio,
    kv_rolling_ratio,
    kv_footprint_ratio,
    running_count,
    waiting_count,
    preemption_delta,
    is_pressure,
    is_near_full,
    is_blocked,
    is_flip,
    sample_no,
    ts_ns,
    previous_ts_ns,
    case when is_possible then stretch_since_ns end as possible_since_ns,
    case
        when not is_possible then previous_ts_ns
        -- coarse samples miss most flips
        when interval_ns >= threshold('kv_sampling_coarse_s') * 1e9 then stretch_since_ns
        else gap_since_ns
    end as flip_since_ns,
    interval_ns,
    uncertainty_ns
from dated
