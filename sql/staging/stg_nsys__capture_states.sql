-- what:  State of each capability of a GPU trace, as the reader judged it.
-- grain: one row per source, capability and verdict
-- key:   source_id, capability, verdict
-- columns:
--   level          VARCHAR  level of a sweep, null when the run has one level
--   source_id      INTEGER  trace file
--   path           VARCHAR  path inside the run
--   capability     VARCHAR  kernels, processes, graphs, nvtx, gpu_metrics, memory_usage, um, cpu
--   verdict        VARCHAR  present, absent, failed, partial, not_traced
--   reason         VARCHAR  closed sentence
--   event_count    BIGINT   events behind the verdict
--   data_until_ns  BIGINT   [ns] end of the last event before the data stop, run clock; null when they do not stop early
select
    sources.level,
    states.source_id,
    sources.path,
    states.capability,
    states.verdict,
    states.reason,
    states.event_count,
    states.data_until_src_ns + sources.offset_ns as data_until_ns
from raw_capture_diagnostics as states
inner join stg_sources as sources on states.source_id = sources.source_id
