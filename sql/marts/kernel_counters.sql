-- what:  Nsight Compute values that the diagnosis rests on, kernel by kernel, with what they are worth.
-- grain: one row per profiled kernel and metric
-- key:   source_id, kernel_no, metric
-- needs: stg_ncu__kernels
-- columns:
--   level       VARCHAR  level of a sweep, null when the run has one level
--   source_id   INTEGER  file
--   kernel_no   BIGINT   profiled kernel in the file
--   device_id   INTEGER  CUDA device
--   short_name  VARCHAR  name without namespaces, template arguments and parameters
--   family      VARCHAR  kernel family; range or graph for results that cover several kernels
--   phase       VARCHAR  prefill, decode or mixed, null when neither name nor NVTX range tells
--   metric      VARCHAR  name of the metric
--   unit        VARCHAR  base unit (ns, byte, byte/s, hz, % ...), '' for plain numbers
--   quality     VARCHAR  null when measured, else why there is no value (nan, no_data, not_available ...) or
--                        where it comes from (mean of several launches, rule)
--   value       DOUBLE   value in that unit, null when there is none
--   is_copy     BOOLEAN  a better page of the same report is in the run; leave out of sums
-- notes: metrics of the seed counter_metrics; every other one that a file holds is in raw_counter_values.
--        Full names are in profiled_kernels; how a file was collected is in counter_warnings.
select
    kernels.level,
    kernels.source_id,
    kernels.kernel_no,
    kernels.device_id,
    kernels.short_name,
    named.family,
    named.phase,
    measured.metric,
    measured.unit,
    measured.quality,
    measured.value,
    sessions.is_copy
from stg_ncu__kernels as kernels
inner join int_counter_values_chosen as measured
    on kernels.source_id = measured.source_id and kernels.kernel_no = measured.kernel_no
inner join int_counter_kernels_named as named
    on kernels.source_id = named.source_id and kernels.kernel_no = named.kernel_no
inner join int_counter_sessions_matched as sessions on kernels.source_id = sessions.source_id
