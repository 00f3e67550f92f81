-- what:  CUDA graph launches traced as a whole, on the run clock.
-- grain: one row per graph launch
-- key:   source_id, graph_launch_no
-- columns:
--   level            VARCHAR  level of a sweep, null when the run has one level
--   source_id        INTEGER  trace file
--   graph_launch_no  BIGINT   number in the file
--   device_id        INTEGER  GPU index
--   process_id       UBIGINT  process key
--   stream_id        INTEGER  CUDA stream
--   correlation_id   BIGINT   links to the launch call of the same process
--   graph_exec_id    BIGINT   executable graph (one per batch size)
--   is_timed         BOOLEAN  whether the trace states its times
--   start_ns         BIGINT   [ns] start, run clock; meaningless when not timed
--   end_ns           BIGINT   [ns] end, run clock; meaningless when not timed
select
    sources.level,
    graphs.source_id,
    graphs.graph_launch_no,
    graphs.device_id,
    graphs.process_id,
    graphs.stream_id,
    graphs.correlation_id,
    graphs.graph_exec_id,
    graphs.start_src_ns <> 0 or graphs.end_src_ns <> 0 as is_timed,
    graphs.start_src_ns + sources.offset_ns as start_ns,
    graphs.end_src_ns + sources.offset_ns as end_ns
from raw_graph_launches as graphs
inner join stg_sources as sources on graphs.source_id = sources.source_id
