-- what:  Profiled kernels with the metrics that the diagnosis reads, side by side.
-- grain: one row per profiled kernel
-- key:   source_id, kernel_no
-- columns:
--   source_id              INTEGER  file
--   kernel_no              BIGINT   profiled kernel
--   duration_ns            BIGINT   [ns] duration
--   sm_pct                 DOUBLE   [%] busiest unit of the SMs
--   memory_pct             DOUBLE   [%] busiest unit of the whole memory path (L1, L2, DRAM)
--   dram_pct               DOUBLE   [%] DRAM
--   l2_pct                 DOUBLE   [%] busiest unit of the L2
--   occupancy_pct          DOUBLE   [%] achieved occupancy
--   tensor_pct             DOUBLE   [%] tensor pipe
--   all_hit_pct            DOUBLE   [%] L2 hit rate of all clients
--   fabric_pct             DOUBLE   [%] traffic from the other L2 partition, its sectors or its port
--   wave_count             DOUBLE   waves of thread blocks, null for a range or graph
--   pass_count             DOUBLE   passes over the kernel
--   read_hit_sectors       DOUBLE   L2 look-ups of SM reads that hit
--   read_miss_sectors      DOUBLE   L2 look-ups of SM reads that missed
--   sectors                DOUBLE   L2 look-ups of all clients
--   sectors_max            DOUBLE   those of the busiest slice
--   sectors_mean           DOUBLE   those of the mean slice
--   tex_sectors            DOUBLE   L2 look-ups of the SMs
--   fabric_sectors         DOUBLE   L2 look-ups from the other partition
--   host_sectors           DOUBLE   L2 fills from host memory
--   peer_sectors           DOUBLE   L2 look-ups backed by another GPU
--   slice_idle_ratio       DOUBLE   share of time for which the mean L2 slice idles behind the busiest one
--   memory_stall_ratio     DOUBLE   warps that wait for memory over warps in flight, at each issue
--   dram_bytes             DOUBLE   [bytes] DRAM traffic
--   measured_peak_per_s    DOUBLE   [bytes/s] peak at the clock while the kernel ran
--   theoretical_per_s      DOUBLE   [bytes/s] peak by memory clock and bus width
--   sm_count               DOUBLE   multiprocessors
--   l2_bytes               DOUBLE   [bytes] L2 cache
--   gpu_name               VARCHAR  name of the GPU, null when the file does not say
--   is_failed              BOOLEAN  the profiler could not measure this kernel: no duration, or an empty grid without one (a
--                                   range or graph has an empty grid and a duration)
--   has_fabric             BOOLEAN  traffic between L2 partitions was collected: the GPU has them
--   has_all_hit            BOOLEAN  the hit rate of all clients was collected
--   has_bad_hit            BOOLEAN  a hit rate lay outside 0 to 100 and was left out
-- notes: slice_idle_ratio is the profiler's own rule, (1 - mean / max) x active / elapsed, from cycles, else
--        from look-ups. Without the profiler's warp latency the warps in flight come from occupancy, issue
--        rate and the GPU's slots. DRAM bytes are read plus write, else the total, else rate times duration. Values of a kernel that
--        was not launched (grid 0, nan) are zeros or nan and not used.
with

wanted as (
    select
        source_id,
        kernel_no,
        max(value) filter (where name = 'duration_ns') as duration_ns,
        max(value) filter (where name = 'sm_pct') as sm_pct,
        max(value) filter (where name = 'memory_pct') as memory_pct,
        max(value) filter (where name = 'l2_pct') as l2_pct,
        max(value) filter (where name = 'occupancy_pct') as occupancy_pct,
        max(value) filter (where name = 'all_hit_pct') as all_hit_pct,
        max(value) filter (where name = 'fabric_pct') as fabric_pct,
        max(value) filter (where name = 'fabric_port_pct') as fabric_port_pct,
        max(value) filter (where name = 'wave_count') as wave_count,
        max(value) filter (where name = 'pass_count') as pass_count,
        max(value) filter (where name = 'read_hit_sectors') as read_hit_sectors,
        max(value) filter (where name = 'read_miss_sectors') as read_miss_sectors,
        max(value) filter (where name = 'sectors') as sectors,
        max(value) filter (where name = 'sectors_max') as sectors_max,
        max(value) filter (where name = 'sectors_mean') as sectors_mean,
        max(value) filter (where name = 'tex_sectors') as tex_sectors,
        max(value) filter (where name = 'fabric_sectors') as fabric_sectors,
        max(value) filter (where name = 'slice_cycles_mean') as slice_cycles_mean,
        max(value) filter (where name = 'slice_cycles_max') as slice_cycles_max,
        max(value) filter (where name = 'slice_cycles') as slice_cycles,
        max(value) filter (where name = 'slice_cycles_elapsed') as slice_cycles_elapsed,
        max(value) filter (where name = 'memory_stall_warps') as memory_stall_warps,
        max(value) filter (where name = 'stall_warps') as stall_warps,
        max(value) filter (where name = 'issue_pct') as issue_pct,
        max(value) filter (where name = 'total_bytes') as total_bytes,
        max(value) filter (where name = 'bytes_per_s') as bytes_per_s,
        max(value) filter (where name = 'peak_bytes') as peak_bytes,
        max(value) filter (where name = 'dram_hz') as dram_hz,
        max(value) filter (where name = 'launch_sm_count') as launch_sm_count,
        arg_min(value, preference) filter (where name = 'dram_pct' and value is not null)
            as dram_pct,
        arg_min(value, preference) filter (where name = 'tensor_pct' and value is not null)
            as tensor_pct,
        arg_min(value, preference) filter (where name = 'host_sectors' and value is not null)
            as host_sectors,
        arg_min(value, preference) filter (where name = 'peer_sectors' and value is not null)
            as peer_sectors,
        arg_min(value, preference) filter (where name = 'read_bytes' and value is not null)
            as read_bytes,
        arg_min(value, preference) filter (where name = 'write_bytes' and value is not null)
            as write_bytes,
        coalesce(bool_or(name = 'duration_ns' and quality = 'nan'), false) as is_unmeasured
    from int_counter_values_chosen
    group by source_id, kernel_no

),

