-- what:  Totals that a load client printed about a whole load.
-- grain: one row per source, load and name
-- key:   source_id, load_no, name
-- columns:
--   source_id  INTEGER  file the row came from
--   load_no    INTEGER  result object in the file, from 0
--   name       VARCHAR  canonical name (duration_s, completed, output_tokens_per_s, mean_itl_ms, p99_itl_ms, max_concurrency, request_rate, end_local_ns ...)
--   value      DOUBLE   value in the unit of the name
select
    cast(null as integer) as source_id,
    cast(null as integer) as load_no,
    cast(null as varchar) as name,
    cast(null as double) as value
where false
