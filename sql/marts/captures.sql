-- what:  What each GPU trace can tell: the state of its kernels, graphs, ranges and counters.
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
--   data_until_ns  BIGINT   [ns] data are missing from here on, run clock; null when they do not stop early
-- notes: failed means asked for and not there; not_traced means not asked for. Neither says that a GPU was idle.
select
    level,
    source_id,
    path,
    capability,
    verdict,
    reason,
    event_count,
    data_until_ns
from stg_nsys__capture_states
order by source_id, capability, verdict
