-- what:  Kernel launches that the GPU trace shows.
-- grain: one row per kernel launch
-- key:   source_id, kernel_no
-- columns:
--   source_id       INTEGER  file the row came from
--   kernel_no       BIGINT   number in the file, from 0
--   device_id       INTEGER  GPU index on the host, as far as the trace tells; else the process's CUDA ordinal
--   process_id      UBIGINT  process key (hardware, VM and pid)
--   stream_id       INTEGER  CUDA stream
--   correlation_id  BIGINT   links to the launch call of the same process
--   kernel_id       INTEGER  kernel name
--   graph_node_id   UBIGINT  graph node, null when launched directly
--   grid_x          INTEGER  grid size in its first dimension
--   start_src_ns    BIGINT   [ns] start
--   end_src_ns      BIGINT   [ns] end
select
    cast(null as integer) as source_id,
    cast(null as bigint) as kernel_no,
    cast(null as integer) as device_id,
    cast(null as ubigint) as process_id,
    cast(null as integer) as stream_id,
    cast(null as bigint) as correlation_id,
    cast(null as integer) as kernel_id,
    cast(null as ubigint) as graph_node_id,
    cast(null as integer) as grid_x,
    cast(null as bigint) as start_src_ns,
    cast(null as bigint) as end_src_ns
where false
