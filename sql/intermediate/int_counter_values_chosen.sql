-- what:  Values that the diagnosis reads or a user may want beside it, by the name that they have here.
-- grain: one row per profiled kernel and metric
-- key:   source_id, kernel_no, metric
-- columns:
--   source_id   INTEGER  file
--   kernel_no   BIGINT   profiled kernel
--   name        VARCHAR  name of the seed counter_metrics; several metrics can mean the same
--   metric      VARCHAR  metric of the profiler
--   unit        VARCHAR  base unit, '' for plain numbers
--   quality     VARCHAR  null when measured, else why there is no value or where it comes from
--   value       DOUBLE   value in that unit, null when there is none
--   preference  BIGINT   1 is taken first among metrics that mean the same
-- notes: a full report has hundreds of metrics for each kernel; all of them stay in raw_counter_values.
with

wanted as (

    select
        printed.source_id,
        printed.metric_no,
        printed.metric,
        printed.unit,
        metrics.name,
        metrics.preference
    from stg_ncu__metrics as printed
    inner join counter_metrics as metrics on printed.metric = metrics.metric

)

select
    measured.source_id,
    measured.kernel_no,
    wanted.name,
    wanted.metric,
    wanted.unit,
    measured.quality,
    measured.value,
    wanted.preference
from stg_ncu__values as measured
inner join wanted
    on measured.source_id = wanted.source_id and measured.metric_no = wanted.metric_no
