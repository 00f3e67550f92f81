-- what:  What holds throughput back at the knee and at the saturation of a sweep.
-- grain: one row per level that is a knee or a saturation
-- key:   sweep, place_no
-- columns:
--   sweep       VARCHAR  folder of one of several sweeps, null when there is one
--   place_no    BIGINT   place of the level in the order of load of its sweep
--   cause       VARCHAR  kv, scheduler limit, client, l2, bandwidth, compute, bandwidth or compute; null when nothing shows it
--   reason      VARCHAR  what shows it, from a closed list
-- notes: a knee is judged by the level after it, whose load no longer paid, a saturation by itself.
--        A limit on running requests shows at all later levels: the same number decodes while
--        others wait for their first token, or runs by the engine's own gauges while others wait. A KV
--        cache that stays full while requests wait holds them back, with preemptions or without.
with

levels as (

    select *
    from int_sweep_measures
    where place_no is not null

),

points as (

    select
        sweep,
        knee_place as place_no,
        knee_place + 1 as judged_place,
        knee_place as before_place
    from int_sweep_knees
    where knee_place is not null
    union
    select
        sweep,
        saturation_place as place_no,
        saturation_place as judged_place,
        saturation_place - 1 as before_place
    from int_sweep_knees
    where saturation_place is not null and saturation_place is distinct from knee_place

),

above as (

    select
        points.sweep,
        points.place_no,
        count(later.decoding_count) as decoding_level_count,
        max(later.decoding_count) as decoding_max,
        min(later.decoding_count) as decoding_min,
        min(later.before_first_count / nullif(later.decoding_count, 0)) as waiting_ratio_min,
        count(later.running_queued) as queued_level_count,
        max(later.running_queued) as running_queued_max,
        min(later.running_queued) as running_queued_min,
        min(later.queued_ratio) as queued_ratio_min,
        count(later.achieved_rate_per_s) as paced_level_count,
        max(later.achieved_rate_per_s / nullif(later.request_rate_per_s, 0)) as sent_ratio_max
    from points
    inner join levels as later
        on points.sweep is not distinct from later.sweep and points.place_no < later.place_no
    group by points.sweep, points.place_no

),

collapses as (

    select
        sweep,
        place_no
    from levels
    where is_hit_collapse

),

signs as (

    select
        points.sweep,
        points.place_no,
        judged.kv_used_ratio_max is not null as is_kv_known,
        coalesce(
            judged.kv_used_ratio_max >= threshold('kv_step_ceiling_ratio')
            and judged.preemption_count >= threshold('isolated_actions'), false
        ) as is_kv,
        coalesce(
            judged.running_limit < judged.load
            and judged.running_max >= judged.running_limit
            and judged.waiting_max > 0, false
        ) as is_at_limit,
        coalesce(
            judged.step_budget_ratio >= threshold('sweep_budget_ratio')
            and judged.waiting_max > 0, false
        ) as is_at_budget,
        coalesce(
            above.decoding_level_count >= threshold('knee_side_levels')
            and above.decoding_max <= (1 + threshold('sweep_flat_ratio')) * above.decoding_min
            and above.waiting_ratio_min >= threshold('sweep_waiting_ratio'), false
        ) as is_decoding_flat,
        coalesce(
            above.queued_level_count >= threshold('knee_side_levels')
            and above.running_queued_max
            <= (1 + threshold('sweep_flat_ratio')) * above.running_queued_min
            and above.queued_ratio_min >= threshold('sweep_queued_ratio'), false
        ) as is_running_flat,
        coalesce(judged.kv_full_ratio >= threshold('sweep_queued_ratio'), false) as is_kv_full,
        coalesce(
            above.paced_level_count >= threshold('knee_side_levels')
            and above.sent_ratio_max < threshold('sweep_late_ratio'), false
        ) as is_client_late,
        coalesce(
            judged.dram_use_ratio >= threshold('hbm_bandwidth_high_ratio'), false
        ) as is_dram_full,
        collapses.place_no is not null as is_hit_collapse,
        ln(judged.itl_p50_ms / nullif(earlier.itl_p50_ms, 0)) as itl_growth,
        ln(judged.read_bytes / nullif(earlier.read_bytes, 0)) as bytes_growth,
        ln(1 + threshold('sweep_flat_ratio')) as flat_growth
    from points
    inner join levels as judged
        on
            points.sweep is not distinct from judged.sweep
            and points.judged_place = judged.place_no
    left join levels as earlier
        on
            points.sweep is not distinct from earlier.sweep
            and points.before_place = earlier.place_no
    left join above
        on points.sweep is not distinct from above.sweep and points.place_no = above.place_no
    left join collapses
        on
            points.sweep is not distinct from collapses.sweep
            and abs(collapses.place_no - points.place_no) <= 1

),

reasons as (

    select
        sweep,
        place_no,
        case
            when is_kv then 'KV at its ceiling with preemptions'
            when is_at_limit then 'running at max_num_seqs while requests wait'
            when is_at_budget then 'steps at max_num_batched_tokens while requests wait'
            when is_kv_full then 'KV at its ceiling while requests wait'
            when (is_decoding_flat or is_running_flat) and is_kv_known
                then 'as many requests decode while others wait'
            when is_decoding_flat or is_running_flat
                then 'as many requests decode while others wait, KV not recorded'
            when is_client_late then 'the client sends late'
            when is_hit_collapse then 'L2 hits of SM reads collapse'
            when is_dram_full then 'DRAM is at its limit'
            when itl_growth >= flat_growth and bytes_growth < itl_growth / 2
                then 'steps grow faster than the bytes they read'
            when itl_growth >= flat_growth and bytes_growth is not null
                then 'steps grow with the bytes they read'
            when itl_growth >= flat_growth then 'steps grow, their bytes are unknown'
            else 'nothing recorded shows it'
        end as reason
    from signs

)

select
    sweep,
    place_no,
    case reason
        when 'KV at its ceiling with preemptions' then 'kv'
        when 'KV at its ceiling while requests wait' then 'kv'
        when 'running at max_num_seqs while requests wait' then 'scheduler limit'
        when 'steps at max_num_batched_tokens while requests wait' then 'scheduler limit'
        when 'as many requests decode while others wait' then 'scheduler limit'
        when 'as many requests decode while others wait, KV not recorded' then 'scheduler limit'
        when 'the client sends late' then 'client'
        when 'L2 hits of SM reads collapse' then 'l2'
        when 'DRAM is at its limit' then 'bandwidth'
        when 'steps grow faster than the bytes they read' then 'compute'
        when 'steps grow with the bytes they read' then 'bandwidth or compute'
        when 'steps grow, their bytes are unknown' then 'bandwidth or compute'
    end as cause,
    reason
from reasons
