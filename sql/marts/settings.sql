-- what:  Facts about model, engine, GPU and limits, and which of them count.
-- grain: one row per scope, name and value
-- key:   scope, name, value
-- columns:
--   source_id     INTEGER  file that states it, 0 for run.toml
--   scope         VARCHAR  '' for the run, else the level, replica, rank, device or file
--   name          VARCHAR  canonical name
--   value         VARCHAR  value as text
--   unit          VARCHAR  unit of the value, null for text and plain numbers
--   origin        VARCHAR  path of the file, or run.toml
--   number        DOUBLE   value as a number, null for text
--   is_effective  BOOLEAN  the one to use for its scope and name; run.toml beats files
-- notes: equal facts of several ranks or files stand once, with the file that is believed first.
with

facts as (

    select * from int_settings_scoped

),

believed as (

    select
        *,
        row_number() over (
            partition by scope, name, value
            order by authority asc, source_id asc, line_no desc
        ) as mention_no,
        bool_or(authority = 0) over (partition by name) as is_overridden
    from facts

),

ordered as (

    select
        *,
        row_number() over (
            partition by scope, name
            order by authority asc, source_id asc, line_no desc, value asc
        ) as place_no
    from believed
    where mention_no = 1

)

select
    source_id,
    scope,
    name,
    value,
    unit,
    origin,
    number,
    place_no = 1 and (authority = 0 or not is_overridden) as is_effective
from ordered
