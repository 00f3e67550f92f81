-- what:  What one launch of a profiled kernel does on average, by the keys that join it to traces.
-- grain: one row per level, kind of key, name, grid and phase
-- key:   level, is_full_name, name_key, grid_x, phase_key
-- needs: profiled_kernels, kernel_phases
-- columns:
--   level                VARCHAR  level of a sweep, null when the run has one level
--   name_key             VARCHAR  full name without blanks, casts and return type; or the short name
--   phase_key            VARCHAR  prefill, decode or mixed; unknown when neither name nor range tells; any for
--                                 all launches of the name
--   verdict              VARCHAR  what limits most of its time
--   cause                VARCHAR  cause of that verdict in most of its time
--   grid_x               INTEGER  grid size of the launches, null for launches of every size
--   read_hit_sectors     DOUBLE   L2 look-ups of SM reads that hit, per launch
--   read_lookup_sectors  DOUBLE   L2 look-ups of SM reads, per launch
--   dram_bytes           DOUBLE   [bytes] DRAM traffic per launch
--   peak_bytes_per_s     DOUBLE   [bytes/s] peak DRAM bandwidth, the lowest where files differ
--   occupancy_ratio      DOUBLE   achieved occupancy, mean of the profiled launches
--   sm_use_ratio         DOUBLE   busiest unit of the SMs over its peak, mean
--   l2_use_ratio         DOUBLE   busiest unit of the L2 over its peak, mean
--   dram_busy_ratio      DOUBLE   DRAM throughput as the profiler states it, mean
--   fabric_use_ratio     DOUBLE   traffic between the L2 partitions over its peak, largest
--   slice_idle_ratio     DOUBLE   idle share of the mean L2 slice behind the busiest one, largest
--   is_full_name         BOOLEAN  the key is the full name
--   is_short             BOOLEAN  most of its time is in launches too short for reliable hit rates
--   is_in_place          BOOLEAN  all of it was collected with the cache as the engine left it
--   is_off_gpu           BOOLEAN  some launch reads host memory or another GPU
-- notes: empty without a GPU trace.
with

kernels as (

    select
        *,
        launch_count * coalesce(duration_ns, 0) as weight_ns
    from profiled_kernels
    where
        not is_copy
        and verdict <> 'failed'
        and name <> ''
        and exists (select 1 from kernel_phases)

),

numbers as (

    select unnest([0, 1, 2, 3, 4, 5, 6, 7]) as number

),

keys as (

    select
        (number & 1) = 1 as is_full_name,
        (number & 2) = 2 as has_grid,
        (number & 4) = 4 as has_phase
    from numbers

),

keyed as (

    select
        kernels.*,
        keys.is_full_name,
        case when keys.is_full_name then counter_name_key(kernels.name) else kernels.short_name end
            as name_key,
        case when keys.has_grid then staged.grid_x end as grid_key,
        case when keys.has_phase then coalesce(kernels.phase, 'unknown') else 'any' end
            as phase_key
    from kernels
    inner join stg_ncu__kernels as staged
        on kernels.source_id = staged.source_id and kernels.kernel_no = staged.kernel_no
    cross join keys
    where not keys.has_grid or staged.grid_x is not null

),

shares as (

    select
        level,
        is_full_name,
        name_key,
        grid_key,
        phase_key,
        verdict,
        cause
    from keyed
    group by level, is_full_name, name_key, grid_key, phase_key, verdict, cause
    qualify
        row_number() over (
            partition by level, is_full_name, name_key, grid_key, phase_key
            order by sum(weight_ns) desc, verdict asc, cause asc
        ) = 1

),

means as (

    select
        level,
        is_full_name,
        name_key,
        grid_key,
        phase_key,
        favg(read_hit_sectors) as read_hit_sectors,
        favg(read_lookup_sectors) as read_lookup_sectors,
        favg(dram_bytes) as dram_bytes,
        min(peak_bytes_per_s) as peak_bytes_per_s,
        favg(occupancy_ratio) as occupancy_ratio,
        favg(sm_use_ratio) as sm_use_ratio,
        favg(l2_use_ratio) as l2_use_ratio,
        favg(dram_busy_ratio) as dram_busy_ratio,
        max(fabric_use_ratio) as fabric_use_ratio,
        max(slice_idle_ratio) as slice_idle_ratio,
        coalesce(
            sum(weight_ns) filter (where is_short) > sum(weight_ns) / 2, false
        ) as is_short,
        bool_and(cache_state = 'in place') as is_in_place,
        bool_or(is_off_gpu) as is_off_gpu
    from keyed
    group by level, is_full_name, name_key, grid_key, phase_key

)

select
    means.level,
    means.name_key,
    means.phase_key,
    shares.verdict,
    shares.cause,
    means.grid_key as grid_x,
    means.read_hit_sectors,
    means.read_lookup_sectors,
    means.dram_bytes,
    means.peak_bytes_per_s,
    means.occupancy_ratio,
    means.sm_use_ratio,
    means.l2_use_ratio,
    means.dram_busy_ratio,
    means.fabric_use_ratio,
    means.slice_idle_ratio,
    means.is_full_name,
    means.is_short,
    means.is_in_place,
    means.is_off_gpu
from means
inner join shares
    on
        means.level is not distinct from shares.level
        and means.is_full_name = shares.is_full_name
        and means.name_key = shares.name_key
        and means.grid_key is not distinct from shares.grid_key
        and means.phase_key = shares.phase_key
