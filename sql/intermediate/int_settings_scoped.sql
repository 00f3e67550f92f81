-- what:  Facts with the part of the run that they hold for.
-- grain: one row per source, scope, name and value
-- key:   source_id, scope, name, value
-- columns:
--   source_id  INTEGER  file, 0 for run.toml
--   scope      VARCHAR  '' for the run, else level, replica, rank, device or file
--   name       VARCHAR  canonical name
--   value      VARCHAR  value as text
--   unit       VARCHAR  unit
--   origin     VARCHAR  path of the file, or run.toml
--   authority  INTEGER  0 is believed first
--   number     DOUBLE   value as a number
--   line_no    BIGINT   last line that says so
-- notes: a level or a replica enters the scope only where levels or replicas differ.
with

facts as (

    select
        *,
        concat_ws(', ', 'level=' || level, 'replica=' || replica) as place
    from int_settings_ranked

),

said_in_place as (

    select
        name,
        place,
        arg_min(value, (authority, -line_no, source_id, value)) as value
    from facts
    where place <> '' and scope = ''
    group by name, place

),

split_names as (

    select name
    from said_in_place
    group by name
    having count(distinct value) > 1

)

select
    facts.source_id,
    case
        when split_names.name is null then facts.scope
        else concat_ws(', ', nullif(facts.place, ''), nullif(facts.scope, ''))
    end as scope,
    facts.name,
    facts.value,
    facts.unit,
    facts.origin,
    facts.authority,
    facts.number,
    facts.line_no
from facts
left join split_names on facts.name = split_names.name
