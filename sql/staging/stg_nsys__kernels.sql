-- what:  Kernel launches of GPU traces on the run clock.
-- grain: one row per kernel launch
-- key:   source_id, kernel_no
-- columns:
--   level           VARCHAR  level of a sweep, null when the run has one level
--   source_id       INTEGER  trace file
--   kernel_no       BIGINT   number in the file
--   device_id       INTEGER  GPU index
--   process_id      UBIGINT  process key
--   stream_id       INTEGER  CUDA stream
--   correlation_id  BIGINT   links to the launch call of the same process
--   name_id         INTEGER  kernel name in the file
--   grid_x          INTEGER  grid size
--   is_graph_node   BOOLEAN  launched by a CUDA graph
--   start_ns        BIGINT   [ns] start, run clock
--   end_ns          BIGINT   [ns] end, run clock
select
    sources.level,
    kernels.source_id,
    kernels.kernel_no,
    kernels.device_id,
    kernels.process_id,
    kernels.stream_id,
    kernels.correlation_id,
    kernels.kernel_id as name_id,
    kernels.grid_x,
    kernels.graph_node_id is not null as is_graph_node,
    kernels.start_src_ns + sources.offset_ns as start_ns,
    kernels.end_src_ns + sources.offset_ns as end_ns
from raw_kernels as kernels
inner join stg_sources as sources on kernels.source_id = sources.source_id