devices as (

    select
        source_id,
        device_id,
        max(text) filter (where attribute = 'display_name') as gpu_name,
        max(value) filter (where attribute = 'multiprocessor_count') as sm_count,
        max(value) filter (where attribute = 'l2_cache_size') as l2_bytes,
        max(value) filter (where attribute = 'memory_clock_rate') as memory_khz,
        coalesce(
            max(value) filter (where attribute = 'global_memory_bus_width'),
            max(value) filter (where attribute = 'fb_bus_width')
        ) as bus_bits
    from stg_ncu__devices
    group by source_id, device_id

),

judged as (

    select
        kernels.source_id,
        kernels.kernel_no,
        devices.gpu_name,
        coalesce(devices.sm_count, wanted.launch_sm_count) as sm_count,
        devices.l2_bytes,
        2 * devices.memory_khz * 1e3 * devices.bus_bits / 8 as theoretical_per_s,
        wanted.peak_bytes * wanted.dram_hz as measured_peak_per_s,
        coalesce(
            wanted.read_bytes + wanted.write_bytes,
            wanted.total_bytes,
            wanted.bytes_per_s * wanted.duration_ns / 1e9
        ) as dram_bytes,
        coalesce(wanted.is_unmeasured, false)
        or coalesce(kernels.block_count = 0 and coalesce(wanted.duration_ns, 0) <= 0, false)
            as is_failed,
        wanted.duration_ns,
        wanted.sm_pct,
        wanted.memory_pct,
        wanted.dram_pct,
        wanted.l2_pct,
        wanted.occupancy_pct,
        wanted.tensor_pct,
        wanted.all_hit_pct,
        greatest(wanted.fabric_pct, wanted.fabric_port_pct) as fabric_pct,
        case when coalesce(kernels.block_count, 1) <> 0 then wanted.wave_count end
            as wave_count,
        wanted.pass_count,
        wanted.read_hit_sectors,
        wanted.read_miss_sectors,
        wanted.sectors,
        wanted.sectors_max,
        wanted.sectors_mean,
        wanted.tex_sectors,
        wanted.fabric_sectors,
        wanted.host_sectors,
        wanted.peer_sectors,
        wanted.fabric_pct is not null
        or wanted.fabric_port_pct is not null
        or wanted.fabric_sectors is not null as has_fabric,
        coalesce(
            (1 - wanted.slice_cycles_mean / nullif(wanted.slice_cycles_max, 0))
            * wanted.slice_cycles / nullif(wanted.slice_cycles_elapsed, 0),
            (1 - wanted.sectors_mean / nullif(wanted.sectors_max, 0)) * wanted.l2_pct / 100
        ) as slice_idle_ratio,
        wanted.memory_stall_warps / nullif(
            coalesce(
                wanted.stall_warps,
                wanted.occupancy_pct * warp_slots(kernels.compute_capability)
                / nullif(wanted.issue_pct, 0)
            ), 0
        ) as memory_stall_ratio
    from stg_ncu__kernels as kernels
    left join wanted
        on kernels.source_id = wanted.source_id and kernels.kernel_no = wanted.kernel_no
    left join devices
        on kernels.source_id = devices.source_id and kernels.device_id = devices.device_id

)

select
    source_id,
    kernel_no,
    case when not is_failed then cast(duration_ns as bigint) end as duration_ns,
    case when not is_failed then sm_pct end as sm_pct,
    case when not is_failed then memory_pct end as memory_pct,
    case when not is_failed then dram_pct end as dram_pct,
    case when not is_failed then l2_pct end as l2_pct,
    case when not is_failed then occupancy_pct end as occupancy_pct,
    case when not is_failed then tensor_pct end as tensor_pct,
    case when not is_failed and all_hit_pct between 0 and 100 then all_hit_pct end as all_hit_pct,
    case when not is_failed then fabric_pct end as fabric_pct,
    case when not is_failed then wave_count end as wave_count,
    pass_count,
    case when not is_failed then read_hit_sectors end as read_hit_sectors,
    case when not is_failed then read_miss_sectors end as read_miss_sectors,
    case when not is_failed then sectors end as sectors,
    case when not is_failed then sectors_max end as sectors_max,
    case when not is_failed then sectors_mean end as sectors_mean,
    case when not is_failed then tex_sectors end as tex_sectors,
    case when not is_failed then fabric_sectors end as fabric_sectors,
    case when not is_failed then host_sectors end as host_sectors,
    case when not is_failed then peer_sectors end as peer_sectors,
    case when not is_failed then slice_idle_ratio end as slice_idle_ratio,
    -- least ignores null: an unknown share must stay unknown.
    case
        when not is_failed and memory_stall_ratio is not null then least(memory_stall_ratio, 1)
    end as memory_stall_ratio,
    case when not is_failed then dram_bytes end as dram_bytes,
    case when not is_failed then measured_peak_per_s end as measured_peak_per_s,
    theoretical_per_s,
    sm_count,
    l2_bytes,
    gpu_name,
    is_failed,
    has_fabric,
    all_hit_pct is not null as has_all_hit,
    coalesce(all_hit_pct not between 0 and 100, false) as has_bad_hit
from judged
