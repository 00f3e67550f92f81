-- what:  Memory copies and sets of a GPU trace.
-- grain: one row per operation
-- key:   source_id, copy_no
-- columns:
--   source_id       INTEGER  file the row came from
--   copy_no         BIGINT   number in the file, from 0
--   device_id       INTEGER  GPU index on the host, as far as the trace tells; else the process's CUDA ordinal
--   process_id      UBIGINT  process key
--   stream_id       INTEGER  CUDA stream
--   correlation_id  BIGINT   links to the launch call
--   kind            VARCHAR  htod, dtoh, dtod, htoh, ptop, uvm_htod, uvm_dtoh, uvm_dtod, memset or other
--   source_memory   VARCHAR  pageable, pinned, device, managed or other
--   target_memory   VARCHAR  pageable, pinned, device, managed or other
--   bytes           BIGINT   bytes copied or set
--   start_src_ns    BIGINT   [ns] start
--   end_src_ns      BIGINT   [ns] end
select
    cast(null as integer) as source_id,
    cast(null as bigint) as copy_no,
    cast(null as integer) as device_id,
    cast(null as ubigint) as process_id,
    cast(null as integer) as stream_id,
    cast(null as bigint) as correlation_id,
    cast(null as varchar) as kind,
    cast(null as varchar) as source_memory,
    cast(null as varchar) as target_memory,
    cast(null as bigint) as bytes,
    cast(null as bigint) as start_src_ns,
    cast(null as bigint) as end_src_ns
where false
