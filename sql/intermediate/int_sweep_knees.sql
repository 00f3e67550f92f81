-- what:  Where the knee and the saturation of a sweep are, as places in the order of load.
-- grain: one row per run that is a sweep
-- key:   level_count
-- columns:
--   level_count       BIGINT  levels with load and throughput
--   knee_place        BIGINT  last level that pays; null when none is claimed
--   saturation_place  BIGINT  first level of the plateau; null when none is claimed
-- notes: the knee is the last level before elasticity falls below the threshold, when from there to
--        the end it stays below on the whole. A plateau needs several levels from its first one on.
with

levels as (

    select
        place_no,
        load,
        tokens_per_s,
        elasticity,
        max(tokens_per_s) over () as best_tokens_per_s,
        count(*) over () as level_count,
        arg_max(tokens_per_s, place_no) over () as last_tokens_per_s,
        max(load) over () as last_load
    from int_sweep_measures
    where place_no is not null

),

knees as (

    select
        min(levels.place_no) as knee_place,
        arg_min(levels.level_count, levels.place_no) as level_count
    from levels
    inner join levels as next_level on levels.place_no = next_level.place_no - 1
    where
        next_level.elasticity < threshold('knee_elasticity')
        and ln(levels.last_tokens_per_s / levels.tokens_per_s)
        / nullif(ln(levels.last_load / levels.load), 0) < threshold('knee_elasticity')

),

plateaus as (

    select
        place_no as saturation_place,
        level_count,
        ln(last_tokens_per_s / tokens_per_s)
        / nullif(ln(last_load / load), 0) as plateau_elasticity
    from levels
    where tokens_per_s >= threshold('plateau_ratio') * best_tokens_per_s
    qualify row_number() over (order by place_no) = 1

),

counted as (

    select count(*) as level_count
    from levels

)

select
    counted.level_count,
    case
        when
            knees.knee_place > threshold('knee_side_levels')
            and counted.level_count - knees.knee_place >= threshold('knee_side_levels')
            then knees.knee_place
    end as knee_place,
    case
        when
            plateaus.saturation_place > threshold('knee_side_levels')
            and counted.level_count - plateaus.saturation_place + 1
            >= threshold('plateau_min_levels')
            and plateaus.plateau_elasticity < threshold('plateau_elasticity')
            then plateaus.saturation_place
    end as saturation_place
from counted
left join knees on knees.knee_place is not null
left join plateaus on plateaus.saturation_place is not null
where counted.level_count > 1
