-- what:  When each episode began, acted and ended.
-- grain: one row per episode
-- key:   level, replica_id, episode_no
-- columns:
--   level               VARCHAR  level of a sweep, null when the run has one level
--   replica_id          VARCHAR  engine replica
--   episode_no          BIGINT   episode in the level and replica
--   at_ns               BIGINT   [ns] first engine action, or first blocked sample when the engine did nothing
--   error_ns            BIGINT   [ns] the truth lies within at_ns plus or minus this
--   dated_by            VARCHAR  evidence that dates it
--   pressure_at_ns      BIGINT   [ns] first sample near full of the pressure that led to it
--   end_ns              BIGINT   [ns] last mark
--   recovered_at_ns     BIGINT   [ns] first sample without pressure after the end, null when the data ends before
--   kv_used_ratio       DOUBLE   rolling KV occupancy at at_ns
--   kv_footprint_ratio  DOUBLE   mean share of the cache of one request there
--   blocked_s           DOUBLE   [s] time with blocked admission
with

episodes as (

    select
        episodes.*,
        coalesce(dates.at_ns, episodes.first_mark_ns) as at_ns,
        coalesce(dates.error_ns, 0) as dated_error_ns,
        coalesce(dates.dated_by, 'blocked') as dated_by,
        lag(episodes.last_mark_ns) over (
            partition by episodes.level, episodes.replica_id order by episodes.episode_no
        ) as previous_end_ns
    from int_episodes as episodes
    left join int_episode_dates as dates
        on
            episodes.replica_id = dates.replica_id
            and episodes.level is not distinct from dates.level
            and episodes.episode_no = dates.episode_no

),

periods as (

    select
        episodes.level,
        episodes.replica_id,
        episodes.episode_no,
        max(greatest(periods.start_ns, coalesce(episodes.previous_end_ns, periods.start_ns)))
            as pressure_at_ns
    from episodes
    inner join int_pressure_periods as periods
        on
            episodes.replica_id = periods.replica_id
            and episodes.level is not distinct from periods.level
            and episodes.first_mark_ns >= periods.start_ns
    group by episodes.level, episodes.replica_id, episodes.episode_no

),

samples as (

    select * from int_kv_pressure where kv_rolling_ratio is not null

),

reached as (

    select
        episodes.level,
        episodes.replica_id,
        episodes.episode_no,
        min(samples.ts_ns) as near_full_ns
    from episodes
    inner join periods
        on
            episodes.replica_id = periods.replica_id
            and episodes.level is not distinct from periods.level
            and episodes.episode_no = periods.episode_no
    inner join samples
        on
            episodes.replica_id = samples.replica_id
            and episodes.level is not distinct from samples.level
            and periods.pressure_at_ns <= samples.ts_ns
            and episodes.first_mark_ns >= samples.ts_ns
    where samples.is_near_full
    group by episodes.level, episodes.replica_id, episodes.episode_no

),

around as (

    select
        episodes.level,
        episodes.replica_id,
        episodes.episode_no,
        min(samples.ts_ns) filter (
            where not samples.is_pressure and samples.ts_ns > episodes.last_mark_ns
        )
            as recovered_at_ns,
        arg_min(
            samples.kv_rolling_ratio,
            (abs(samples.ts_ns - episodes.at_ns), samples.origin, samples.sample_no)
        )
            as kv_used_ratio,
        arg_min(
            samples.kv_footprint_ratio,
            (abs(samples.ts_ns - episodes.at_ns), samples.origin, samples.sample_no)
        )
            as kv_footprint_ratio,
        arg_min(
            samples.interval_ns,
            (abs(samples.ts_ns - episodes.at_ns), samples.origin, samples.sample_no)
        )
            as interval_ns,
        max(samples.uncertainty_ns) as uncertainty_ns
    from episodes
    inner join samples
        on
            episodes.replica_id = samples.replica_id
            and episodes.level is not distinct from samples.level
            and samples.ts_ns >= episodes.first_mark_ns - 60000000000
    group by episodes.level, episodes.replica_id, episodes.episode_no

),

blocked_by_source as (

    select
        level,
        replica_id,
        episode_no,
        sum(step_ns) as blocked_ns
    from (
        select
            episodes.level,
            episodes.replica_id,
            episodes.episode_no,
            samples.source_id,
            samples.origin,
            samples.ts_ns,
            -- several lines of one second end one interval
            max(least(samples.ts_ns - samples.previous_ts_ns, 3 * samples.interval_ns))
                as step_ns
        from episodes
        inner join int_kv_pressure as samples
            on
                episodes.replica_id = samples.replica_id
                and episodes.level is not distinct from samples.level
                and samples.ts_ns between episodes.first_mark_ns and episodes.last_mark_ns
        left join int_engine_limits as limits
            on
                episodes.replica_id = limits.replica_id
                and episodes.level is not distinct from limits.level
        where
            samples.is_blocked
            -- the engine's log proves the pressure that rounded gauges miss
            or (
                episodes.e_proof = 'log'
                and samples.waiting_count >= 1
                and samples.running_count < limits.running_limit
                and samples.kv_rolling_ratio >= threshold('kv_high_ratio')
            )
        group by
            episodes.level,
            episodes.replica_id,
            episodes.episode_no,
            samples.source_id,
            samples.origin,
            samples.ts_ns
    ) as steps
    group by level, replica_id, episode_no, source_id, origin

),

blocked as (

    select
        level,
        replica_id,
        episode_no,
        max(blocked_ns) as blocked_ns
    from blocked_by_source
    group by level, replica_id, episode_no

)

select
    episodes.level,
    episodes.replica_id,
    episodes.episode_no,
    episodes.at_ns,
    case
        when episodes.dated_by = 'blocked'
            then coalesce(around.interval_ns, 0) + coalesce(around.uncertainty_ns, 0)
        else episodes.dated_error_ns
    end as error_ns,
    episodes.dated_by,
    least(
        coalesce(reached.near_full_ns, periods.pressure_at_ns, episodes.first_mark_ns),
        episodes.at_ns
    ) as pressure_at_ns,
    greatest(episodes.last_mark_ns, episodes.at_ns) as end_ns,
    around.recovered_at_ns,
    around.kv_used_ratio,
    around.kv_footprint_ratio,
    coalesce(blocked.blocked_ns, 0) / 1e9 as blocked_s
from episodes
left join periods
    on
        episodes.replica_id = periods.replica_id
        and episodes.level is not distinct from periods.level
        and episodes.episode_no = periods.episode_no
left join reached
    on
        episodes.replica_id = reached.replica_id
        and episodes.level is not distinct from reached.level
        and episodes.episode_no = reached.episode_no
left join around
    on
        episodes.replica_id = around.replica_id
        and episodes.level is not distinct from around.level
        and episodes.episode_no = around.episode_no
left join blocked
    on
        episodes.replica_id = blocked.replica_id
        and episodes.level is not distinct from blocked.level
        and episodes.episode_no = blocked.episode_no
