-- what:  Profiled kernels, what limits each, and how far its counters can be trusted.
-- grain: one row per profiled kernel
-- key:   source_id, kernel_no
-- needs: stg_ncu__kernels
-- columns:
--   level                   VARCHAR  level of a sweep, null when the run has one level
--   source_id               INTEGER  file
--   kernel_no               BIGINT   profiled kernel in the file
--   device_id               INTEGER  CUDA device
--   name                    VARCHAR  kernel name, '' for a range
--   short_name              VARCHAR  name without namespaces, template arguments and parameters
--   family                  VARCHAR  kernel family; range or graph for results that cover several kernels
--   phase                   VARCHAR  prefill, decode or mixed, null when neither name nor NVTX range tells
--   nvtx_path               VARCHAR  NVTX ranges around the launch, outermost first
--   gpu_name                VARCHAR  name of the GPU, null when no file says
--   compute_capability      VARCHAR  such as 9.0
--   verdict                 VARCHAR  failed, unknown, small_grid, compute, bandwidth, l2, low_occupancy, latency,
--                                    memory_heavy, compute_heavy or balanced
--   cause                   VARCHAR  of l2 and latency: partition contention, uneven slices (consistent with it, but
--                                    no fabric traffic was counted), access pattern, memory latency, other stalls;
--                                    too short, fabric not collected, no fabric metric or stalls not collected
--                                    when the cause cannot be told; null for other verdicts
--   hit_basis               VARCHAR  read_pair (hits of SM reads), all_clients (with writes and fabric) or absent
--   cache_state             VARCHAR  in place (as the engine left it), flushed, warmed by itself (kernel replay in
--                                    several passes) or unknown: what hit rates can be about
--   peak_basis              VARCHAR  measured_clock, theoretical or gpu_facts: where the peak bandwidth comes from
--   launch_count            BIGINT   launches that the values are the mean of
--   block_count             BIGINT   thread blocks, null when the grid is unknown
--   pass_count              BIGINT   passes over the kernel, null when unknown
--   duration_ns             BIGINT   [ns] duration under the profiler
--   read_hit_sectors        BIGINT   L2 look-ups of SM reads that hit
--   read_lookup_sectors     BIGINT   L2 look-ups of SM reads
--   dram_bytes              BIGINT   [bytes] DRAM traffic
--   host_sectors            BIGINT   L2 fills from host memory: more than 0 means memory that is not on the GPU
--   peer_sectors            BIGINT   L2 look-ups backed by another GPU
--   l2_bytes                BIGINT   [bytes] L2 cache
--   wave_count              DOUBLE   waves of thread blocks
--   peak_bytes_per_s        DOUBLE   [bytes/s] peak DRAM bandwidth
--   measured_peak_bytes_per_s DOUBLE [bytes/s] peak at the DRAM clock while the kernel ran, null when unknown
--   theoretical_peak_bytes_per_s DOUBLE [bytes/s] peak by memory clock and bus width, null when unknown
--   sm_use_ratio            DOUBLE   busiest unit of the SMs over its peak
--   memory_use_ratio        DOUBLE   busiest unit of the memory path (L1, L2, DRAM) over its peak
--   dram_busy_ratio         DOUBLE   DRAM throughput as the profiler states it
--   dram_use_ratio          DOUBLE   DRAM bytes over duration times peak
--   l2_use_ratio            DOUBLE   busiest unit of the L2 over its peak
--   occupancy_ratio         DOUBLE   achieved occupancy
--   tensor_use_ratio        DOUBLE   tensor pipe over its peak
--   read_hit_ratio          DOUBLE   hits of SM reads over their look-ups
--   all_hit_ratio           DOUBLE   L2 hit rate of all clients; writes hit always: not comparable with read_hit_ratio
--   slice_max_to_mean       DOUBLE   look-ups of the busiest L2 slice over those of the mean slice
--   fabric_to_sm_ratio      DOUBLE   look-ups from the other L2 partition over those of the SMs
--   fabric_use_ratio        DOUBLE   traffic between the L2 partitions over its peak
--   slice_idle_ratio        DOUBLE   share of time for which the mean L2 slice idles behind the busiest one
--   memory_stall_ratio      DOUBLE   warps that wait for memory over warps in flight, at each issue
--   is_short                BOOLEAN  too short for reliable hit rates
--   is_small_grid           BOOLEAN  less than one wave of thread blocks
--   is_low_occupancy        BOOLEAN  few warps at a time
--   is_off_gpu              BOOLEAN  reads host memory or another GPU
--   is_copy                 BOOLEAN  a better page of the same report is in the run; leave out of sums
-- notes: verdict goes in the order of the questions: was it measured; do the blocks fill the GPU; is compute,
--        DRAM or L2 near its peak; are there enough warps; else latency (both sides low) or the side that
--        leads. Contention of the L2 partitions is claimed only where the GPU counts traffic between them.
with

