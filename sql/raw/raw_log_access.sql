-- what:  HTTP access lines between two different time stamps of a log, counted.
-- grain: one row per stamp interval, method, path class and status
-- key:   source_id, line_no, path_class, status
-- columns:
--   source_id      INTEGER  file the row came from
--   line_no        BIGINT   line of the first access line counted
--   path_class     VARCHAR  metrics, completions, health, start_profile, stop_profile or other
--   status         INTEGER  HTTP status
--   access_count   BIGINT   access lines counted
--   after_src_ns   BIGINT   [ns] last stamp before them, null at the start of the file
--   before_src_ns  BIGINT   [ns] next stamp after them, null at the end of the file
-- notes: access lines carry no time: they lie in [after_src_ns, before_src_ns + 1 s).
select
    cast(null as integer) as source_id,
    cast(null as bigint) as line_no,
    cast(null as varchar) as path_class,
    cast(null as integer) as status,
    cast(null as bigint) as access_count,
    cast(null as bigint) as after_src_ns,
    cast(null as bigint) as before_src_ns
where false
