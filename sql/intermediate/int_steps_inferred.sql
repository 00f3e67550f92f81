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
--   phase           VARCHAR  prefill, decode, mixed or prefill_or_mixed; null when nothing tells
--   evidence        VARCHAR  see the seed phase_evidence; null without a phase
--   has_apart       BOOLEAN  decode attention was launched apart from other attention
--   is_cycled       BOOLEAN  only the cycle of layers bounds it, so that its first and last kernels are uncertain
--   core_start_ns   BIGINT   [ns] start of its first attention, run clock; null without
--   core_end_ns     BIGINT   [ns] end of its last attention, run clock; null without
--   start_ns        BIGINT   [ns] start of its first work, run clock
--   end_ns          BIGINT   [ns] end of its last work, run clock
-- notes: a step whose attention runs inside one graph is a decode step under the graph modes that
--        capture whole steps (vLLM FULL_DECODE_ONLY and FULL_AND_PIECEWISE); piecewise graphs leave
--        attention outside, one launch a layer. Where one launch serves the whole batch, a step with
--        prompt tokens is prefill_or_mixed: whether others decode in it cannot be seen.
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
        count(*) filter (where is_opaque) as opaque_count,
        count(*) filter (where is_main and is_in_graph) as graph_count,
        count(*) filter (where is_main and not is_in_graph) as eager_count,
        count(*) filter (where is_main and name_phase = 'decode') as decode_count,
        count(*) filter (where is_main and name_phase = 'prefill') as prefill_count,
        bool_or(is_main and (is_long_query or name_phase = 'prefill')) as has_long_query,
        bool_or(is_main and (is_long_sure or name_phase = 'prefill')) as is_long_sure,
        bool_or(is_main and is_part) as has_part,
        bool_or(is_cycle_start) as is_cycled,
        count(*) filter (where is_kv_write) as layer_count,
        min(start_ns) filter (where is_main) as core_start_ns,
        max(end_ns) filter (where is_main) as core_end_ns,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from work
    group by level, source_id, process_id, device_id, label_step_id, segment_no

),

placed as (

    select
        *,
        graph_count + eager_count as main_count,
        opaque_count + graph_count > 0 and eager_count = 0 as is_in_graph,
        -- Piecewise: graphs alternate with attention. Anything else is several steps in one.
        eager_count > 0
        and graph_count = 0
        and (opaque_count = 0 or opaque_count - eager_count in (1, 2)) as is_outside,
        -- A draft model decodes beside the check of its tokens, but not once a layer; and several steps
        -- taken for one have more layers than decode attention.
        has_part
        and decode_count > 0
        and layer_count in (0, decode_count)
        and (has_long_query or decode_count * 2 = eager_count + graph_count) as has_both_parts
    from counted

),

observed as (

    select
        *,
        bool_or(
            (is_in_graph and not has_long_query) or (main_count > 0 and decode_count = main_count)
        ) over in_process as is_decode_known,
        bool_or(is_in_graph and not has_long_query) over in_process as is_decode_in_graph,
        bool_or(is_outside and decode_count < main_count) over in_process as is_rest_outside,
        bool_or(is_cycled) over in_process as is_process_cycled,
        bool_or(is_outside and has_both_parts and decode_count < main_count) over in_process
            as is_launched_apart
    from placed
    window in_process as (partition by source_id, process_id)

),

judged as (

    select
        *,
        case
            when main_count > 0 and decode_count = main_count and is_in_graph then 'graph_launch'
            when main_count > 0 and decode_count = main_count then 'inferred_step'
            when is_in_graph and has_long_query then 'likely_long_query'
            when is_in_graph and (is_rest_outside or graph_count > 0) then 'graph_launch'
            when is_in_graph then 'graph_alone'
            when not is_outside then null
            when has_both_parts then 'launched_apart'
            when decode_count > 0 then 'mixed_evidence'
            when is_launched_apart then 'launched_apart'
            when prefill_count = main_count then 'inferred_step'
            when has_long_query and (is_long_sure or is_decode_known) then 'long_query'
            when has_long_query or is_decode_in_graph then 'likely_long_query'
        end as evidence
    from observed

),

phased as (

    select
        *,
        case
            when evidence in ('graph_launch', 'graph_alone') then 'decode'
            when evidence in ('long_query', 'likely_long_query') then 'prefill_or_mixed'
            when evidence = 'inferred_step' and decode_count > 0 then 'decode'
            when evidence = 'inferred_step' then 'prefill'
            when decode_count > 0 and evidence is not null then 'mixed'
            when evidence = 'launched_apart' then 'prefill'
        end as phase
    from judged

),

labelled as (

    select count(*) as step_count from int_steps_labelled

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
    phased.evidence,
    coalesce(phased.phase = 'mixed', false) as has_apart,
    phased.is_process_cycled as is_cycled,
    phased.core_start_ns,
    phased.core_end_ns,
    phased.start_ns,
    phased.end_ns
from phased
cross join labelled
