-- what:  GPU time in each serving phase: of visible kernels, and of graphs traced as a whole.
-- grain: one row per level, device and phase
-- key:   level, device_id, phase
-- columns:
--   level              VARCHAR  level of a sweep, null when the run has one level
--   device_id          INTEGER  GPU index
--   phase              VARCHAR  prefill, decode, mixed, prefill_or_mixed or other
--   kernel_count       BIGINT   visible kernels
--   gpu_time_ns        BIGINT   [ns] summed time of visible kernels; parallel streams count twice
--   busy_ns            BIGINT   [ns] wall time of visible kernels; overlaps count once, for the earlier one
--   graph_count        BIGINT   opaque graph launches that the trace could time
--   graph_time_ns      BIGINT   [ns] summed time of opaque graphs, gaps between their kernels included
--   graph_busy_ns      BIGINT   [ns] wall time of opaque graphs; overlaps count once, for the earlier work
--   confident_time_ns  BIGINT   [ns] part of gpu_time_ns and graph_time_ns whose phase is acted upon
-- notes: over the phases gpu_time_ns adds up to the kernel table, graph_time_ns to the graph table, and
--        busy_ns plus graph_busy_ns to the time in which the device computed anything.
with

kernels as (

    select
        level,
        device_id,
        phase,
        sum(kernel_count) as kernel_count,
        sum(gpu_time_ns) as gpu_time_ns,
        sum(busy_ns) as busy_ns,
        0 as graph_count,
        0 as graph_time_ns,
        0 as graph_busy_ns,
        sum(confident_time_ns) as confident_time_ns
    from phase_kernels
    group by level, device_id, phase

),

graphs as (

    select
        level,
        device_id,
        phase,
        0 as kernel_count,
        0 as gpu_time_ns,
        0 as busy_ns,
        count(*) as graph_count,
        sum(end_ns - start_ns) as graph_time_ns,
        sum(busy_ns) as graph_busy_ns,
        sum(end_ns - start_ns) filter (where confidence >= threshold('phase_confidence_min'))
            as confident_time_ns
    from int_gpu_graphs_phased
    group by level, device_id, phase

),

both_kinds as (

    select * from kernels
    union all
    select * from graphs

)

select
    level,
    device_id,
    phase,
    cast(sum(kernel_count) as bigint) as kernel_count,
    cast(sum(gpu_time_ns) as bigint) as gpu_time_ns,
    cast(sum(busy_ns) as bigint) as busy_ns,
    cast(sum(graph_count) as bigint) as graph_count,
    cast(sum(graph_time_ns) as bigint) as graph_time_ns,
    cast(sum(graph_busy_ns) as bigint) as graph_busy_ns,
    cast(coalesce(sum(confident_time_ns), 0) as bigint) as confident_time_ns
from both_kinds
group by level, device_id, phase
order by level, device_id, phase
