-- what:  Every kernel launch of the GPU traces with its serving phase.
-- grain: one row per kernel launch
-- key:   source_id, kernel_no
-- columns:
--   level        VARCHAR  level of a sweep, null when the run has one level
--   source_id    INTEGER  trace file
--   kernel_no    BIGINT   number in the file
--   device_id    INTEGER  GPU index
--   stream_id    INTEGER  CUDA stream
--   step_id      BIGINT   engine step, null outside steps
--   kernel_id    INTEGER  name, see kernel_names
--   phase        VARCHAR  prefill, decode, mixed, prefill_or_mixed or other
--   family       VARCHAR  kernel family by name and grid
--   evidence     VARCHAR  step_label, label_and_name, recompute_label, stage_label, graph_launch, kernel_name, launched_apart, long_query,
--                         inferred_step, graph_alone, layer_cycle, likely_long_query, mixed_evidence or none
--   confidence   DOUBLE   0-1; from 0.8 on the phase is acted upon
--   is_in_graph  BOOLEAN  launched by a CUDA graph
--   busy_ns      BIGINT   [ns] part of the time not covered by earlier work of the device; adds up to busy time
--   start_ns     BIGINT   [ns] start, run clock
--   end_ns       BIGINT   [ns] end, run clock
-- notes: the phase is the kernel's: attention launched apart in a mixed step is prefill or decode, the rest
--        of that step is mixed. prefill_or_mixed says that prompts are computed and that one launch for the
--        whole batch hides whether others decode. Kernels on parallel streams overlap: sum busy_ns for wall time.
with

work as (

    select * from int_gpu_work where not is_opaque

),

labelled as (

    select
        steps.step_id,
        steps.phase,
        evidence.evidence,
        evidence.confidence
    from int_steps_labelled as steps
    inner join phase_evidence as evidence on steps.evidence = evidence.evidence

),

apart as (

    select
        source_id,
        work_no,
        phase
    from int_kernels_apart

),

names as (

    select distinct
        kernel_id,
        family,
        wide_family,
        max_grid_x
    from int_kernels_named

),

inferred as (

    select * from int_kernels_inferred where not is_opaque

),

sure as (

    select max(confidence) as apart_confidence from phase_evidence where evidence = 'label_and_name'

)

select
    work.level,
    work.source_id,
    work.work_no as kernel_no,
    work.device_id,
    work.stream_id,
    coalesce(work.step_id, inferred.step_id) as step_id,
    work.kernel_id,
    coalesce(apart.phase, labelled.phase, inferred.phase, 'other') as phase,
    case
        when work.grid_x > names.max_grid_x then names.wide_family
        else coalesce(names.family, 'other')
    end as family,
    case
        when apart.phase is not null then 'label_and_name'
        else coalesce(labelled.evidence, inferred.evidence, 'none')
    end as evidence,
    case
        when apart.phase is not null then sure.apart_confidence
        else coalesce(labelled.confidence, inferred.confidence, 0)
    end as confidence,
    work.is_in_graph,
    greatest(0, work.end_ns - greatest(work.start_ns, coalesce(work.covered_ns, work.start_ns)))
        as busy_ns,
    work.start_ns,
    work.end_ns
from work
left join labelled on work.step_id = labelled.step_id
left join names on work.kernel_id = names.kernel_id
left join apart on work.source_id = apart.source_id and work.work_no = apart.work_no
left join inferred on work.source_id = inferred.source_id and work.work_no = inferred.work_no
cross join sure
