-- what:  Where the knee and the saturation of a sweep are, as places in the order of load.
-- grain: one row per sweep
-- key:   sweep
-- columns:
--   sweep             VARCHAR folder of one of several sweeps, null when there is one
--   level_count       BIGINT  levels with load and throughput
--   knee_place        BIGINT  last level that pays; null when none is claimed
--   saturation_place  BIGINT  first level of the plateau; null when none is claimed
--   knee_min_load     DOUBLE  load at which elasticity falls below the threshold, lower bound
--   knee_max_load     DOUBLE  the same, upper bound
--   is_scattered      BOOLEAN throughput scatters too much from level to level for a knee
-- notes: the knee is the first level from which throughput grows less than asked for up to every later
--        level, when up to it throughput paid: one dip of a noisy sweep is none. Both sides need several levels
--        and a wide enough range of load. Between levels the elasticity is known by its mean alone: as it
--        starts at 1 and only falls with load, that mean bounds where it crosses the threshold. An
--        elasticity that rises shows the scatter of the sweep; with too much of it no knee is claimed. The
--        bounds allow for two levels that are off by it in opposite directions.
--        A plateau needs several levels from its first one on that lie above the first levels of the sweep.
with

levels as (

    select
        sweep,
        place_no,
        load,
        tokens_per_s,
        elasticity,
        max(tokens_per_s) over (partition by sweep) as best_tokens_per_s,
        count(*) over (partition by sweep) as level_count,
        first_value(tokens_per_s) over (partition by sweep order by place_no) as first_tokens_per_s,
        min(load) over (partition by sweep) as first_load,
        arg_max(tokens_per_s, place_no) over (partition by sweep) as last_tokens_per_s,
        max(load) over (partition by sweep) as last_load,
        max(
            case when place_no <= threshold('knee_side_levels') then tokens_per_s end
        ) over (partition by sweep) as early_tokens_per_s,
        min(tokens_per_s) over (
            partition by sweep order by place_no rows between current row and 2 following
        ) as least_tokens_per_s,
        min(elasticity) over (
            partition by sweep order by place_no rows between 1 following and unbounded following
        ) as least_elasticity,
        ln(load / lag(load) over (partition by sweep order by place_no)) as load_growth
    from int_sweep_measures
    where place_no is not null

),

rises as (

    select
        sweep,
        place_no,
        (elasticity - lag(elasticity) over (partition by sweep order by place_no)) / sqrt(
            pow(1 / nullif(load_growth, 0), 2)
            + pow(
                1 / nullif(load_growth, 0)
                + 1 / nullif(lag(load_growth) over (partition by sweep order by place_no), 0), 2
            )
            + pow(1 / nullif(lag(load_growth) over (partition by sweep order by place_no), 0), 2)
        ) as scatter_ratio
    from levels

),

scatter as (

    select
        sweep,
        greatest(threshold('sweep_noise_ratio'), max(scatter_ratio)) as scatter_ratio
    from rises
    group by sweep

),

ahead as (

    select
        levels.sweep,
        levels.place_no,
        max(
            ln(later.tokens_per_s / levels.tokens_per_s) / ln(later.load / levels.load)
        ) as best_elasticity
    from levels
    inner join levels as later
        on
            levels.sweep is not distinct from later.sweep
            and levels.place_no < later.place_no
            and levels.load < later.load
    group by levels.sweep, levels.place_no

),

knees as (

    select
        levels.*,
        ln(levels.tokens_per_s / levels.first_tokens_per_s)
        / nullif(ln(levels.load / levels.first_load), 0) as paid_elasticity
    from levels
    inner join ahead
        on levels.sweep is not distinct from ahead.sweep and levels.place_no = ahead.place_no
    inner join levels as next_level
        on
            levels.sweep is not distinct from next_level.sweep
            and levels.place_no = next_level.place_no - 1
    where
        ahead.best_elasticity < threshold('knee_elasticity')
        and next_level.elasticity < threshold('knee_elasticity')
    qualify row_number() over (partition by levels.sweep order by levels.place_no) = 1

),

