-- what:  What the profiler said about its own capture, as classes.
-- grain: one row per source, capability and verdict
-- key:   source_id, capability, verdict
-- columns:
--   source_id          INTEGER  file the row came from
--   capability         VARCHAR  kernels, processes, graphs, nvtx, gpu_metrics, memory_usage, um, cpu
--   verdict            VARCHAR  present, absent, failed, partial, not_traced
--   reason             VARCHAR  closed sentence, no file text
--   event_count        BIGINT   events behind the verdict
--   data_until_src_ns  BIGINT   [ns] end of the last event before the data stop; null when they do not stop early
select
    cast(null as integer) as source_id,
    cast(null as varchar) as capability,
    cast(null as varchar) as verdict,
    cast(null as varchar) as reason,
    cast(null as bigint) as event_count,
    cast(null as bigint) as data_until_src_ns
where false
