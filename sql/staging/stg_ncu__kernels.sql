-- what:  Kernels (or ranges of kernels) that Nsight Compute profiled.
-- grain: one row per profiled kernel
-- key:   source_id, kernel_no
-- needs: raw_counter_kernels
-- columns:
--   level               VARCHAR  level of a sweep, null when the run has one level
--   source_id           INTEGER  file
--   kernel_no           BIGINT   number in the file, from 0
--   device_id           INTEGER  CUDA device, 0 when the file does not say
--   profile_id          BIGINT   ID that the tool printed, null on summary pages
--   name                VARCHAR  kernel name, '' for a range
--   short_name          VARCHAR  name without namespaces, template arguments and parameters
--   nvtx_path           VARCHAR  NVTX ranges around the launch, outermost first
--   compute_capability  VARCHAR  such as 9.0
--   scope               VARCHAR  kernel, range or graph
--   grid_x              INTEGER  grid size
--   grid_y              INTEGER  grid size
--   grid_z              INTEGER  grid size
--   block_count         BIGINT   thread blocks, null when the grid is unknown
--   launch_count        BIGINT   launches that the values are the mean of
--   is_clock_locked     BOOLEAN  clocks were locked while this kernel ran, null when the file does not say
select
    sources.level,
    kernels.source_id,
    kernels.kernel_no,
    coalesce(kernels.device_id, 0) as device_id,
    kernels.profile_id,
    kernels.name,
    kernels.short_name,
    kernels.nvtx_path,
    kernels.compute_capability,
    kernels.scope,
    kernels.grid_x,
    kernels.grid_y,
    kernels.grid_z,
    cast(kernels.grid_x as bigint) * kernels.grid_y * kernels.grid_z as block_count,
    greatest(kernels.launch_count, 1) as launch_count,
    kernels.is_clock_locked
from raw_counter_kernels as kernels
inner join stg_sources as sources on kernels.source_id = sources.source_id
