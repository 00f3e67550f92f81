-- what:  GPU telemetry of nvidia-smi, DCGM and the like on the run clock.
-- grain: one row per time, device and counter
-- key:   source_id, ts_ns, device_id, counter
-- columns:
--   level      VARCHAR  level of a sweep, null when the run has one level
--   source_id  INTEGER  file
--   device_id  INTEGER  GPU index
--   counter    VARCHAR  canonical name with unit
--   value      DOUBLE   value in the unit of the name
--   ts_ns      BIGINT   [ns] time, run clock
select
    sources.level,
    samples.source_id,
    samples.device_id,
    samples.counter,
    samples.value,
    samples.src_ns + sources.offset_ns as ts_ns
from raw_device_samples as samples
inner join stg_sources as sources on samples.source_id = sources.source_id
