-- what:  Hardware counters sampled over a GPU trace.
-- grain: one row per time, device and counter
-- key:   source_id, src_ns, device_id, counter
-- columns:
--   source_id  INTEGER  file the row came from
--   src_ns     BIGINT   [ns] time on the file's own clock
--   device_id  INTEGER  GPU index
--   counter    VARCHAR  canonical name with unit (dram_read_pct, dram_write_pct, sm_active_pct, ...)
--   value      DOUBLE   value in the unit of the name
select
    cast(null as integer) as source_id,
    cast(null as bigint) as src_ns,
    cast(null as integer) as device_id,
    cast(null as varchar) as counter,
    cast(null as double) as value
where false
