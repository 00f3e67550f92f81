-- what:  L2 hits and DRAM use of profiled kernels by family, summed before they are divided.
-- grain: one row per level and kernel family
-- key:   level, family
-- columns:
--   level                 VARCHAR  level of a sweep, null when the run has one level
--   family                VARCHAR  kernel family; range or graph for results that cover several kernels
--   hit_basis             VARCHAR  read_pair (all kernels), read_pair_part (some), all_clients or absent
--   peak_basis            VARCHAR  where the peak bandwidth comes from; 'mixed' when from several places
--   warnings              VARCHAR  what limits the trust: short_kernels, several_passes, small_grid,
--                                  hit_out_of_range, caches_flushed, warmed_by_itself, settings_unknown,
--                                  fabric_counted_twice; joined by ', ', null when nothing does
--   profile_count         BIGINT   profiled kernels
--   launch_count          BIGINT   launches behind them; more than profiled kernels on summary pages
--   failed_count          BIGINT   kernels that could not be measured; they count nowhere else
--   short_count           BIGINT   kernels too short for reliable hit rates
--   small_grid_count      BIGINT   kernels with less than one wave of thread blocks
--   read_pair_count       BIGINT   kernels behind read_hit_ratio
--   duration_ns           BIGINT   [ns] summed duration under the profiler
--   read_hit_sectors      BIGINT   L2 look-ups of SM reads that hit
--   read_lookup_sectors   BIGINT   L2 look-ups of SM reads
--   dram_bytes            BIGINT   [bytes] DRAM traffic of kernels whose traffic and time are known
--   host_sectors          BIGINT   L2 fills from host memory
--   peer_sectors          BIGINT   L2 look-ups backed by another GPU
--   read_hit_ratio        DOUBLE   sum of hits over sum of look-ups, SM reads only
--   all_hit_min_ratio     DOUBLE   lowest hit rate of all clients; it cannot be summed
--   all_hit_max_ratio     DOUBLE   highest hit rate of all clients
--   dram_use_ratio        DOUBLE   sum of bytes over sum of duration times peak
--   dram_busy_ratio       DOUBLE   DRAM throughput as the profiler states it, weighted by duration
--   l2_use_ratio          DOUBLE   busiest unit of the L2, weighted by duration
--   sm_use_ratio          DOUBLE   busiest unit of the SMs, weighted by duration
--   occupancy_ratio       DOUBLE   achieved occupancy, weighted by duration
--   tensor_use_ratio      DOUBLE   tensor pipe, weighted by duration
--   wave_count            DOUBLE   waves of thread blocks, weighted by duration
--   slice_max_to_mean     DOUBLE   busiest L2 slice over the mean slice, largest of the kernels
--   fabric_use_ratio      DOUBLE   traffic between the L2 partitions over its peak, largest of the kernels
-- notes: the profiler runs kernels one by one, with cold caches and locked clocks unless told otherwise:
--        ratios hold, times do not. Rates of all clients hold writes, which always hit, and hops
--        between partitions: never compare them with read_hit_ratio.
with

kernels as (

    select
        profiled.*,
        settings.cache_control,
        settings.replay_mode,
        settings.has_options,
        measured.has_bad_hit,
        profiled.verdict <> 'failed' as is_measured,
        profiled.launch_count * profiled.duration_ns as weight_ns
    from profiled_kernels as profiled
    inner join int_counter_sessions_matched as settings
        on profiled.source_id = settings.source_id
    inner join int_counter_kernels_measured as measured
        on
            profiled.source_id = measured.source_id
            and profiled.kernel_no = measured.kernel_no
    where not profiled.is_copy

),

flagged as (

    select
        level,
        family,
        unnest(
            [
                case when is_short then 'short_kernels' end,
                case when pass_count > 1 then 'several_passes' end,
                case when is_small_grid then 'small_grid' end,
                case when has_bad_hit then 'hit_out_of_range' end,
                case when cache_control = 'all' then 'caches_flushed' end,
                case
                    when cache_control = 'none' and replay_mode = 'kernel' and pass_count > 1
                        then 'warmed_by_itself'
                end,
                case when not has_options then 'settings_unknown' end,
                case
                    when hit_basis = 'all_clients' and has_l2_partitions(compute_capability)
                        then 'fabric_counted_twice'
                end
            ]
        ) as flag
    from kernels
    where is_measured

),

