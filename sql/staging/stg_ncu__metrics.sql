-- what:  Metrics that a file of Nsight Compute has.
-- grain: one row per source, metric and unit
-- key:   source_id, metric_no
-- columns:
--   source_id  INTEGER  file
--   metric_no  INTEGER  number in the file
--   metric     VARCHAR  name of the metric
--   unit       VARCHAR  base unit, '' for plain numbers
select
    source_id,
    metric_no,
    metric,
    unit
from raw_counter_metrics
