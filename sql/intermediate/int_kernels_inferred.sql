-- what:  Phase of GPU work that no step label gives one, from graphs, names and the step it lies in.
-- grain: one row per kernel launch or opaque graph launch without a labelled phase
-- key:   source_id, is_opaque, work_no
-- columns:
--   source_id   INTEGER  trace file
--   work_no     BIGINT   number in the file
--   is_opaque   BOOLEAN  a graph whose kernels are invisible
--   step_id     BIGINT   inferred step, null before the first
--   phase       VARCHAR  prefill, decode, mixed or other
--   evidence    VARCHAR  graph_launch, kernel_name, inferred_step, mixed_evidence or none
--   confidence  DOUBLE   0-1
with

work as (

    select * from int_kernels_unphased

),

steps as (

    select * from int_steps_inferred

),

weights as (

    select
        evidence,
        confidence
    from phase_evidence

),

decided as (

    select
        work.source_id,
        work.work_no,
        work.is_opaque,
        coalesce(steps.step_id, work.label_step_id) as step_id,
        case
            when steps.evidence = 'graph_launch' then steps.phase
            when work.name_phase is not null then work.name_phase
            when steps.has_apart and work.is_main then 'prefill'
            else coalesce(steps.phase, 'other')
        end as phase,
        case
            when steps.evidence = 'graph_launch' and work.is_in_graph then 'graph_launch'
            when steps.evidence = 'graph_launch' then 'inferred_step'
            when work.name_phase is not null then 'kernel_name'
            else coalesce(steps.evidence, 'none')
        end as evidence
    from work
    left join steps
        on
            work.source_id = steps.source_id
            and work.process_id is not distinct from steps.process_id
            and work.device_id is not distinct from steps.device_id
            and work.label_step_id is not distinct from steps.label_step_id
            and work.segment_no = steps.segment_no

)

select
    decided.source_id,
    decided.work_no,
    decided.is_opaque,
    decided.step_id,
    decided.phase,
    decided.evidence,
    weights.confidence
from decided
left join weights on decided.evidence = weights.evidence
