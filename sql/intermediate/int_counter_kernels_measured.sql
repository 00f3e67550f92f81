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
--   fabric_pct             DOUBLE   [%] traffic from the other L2 partition
--   wave_count             DOUBLE   waves of thread blocks
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
--   dram_bytes             DOUBLE   [bytes] DRAM traffic
--   measured_peak_per_s    DOUBLE   [bytes/s] peak at the clock while the kernel ran
--   theoretical_per_s      DOUBLE   [bytes/s] peak by memory clock and bus width
--   sm_count               DOUBLE   multiprocessors
--   l2_bytes               DOUBLE   [bytes] L2 cache
--   gpu_name               VARCHAR  name of the GPU, null when the file does not say
--   is_failed              BOOLEAN  the profiler could not measure this kernel
--   has_all_hit            BOOLEAN  the hit rate of all clients was collected
--   has_bad_hit            BOOLEAN  a hit rate lay outside 0 to 100 and was left out
-- notes: DRAM bytes are read plus write, else the total, else rate times duration. Values of a kernel that
--        was not launched (grid 0, nan) are zeros or nan and not used.
with

wanted as (

    select
        source_id,
        kernel_no,
        max(value) filter (where metric = 'gpu__time_duration.sum') as duration_ns,
        max(value) filter (
            where metric = 'sm__throughput.avg.pct_of_peak_sustained_elapsed'
        ) as sm_pct,
        max(value) filter (
            where metric = 'gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed'
        ) as memory_pct,
        coalesce(
            max(value) filter (
                where metric = 'gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed'
            ),
            max(value) filter (where metric = 'dram__throughput.avg.pct_of_peak_sustained_elapsed')
        ) as dram_pct,
        max(value) filter (
            where metric = 'lts__throughput.avg.pct_of_peak_sustained_elapsed'
        ) as l2_pct,
        max(value) filter (
            where metric = 'sm__warps_active.avg.pct_of_peak_sustained_active'
        ) as occupancy_pct,
        coalesce(
            max(value) filter (
                where metric = 'sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active'
            ),
            max(value) filter (
                where metric = 'sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed'
            ),
            max(value) filter (
                where metric = 'sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active'
            )
        ) as tensor_pct,
        max(value) filter (where metric = 'lts__t_sector_hit_rate.pct') as all_hit_pct,
        max(value) filter (
            where metric = 'lts__t_sectors_srcunit_ltcfabric.avg.pct_of_peak_sustained_elapsed'
        ) as fabric_pct,
        max(value) filter (where metric = 'launch__waves_per_multiprocessor') as wave_count,
        max(value) filter (where metric = 'profiler__replayer_passes') as pass_count,
        max(value) filter (
            where metric = 'lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum'
        ) as read_hit_sectors,
        max(value) filter (
            where metric = 'lts__t_sectors_srcunit_tex_op_read_lookup_miss.sum'
        ) as read_miss_sectors,
        max(value) filter (where metric = 'lts__t_sectors.sum') as sectors,
        max(value) filter (where metric = 'lts__t_sectors.max') as sectors_max,
        max(value) filter (where metric = 'lts__t_sectors.avg') as sectors_mean,
        max(value) filter (where metric = 'lts__t_sectors_srcunit_tex.sum') as tex_sectors,
        max(value) filter (where metric = 'lts__t_sectors_srcunit_ltcfabric.sum')
            as fabric_sectors,
        coalesce(
            max(value) filter (where metric = 'lts__d_sectors_fill_sysmem.sum'),
            max(value) filter (where metric = 'lts__t_sectors_srcunit_tex_aperture_sysmem.sum')
        ) as host_sectors,
        max(value) filter (where metric = 'lts__t_sectors_srcunit_tex_aperture_peer.sum')
            as peer_sectors,
        coalesce(
            max(value) filter (where metric = 'dram__bytes_read.sum'),
            max(value) filter (where metric = 'dram__bytes_op_read.sum')
        ) as read_bytes,
        coalesce(
            max(value) filter (where metric = 'dram__bytes_write.sum'),
            max(value) filter (where metric = 'dram__bytes_op_write.sum')
        ) as write_bytes,
        max(value) filter (where metric = 'dram__bytes.sum') as total_bytes,
        max(value) filter (where metric = 'dram__bytes.sum.per_second') as bytes_per_s,
        max(value) filter (where metric = 'dram__bytes.sum.peak_sustained') as peak_bytes,
        max(value) filter (where metric = 'dram__cycles_elapsed.avg.per_second') as dram_hz,
        max(value) filter (where metric = 'launch__sm_count') as launch_sm_count,
        coalesce(
            bool_or(metric = 'gpu__time_duration.sum' and quality = 'nan'), false
        ) as is_unmeasured
    from raw_counter_values
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
        coalesce(wanted.is_unmeasured, false) or coalesce(kernels.block_count = 0, false)
            as is_failed,
        wanted.duration_ns,
        wanted.sm_pct,
        wanted.memory_pct,
        wanted.dram_pct,
        wanted.l2_pct,
        wanted.occupancy_pct,
        wanted.tensor_pct,
        wanted.all_hit_pct,
        wanted.fabric_pct,
        wanted.wave_count,
        wanted.pass_count,
        wanted.read_hit_sectors,
        wanted.read_miss_sectors,
        wanted.sectors,
        wanted.sectors_max,
        wanted.sectors_mean,
        wanted.tex_sectors,
        wanted.fabric_sectors,
        wanted.host_sectors,
        wanted.peer_sectors
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
    case when not is_failed then dram_bytes end as dram_bytes,
    case when not is_failed then measured_peak_per_s end as measured_peak_per_s,
    theoretical_per_s,
    sm_count,
    l2_bytes,
    gpu_name,
    is_failed,
    all_hit_pct is not null as has_all_hit,
    coalesce(all_hit_pct not between 0 and 100, false) as has_bad_hit
from judged
