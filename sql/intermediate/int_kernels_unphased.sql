-- what:  GPU work that no step label gives a phase, cut into steps by the order of its kernels.
-- grain: one row per kernel launch or opaque graph launch without a labelled phase
-- key:   source_id, is_opaque, work_no
-- columns:
--   level            VARCHAR  level of a sweep, null when the run has one level
--   source_id        INTEGER  trace file
--   work_no          BIGINT   number in the file
--   device_id        INTEGER  GPU index
--   process_id       UBIGINT  process key
--   stream_id        INTEGER  CUDA stream
--   label_step_id    BIGINT   step whose label names no phase, null outside labels
--   segment_no       BIGINT   step within process and device, from 1; 0 is the work before the first; 1 inside a label
--   name_phase       VARCHAR  phase that name and grid prove, null when they do not
--   is_opaque        BOOLEAN  a graph whose kernels are invisible
--   is_in_graph      BOOLEAN  launched by a CUDA graph
--   is_main          BOOLEAN  computes attention itself
--   is_combine       BOOLEAN  reduces the parts of an attention kernel before it
--   is_kv_write      BOOLEAN  writes the KV of one layer
--   is_part          BOOLEAN  decode attention of a backend that launches prefill and decode of a batch apart
--   is_long_query    BOOLEAN  attention over queries of more tokens than decode has
--   is_long_sure     BOOLEAN  the grid shows it, so that checks of drafted tokens cannot be meant
--   is_cycle_start   BOOLEAN  begins a step that only the cycle of layers bounds
--   start_ns         BIGINT   [ns] start, run clock
--   end_ns           BIGINT   [ns] end, run clock
-- notes: sampling kernels end a step; without any, the cycle of layers tells where one begins. A stretch
--        between them without attention or graph belongs to the step before it.
with

work as (

    select * from int_gpu_work

),

steps as (

    select * from int_steps_labelled

),

cycles as (

    select * from int_kernels_cycled

),

names as (

    select distinct
        kernel_id,
        family,
        phase,
        max_grid_x,
        long_query,
        is_main,
        is_part
    from int_kernels_named

),

unphased as (

    select
        work.level,
        work.source_id,
        work.work_no,
        work.device_id,
        work.process_id,
        work.stream_id,
        work.step_id as label_step_id,
        case when work.grid_x <= coalesce(names.max_grid_x, work.grid_x) then names.phase end
            as name_phase,
        work.is_opaque,
        work.is_in_graph,
        coalesce(names.is_main, false) as is_main,
        coalesce(names.family = 'attention_combine', false) as is_combine,
        coalesce(names.family = 'kv_write', false) as is_kv_write,
        coalesce(names.is_part, false) as is_part,
        coalesce(
            names.long_query = 'name'
            or (names.long_query = 'grid' and work.grid_x > names.max_grid_x), false
        ) as is_long_query,
        coalesce(names.long_query = 'grid' and work.grid_x > names.max_grid_x, false)
            as is_long_sure,
        coalesce(names.family = 'sampling', false) as is_sampling,
        cycles.work_no is not null as is_cycle_start,
        work.start_ns,
        work.end_ns
    from work
    left join steps on work.step_id = steps.step_id
    left join names on work.kernel_id = names.kernel_id
    left join cycles
        on
            work.source_id = cycles.source_id
            and work.work_no = cycles.work_no
            and work.is_opaque = cycles.is_opaque
    where steps.phase is null

),

-- A sampling kernel directly behind another one is a stretch of its own, without a step. A count with a
-- filter would say it shorter, but takes quadratic time over a window.
stretched as (

    select
        *,
        coalesce(
            sum(cast(is_sampling as bigint)) over (
                in_order rows between unbounded preceding and 1 preceding
            ), 0
        )
        + sum(cast(is_cycle_start as bigint)) over (in_order rows unbounded preceding)
            as stretch_no
    from unphased
    window in_order as (
        partition by source_id, process_id, device_id, label_step_id
        order by start_ns, end_ns, is_opaque, work_no
    )

),

stretches as (

    select
        source_id,
        process_id,
        device_id,
        label_step_id,
        stretch_no,
        bool_or(is_main or is_in_graph) as has_step
    from stretched
    group by source_id, process_id, device_id, label_step_id, stretch_no

),

numbered as (

    select
        *,
        sum(cast(has_step as bigint)) over (
            partition by source_id, process_id, device_id, label_step_id
            order by stretch_no
        ) as segment_no
    from stretches

)

select
    stretched.level,
    stretched.source_id,
    stretched.work_no,
    stretched.device_id,
    stretched.process_id,
    stretched.stream_id,
    stretched.label_step_id,
    case
        when stretched.label_step_id is not null then 1
        else cast(numbered.segment_no as bigint)
    end as segment_no,
    stretched.name_phase,
    stretched.is_opaque,
    stretched.is_in_graph,
    stretched.is_main,
    stretched.is_combine,
    stretched.is_kv_write,
    stretched.is_part,
    stretched.is_long_query,
    stretched.is_long_sure,
    stretched.is_cycle_start,
    stretched.start_ns,
    stretched.end_ns
from stretched
inner join numbered
    on
        stretched.source_id = numbered.source_id
        and stretched.process_id is not distinct from numbered.process_id
        and stretched.device_id is not distinct from numbered.device_id
        and stretched.label_step_id is not distinct from numbered.label_step_id
        and stretched.stretch_no = numbered.stretch_no
