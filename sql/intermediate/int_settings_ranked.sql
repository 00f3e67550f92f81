-- what:  Distinct facts of each file, with the weight of its word.
-- grain: one row per source, scope, name and value
-- key:   source_id, scope, name, value
-- columns:
--   level        VARCHAR  level of the file, null when it speaks for all levels
--   source_id    INTEGER  file, 0 for run.toml
--   scope        VARCHAR  rank, device or replica; '' when all of the file's scopes agree; the
--                         file's path for facts about the file itself (its clock and stamps)
--   name         VARCHAR  canonical name
--   value        VARCHAR  value as text
--   unit         VARCHAR  unit
--   origin       VARCHAR  path of the file, or run.toml
--   replica      VARCHAR  replica of the file, null when the run has one
--   authority    INTEGER  0 is believed first
--   number       DOUBLE   value as a number
--   line_no      BIGINT   last line that says so
--   is_per_rank  BOOLEAN  the file states it for ranks or devices, not for the engine
-- notes: run.toml beats all; then the model's own file for its shape and the engine log for what
--        runs; then metric labels; then traces; then clients and telemetry. Engines log weights per
--        rank, whether the line names a rank or not.
with

entries as (

    select * from stg_settings where value is not null

),

sources as (

    select * from stg_sources

),

weighed as (

    select
        sources.level,
        entries.source_id,
        entries.scope,
        entries.name,
        entries.value,
        entries.unit,
        coalesce(sources.path, 'run.toml') as origin,
        sources.replica,
        case
            when entries.source_id = 0 then 0
            when
                sources.role = 'log'
                and entries.name in ('dtype', 'quantization', 'model_name', 'max_model_len') then 1
            when sources.role = 'model' then 2
            when sources.role = 'log' then 3
            when sources.role = 'metrics' then 4
            when sources.role = 'trace' then 5
            else 6
        end as authority,
        entries.number,
        entries.line_no,
        regexp_matches(entries.name, '^log_stamp_|_clock$') as is_about_file,
        entries.name = 'weight_bytes' and sources.role = 'log' as is_always_of_rank
    from entries
    left join sources on entries.source_id = sources.source_id

),

compared as (

    select
        *,
        min(value) over (partition by source_id, name)
        = max(value) over (partition by source_id, name) as is_agreed,
        min(scope) over (partition by source_id, name) <> '' as is_only_scoped
    from weighed

)

select
    level,
    source_id,
    case when is_about_file then origin when is_agreed then '' else scope end as scope,
    name,
    value,
    min(unit) as unit,
    min(origin) as origin,
    min(replica) as replica,
    min(authority) as authority,
    min(number) as number,
    max(line_no) as line_no,
    bool_and(coalesce(is_only_scoped or is_always_of_rank, false)) as is_per_rank
from compared
group by
    level,
    source_id,
    case when is_about_file then origin when is_agreed then '' else scope end,
    name,
    value
