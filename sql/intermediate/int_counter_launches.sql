-- what:  Launches of the GPU trace with the counters of their profiled kernel.
-- grain: one row per level, device, phase, family, kernel name and grid
-- key:   level, device_id, phase, family, kernel_id, grid_x
-- needs: profiled_kernels, kernel_phases
-- columns:
--   level                VARCHAR  level of a sweep, null when the run has one level
--   device_id            INTEGER  GPU of the trace
--   phase                VARCHAR  prefill, decode, mixed or other
--   family               VARCHAR  kernel family
--   verdict              VARCHAR  what limits the kernel, null when it was not profiled
--   cause                VARCHAR  cause of that verdict
--   kernel_id            INTEGER  name, see kernel_names
--   grid_x               INTEGER  grid size, null when the trace does not say
--   launch_count         BIGINT   launches
--   time_ns              BIGINT   [ns] their summed time in the trace
--   read_hit_sectors     DOUBLE   L2 look-ups of SM reads that hit, all launches
--   read_lookup_sectors  DOUBLE   L2 look-ups of SM reads, all launches
--   dram_bytes           DOUBLE   [bytes] DRAM traffic, all launches
--   peak_bytes           DOUBLE   [bytes] that DRAM could have moved in their time
--   occupancy_ratio      DOUBLE   achieved occupancy
--   sm_use_ratio         DOUBLE   busiest unit of the SMs over its peak
--   l2_use_ratio         DOUBLE   busiest unit of the L2 over its peak
--   dram_busy_ratio      DOUBLE   DRAM throughput as the profiler states it
--   fabric_use_ratio     DOUBLE   traffic between the L2 partitions over its peak
--   slice_idle_ratio     DOUBLE   idle share of the mean L2 slice behind the busiest one
--   is_covered           BOOLEAN  the kernel was profiled
--   is_short             BOOLEAN  too short for reliable hit rates
--   is_in_place          BOOLEAN  collected with the cache as the engine left it
--   is_off_gpu           BOOLEAN  reads host memory or another GPU
-- notes: a launch takes the counters of its own level, else those of files without a level; of its full name,
--        else of its short name; of its grid, else of every grid; of its phase, else of profiles whose
--        phase is unknown. Only runs with profiled kernels have rows.
with

launches as (

    select
        kernels.level,
        kernels.device_id,
        kernels.phase,
        kernels.family,
        kernels.kernel_id,
        work.grid_x,
        count(*) as launch_count,
        cast(sum(kernels.end_ns - kernels.start_ns) as bigint) as time_ns
    from kernel_phases as kernels
    left join int_gpu_work as work
        on
            kernels.source_id = work.source_id
            and kernels.kernel_no = work.work_no
            and not work.is_opaque
    where exists (select 1 from profiled_kernels)
    group by
        kernels.level, kernels.device_id, kernels.phase, kernels.family, kernels.kernel_id,
        work.grid_x

),

candidates as (

    select
        launches.level as launch_level,
        launches.device_id,
        launches.phase,
        launches.family,
        launches.kernel_id,
        launches.grid_x as launch_grid_x,
        counters.*
    from launches
    inner join kernel_names as names on launches.kernel_id = names.kernel_id
    inner join int_counter_names_summed as counters
        on
            (counters.level is null or launches.level is not distinct from counters.level)
            and counters.name_key = case
                when counters.is_full_name then counter_name_key(names.name)
                else names.short_name
            end
            and (counters.grid_x is null or launches.grid_x = counters.grid_x)
            and (
                launches.phase = counters.phase_key
                or counters.phase_key = 'unknown'
                or (counters.phase_key = 'any' and launches.phase in ('mixed', 'other'))
            )
    qualify
        row_number() over (
            partition by
                launches.level, launches.device_id, launches.phase, launches.family,
                launches.kernel_id, launches.grid_x
            order by
                counters.level is null,
                not counters.is_full_name,
                counters.grid_x is null,
                list_position([launches.phase, 'unknown', 'any'], counters.phase_key)
        ) = 1

)

select
    launches.level,
    launches.device_id,
    launches.phase,
    launches.family,
    candidates.verdict,
    candidates.cause,
    launches.kernel_id,
    launches.grid_x,
    launches.launch_count,
    launches.time_ns,
    candidates.read_hit_sectors * launches.launch_count as read_hit_sectors,
    candidates.read_lookup_sectors * launches.launch_count as read_lookup_sectors,
    candidates.dram_bytes * launches.launch_count as dram_bytes,
    candidates.peak_bytes_per_s * launches.time_ns / 1e9 as peak_bytes,
    candidates.occupancy_ratio,
    candidates.sm_use_ratio,
    candidates.l2_use_ratio,
    candidates.dram_busy_ratio,
    candidates.fabric_use_ratio,
    candidates.slice_idle_ratio,
    candidates.verdict is not null as is_covered,
    coalesce(candidates.is_short, false) as is_short,
    coalesce(candidates.is_in_place, false) as is_in_place,
    coalesce(candidates.is_off_gpu, false) as is_off_gpu
from launches
left join candidates
    on
        launches.level is not distinct from candidates.launch_level
        and launches.device_id is not distinct from candidates.device_id
        and launches.phase = candidates.phase
        and launches.family = candidates.family
        and launches.kernel_id = candidates.kernel_id
        and launches.grid_x is not distinct from candidates.launch_grid_x
