-- what:  Engines that get a ledger, and the level whose facts apply to them.
-- grain: one row per level and replica
-- key:   level, replica_id
-- columns:
--   level        VARCHAR  level of a sweep, null when the run has one level
--   replica_id   VARCHAR  engine replica
--   facts_level  VARCHAR  level to look settings up with; null means those of the whole run
-- notes: without any KV occupancy the ledger still says what the settings alone tell.
with

watched as (

    select distinct
        level,
        replica_id
    from kv_occupancy

),

known_levels as (

    select distinct level from int_settings_effective where level is not null

),

unwatched as (

    select
        sources.level,
        '0' as replica_id
    from stg_sources as sources
    where
        sources.role in ('log', 'metrics', 'trace')
        and not exists (select 1 from watched)
    group by sources.level

),

places as (

    select * from watched
    union all
    select * from unwatched

)

select
    places.level,
    places.replica_id,
    known_levels.level as facts_level
from places
left join known_levels on places.level = known_levels.level