joined as (

    select
        kernels.*,
        named.family,
        named.phase,
        sessions.is_copy,
        case
            when sessions.cache_control = 'all' then 'flushed'
            when
                sessions.cache_control = 'none'
                and (
                    sessions.replay_mode in ('application', 'range', 'app-range')
                    or measured.pass_count = 1
                )
                then 'in place'
            when sessions.cache_control = 'none' and sessions.replay_mode = 'kernel'
                then 'warmed by itself'
            else 'unknown'
        end as cache_state,
        facts.hbm_bytes_per_s,
        coalesce(measured.gpu_name, facts.gpu_name) as gpu_name,
        coalesce(measured.sm_count, facts.sm_count) as sm_count,
        coalesce(measured.l2_bytes, facts.l2_bytes) as l2_bytes,
        coalesce(
            measured.measured_peak_per_s, measured.theoretical_per_s, facts.hbm_bytes_per_s
        ) as peak_bytes_per_s,
        case
            when measured.measured_peak_per_s is not null then 'measured_clock'
            when measured.theoretical_per_s is not null then 'theoretical'
            when facts.hbm_bytes_per_s is not null then 'gpu_facts'
        end as peak_basis,
        measured.sm_pct / 100 as sm_use,
        coalesce(measured.memory_pct, greatest(measured.dram_pct, measured.l2_pct)) / 100
            as memory_use,
        measured.* exclude (source_id, kernel_no, gpu_name, sm_count, l2_bytes) -- noqa: RF02
    from stg_ncu__kernels as kernels
    inner join int_counter_kernels_named as named
        on kernels.source_id = named.source_id and kernels.kernel_no = named.kernel_no
    inner join int_counter_kernels_measured as measured
        on kernels.source_id = measured.source_id and kernels.kernel_no = measured.kernel_no
    inner join int_counter_sessions_matched as sessions
        on kernels.source_id = sessions.source_id
    left join int_gpu_facts as facts on kernels.level is not distinct from facts.level

),

judged as (

    select
        *,
        coalesce(duration_ns < threshold('counter_short_kernel_us') * 1000, false) as is_short,
        coalesce(wave_count < 1, block_count < sm_count, false)
        and scope = 'kernel'
        and coalesce(block_count, 1) <> 0
        and not is_failed as is_small_grid,
        coalesce(occupancy_pct / 100 < threshold('counter_occupancy_low_ratio'), false)
            as is_low_occupancy,
        sm_use < threshold('counter_low_ratio') and memory_use < threshold('counter_low_ratio')
            as is_idle
    from joined

),

