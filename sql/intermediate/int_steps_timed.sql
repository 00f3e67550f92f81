-- what:  GPU time of each step on each device.
-- grain: one row per step and device
-- key:   step_id, device_id
-- columns:
--   source_id      INTEGER  trace file
--   step_id        BIGINT   step in the run
--   device_id      INTEGER  GPU index
--   kernel_count   BIGINT   visible kernels
--   graph_count    BIGINT   opaque graph launches
--   gpu_busy_ns    BIGINT   [ns] time in which the device computed for the step
--   gpu_start_ns   BIGINT   [ns] start of its first work, run clock
--   gpu_end_ns     BIGINT   [ns] end of its last work, run clock
--   idle_since_ns  BIGINT   [ns] end of all earlier steps' work on the device; null for the first step
with

kernels as (

    select * from kernel_phases where step_id is not null

),

graphs as (

    select * from int_gpu_graphs_phased where step_id is not null

),

pieces as (

    select
        source_id,
        step_id,
        device_id,
        count(*) as kernel_count,
        0 as graph_count,
        sum(busy_ns) as busy_ns,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from kernels
    group by source_id, step_id, device_id
    union all
    select
        source_id,
        step_id,
        device_id,
        0 as kernel_count,
        count(*) as graph_count,
        sum(busy_ns) as busy_ns,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from graphs
    group by source_id, step_id, device_id

),

summed as (

    select
        source_id,
        step_id,
        device_id,
        cast(sum(kernel_count) as bigint) as kernel_count,
        cast(sum(graph_count) as bigint) as graph_count,
        cast(sum(busy_ns) as bigint) as gpu_busy_ns,
        min(start_ns) as gpu_start_ns,
        max(end_ns) as gpu_end_ns
    from pieces
    group by source_id, step_id, device_id

)

select
    source_id,
    step_id,
    device_id,
    kernel_count,
    graph_count,
    gpu_busy_ns,
    gpu_start_ns,
    gpu_end_ns,
    max(gpu_end_ns) over (
        partition by source_id, device_id
        order by gpu_start_ns, step_id
        rows between unbounded preceding and 1 preceding
    ) as idle_since_ns
from summed
