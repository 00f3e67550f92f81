-- what:  Engine steps of the GPU traces.
-- grain: one row per step and device
-- key:   step_id, device_id
-- columns:
--   level                VARCHAR  level of a sweep, null when the run has one level
--   replica_id           VARCHAR  engine replica
--   source_id            INTEGER  trace file
--   step_id              BIGINT   step in the run; every rank of an engine has its own
--   device_id            INTEGER  GPU index, null when no GPU work of the step is visible
--   process_id           UBIGINT  process key
--   label_kind           VARCHAR  vllm, vllm_detailed, vllm_new_cached, kvcliff, tensorrt_llm, sglang or stage; null when inferred
--   phase                VARCHAR  prefill, decode, mixed, prefill_or_mixed or other
--   evidence             VARCHAR  step_label, recompute_label, stage_label, graph_launch, launched_apart, long_query, inferred_step, graph_alone,
--                                 likely_long_query, mixed_evidence or none
--   confidence           DOUBLE   0-1; from 0.8 on the phase is acted upon
--   sequence_count       BIGINT   requests in the step, null when the label does not say
--   new_tokens           BIGINT   tokens computed
--   context_requests     BIGINT   requests in prefill
--   context_tokens       BIGINT   their tokens
--   generation_requests  BIGINT   requests in decode, recomputing ones included
--   generation_tokens    BIGINT   their tokens
--   recomputed_tokens    BIGINT   tokens of a request computed again after preemption
--   kv_read_tokens       BIGINT   summed KV length of the step's requests, null when the label has none
--   kernel_count         BIGINT   visible kernels
--   graph_count          BIGINT   opaque graph launches
--   gpu_busy_ns          BIGINT   [ns] time in which the device computed for the step
--   bubble_before_ns     BIGINT   [ns] idle time of the device since the step before it; null for the first
--   bubble_copy_ns       BIGINT   [ns] part of the bubble in which copies ran
--   bubble_cause         VARCHAR  copy (copies fill half of it), idle (the engine ran no step for most of it, threshold bubble_idle_ms), sync (the host
--                                 waited for the device to run dry before it launched on), host (launched late without such a wait), device (launched in time but waiting) or none
--   start_ns             BIGINT   [ns] start of the range on the host; of the GPU work when inferred
--   end_ns               BIGINT   [ns] end of the range on the host; of the GPU work when inferred
--   gpu_start_ns         BIGINT   [ns] start of its first GPU work, run clock
--   gpu_end_ns           BIGINT   [ns] end of its last GPU work, run clock
with

labelled as (

    select * from int_steps_labelled

),

inferred as (

    select * from int_steps_inferred

),

timed as (

    select * from int_steps_timed

),

bubbles as (

    select * from int_steps_bubbles

),

weights as (

    select
        evidence,
        confidence
    from phase_evidence

),

sources as (

    select
        source_id,
        coalesce(replica, '0') as replica_id
    from stg_sources

),

syncs as (

    select
        source_id,
        process_id,
        start_ns,
        end_ns
    from stg_nsys__launches
    where call = 'sync'

),

first_launches as (

    select
        step_id,
        min(start_ns) as launch_ns
    from int_steps_launches
    where call in ('kernel', 'graph')
    group by step_id

),

unlabelled as (

    select
        inferred.level,
        sources.replica_id,
        inferred.source_id,
        inferred.step_id,
        inferred.device_id,
        inferred.process_id,
        coalesce(inferred.phase, 'other') as phase,
        coalesce(inferred.evidence, 'none') as evidence,
        inferred.start_ns,
        inferred.end_ns
    from inferred
    inner join sources on inferred.source_id = sources.source_id
    where inferred.label_step_id is null

),

