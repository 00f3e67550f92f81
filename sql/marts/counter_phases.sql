-- what:  Counters of profiled kernels carried over to the launches of the GPU trace, by phase.
-- grain: one row per level, device and phase
-- key:   level, device_id, phase
-- columns:
--   level                VARCHAR  level of a sweep, null when the run has one level
--   device_id            INTEGER  GPU of the trace
--   phase                VARCHAR  prefill, decode, mixed or other
--   launch_count         BIGINT   launches of the phase
--   covered_count        BIGINT   launches whose kernel was profiled
--   gpu_time_ns          BIGINT   [ns] kernel time of the phase in the trace
--   covered_time_ns      BIGINT   [ns] of launches whose kernel was profiled
--   coverage_ratio       DOUBLE   covered time over kernel time
--   read_hit_ratio       DOUBLE   sum of hits over sum of look-ups of SM reads, launches as in the trace
--   attention_hit_ratio  DOUBLE   the same of attention alone: weights hide it in the sum
--   dram_use_ratio       DOUBLE   DRAM bytes over time in the trace times peak; an upper bound with cold caches
--   occupancy_ratio      DOUBLE   achieved occupancy, weighted by time in the trace
--   sm_use_ratio         DOUBLE   busiest unit of the SMs, weighted by time in the trace
--   l2_use_ratio         DOUBLE   busiest unit of the L2, weighted by time in the trace
--   is_covered           BOOLEAN  enough of the phase was profiled to speak of the phase
-- notes: which counters a launch takes: int_counter_launches. Time is the trace's: the profiler's durations
--        are those of cold caches and locked clocks. Only runs with profiled kernels have rows.
with

launches as (

    select
        *,
        starts_with(family, 'attention') as is_attention
    from int_counter_launches

),

summed as (

    select
        level,
        device_id,
        phase,
        cast(sum(launch_count) as bigint) as launch_count,
        cast(
            coalesce(sum(launch_count) filter (where is_covered), 0) as bigint
        ) as covered_count,
        cast(sum(time_ns) as bigint) as gpu_time_ns,
        cast(coalesce(sum(time_ns) filter (where is_covered), 0) as bigint)
            as covered_time_ns,
        fsum(read_hit_sectors) / nullif(fsum(read_lookup_sectors), 0) as read_hit_ratio,
        fsum(read_hit_sectors) filter (where is_attention)
        / nullif(fsum(read_lookup_sectors) filter (where is_attention), 0) as attention_hit_ratio,
        fsum(dram_bytes) filter (where peak_bytes is not null)
        / nullif(fsum(peak_bytes) filter (where dram_bytes is not null), 0) as dram_use_ratio,
        fsum(occupancy_ratio * time_ns)
        / nullif(sum(time_ns) filter (where occupancy_ratio is not null), 0)
            as occupancy_ratio,
        fsum(sm_use_ratio * time_ns)
        / nullif(sum(time_ns) filter (where sm_use_ratio is not null), 0) as sm_use_ratio,
        fsum(l2_use_ratio * time_ns)
        / nullif(sum(time_ns) filter (where l2_use_ratio is not null), 0) as l2_use_ratio
    from launches
    group by level, device_id, phase

)

select
    level,
    device_id,
    phase,
    launch_count,
    covered_count,
    gpu_time_ns,
    covered_time_ns,
    covered_time_ns / nullif(gpu_time_ns, 0) as coverage_ratio,
    read_hit_ratio,
    attention_hit_ratio,
    dram_use_ratio,
    occupancy_ratio,
    sm_use_ratio,
    l2_use_ratio,
    coalesce(
        covered_time_ns / nullif(gpu_time_ns, 0) >= threshold('counter_coverage_ratio'), false
    ) as is_covered
from summed
order by level, device_id, phase
