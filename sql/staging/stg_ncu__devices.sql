-- what:  GPUs on which Nsight Compute profiled, attribute by attribute.
-- grain: one row per source, device and attribute
-- key:   source_id, device_id, attribute
-- columns:
--   source_id  INTEGER  file
--   device_id  INTEGER  CUDA device
--   attribute  VARCHAR  l2_cache_size, multiprocessor_count, display_name ...
--   text       VARCHAR  the GPU's name for display_name, else null
--   value      DOUBLE   value, null for text
select
    source_id,
    device_id,
    attribute,
    text,
    value
from raw_counter_devices
