-- what:  Values that Nsight Compute measured for a kernel, in base units.
-- grain: one row per profiled kernel and metric
-- key:   source_id, kernel_no, metric_no
-- columns:
--   source_id  INTEGER  file the row came from
--   kernel_no  BIGINT   profiled kernel
--   metric_no  INTEGER  metric of raw_counter_metrics
--   value      DOUBLE   value in the metric's unit, null when there is none
--   quality    VARCHAR  null when measured; no_data, nan, not_available, empty, text, unreadable (no value),
--                       mean (of several launches), rule (taken from a rule's text, one decimal)
-- notes: attributes of the device are in raw_counter_devices. Metrics stand as numbers: a full report has
--        hundreds of them for each of its kernels.
select
    cast(null as integer) as source_id,
    cast(null as bigint) as kernel_no,
    cast(null as integer) as metric_no,
    cast(null as double) as value,
    cast(null as varchar) as quality
where false
