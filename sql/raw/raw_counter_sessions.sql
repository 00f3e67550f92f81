-- what:  How kernel counters were collected, one statement for each Nsight Compute file.
-- grain: one row per source
-- key:   source_id
-- columns:
--   source_id            INTEGER  file the row came from
--   page                 VARCHAR  report, raw, details, summary or session
--   tool_version         VARCHAR  version of the collecting tool
--   driver_version       VARCHAR  display driver
--   cuda_version         VARCHAR  CUDA version of the driver
--   cache_control        VARCHAR  all (caches flushed before each pass) or none, null when unknown
--   clock_control        VARCHAR  base (clocks locked) or none, null when unknown
--   replay_mode          VARCHAR  kernel, application, range or app-range, null when unknown
--   metric_set           VARCHAR  set that was asked for, '' for sections or metrics alone, null when unknown
--   graph_profiling      VARCHAR  node or graph, null when unknown
--   launch_skip          BIGINT   launches that were skipped first, null when not stated
--   launch_count         BIGINT   launches that were asked for, null when not stated
--   read_kernel_count    BIGINT   profiled kernels and ranges that could be read
--   stated_kernel_count  BIGINT   profiled kernels and ranges that the file says it holds, null when it does not say
--   has_options          BOOLEAN  the file holds the profiler's options
--   is_refused           BOOLEAN  the driver refused access to the counters, or another tool held them
--   is_cut               BOOLEAN  the file ends too early or is broken
-- notes: options that the command line leaves out have the tool's defaults. Paths, host, user and the
--        profiled command stay in the file.
select
    cast(null as integer) as source_id,
    cast(null as varchar) as page,
    cast(null as varchar) as tool_version,
    cast(null as varchar) as driver_version,
    cast(null as varchar) as cuda_version,
    cast(null as varchar) as cache_control,
    cast(null as varchar) as clock_control,
    cast(null as varchar) as replay_mode,
    cast(null as varchar) as metric_set,
    cast(null as varchar) as graph_profiling,
    cast(null as bigint) as launch_skip,
    cast(null as bigint) as launch_count,
    cast(null as bigint) as read_kernel_count,
    cast(null as bigint) as stated_kernel_count,
    cast(null as boolean) as has_options,
    cast(null as boolean) as is_refused,
    cast(null as boolean) as is_cut
where false
