-- what:  The replica that client requests went to.
-- grain: one row per level, and one per request that the log of one of several replicas names
-- key:   level, source_id, request_no
-- columns:
--   level       VARCHAR  level of a sweep, null when the run has one level
--   source_id   INTEGER  client file, null for all requests of the level that have no row of their own
--   request_no  BIGINT   request in the file, null for all requests of the level that have no row of their own
--   replica_id  VARCHAR  the only replica of the level that ever runs anything, '?' when there are several; of a request the replica whose log holds its id
-- notes: clients do not say which replica served them. With several replicas a request belongs to the one whose log names its id, as it is or as vLLM spells it (cmpl-ID-0, chatcmpl-ID, with a random end since V1); ids shorter than eight characters are no evidence, and neither is an id that two replicas name (a retry). Times that agree are no proof: replicas of one load run in step.
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

),

by_level as (

    select
        level,
        case when count(*) = 1 then min(replica_id) else '?' end as replica_id
    from replicas
    group by level

),

logged as (

    select
        level,
        replica_id,
        request_id
    from stg_log__events
    where request_id is not null
    union
    select
        level,
        replica_id,
        request_id
    from stg_log__requests
    where request_id is not null

),

bare as (

    select
        logged.level,
        logged.replica_id,
        logged.request_id,
        regexp_replace(logged.request_id, '^(chat)?cmpl-', '') as bare_id
    from logged
    inner join by_level
        on logged.level is not distinct from by_level.level
    where by_level.replica_id = '?'

),

spelled as (

    select distinct
        level,
        replica_id,
        unnest([
            request_id,
            bare_id,
            regexp_replace(bare_id, '-[0-9a-f]+$', ''),
            regexp_replace(bare_id, '-[0-9]+-[0-9a-f]+$', ''),
        ]) as request_id
    from bare

),

by_request as (

    select
        requests.level,
        requests.source_id,
        requests.request_no,
        min(spelled.replica_id) as replica_id
    from stg_client__requests as requests
    inner join spelled
        on
            requests.request_id = spelled.request_id
            and requests.level is not distinct from spelled.level
    where length(requests.request_id) >= 8
    group by requests.level, requests.source_id, requests.request_no
    having count(distinct spelled.replica_id) = 1

)

select
    level,
    cast(null as integer) as source_id,
    cast(null as bigint) as request_no,
    replica_id
from by_level
union all
select
    level,
    source_id,
    request_no,
    replica_id
from by_request
