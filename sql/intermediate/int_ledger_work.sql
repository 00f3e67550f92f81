-- what:  What a typical step of each engine must move and compute, next to what it took.
-- grain: one row per level, replica and step class
-- key:   level, replica_id, step_class
-- columns:
--   level             VARCHAR  level of a sweep, null when the run has one level
--   replica_id        VARCHAR  engine replica
--   step_class        VARCHAR  decode or prefill
--   step_origin       VARCHAR  where the step time comes from, null when unknown
--   step_meaning      VARCHAR  what the step time is
--   weight_origin     VARCHAR  where the weight bytes come from
--   kv_origin         VARCHAR  how the KV of the batch is known
--   rate_origin       VARCHAR  where the bandwidth comes from
--   traffic_origin    VARCHAR  counters behind the traffic that was seen
--   reason            VARCHAR  why there is no floor, null when there is one
--   weight_bytes      BIGINT   [bytes] that a step reads on one GPU, once for all its tokens
--   kv_read_bytes     BIGINT   [bytes] of the batch's KV on one GPU, null when unknown
--   kv_write_bytes    BIGINT   [bytes] of the new tokens' KV on one GPU
--   activation_bytes  BIGINT   [bytes] in and out of all layers on one GPU
--   collective_bytes  BIGINT   [bytes] that one GPU sends in all-reduces, 0 without tensor parallelism
--   bytes_per_s       DOUBLE   [bytes/s] peak of the memory
--   link_bytes_per_s  DOUBLE   [bytes/s] peak of NVLink in one direction, null when unknown
--   compute_ms        DOUBLE   [ms] FLOPs of the step at the peak rate, null when unknown
--   step_ms           DOUBLE   [ms] measured
--   idle_ms           DOUBLE   [ms] of it in which the GPU computed nothing, null without a trace
--   traffic_ratio     DOUBLE   0-1 share of the peak bandwidth that counters saw, null without any
--   touched_ratio     DOUBLE   0-1 share of the experts that the step is expected to read
--   batch             DOUBLE   sequences in a decode step
--   token_count       DOUBLE   [tokens] that the step computes
-- notes: KV read is what the step's label states, else the occupied pool: a block that several
--        sequences share counts once, so the floor stays a floor. A log and a metrics file may name
--        the only replica differently. An embedding that is looked up by row is no read weight.
with

classes as (

    select unnest(['decode', 'prefill']) as step_class

),

devices as (

    select
        level,
        bool_or(name = 'device_type' and value = 'cpu') as is_cpu,
        max(number) filter (where name = 'host_memory_bytes_per_s') as host_bytes_per_s,
        max(origin) filter (where name = 'host_memory_bytes_per_s') as host_origin
    from int_settings_effective
    group by level

),

places as (

    select
        *,
        count(*) over (partition by level) = 1 as is_only
    from int_ledger_places

),

steps as (

    select
        *,
        count(*) over (partition by level, step_class) = 1 as is_only
    from int_ledger_steps

),

traffic as (

    select
        *,
        count(*) over (partition by level, step_class) = 1 as is_only
    from int_ledger_traffic

),

