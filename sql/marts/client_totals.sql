-- what:  Totals and percentiles that a load client printed about a whole load.
-- grain: one row per file, load and name
-- key:   source_id, load_no, name
-- columns:
--   level      VARCHAR  level of a sweep, null when the run has one level
--   source_id  INTEGER  client file
--   load_no    INTEGER  result object in the file, from 0
--   name       VARCHAR  canonical name with unit (completed, output_tokens_per_s, p99_itl_ms ...)
--   value      DOUBLE   value in the unit of the name
-- notes: the client's own arithmetic, for runs without request rows; times of the end of a load are left out.
select
    level,
    source_id,
    load_no,
    name,
    value
from stg_client__summary
where name not like '%\_ns' escape '\'
order by source_id, load_no, name