claimed as (

    select
        knees.*,
        scatter.scatter_ratio
    from knees
    inner join scatter on knees.sweep is not distinct from scatter.sweep
    where
        knees.place_no > threshold('knee_side_levels')
        and knees.level_count - knees.place_no >= threshold('knee_side_levels')
        and knees.paid_elasticity >= threshold('knee_elasticity')
        and knees.load >= threshold('knee_side_load_factor') * knees.first_load
        and knees.last_load >= threshold('knee_side_load_factor') * knees.load
        and scatter.scatter_ratio <= threshold('sweep_noise_max_ratio')

),

around as (

    select
        claimed.sweep,
        claimed.place_no as knee_place,
        claimed.load,
        before.load as before_load,
        after.load as after_load,
        ln(claimed.load / before.load) as growth_before,
        ln(after.load / claimed.load) as growth_after,
        (
            ln(claimed.tokens_per_s / before.tokens_per_s)
            - 2 * claimed.scatter_ratio
        ) / ln(claimed.load / before.load) as elasticity_before,
        (
            ln(after.tokens_per_s / claimed.tokens_per_s)
            + 2 * claimed.scatter_ratio
        ) / ln(after.load / claimed.load) as elasticity_after,
        least(0, claimed.least_elasticity) as elasticity_last
    from claimed
    inner join levels as before
        on
            claimed.sweep is not distinct from before.sweep
            and claimed.load >= threshold('knee_side_load_factor') * before.load
    inner join levels as after
        on
            claimed.sweep is not distinct from after.sweep
            and after.load >= threshold('knee_side_load_factor') * claimed.load
    qualify
        row_number() over (
            partition by claimed.sweep order by before.place_no desc, after.place_no asc
        ) = 1

),

bounded as (

    select
        sweep,
        knee_place,
        before_load * exp(
            growth_before * least(
                1, greatest(
                    0,
                    (elasticity_before - threshold('knee_elasticity'))
                    / (1 - threshold('knee_elasticity'))
                )
            )
        ) as knee_min_load,
        load * exp(
            growth_after * least(
                1, greatest(
                    0,
                    (elasticity_after - elasticity_last)
                    / (threshold('knee_elasticity') - elasticity_last)
                )
            )
        ) as knee_max_load
    from around

),

plateaus as (

    select
        sweep,
        place_no as saturation_place,
        level_count,
        early_tokens_per_s < (1 - threshold('sweep_noise_ratio')) * least_tokens_per_s
            as is_above_start,
        ln(last_tokens_per_s / tokens_per_s)
        / nullif(ln(last_load / load), 0) as plateau_elasticity
    from levels
    where tokens_per_s >= threshold('plateau_ratio') * best_tokens_per_s
    qualify row_number() over (partition by sweep order by place_no) = 1

),

counted as (

    select
        sweep,
        count(*) as level_count
    from levels
    group by sweep

)

select
    counted.sweep,
    counted.level_count,
    bounded.knee_place,
    case
        when
            plateaus.saturation_place > threshold('knee_side_levels')
            and plateaus.is_above_start
            and counted.level_count - plateaus.saturation_place + 1
            >= threshold('plateau_min_levels')
            and plateaus.plateau_elasticity < threshold('plateau_elasticity')
            then plateaus.saturation_place
    end as saturation_place,
    bounded.knee_min_load,
    bounded.knee_max_load,
    scatter.scatter_ratio > threshold('sweep_noise_max_ratio') as is_scattered
from counted
inner join scatter on counted.sweep is not distinct from scatter.sweep
left join bounded on counted.sweep is not distinct from bounded.sweep
left join plateaus on counted.sweep is not distinct from plateaus.sweep
where counted.level_count > 1