gathered as (

    select
        places.level,
        places.replica_id,
        classes.step_class,
        steps.origin as step_origin,
        steps.meaning as step_meaning,
        sizes.weight_origin,
        case when devices.is_cpu then devices.host_origin else gpu.bandwidth_origin end
            as rate_origin,
        sizes.weight_reason,
        case
            when devices.is_cpu then 'the engine runs on a CPU whose memory bandwidth is not stated'
            else coalesce(gpu.reason, 'no file names the GPU')
        end as rate_reason,
        sizes.weight_bytes as all_weight_bytes,
        sizes.expert_weight_bytes,
        sizes.lookup_weight_bytes,
        coalesce(sizes.is_moe, false) as is_moe,
        sizes.num_experts,
        sizes.experts_per_token,
        steps.kv_read_tokens,
        sizes.kv_bytes_per_token_gpu,
        coalesce(steps.kv_ratio, use.used_ratio_median) as kv_ratio,
        pools.capacity_bytes,
        pools.capacity_tokens,
        case when devices.is_cpu then devices.host_bytes_per_s else gpu.hbm_bytes_per_s end
            as bytes_per_s,
        gpu.nvlink_bytes_per_s as link_bytes_per_s,
        gpu.flops_per_s,
        sizes.matmul_parameters,
        sizes.head_parameters,
        sizes.full_pair_flops,
        sizes.window_pair_flops,
        sizes.prefill_pair_ratio,
        sizes.window_tokens,
        sizes.layers,
        sizes.hidden_size,
        sizes.element_bytes,
        sizes.tensor_parallel_size,
        steps.step_ms,
        steps.idle_ms,
        traffic.origin as traffic_origin,
        traffic.dram_ratio as traffic_ratio,
        coalesce(steps.batch, use.running_median) as batch,
        coalesce(
            steps.token_count, case when classes.step_class = 'decode' then use.running_median end
        ) as token_count
    from places
    cross join classes
    left join steps
        on
            places.level is not distinct from steps.level
            and classes.step_class = steps.step_class
            and (
                places.replica_id = steps.replica_id
                or (places.is_only and steps.is_only)
            )
    left join traffic
        on
            places.level is not distinct from traffic.level
            and classes.step_class = traffic.step_class
            and (
                places.replica_id = traffic.replica_id
                or (places.is_only and traffic.is_only)
            )
    left join int_model_sizes as sizes on places.facts_level is not distinct from sizes.level
    left join int_gpu_facts as gpu on places.facts_level is not distinct from gpu.level
    left join devices on places.facts_level is not distinct from devices.level
    left join int_ledger_pools as pools
        on
            places.level is not distinct from pools.level
            and places.replica_id = pools.replica_id
            and pools.pool = 'device'
    left join int_ledger_kv_use as use
        on
            places.level is not distinct from use.level
            and places.replica_id = use.replica_id
            and use.tier = 'hbm'

),

moved as (

    select
        *,
        coalesce(kv_read_tokens, kv_ratio * capacity_tokens) as cached_tokens,
        coalesce(kv_read_tokens * kv_bytes_per_token_gpu, kv_ratio * capacity_bytes)
            as kv_read_bytes,
        step_weight_bytes(
            all_weight_bytes, expert_weight_bytes, lookup_weight_bytes,
            num_experts, experts_per_token, token_count
        ) as weight_bytes
    from gathered

),

computed as (

    select
        *,
        prefill_floor_ms(
            case
                when step_class = 'decode'
                    then decode_flops(
                        matmul_parameters + head_parameters,
                        full_pair_flops,
                        window_pair_flops,
                        coalesce(cached_tokens / nullif(batch, 0), 0),
                        window_tokens,
                        token_count
                    )
                else forward_flops(matmul_parameters, token_count)
            end,
            flops_per_s
        ) as compute_ms
    from moved

)

select
    level,
    replica_id,
    step_class,
    step_origin,
    step_meaning,
    weight_origin,
    case
        when kv_read_bytes is null then null
        when kv_read_tokens is not null then 'KV tokens of the step labels x bytes per token'
        else 'KV occupancy x pool bytes'
    end as kv_origin,
    rate_origin,
    traffic_origin,
    case
        when all_weight_bytes is null
            then coalesce(weight_reason, 'no file states the model or the size of its weights')
        when weight_bytes is null and expert_weight_bytes is not null
            then 'how many tokens share a step, and so the experts that it reads, is not known'
        when weight_bytes is null
            then 'a mixture of experts reads only the experts that the step needs'
        when bytes_per_s is null then rate_reason
        when step_class = 'prefill' and step_ms is null
            then 'no file gives the length of prefill steps'
        when step_class = 'prefill' and compute_ms is null
            then 'the compute rate of the GPU or the shape of the model is not known'
    end as reason,
    cast(round(coalesce(weight_bytes, all_weight_bytes)) as bigint) as weight_bytes,
    case when step_class = 'decode' then cast(round(kv_read_bytes) as bigint) end
        as kv_read_bytes,
    cast(round(token_count * kv_bytes_per_token_gpu) as bigint) as kv_write_bytes,
    cast(round(activation_bytes(layers, hidden_size, token_count, element_bytes)) as bigint)
        as activation_bytes,
    cast(
        round(
            all_reduce_bytes(layers, hidden_size, token_count, element_bytes, tensor_parallel_size)
        ) as bigint
    ) as collective_bytes,
    bytes_per_s,
    link_bytes_per_s,
    compute_ms,
    step_ms,
    idle_ms,
    traffic_ratio,
    if(is_moe, expected_expert_ratio(num_experts, experts_per_token, token_count), null)
        as touched_ratio,
    case when step_class = 'decode' then batch end as batch,
    token_count
from computed
