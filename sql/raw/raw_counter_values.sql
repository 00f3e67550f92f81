-- what:  Values that Nsight Compute measured for a kernel, in base units.
-- grain: one row per profiled kernel and metric
-- key:   source_id, kernel_no, metric
-- columns:
--   source_id  INTEGER  file the row came from
--   kernel_no  BIGINT   profiled kernel
--   metric     VARCHAR  name of the metric; 'Section/Label' where a file prints a label whose name is not known
--   unit       VARCHAR  base unit (ns, byte, byte/s, hz, %, cycle ...), '' for plain numbers
--   value      DOUBLE   value in that unit, null when there is none
--   quality    VARCHAR  null when measured; no_data, nan, not_available, empty, text, unreadable (no value),
--                       mean (of several launches), rule (taken from a rule's text, one decimal)
-- notes: attributes of the device are in raw_counter_devices.
select
    cast(null as integer) as source_id,
    cast(null as bigint) as kernel_no,
    cast(null as varchar) as metric,
    cast(null as varchar) as unit,
    cast(null as double) as value,
    cast(null as varchar) as quality
where false
