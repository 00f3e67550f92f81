-- what:  How kernel counters were collected, one statement for each Nsight Compute file.
-- grain: one row per source
-- key:   source_id
-- needs: raw_counter_sessions
-- columns:
--   level                VARCHAR  level of a sweep, null when the run has one level
--   source_id            INTEGER  file
--   stem                 VARCHAR  path up to the first point of the file's name; exports of one report share it
--   folder               VARCHAR  folder of the file, '' for the run's own
--   page                 VARCHAR  report, raw, details, summary or session
--   page_rank            INTEGER  1 is believed first when several pages show the same kernels
--   tool_version         VARCHAR  version of the collecting tool
--   driver_version       VARCHAR  display driver
--   cache_control        VARCHAR  all (caches flushed before each pass) or none, null when unknown
--   clock_control        VARCHAR  base (clocks locked) or none, null when unknown
--   replay_mode          VARCHAR  kernel, application, range or app-range, null when unknown
--   metric_set           VARCHAR  set that was asked for, '' for sections or metrics alone, null when unknown
--   graph_profiling      VARCHAR  node or graph, null when unknown
--   read_kernel_count    BIGINT   profiled kernels and ranges that could be read
--   stated_kernel_count  BIGINT   profiled kernels and ranges that the file says it holds, null when it does not say
--   has_options          BOOLEAN  the file holds the profiler's options
--   is_refused           BOOLEAN  the driver refused access to the counters, or another tool held them
--   is_cut               BOOLEAN  the file ends too early or is broken
select
    sources.level,
    sessions.source_id,
    regexp_extract(sources.path, '^(.*/)?[^/.]+') as stem,
    coalesce(nullif(regexp_extract(sources.path, '^.*/'), ''), '') as folder,
    sessions.page,
    case sessions.page
        when 'report' then 1
        when 'raw' then 2
        when 'details' then 3
        else 4
    end as page_rank,
    sessions.tool_version,
    sessions.driver_version,
    sessions.cache_control,
    sessions.clock_control,
    sessions.replay_mode,
    sessions.metric_set,
    sessions.graph_profiling,
    sessions.read_kernel_count,
    sessions.stated_kernel_count,
    coalesce(sessions.has_options, false) as has_options,
    coalesce(sessions.is_refused, false) as is_refused,
    coalesce(sessions.is_cut, false) as is_cut
from raw_counter_sessions as sessions
inner join stg_sources as sources on sessions.source_id = sources.source_id
