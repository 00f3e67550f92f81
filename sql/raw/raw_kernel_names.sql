-- what:  Kernel names of a GPU trace.
-- grain: one row per name
-- key:   source_id, kernel_id
-- columns:
--   source_id   INTEGER  file the row came from
--   kernel_id   INTEGER  name id in this source
--   name        VARCHAR  demangled name
--   short_name  VARCHAR  short name
select
    cast(null as integer) as source_id,
    cast(null as integer) as kernel_id,
    cast(null as varchar) as name,
    cast(null as varchar) as short_name
where false
