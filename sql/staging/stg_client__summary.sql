-- what:  Totals that load clients printed.
-- grain: one row per source, load and name
-- key:   source_id, load_no, name
-- columns:
--   level      VARCHAR  level of a sweep
--   source_id  INTEGER  client file
--   load_no    INTEGER  result object in the file
--   name       VARCHAR  canonical name with unit
--   value      DOUBLE   value
select
    sources.level,
    entries.source_id,
    entries.load_no,
    entries.name,
    entries.value
from raw_client_summary as entries
inner join stg_sources as sources on entries.source_id = sources.source_id
