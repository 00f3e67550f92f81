-- what:  Work of the compute engines: kernels, and graphs traced as a whole, with the step that launched them.
-- grain: one row per kernel launch or opaque graph launch
-- key:   source_id, is_opaque, work_no
-- columns:
--   level            VARCHAR  level of a sweep, null when the run has one level
--   source_id        INTEGER  trace file
--   work_no          BIGINT   kernel_no, or graph_launch_no of an opaque graph
--   device_id        INTEGER  GPU index
--   process_id       UBIGINT  process key
--   stream_id        INTEGER  CUDA stream
--   kernel_id        INTEGER  kernel name, null for an opaque graph
--   grid_x           INTEGER  grid size, null for an opaque graph
--   step_id          BIGINT   labelled step, null when launched outside one
--   is_opaque        BOOLEAN  a graph whose kernels are invisible
--   is_in_graph      BOOLEAN  launched by a CUDA graph
--   start_ns         BIGINT   [ns] start, run clock
--   end_ns           BIGINT   [ns] end, run clock
--   covered_ns       BIGINT   [ns] latest end of earlier work on the device, run clock
-- notes: graphs that the trace could not time are left out. Time up to covered_ns is already counted with
--        earlier work, so greatest(0, end_ns - greatest(start_ns, covered_ns)) adds up to busy time.
with

kernels as (

    select * from stg_nsys__kernels

),

graphs as (

    select * from stg_nsys__graph_launches where is_timed

),

names as (

    select
        source_id,
        name_id,
        kernel_id
    from int_kernels_named

),

launches as (

    select * from int_steps_launches

),

work as (

    select
        kernels.level,
        kernels.source_id,
        kernels.kernel_no as work_no,
        kernels.device_id,
        kernels.process_id,
        kernels.stream_id,
        kernels.correlation_id,
        names.kernel_id,
        kernels.grid_x,
        false as is_opaque,
        kernels.is_graph_node as is_in_graph,
        kernels.start_ns,
        kernels.end_ns
    from kernels
    left join names on kernels.source_id = names.source_id and kernels.name_id = names.name_id
    union all
    select
        level,
        source_id,
        graph_launch_no as work_no,
        device_id,
        process_id,
        stream_id,
        correlation_id,
        null as kernel_id,
        null as grid_x,
        true as is_opaque,
        true as is_in_graph,
        start_ns,
        end_ns
    from graphs

)

select
    work.level,
    work.source_id,
    work.work_no,
    work.device_id,
    work.process_id,
    work.stream_id,
    work.kernel_id,
    work.grid_x,
    launches.step_id,
    work.is_opaque,
    work.is_in_graph,
    work.start_ns,
    work.end_ns,
    max(work.end_ns) over (
        partition by work.source_id, work.device_id
        order by work.start_ns, work.end_ns, work.is_opaque, work.work_no
        rows between unbounded preceding and 1 preceding
    ) as covered_ns
from work
left join launches
    on
        work.source_id = launches.source_id
        and work.process_id = launches.process_id
        and work.correlation_id = launches.correlation_id
