-- what:  What the profiler said about its own capture, as classes.
-- grain: one row per source, capability and verdict
-- key:   source_id, capability, verdict
-- columns:
--   source_id    INTEGER  file the row came from
--   capability   VARCHAR  kernels, graphs, nvtx, gpu_metrics, memory_usage, um, cpu
--   verdict      VARCHAR  present, absent, failed, partial, not_traced
--   reason       VARCHAR  closed sentence, no file text
--   event_count  BIGINT   events behind the verdict
select
    cast(null as integer) as source_id,
    cast(null as varchar) as capability,
    cast(null as varchar) as verdict,
    cast(null as varchar) as reason,
    cast(null as bigint) as event_count
where false
