-- what:  API calls that put work on the GPU, and those that wait for it.
-- grain: one row per call
-- key:   source_id, process_id, correlation_id
-- columns:
--   source_id       INTEGER  file the row came from
--   process_id      UBIGINT  process key
--   thread_id       BIGINT   thread in the process
--   correlation_id  BIGINT   links to kernels, graphs and copies
--   call            VARCHAR  kernel, graph, copy, set, or sync (waits for the GPU)
--   start_src_ns    BIGINT   [ns] start of the call
--   end_src_ns      BIGINT   [ns] end of the call
-- notes: the host side of a launch; needed to attribute work to NVTX ranges and to find launch-bound gaps.
select
    cast(null as integer) as source_id,
    cast(null as ubigint) as process_id,
    cast(null as bigint) as thread_id,
    cast(null as bigint) as correlation_id,
    cast(null as varchar) as call,
    cast(null as bigint) as start_src_ns,
    cast(null as bigint) as end_src_ns
where false
