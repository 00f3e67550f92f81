-- what:  CUDA graph launches traced as a whole (kernels invisible).
-- grain: one row per graph launch
-- key:   source_id, graph_launch_no
-- columns:
--   source_id        INTEGER  file the row came from
--   graph_launch_no  BIGINT   number in the file, from 0
--   device_id        INTEGER  GPU index on the host, as far as the trace tells; else the process's CUDA ordinal
--   process_id       UBIGINT  process key
--   stream_id        INTEGER  CUDA stream
--   correlation_id   BIGINT   links to the launch call
--   graph_id         BIGINT   graph
--   graph_exec_id    BIGINT   executable graph (one per batch size)
--   start_src_ns     BIGINT   [ns] start; 0 with end 0 when it could not be timed
--   end_src_ns       BIGINT   [ns] end
select
    cast(null as integer) as source_id,
    cast(null as bigint) as graph_launch_no,
    cast(null as integer) as device_id,
    cast(null as ubigint) as process_id,
    cast(null as integer) as stream_id,
    cast(null as bigint) as correlation_id,
    cast(null as bigint) as graph_id,
    cast(null as bigint) as graph_exec_id,
    cast(null as bigint) as start_src_ns,
    cast(null as bigint) as end_src_ns
where false
