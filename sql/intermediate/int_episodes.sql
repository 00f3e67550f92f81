-- what:  Pressure episodes with the proofs of what the engine did.
-- grain: one row per episode
-- key:   level, replica_id, episode_no
-- columns:
--   level              VARCHAR  level of a sweep, null when the run has one level
--   replica_id         VARCHAR  engine replica
--   episode_no         BIGINT   episode in the level and replica
--   e_proof            VARCHAR  best proof of an engine action: counter, log, resume, copies or gauges; null when only admission was blocked
--   evidence           VARCHAR  kinds and proofs seen, comma separated
--   mode               VARCHAR  recompute, swap or null when no source says
--   action_count       BIGINT   actions by the best source that counts them
--   counted_actions    BIGINT   actions by the counter, null without counter
--   seen_actions       BIGINT   the most that any source shows: flips, vanished requests, copies, lines or counts
--   recomputed_tokens  BIGINT   tokens of recompute steps seen, null when none
--   blocked_count      BIGINT   samples with blocked admission
--   first_mark_ns      BIGINT   [ns] first mark
--   last_mark_ns       BIGINT   [ns] last mark
--   first_high_ns      BIGINT   [ns] earliest upper bound of an action, null without action
--   counter_at_ns      BIGINT   [ns] first rise of the counter
--   resume_at_ns       BIGINT   [ns] first recompute step
-- notes: a failed store into an offload tier is no action of the scheduler and proves none.
with

joined as (

    select
        marks.level,
        marks.replica_id,
        marks.episode_no,
        marks.mark_ns,
        marks.action_no,
        actions.kind,
        actions.proof,
        actions.mode,
        actions.event_count,
        actions.tokens,
        actions.high_ns,
        actions.ts_ns
    from int_episode_marks as marks
    left join int_actions_judged as actions on marks.action_no = actions.action_no

),

totals as (

    select
        level,
        replica_id,
        episode_no,
        string_agg(
            distinct kind || ' (' || proof || ')', ', ' order by kind || ' (' || proof || ')'
        )
            as evidence,
        min(mode) as mode,
        sum(event_count) filter (where kind = 'preempt' and proof = 'counter') as counted_actions,
        sum(event_count) filter (where proof = 'log' and kind != 'offload_store_failed')
            as logged_actions,
        sum(event_count) filter (where kind = 'preempt' and proof = 'resume') as resumed_actions,
        count(*) filter (where proof = 'gauges') as flip_count,
        count(*) filter (where proof = 'copies') as copy_count,
        count(*) filter (where proof = 'resume') as resume_count,
        sum(tokens) filter (where kind = 'recompute_step') as recomputed_tokens,
        count(*) filter (where action_no is null) as blocked_count,
        min(mark_ns) as first_mark_ns,
        max(mark_ns) as last_mark_ns,
        min(high_ns) as first_high_ns,
        min(high_ns) filter (where proof = 'counter') as counter_at_ns,
        min(ts_ns) filter (where kind = 'recompute_step') as resume_at_ns
    from joined
    group by level, replica_id, episode_no

)

select
    level,
    replica_id,
    episode_no,
    case
        when counted_actions > 0 then 'counter'
        when logged_actions > 0 then 'log'
        when resume_count > 0 then 'resume'
        when copy_count > 0 then 'copies'
        when flip_count > 0 then 'gauges'
    end as e_proof,
    evidence,
    mode,
    cast(
        coalesce(
            counted_actions, logged_actions, resumed_actions, nullif(flip_count, 0), copy_count
        ) as bigint
    )
        as action_count,
    cast(counted_actions as bigint) as counted_actions,
    cast(
        greatest(counted_actions, logged_actions, resumed_actions, flip_count, copy_count) as bigint
    ) as seen_actions,
    cast(recomputed_tokens as bigint) as recomputed_tokens,
    blocked_count,
    first_mark_ns,
    last_mark_ns,
    first_high_ns,
    counter_at_ns,
    resume_at_ns
from totals
