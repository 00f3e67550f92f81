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
--   rate_origin       VARCHAR  where the bandwidth comes from
--   reason            VARCHAR  why there is no floor, null when there is one
--   weight_bytes      BIGINT   [bytes] of one GPU
--   kv_read_bytes     BIGINT   [bytes] of the batch's KV on one GPU, null when unknown
--   bytes_per_s       DOUBLE   [bytes/s] peak of the memory
--   compute_ms        DOUBLE   [ms] FLOPs of the step at the peak rate (prefill), null when unknown
--   step_ms           DOUBLE   [ms] measured
--   batch             DOUBLE   sequences in a decode step
--   token_count       DOUBLE   [tokens] that the step computes
-- notes: KV read is the occupied pool: a block that several sequences share counts once, so the
--        floor stays a floor. A log and a metrics file may name the only replica differently.
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
        coalesce(sizes.is_moe, false) as is_moe,
        sizes.weight_bytes,
        coalesce(steps.kv_ratio, use.used_ratio_median)
        * pools.capacity_bytes as kv_read_bytes,
        case when devices.is_cpu then devices.host_bytes_per_s else gpu.hbm_bytes_per_s end
            as bytes_per_s,
        prefill_floor_ms(
            forward_flops(sizes.matmul_parameters, steps.token_count), gpu.flops_per_s
        ) as compute_ms,
        steps.step_ms,
        coalesce(steps.batch, use.running_median) as batch,
        coalesce(steps.token_count, use.running_median) as token_count
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

)

select
    level,
    replica_id,
    step_class,
    step_origin,
    step_meaning,
    weight_origin,
    rate_origin,
    case
        when weight_bytes is null
            then coalesce(weight_reason, 'no file states the model or the size of its weights')
        when is_moe then 'a mixture of experts reads only the experts that the step needs'
        when bytes_per_s is null then rate_reason
        when step_class = 'prefill' and step_ms is null
            then 'no file gives the length of prefill steps'
        when step_class = 'prefill' and compute_ms is null
            then 'the compute rate of the GPU or the shape of the model is not known'
    end as reason,
    cast(round(weight_bytes) as bigint) as weight_bytes,
    case when step_class = 'decode' then cast(round(kv_read_bytes) as bigint) end
        as kv_read_bytes,
    bytes_per_s,
    case when step_class = 'prefill' then compute_ms end as compute_ms,
    step_ms,
    case when step_class = 'decode' then batch end as batch,
    token_count
from gathered
