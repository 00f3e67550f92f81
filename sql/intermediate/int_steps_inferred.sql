-- what:  Engine steps without a labelled phase, with the phase that their kernels and graphs show.
-- grain: one row per inferred step
-- key:   source_id, process_id, device_id, label_step_id, segment_no
-- columns:
--   level           VARCHAR  level of a sweep, null when the run has one level
--   source_id       INTEGER  trace file
--   process_id      UBIGINT  process key
--   device_id       INTEGER  GPU index
--   label_step_id   BIGINT   step whose label names no phase, null outside labels
--   segment_no      BIGINT   step within label, process and device
--   step_id         BIGINT   step in the run; the label's own where there is one
--   phase           VARCHAR  prefill, decode or mixed; null when nothing tells
--   evidence        VARCHAR  graph_launch, inferred_step or mixed_evidence; null without a phase
--   has_apart       BOOLEAN  decode attention was launched apart from other attention
--   start_ns        BIGINT   [ns] start of its first work, run clock
--   end_ns          BIGINT   [ns] end of its last work, run clock
-- notes: a step whose attention runs inside one graph is a decode step under the graph modes that
--        capture whole steps (vLLM FULL_DECODE_ONLY and FULL_AND_PIECEWISE); piecewise graphs
--        leave attention outside.
with

work as (

    select * from int_kernels_unphased where segment_no > 0

),

counted as (

    select
        level,
        source_id,
        process_id,
        device_id,
        label_step_id,
        segment_no,
        count(*) filter (where is_in_graph and (is_opaque or is_main)) as graph_main_count,
        count(*) filter (where is_main and not is_in_graph) as eager_count,
        count(*) filter (where is_main and not is_in_graph and name_phase = 'decode')
            as decode_count,
        count(*) filter (where is_main and not is_in_graph and name_phase = 'prefill')
            as prefill_count,
        bool_or(is_in_graph and is_main and (is_long_query or name_phase = 'prefill'))
            as has_prefill_in_graph,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from work
    group by level, source_id, process_id, device_id, label_step_id, segment_no

),

labelled as (

    select count(*) as step_count from int_steps_labelled

),

phased as (

    select
        *,
        case
            when eager_count = 0 and graph_main_count > 0 and not has_prefill_in_graph then 'decode'
            when graph_main_count > 0 then null
            when decode_count > 0 and decode_count = eager_count then 'decode'
            when prefill_count > 0 and prefill_count = eager_count then 'prefill'
            when decode_count > 0 then 'mixed'
        end as phase
    from counted

)

select
    phased.level,
    phased.source_id,
    phased.process_id,
    phased.device_id,
    phased.label_step_id,
    phased.segment_no,
    coalesce(phased.label_step_id, labelled.step_count + row_number() over (
        partition by phased.label_step_id is null
        order by
            phased.source_id, phased.start_ns, phased.process_id, phased.device_id,
            phased.segment_no
    )) as step_id,
    phased.phase,
    case
        when phased.phase is null then null
        when phased.graph_main_count > 0 then 'graph_launch'
        when phased.phase = 'mixed' then 'mixed_evidence'
        else 'inferred_step'
    end as evidence,
    coalesce(phased.phase = 'mixed', false) as has_apart,
    phased.start_ns,
    phased.end_ns
from phased
cross join labelled
