-- what:  Sums per kernel name over whole GPU captures.
-- grain: one row per source and name
-- key:   source_id, name_id
-- columns:
--   level         VARCHAR  level of a sweep, null when the run has one level
--   source_id     INTEGER  file
--   name_id       INTEGER  kernel name in the file
--   launch_count  BIGINT   launches
--   gpu_time_ns   BIGINT   [ns] summed time of the launches
--   min_ns        BIGINT   [ns] shortest launch
--   max_ns        BIGINT   [ns] longest launch
select
    sources.level,
    sums.source_id,
    sums.kernel_id as name_id,
    sums.launch_count,
    sums.total_ns as gpu_time_ns,
    sums.min_ns,
    sums.max_ns
from raw_kernel_sums as sums
inner join stg_sources as sources on sums.source_id = sources.source_id
