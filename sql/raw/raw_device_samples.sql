-- what:  GPU telemetry of nvidia-smi, DCGM and the like.
-- grain: one row per time, device and counter
-- key:   source_id, src_ns, device_id, counter
-- columns:
--   source_id  INTEGER  file the row came from
--   src_ns     BIGINT   [ns] time on the file's own clock
--   device_id  INTEGER  GPU index
--   counter    VARCHAR  canonical name with unit (gpu_busy_pct, sm_active_pct, memory_used_bytes
--                       ...), all in pipeline/kvcliff/readers/README.md
--   value      DOUBLE   value in the unit of the name
select
    cast(null as integer) as source_id,
    cast(null as bigint) as src_ns,
    cast(null as integer) as device_id,
    cast(null as varchar) as counter,
    cast(null as double) as value
where false
