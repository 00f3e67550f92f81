-- what:  The one value of each setting to reckon with, for each level.
-- grain: one row per level and name
-- key:   level, name
-- columns:
--   level        VARCHAR  level; the row with null holds for the run as a whole
--   source_id    INTEGER  file that states it, 0 for run.toml
--   name         VARCHAR  canonical name
--   value        VARCHAR  value as text
--   unit         VARCHAR  unit
--   origin       VARCHAR  path of the file, or run.toml
--   number       DOUBLE   value as a number
--   is_per_rank  BOOLEAN  stated for a rank or device, not for the engine
-- notes: ranks that disagree are represented by the first in order of their names; the last
--        statement of a file counts (engines print again after a restart).
with

facts as (

    select * from int_settings_ranked

),

levels as (

    select level from stg_sources
    union
    select null as level

),

ordered as (

    select
        levels.level,
        facts.source_id,
        facts.name,
        facts.value,
        facts.unit,
        facts.origin,
        facts.number,
        facts.is_per_rank,
        row_number() over (
            partition by levels.level, facts.name
            order by
                facts.authority asc,
                (facts.level is not distinct from levels.level) desc,
                facts.scope asc,
                facts.level asc nulls first,
                facts.source_id asc,
                facts.line_no desc,
                facts.value asc
        ) as place_no
    from levels
    inner join facts
        on levels.level is null or facts.level is null or levels.level = facts.level

)

select
    level,
    source_id,
    name,
    value,
    unit,
    origin,
    number,
    is_per_rank
from ordered
where place_no = 1