ruled as (

    select
        *,
        case
            when is_failed then 'failed'
            when is_small_grid and coalesce(is_idle, true) then 'small_grid'
            when sm_use is null or memory_use is null then 'unknown'
            when
                greatest(sm_use, tensor_pct / 100) >= threshold('counter_high_ratio')
                then 'compute'
            when dram_pct / 100 >= threshold('counter_high_ratio') then 'bandwidth'
            when
                l2_pct / 100 >= threshold('counter_low_ratio')
                and coalesce(dram_pct / 100 < threshold('counter_low_ratio'), true)
                then 'l2'
            when is_idle and is_low_occupancy then 'low_occupancy'
            when is_idle then 'latency'
            when memory_use - sm_use >= threshold('counter_lead_ratio') then 'memory_heavy'
            when sm_use - memory_use >= threshold('counter_lead_ratio') then 'compute_heavy'
            else 'balanced'
        end as verdict
    from judged

),

explained as (

    select
        *,
        verdict = 'l2' as is_l2,
        verdict in ('l2', 'latency') as is_open,
        coalesce(
            slice_idle_ratio >= threshold('counter_slice_idle_ratio')
            or fabric_pct / 100 >= threshold('counter_fabric_high_ratio'), false
        ) as is_contended
    from ruled

)

select
    level,
    source_id,
    kernel_no,
    device_id,
    name,
    short_name,
    family,
    phase,
    nvtx_path,
    gpu_name,
    compute_capability,
    verdict,
    case
        when not is_open then null
        when is_short then 'too short'
        when is_contended and has_fabric then 'partition contention'
        when is_contended then 'uneven slices'
        when is_l2 and has_fabric then 'access pattern'
        when not is_l2 and memory_stall_ratio is null then 'stalls not collected'
        when not is_l2 and memory_stall_ratio >= threshold('counter_memory_stall_ratio')
            then 'memory latency'
        when not is_l2 then 'other stalls'
        when has_l2_partitions(compute_capability) then 'fabric not collected'
        when is_l2 then 'no fabric metric'
    end as cause,
    case
        when read_hit_sectors is not null and read_miss_sectors is not null then 'read_pair'
        when has_all_hit then 'all_clients'
        else 'absent'
    end as hit_basis,
    cache_state,
    peak_basis,
    launch_count,
    block_count,
    cast(pass_count as bigint) as pass_count,
    duration_ns,
    cast(read_hit_sectors as bigint) as read_hit_sectors,
    cast(read_hit_sectors + read_miss_sectors as bigint) as read_lookup_sectors,
    cast(dram_bytes as bigint) as dram_bytes,
    cast(host_sectors as bigint) as host_sectors,
    cast(peer_sectors as bigint) as peer_sectors,
    cast(l2_bytes as bigint) as l2_bytes,
    wave_count,
    peak_bytes_per_s,
    measured_peak_per_s as measured_peak_bytes_per_s,
    theoretical_per_s as theoretical_peak_bytes_per_s,
    sm_use as sm_use_ratio,
    memory_use as memory_use_ratio,
    dram_pct / 100 as dram_busy_ratio,
    dram_bytes / nullif(duration_ns / 1e9 * peak_bytes_per_s, 0) as dram_use_ratio,
    l2_pct / 100 as l2_use_ratio,
    occupancy_pct / 100 as occupancy_ratio,
    tensor_pct / 100 as tensor_use_ratio,
    read_hit_sectors / nullif(read_hit_sectors + read_miss_sectors, 0) as read_hit_ratio,
    all_hit_pct / 100 as all_hit_ratio,
    sectors_max / nullif(sectors_mean, 0) as slice_max_to_mean,
    fabric_sectors / nullif(tex_sectors, 0) as fabric_to_sm_ratio,
    fabric_pct / 100 as fabric_use_ratio,
    slice_idle_ratio,
    memory_stall_ratio,
    is_short,
    is_small_grid,
    is_low_occupancy,
    coalesce(
        greatest(host_sectors, peer_sectors)
        >= threshold('counter_off_gpu_ratio') * coalesce(tex_sectors, sectors), false
    ) as is_off_gpu,
    is_copy
from explained
order by source_id, kernel_no
