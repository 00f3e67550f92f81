-- what:  GPU counters over time: hardware counters of traces and telemetry.
-- grain: one row per source, time, device and counter
-- key:   source_id, ts_ns, device_id, counter
-- columns:
--   level      VARCHAR  level of a sweep, null when the run has one level
--   source_id  INTEGER  file
--   device_id  INTEGER  GPU index, null for the host and for network adapters
--   counter    VARCHAR  canonical name with unit
--   value      DOUBLE   value in the unit of the name
--   ts_ns      BIGINT   [ns] time, run clock
-- notes: *_pct of traces are per cent of the hardware peak; mem_busy_pct of telemetry is the share of time
--        with any memory traffic, which is no bandwidth. memory_allocated_bytes is what was allocated since the trace
--        began; engines allocate their KV cache at once, so it says nothing of KV in use. Faults are those of the moment.
select
    level,
    source_id,
    device_id,
    counter,
    value,
    ts_ns
from stg_nsys__gpu_metrics
union all
select
    level,
    source_id,
    device_id,
    counter,
    value,
    ts_ns
from stg_device__samples
order by source_id, ts_ns, device_id, counter
