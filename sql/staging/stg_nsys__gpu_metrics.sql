-- what:  Hardware counters, memory events and network traffic over GPU traces, on the run clock.
-- grain: one row per time, device and counter
-- key:   source_id, ts_ns, device_id, counter
-- columns:
--   level      VARCHAR  level of a sweep, null when the run has one level
--   source_id  INTEGER  trace file
--   device_id  INTEGER  GPU index, null for the host and for network adapters
--   counter    VARCHAR  canonical name with unit
--   value      DOUBLE   value in the unit of the name
--   ts_ns      BIGINT   [ns] time, run clock
select
    sources.level,
    metrics.source_id,
    metrics.device_id,
    metrics.counter,
    metrics.value,
    metrics.src_ns + sources.offset_ns as ts_ns
from raw_gpu_metrics as metrics
inner join stg_sources as sources on metrics.source_id = sources.source_id
