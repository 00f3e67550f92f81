-- what:  Metrics that a file of Nsight Compute has.
-- grain: one row per source, metric and unit
-- key:   source_id, metric_no
-- columns:
--   source_id  INTEGER  file the row came from
--   metric_no  INTEGER  number in the file, from 0
--   metric     VARCHAR  name of the metric; 'Section/Label' where a file prints a label whose name is not known
--   unit       VARCHAR  base unit (ns, byte, byte/s, hz, %, cycle ...), '' for plain numbers
select
    cast(null as integer) as source_id,
    cast(null as integer) as metric_no,
    cast(null as varchar) as metric,
    cast(null as varchar) as unit
where false
