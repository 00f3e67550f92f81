-- what:  Phase of GPU work that no step label gives one, from graphs, names and the step it lies in.
-- grain: one row per kernel launch or opaque graph launch without a labelled phase
-- key:   source_id, is_opaque, work_no
-- columns:
--   source_id   INTEGER  trace file
--   work_no     BIGINT   number in the file
--   is_opaque   BOOLEAN  a graph whose kernels are invisible
--   step_id     BIGINT   inferred step, null before the first
--   phase       VARCHAR  prefill, decode, mixed, prefill_or_mixed or other
--   evidence    VARCHAR  see the seed phase_evidence
--   confidence  DOUBLE   0-1
-- notes: where a mixed step launches attention apart, a reduction belongs to the attention before it on its
--        stream.
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

placed as (

    select
        work.source_id,
        work.work_no,
        work.device_id,
        work.stream_id,
        work.is_opaque,
        work.is_in_graph,
        work.is_main,
        work.is_combine,
        work.name_phase,
        coalesce(steps.step_id, work.label_step_id) as step_id,
        coalesce(steps.has_apart, false) as has_apart,
        -- Between the first and the last attention of a step nothing of another one can lie.
        coalesce(
            steps.is_cycled
            and steps.phase is not null
            and not work.is_in_graph
            and coalesce(
                work.start_ns < steps.core_start_ns or work.start_ns > steps.core_end_ns, true
            ), false
        ) as is_at_edge,
        steps.phase as step_phase,
        steps.evidence as step_evidence,
        work.start_ns
    from work
    left join steps
        on
            work.source_id = steps.source_id
            and work.process_id is not distinct from steps.process_id
            and work.device_id is not distinct from steps.device_id
            and work.label_step_id is not distinct from steps.label_step_id
            and work.segment_no = steps.segment_no

),

parts as (

    select
        source_id,
        work_no,
        last_value(case when is_main then coalesce(name_phase, 'prefill') end ignore nulls) over (
            partition by source_id, device_id, stream_id, step_id
            order by start_ns, work_no
            rows between unbounded preceding and current row
        ) as phase
    from placed
    where has_apart and (is_main or is_combine)

),

decided as (

    select
        placed.source_id,
        placed.work_no,
        placed.is_opaque,
        placed.step_id,
        case
            when placed.step_evidence = 'graph_launch' then placed.step_phase
            when placed.name_phase is not null then placed.name_phase
            else coalesce(parts.phase, placed.step_phase, 'other')
        end as phase,
        case
            when placed.is_at_edge then 'layer_cycle'
            when placed.step_evidence = 'graph_launch' and placed.is_in_graph then 'graph_launch'
            when placed.step_evidence = 'graph_launch' then 'inferred_step'
            when placed.name_phase is not null then 'kernel_name'
            else coalesce(placed.step_evidence, 'none')
        end as evidence
    from placed
    left join parts
        on
            placed.source_id = parts.source_id
            and placed.work_no = parts.work_no
            and not placed.is_opaque

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
