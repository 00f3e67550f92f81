-- what:  Moments of engine action or blocked admission under pressure, numbered by episode.
-- grain: one row per mark
-- key:   mark_no
-- columns:
--   mark_no      BIGINT   number
--   level        VARCHAR  level of a sweep, null when the run has one level
--   replica_id   VARCHAR  engine replica
--   episode_no   BIGINT   episode in the level and replica, from 1
--   action_no    BIGINT   action, null for a blocked sample
--   mark_ns      BIGINT   [ns] run clock
--   interval_ns  BIGINT   [ns] sampling interval of the source
-- notes: an episode ends when nothing acts and nothing is blocked for max(episode_gap_s, episode_gap_intervals sampling intervals), or when nothing runs. Sampled marks prove quiet only from the next sample to the sample before, and a sample proves an idle engine only after its uncertainty.
with

intervals as (

    select
        level,
        replica_id,
        source_id,
        max(interval_ns) as interval_ns
    from int_kv_pressure
    where origin != 'iterations'
    group by level, replica_id, source_id

),

marks as (

    select
        actions.level,
        actions.replica_id,
        actions.action_no,
        actions.mark_ns,
        coalesce(intervals.interval_ns, 0) as interval_ns,
        case
            when actions.proof in ('counter', 'gauges') then coalesce(intervals.interval_ns, 0)
            else 0
        end as unseen_ns,
        false as is_idle
    from int_actions_judged as actions
    left join intervals
        on
            actions.source_id = intervals.source_id
            and actions.replica_id = intervals.replica_id
            and actions.level is not distinct from intervals.level
    union all
    select
        level,
        replica_id,
        cast(null as bigint) as action_no,
        ts_ns as mark_ns,
        coalesce(interval_ns, 0) as interval_ns,
        coalesce(interval_ns, 0) as unseen_ns,
        false as is_idle
    from int_kv_pressure
    where is_blocked and ts_ns is not null
    union all
    select
        level,
        replica_id,
        cast(null as bigint) as action_no,
        ts_ns + uncertainty_ns as mark_ns,
        0 as interval_ns,
        0 as unseen_ns,
        true as is_idle
    from int_kv_samples
    where running_count = 0 and origin != 'iterations'

),

ordered as (

    select
        *,
        count(case when is_idle then 1 end) over in_order as idle_count
    from marks
    window in_order as (
        partition by level, replica_id order by mark_ns, is_idle, action_no
        rows between unbounded preceding and current row
    )

),

gapped as (

    select
        *,
        lag(mark_ns) over in_order as previous_mark_ns,
        lag(interval_ns) over in_order as previous_interval_ns,
        lag(unseen_ns) over in_order as previous_unseen_ns,
        lag(idle_count) over in_order as previous_idle_count
    from ordered
    where not is_idle
    window in_order as (partition by level, replica_id order by mark_ns, action_no)

),

started as (

    select
        *,
        previous_mark_ns is null
        or idle_count > previous_idle_count
        or mark_ns - previous_mark_ns - unseen_ns - previous_unseen_ns > greatest(
            threshold('episode_gap_s') * 1e9,
            threshold('episode_gap_intervals') * greatest(interval_ns, previous_interval_ns)
        ) as is_start
    from gapped

)

select
    row_number() over (order by level, replica_id, mark_ns, action_no) as mark_no,
    level,
    replica_id,
    count(case when is_start then 1 end) over (
        partition by level, replica_id order by mark_ns, action_no
        rows between unbounded preceding and current row
    ) as episode_no,
    action_no,
    mark_ns,
    interval_ns
from started