named as (

    select
        labelled.level,
        labelled.replica_id,
        labelled.source_id,
        labelled.step_id,
        timed.device_id,
        labelled.process_id,
        labelled.label_kind,
        coalesce(labelled.phase, inferred.phase, 'other') as phase,
        coalesce(labelled.evidence, inferred.evidence, 'none') as evidence,
        labelled.context_requests + labelled.generation_requests as sequence_count,
        labelled.context_tokens + labelled.generation_tokens as new_tokens,
        labelled.context_requests,
        labelled.context_tokens,
        labelled.generation_requests,
        labelled.generation_tokens,
        labelled.recomputed_tokens,
        labelled.kv_read_tokens,
        labelled.start_ns,
        labelled.end_ns
    from labelled
    left join timed on labelled.step_id = timed.step_id
    left join inferred
        on
            labelled.step_id = inferred.label_step_id
            and timed.device_id is not distinct from inferred.device_id
            and inferred.segment_no = 1
),

all_steps as (

    select * from named
    union all by name
    select * from unlabelled

),

-- The last wait of the process that began before the device ran dry: did it last until then?
synced as (

    select
        all_steps.step_id,
        all_steps.device_id
    from all_steps
    inner join timed
        on all_steps.step_id = timed.step_id and all_steps.device_id = timed.device_id
    asof inner join syncs
        on
            all_steps.source_id = syncs.source_id
            and all_steps.process_id = syncs.process_id
            and timed.idle_since_ns >= syncs.start_ns
    where syncs.end_ns >= timed.idle_since_ns

),

host_pauses as (

    select
        step_id,
        start_ns - max(end_ns) over (
            partition by source_id, process_id
            order by start_ns, step_id
            rows between unbounded preceding and 1 preceding
        ) as pause_ns
    from labelled

)

select
    all_steps.level,
    all_steps.replica_id,
    all_steps.source_id,
    all_steps.step_id,
    all_steps.device_id,
    all_steps.process_id,
    all_steps.label_kind,
    all_steps.phase,
    all_steps.evidence,
    coalesce(weights.confidence, 0) as confidence,
    all_steps.sequence_count,
    all_steps.new_tokens,
    all_steps.context_requests,
    all_steps.context_tokens,
    all_steps.generation_requests,
    all_steps.generation_tokens,
    all_steps.recomputed_tokens,
    all_steps.kv_read_tokens,
    coalesce(timed.kernel_count, 0) as kernel_count,
    coalesce(timed.graph_count, 0) as graph_count,
    coalesce(timed.gpu_busy_ns, 0) as gpu_busy_ns,
    case
        when timed.idle_since_ns is null then null
        else coalesce(bubbles.bubble_ns, 0)
    end as bubble_before_ns,
    coalesce(bubbles.bubble_copy_ns, 0) as bubble_copy_ns,
    case
        when bubbles.bubble_ns is null then 'none'
        when bubbles.bubble_copy_ns * 2 >= bubbles.bubble_ns then 'copy'
        when first_launches.launch_ns < timed.idle_since_ns then 'device'
        when
            host_pauses.pause_ns * 2 >= bubbles.bubble_ns
            and host_pauses.pause_ns >= threshold('bubble_idle_ms') * 1000000
            then 'idle'
        when synced.step_id is not null then 'sync'
        when first_launches.launch_ns is not null then 'host'
        else 'none'
    end as bubble_cause,
    all_steps.start_ns,
    all_steps.end_ns,
    timed.gpu_start_ns,
    timed.gpu_end_ns
from all_steps
left join timed
    on
        all_steps.step_id = timed.step_id
        and all_steps.device_id is not distinct from timed.device_id
left join bubbles
    on
        all_steps.step_id = bubbles.step_id
        and all_steps.device_id is not distinct from bubbles.device_id
left join synced
    on
        all_steps.step_id = synced.step_id
        and all_steps.device_id is not distinct from synced.device_id
left join host_pauses on all_steps.step_id = host_pauses.step_id
left join first_launches on all_steps.step_id = first_launches.step_id
left join weights on all_steps.evidence = weights.evidence
order by all_steps.step_id, all_steps.device_id
