-- what:  Calls that put work on the GPU or wait for it, on the run clock.
-- grain: one row per call
-- key:   source_id, process_id, correlation_id
-- columns:
--   source_id       INTEGER  trace file
--   process_id      UBIGINT  process key
--   thread_id       BIGINT   thread in the process
--   correlation_id  BIGINT   links to kernels, graphs and copies
--   call            VARCHAR  kernel, graph, copy, set, or sync (waits for the GPU)
--   start_ns        BIGINT   [ns] start of the call, run clock
--   end_ns          BIGINT   [ns] end of the call, run clock
select
    launches.source_id,
    launches.process_id,
    launches.thread_id,
    launches.correlation_id,
    launches.call,
    launches.start_src_ns + sources.offset_ns as start_ns,
    launches.end_src_ns + sources.offset_ns as end_ns
from raw_launches as launches
inner join stg_sources as sources on launches.source_id = sources.source_id
