-- what:  Kernel names of GPU traces.
-- grain: one row per source and name
-- key:   source_id, name_id
-- columns:
--   source_id   INTEGER  trace file
--   name_id     INTEGER  kernel name in the file
--   name        VARCHAR  demangled name
--   short_name  VARCHAR  short name
select
    source_id,
    kernel_id as name_id,
    name,
    short_name
from raw_kernel_names
