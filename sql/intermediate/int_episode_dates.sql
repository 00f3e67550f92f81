-- what:  When the first engine action of each episode happened, from the promptest evidence.
-- grain: one row per episode with an action
-- key:   level, replica_id, episode_no
-- columns:
--   level       VARCHAR  level of a sweep, null when the run has one level
--   replica_id  VARCHAR  engine replica
--   episode_no  BIGINT   episode in the level and replica
--   dated_by    VARCHAR  evidence that dates it: drop, log, flip, stall, counter, resume or copies
--   at_ns       BIGINT   [ns] best estimate
--   error_ns    BIGINT   [ns] the truth lies within at_ns plus or minus this
-- notes: of the evidence that overlaps the earliest upper bound the exact kinds come first, then the earliest; sampled evidence keeps the whole distance to the previous sample as its error, and the time before it in which the gauges exclude no action.
with

-- sampled gauges cannot exclude an earlier victim whose wait was too short for a stall
stalls as (

    select
        stalls.level,
        stalls.replica_id,
        stalls.episode_no,
        stalls.low_ns,
        stalls.high_ns,
        max(
            case
                when samples.possible_since_ns is null then stalls.low_ns
                else greatest(
                    samples.possible_since_ns,
                    stalls.low_ns
                    - cast(threshold('episode_gap_intervals') as bigint) * samples.interval_ns
                )
            end
        ) as earliest_ns
    from int_episode_stalls as stalls
    left join int_kv_pressure as samples
        on
            stalls.replica_id = samples.replica_id
            and stalls.level is not distinct from samples.level
            and stalls.start_ns > samples.previous_ts_ns
            and stalls.start_ns <= samples.ts_ns
    group by
        stalls.level,
        stalls.replica_id,
        stalls.episode_no,
        stalls.source_id,
        stalls.request_no,
        stalls.start_ns,
        stalls.low_ns,
        stalls.high_ns

),

candidates as (

    select
        marks.level,
        marks.replica_id,
        marks.episode_no,
        case
            when actions.kind = 'flip' then 'flip'
            when actions.kind = 'recompute_step' then 'resume'
            when actions.proof = 'resume' then 'drop'
            else actions.proof
        end as dated_by,
        actions.earliest_ns,
        actions.low_ns,
        actions.high_ns,
        actions.proof in ('resume', 'copies') and actions.is_prompt as is_exact
    from int_episode_marks as marks
    inner join int_actions_judged as actions on marks.action_no = actions.action_no
    union all
    select
        level,
        replica_id,
        episode_no,
        'stall' as dated_by,
        least(earliest_ns, low_ns) as earliest_ns,
        low_ns,
        high_ns,
        true as is_exact
    from stalls

),

acting as (

    select candidates.*
    from candidates
    inner join int_episodes as episodes
        on
            candidates.replica_id = episodes.replica_id
            and candidates.level is not distinct from episodes.level
            and candidates.episode_no = episodes.episode_no
    where episodes.e_proof is not null

),

bounded as (

    select
        *,
        min(high_ns) over (partition by level, replica_id, episode_no) as first_high_ns
    from acting

),

ranked as (

    select
        *,
        row_number() over (
            partition by level, replica_id, episode_no
            order by
                case when is_exact then 0 when dated_by in ('counter', 'resume') then 2 else 1 end,
                high_ns,
                high_ns - low_ns,
                dated_by
        ) as preference
    from bounded
    where case when is_exact then low_ns else (low_ns + high_ns) // 2 end <= first_high_ns

)

select
    level,
    replica_id,
    episode_no,
    dated_by,
    (low_ns + high_ns) // 2 as at_ns,
    case
        when is_exact then greatest((high_ns - low_ns) // 2, (low_ns + high_ns) // 2 - earliest_ns)
        else greatest(high_ns - low_ns, (low_ns + high_ns) // 2 - earliest_ns)
    end as error_ns
from ranked
where preference = 1
