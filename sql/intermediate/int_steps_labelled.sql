-- what:  Engine steps as NVTX ranges name them, with the phase that the name states.
-- grain: one row per step range
-- key:   step_id
-- columns:
--   level                VARCHAR  level of a sweep, null when the run has one level
--   replica_id           VARCHAR  engine replica
--   source_id            INTEGER  trace file
--   step_id              BIGINT   step in the run
--   process_id           UBIGINT  process key
--   thread_id            BIGINT   thread that launches the step
--   label_kind           VARCHAR  vllm, vllm_detailed, vllm_new_cached, kvcliff, tensorrt_llm, sglang or stage
--   phase                VARCHAR  prefill, decode, mixed, other (an empty step); null when the name does not tell
--   evidence             VARCHAR  step_label, recompute_label, stage_label; null without a phase
--   context_requests     BIGINT   requests in prefill
--   context_tokens       BIGINT   their new tokens
--   generation_requests  BIGINT   requests in decode, recomputing ones included
--   generation_tokens    BIGINT   their tokens
--   recomputed_tokens    BIGINT   generation tokens beyond one per request (or per verified draft)
--   kv_read_tokens       BIGINT   summed KV length of the step's requests, when the name has it
--   start_ns             BIGINT   [ns] start of the range (host), run clock
--   end_ns               BIGINT   [ns] end of the range (host), run clock
-- notes: a request that is recomputed after preemption counts as a generation request with many
--        tokens; with no other request in decode the step is a prefill, otherwise mixed. Steps of a
--        run whose median is more than one token per generation request verify drafts; up to their 90 %
--        value (twice the median at most) is no recompute. One kind of label counts per process, the most exact one.
with

ranges as (

    select * from stg_nsys__nvtx_ranges where is_nested

),

recognised as (

    select
        *,
        case
            when name like 'execute\_context\_%' escape '\' then 1
            when regexp_matches(name, '^execute_[0-9]+_context_') then 2
            when name like 'step context=%' then 3
            when name like '[Executor] \_forward\_step %' escape '\' then 4
            when name like 'step[%' then 5
            when name like 'execute\_new\_%' escape '\' then 6
            when name in ('prefill', 'decode', 'mixed', 'engine_step') then 7
        end as kind_rank,
        cast(regexp_extract_all(name, '[0-9]+') as bigint[]) as numbers
    from ranges

),

chosen as (

    select *
    from recognised
    where kind_rank is not null
    qualify kind_rank = min(kind_rank) over (partition by source_id, process_id)

),

counted as (

    select
        *,
        case kind_rank
            when 1 then numbers[1]
            when 2 then numbers[2]
            when 3 then numbers[1]
            when 4 then numbers[2]
        end as context_requests,
        case
            when kind_rank in (1, 3) then numbers[2]
            when kind_rank = 2 then numbers[3]
            when kind_rank = 4 and contains(name, 'ctx tokens') then numbers[3]
        end as context_tokens,
        case
            when kind_rank in (1, 3) then numbers[3]
            when kind_rank = 2 then numbers[7]
            when kind_rank = 4 then numbers[len(numbers)]
        end as generation_requests,
        case
            when kind_rank in (1, 3) then numbers[4]
            when kind_rank = 2 then numbers[8]
        end as generation_tokens,
        case
            when kind_rank = 2 then numbers[4] + numbers[9]
            when kind_rank = 3 then numbers[5]
        end as kv_read_tokens
    from chosen

),

usual as (

    select
        source_id,
        case
            when quantile_disc(generation_tokens / generation_requests, 0.5) > 1
                then least(
                    ceil(quantile_disc(generation_tokens / generation_requests, 0.9)),
                    2 * ceil(quantile_disc(generation_tokens / generation_requests, 0.5))
                )
            else 1
        end as tokens_per_request
    from counted
    where generation_requests > 0 and context_requests = 0
    group by source_id

),

recomputing as (

    select
        counted.*,
        cast(greatest(
            counted.generation_tokens
            - (counted.generation_requests - 1) * coalesce(usual.tokens_per_request, 1), 0
        ) as bigint) as longest_generation,
        coalesce(
            counted.generation_tokens
            > counted.generation_requests * coalesce(usual.tokens_per_request, 1), false
        ) as is_recompute
    from counted
    left join usual on counted.source_id = usual.source_id

),

parts as (

    select
        *,
        context_requests > 0 or is_recompute as has_prefill,
        generation_requests > cast(is_recompute as integer) as has_decode
    from recomputing

),

phased as (

    select
        *,
        case
            when kind_rank <= 4 and has_prefill and has_decode then 'mixed'
            when kind_rank <= 4 and has_prefill then 'prefill'
            when kind_rank <= 4 and has_decode then 'decode'
            when kind_rank <= 4 then 'other'
            when kind_rank = 5 and name like 'step[EXTEND%' then 'prefill'
            when kind_rank = 5 and name like 'step[MIXED%' then 'mixed'
            when kind_rank = 5 then 'decode'
            when kind_rank = 6 and numbers[1] > 0 and numbers[2] = 0 then 'prefill'
            when kind_rank = 7 and name <> 'engine_step' then name
        end as phase
    from parts

)

select
    level,
    replica_id,
    source_id,
    row_number() over (order by source_id, start_ns, process_id, thread_id, range_no) as step_id,
    process_id,
    thread_id,
    case kind_rank
        when 1 then 'vllm'
        when 2 then 'vllm_detailed'
        when 3 then 'kvcliff'
        when 4 then 'tensorrt_llm'
        when 5 then 'sglang'
        when 6 then 'vllm_new_cached'
        else 'stage'
    end as label_kind,
    phase,
    case
        when phase is null then null
        when kind_rank = 7 then 'stage_label'
        when is_recompute and has_decode and context_requests = 0 then 'recompute_label'
        else 'step_label'
    end as evidence,
    context_requests,
    context_tokens,
    generation_requests,
    generation_tokens,
    case when is_recompute then longest_generation when generation_tokens is not null then 0 end
        as recomputed_tokens,
    kv_read_tokens,
    start_ns,
    end_ns
from phased
