-- what:  Hardware counters, memory events and network traffic over a GPU trace.
-- grain: one row per time, device and counter
-- key:   source_id, src_ns, device_id, counter
-- columns:
--   source_id  INTEGER  file the row came from
--   src_ns     BIGINT   [ns] time on the file's own clock
--   device_id  INTEGER  GPU index, null for the host and for network adapters
--   counter    VARCHAR  canonical name with unit (dram_read_pct, sm_active_pct, memory_allocated_bytes, um_gpu_page_faults, nic_0_sent_bytes_per_s ...)
--   value      DOUBLE   value in the unit of the name
select
    cast(null as integer) as source_id,
    cast(null as bigint) as src_ns,
    cast(null as integer) as device_id,
    cast(null as varchar) as counter,
    cast(null as double) as value
where false
