-- what:  Graphs traced as a whole with their serving phase.
-- grain: one row per timed graph launch
-- key:   source_id, graph_launch_no
-- columns:
--   level            VARCHAR  level of a sweep, null when the run has one level
--   source_id        INTEGER  trace file
--   graph_launch_no  BIGINT   number in the file
--   device_id        INTEGER  GPU index
--   step_id          BIGINT   engine step, null outside steps
--   phase            VARCHAR  prefill, decode, mixed, prefill_or_mixed or other
--   confidence       DOUBLE   0-1
--   busy_ns          BIGINT   [ns] part of the time not covered by earlier work of the device
--   start_ns         BIGINT   [ns] start, run clock
--   end_ns           BIGINT   [ns] end, run clock
with

graphs as (

    select * from int_gpu_work where is_opaque

),

labelled as (

    select
        steps.step_id,
        steps.phase,
        evidence.confidence
    from int_steps_labelled as steps
    inner join phase_evidence as evidence on steps.evidence = evidence.evidence

),

inferred as (

    select * from int_kernels_inferred where is_opaque

)

select
    graphs.level,
    graphs.source_id,
    graphs.work_no as graph_launch_no,
    graphs.device_id,
    coalesce(graphs.step_id, inferred.step_id) as step_id,
    coalesce(labelled.phase, inferred.phase, 'other') as phase,
    coalesce(labelled.confidence, inferred.confidence, 0) as confidence,
    greatest(
        0, graphs.end_ns - greatest(graphs.start_ns, coalesce(graphs.covered_ns, graphs.start_ns))
    ) as busy_ns,
    graphs.start_ns,
    graphs.end_ns
from graphs
left join labelled on graphs.step_id = labelled.step_id
left join inferred
    on graphs.source_id = inferred.source_id and graphs.work_no = inferred.work_no
