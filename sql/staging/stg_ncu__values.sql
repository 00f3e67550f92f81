-- what:  Values that Nsight Compute measured for a kernel, in base units.
-- grain: one row per profiled kernel and metric
-- key:   source_id, kernel_no, metric_no
-- columns:
--   source_id  INTEGER  file
--   kernel_no  BIGINT   profiled kernel
--   metric_no  INTEGER  metric of stg_ncu__metrics
--   value      DOUBLE   value in the metric's unit, null when there is none
--   quality    VARCHAR  null when measured, else why there is no value or where it comes from
select
    source_id,
    kernel_no,
    metric_no,
    value,
    quality
from raw_counter_values
