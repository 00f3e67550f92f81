-- what:  Kernels (or ranges of kernels) that Nsight Compute profiled.
-- grain: one row per profiled kernel
-- key:   source_id, kernel_no
-- columns:
--   source_id           INTEGER  file the row came from
--   kernel_no           BIGINT   number in the file, from 0
--   profile_id          BIGINT   ID that the tool printed; begins anew in every run of the tool
--   device_id           INTEGER  CUDA device of the process, null when the file does not say
--   context_id          INTEGER  CUDA context
--   stream_id           INTEGER  CUDA stream
--   name                VARCHAR  kernel name as printed, '' for a range
--   short_name          VARCHAR  name without namespaces, template arguments and parameters
--   nvtx_path           VARCHAR  NVTX ranges around the launch that name a step or stage, outermost first, joined by '/'
--   compute_capability  VARCHAR  such as 9.0
--   scope               VARCHAR  kernel, range or graph: what the values cover
--   grid_x              INTEGER  grid size
--   grid_y              INTEGER  grid size
--   grid_z              INTEGER  grid size
--   block_x             INTEGER  block size
--   block_y             INTEGER  block size
--   block_z             INTEGER  block size
--   launch_count        BIGINT   launches that the values are the mean of; 1 but on summary pages
--   is_clock_locked     BOOLEAN  clocks were locked while this kernel ran, null when the file does not say
select
    cast(null as integer) as source_id,
    cast(null as bigint) as kernel_no,
    cast(null as bigint) as profile_id,
    cast(null as integer) as device_id,
    cast(null as integer) as context_id,
    cast(null as integer) as stream_id,
    cast(null as varchar) as name,
    cast(null as varchar) as short_name,
    cast(null as varchar) as nvtx_path,
    cast(null as varchar) as compute_capability,
    cast(null as varchar) as scope,
    cast(null as integer) as grid_x,
    cast(null as integer) as grid_y,
    cast(null as integer) as grid_z,
    cast(null as integer) as block_x,
    cast(null as integer) as block_y,
    cast(null as integer) as block_z,
    cast(null as bigint) as launch_count,
    cast(null as boolean) as is_clock_locked
where false
