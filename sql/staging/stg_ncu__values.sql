-- what:  Values that Nsight Compute measured for a kernel, in base units.
-- grain: one row per profiled kernel and metric
-- key:   source_id, kernel_no, metric
-- columns:
--   source_id  INTEGER  file
--   kernel_no  BIGINT   profiled kernel
--   metric     VARCHAR  name of the metric
--   unit       VARCHAR  base unit, '' for plain numbers
--   value      DOUBLE   value in that unit, null when there is none
--   quality    VARCHAR  null when measured, else why there is no value or where it comes from
select
    source_id,
    kernel_no,
    metric,
    unit,
    value,
    quality
from raw_counter_values