warned as (

    select
        level,
        family,
        string_agg(distinct flag, ', ' order by flag) as warnings
    from flagged
    where flag is not null
    group by level, family

),

summed as (

    select
        level,
        family,
        min(peak_basis) filter (where is_measured) as first_basis,
        max(peak_basis) filter (where is_measured) as last_basis,
        count(*) filter (where is_measured) as profile_count,
        cast(sum(launch_count) filter (where is_measured) as bigint) as launch_count,
        count(*) filter (where not is_measured) as failed_count,
        count(*) filter (where is_measured and is_short) as short_count,
        count(*) filter (where is_measured and is_small_grid) as small_grid_count,
        count(*) filter (where is_measured and hit_basis = 'read_pair') as read_pair_count,
        count(*) filter (where is_measured and hit_basis = 'all_clients') as all_clients_count,
        cast(sum(weight_ns) as bigint) as duration_ns,
        cast(sum(read_hit_sectors * launch_count) as bigint) as read_hit_sectors,
        cast(sum(read_lookup_sectors * launch_count) as bigint) as read_lookup_sectors,
        cast(sum(dram_bytes * launch_count) filter (where duration_ns > 0) as bigint)
            as dram_bytes,
        cast(sum(host_sectors * launch_count) as bigint) as host_sectors,
        cast(sum(peer_sectors * launch_count) as bigint) as peer_sectors,
        min(all_hit_ratio) as all_hit_min_ratio,
        max(all_hit_ratio) as all_hit_max_ratio,
        fsum(dram_bytes * launch_count) filter (where dram_use_ratio is not null)
        / nullif(
            fsum(weight_ns / 1e9 * peak_bytes_per_s) filter (where dram_use_ratio is not null), 0
        ) as dram_use_ratio,
        fsum(dram_busy_ratio * weight_ns)
        / nullif(sum(weight_ns) filter (where dram_busy_ratio is not null), 0)
            as dram_busy_ratio,
        fsum(l2_use_ratio * weight_ns)
        / nullif(sum(weight_ns) filter (where l2_use_ratio is not null), 0) as l2_use_ratio,
        fsum(sm_use_ratio * weight_ns)
        / nullif(sum(weight_ns) filter (where sm_use_ratio is not null), 0) as sm_use_ratio,
        fsum(occupancy_ratio * weight_ns)
        / nullif(sum(weight_ns) filter (where occupancy_ratio is not null), 0)
            as occupancy_ratio,
        fsum(tensor_use_ratio * weight_ns)
        / nullif(sum(weight_ns) filter (where tensor_use_ratio is not null), 0)
            as tensor_use_ratio,
        fsum(wave_count * weight_ns)
        / nullif(sum(weight_ns) filter (where wave_count is not null), 0) as wave_count,
        max(slice_max_to_mean) as slice_max_to_mean,
        max(fabric_use_ratio) as fabric_use_ratio
    from kernels
    group by level, family

)

select
    summed.level,
    summed.family,
    case
        when summed.read_pair_count = summed.profile_count and summed.profile_count > 0
            then 'read_pair'
        when summed.read_pair_count > 0 then 'read_pair_part'
        when summed.all_clients_count > 0 then 'all_clients'
        else 'absent'
    end as hit_basis,
    case
        when summed.first_basis = summed.last_basis then summed.first_basis
        when summed.first_basis is not null then 'mixed'
    end as peak_basis,
    warned.warnings,
    summed.profile_count,
    summed.launch_count,
    summed.failed_count,
    summed.short_count,
    summed.small_grid_count,
    summed.read_pair_count,
    summed.duration_ns,
    summed.read_hit_sectors,
    summed.read_lookup_sectors,
    summed.dram_bytes,
    summed.host_sectors,
    summed.peer_sectors,
    summed.read_hit_sectors / nullif(summed.read_lookup_sectors, 0) as read_hit_ratio,
    summed.all_hit_min_ratio,
    summed.all_hit_max_ratio,
    summed.dram_use_ratio,
    summed.dram_busy_ratio,
    summed.l2_use_ratio,
    summed.sm_use_ratio,
    summed.occupancy_ratio,
    summed.tensor_use_ratio,
    summed.wave_count,
    summed.slice_max_to_mean,
    summed.fabric_use_ratio
from summed
left join warned
    on
        summed.level is not distinct from warned.level
        and summed.family = warned.family
order by summed.level asc, summed.duration_ns desc nulls last, summed.family asc
