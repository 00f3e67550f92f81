-- what:  Stated facts about model, engine, GPU and limits, cleaned.
-- grain: one row per source, scope, name and line
-- key:   source_id, line_no, scope, name
-- columns:
--   source_id  INTEGER  file, 0 for run.toml
--   line_no    BIGINT   line in the file
--   scope      VARCHAR  rank, device or replica, '' when the fact is the engine's
--   name       VARCHAR  canonical name
--   value      VARCHAR  value as text, null when the file says none
--   unit       VARCHAR  unit of the value, null for text and plain numbers
--   number     DOUBLE   value as a number, null for text
-- notes: booleans are 'true' and 'false' whatever the file's spelling; logs call model_name model.
select
    source_id,
    line_no,
    coalesce(scope, '') as scope,
    if(name = 'model', 'model_name', name) as name,
    case
        when lower(trim(value)) in ('', 'none', 'null', 'nan', 'n/a') then null
        when lower(trim(value)) in ('true', 'false') then lower(trim(value))
        else trim(value)
    end as value,
    unit,
    case
        when isfinite(try_cast(trim(value) as double)) then try_cast(trim(value) as double)
    end as number
from raw_settings
