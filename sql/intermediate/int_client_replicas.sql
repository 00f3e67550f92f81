-- what:  The replica that a level's client requests went to.
-- grain: one row per level
-- key:   level
-- columns:
--   level       VARCHAR  level of a sweep, null when the run has one level
--   replica_id  VARCHAR  the only replica of the level that ever runs anything, '?' when there are several
-- notes: clients do not say which replica served them; with several replicas their requests are not joined to one.
with

seen as (

    select
        level,
        replica_id,
        coalesce(max(running_count) > 0, true) as is_used
    from int_kv_samples
    group by level, replica_id

),

replicas as (

    select
        level,
        replica_id
    from seen
    qualify is_used or not bool_or(is_used) over (partition by level)
    union all
    select distinct
        level,
        '0' as replica_id
    from stg_client__requests
    where not exists (select 1 from seen)

)

select
    level,
    case when count(*) = 1 then min(replica_id) else '?' end as replica_id
from replicas
group by level
