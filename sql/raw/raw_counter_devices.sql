-- what:  Attributes of the GPUs on which Nsight Compute profiled.
-- grain: one row per source, device and attribute
-- key:   source_id, device_id, attribute
-- columns:
--   source_id  INTEGER  file the row came from
--   device_id  INTEGER  CUDA device of the process, 0 when the file does not say
--   attribute  VARCHAR  name of the metric without device__attribute_ (l2_cache_size, multiprocessor_count ...)
--   text       VARCHAR  the GPU's name for display_name, else null
--   value      DOUBLE   value, null for text
select
    cast(null as integer) as source_id,
    cast(null as integer) as device_id,
    cast(null as varchar) as attribute,
    cast(null as varchar) as text,
    cast(null as double) as value
where false
