-- what:  What predictions and advice start from: how each engine ran, and whether KV was a problem.
-- grain: one row per level and replica
-- key:   level, replica_id
-- needs: kv_occupancy
-- columns:
--   level                  VARCHAR  level of a sweep, null when the run has one level
--   replica_id             VARCHAR  engine replica
--   kv_state               VARCHAR  short (swap points or pressure), close or far from the ceiling
--   reuse_origin           VARCHAR  what reuse_ratio was measured on, null when nothing tells
--   step_reason            VARCHAR  why no other step can be predicted, null when one can
--   level_reason           VARCHAR  why no other level can be predicted, null when one can
--   element_bytes          DOUBLE   [bytes] of one KV element, null when unknown
--   kv_heads               DOUBLE   key/value heads
--   attention_heads        DOUBLE   query heads
--   kv_bytes_per_token     DOUBLE   [bytes] on one GPU
--   capacity_tokens        DOUBLE   [tokens] that the pool holds
--   request_tokens         DOUBLE   [tokens] of a request of mean length, whole blocks
--   prompt_tokens          DOUBLE   [tokens] of a mean prompt
--   request_count          DOUBLE   requests that finished and whose lengths are known one by one
--   long_tokens            DOUBLE   [tokens] length that advice_cap_quantile of the requests keep to
--   over_ratio             DOUBLE   share of the requests over long_tokens
--   kept_tokens            DOUBLE   [tokens] mean length of the others
--   mean_tokens            DOUBLE   [tokens] mean length of all of them
--   used_ratio_peak        DOUBLE   0-1 highest KV occupancy
--   used_ratio_mean        DOUBLE   0-1 median KV occupancy while requests ran
--   sequences              DOUBLE   most requests running
--   sequences_at_peak      DOUBLE   requests running at the highest occupancy
--   sequences_mean         DOUBLE   mean requests running while any ran
--   sequences_held         DOUBLE   median of requests running in the worst swap point, null without one
--   sequences_calm         DOUBLE   most that ran at a lower level of the sweep without a swap point
--   batch                  DOUBLE   sequences of the typical decode step
--   weight_bytes           DOUBLE   [bytes] that this step reads of the weights
--   kv_read_bytes          DOUBLE   [bytes] that it reads of the KV
--   all_weight_bytes       DOUBLE   [bytes] weights of one GPU
--   expert_weight_bytes    DOUBLE   [bytes] of that in routed experts
--   lookup_weight_bytes    DOUBLE   [bytes] of that in a looked-up embedding
--   num_experts            DOUBLE   routed experts per layer, null when dense
--   experts_per_token      DOUBLE   experts that a token uses
--   bytes_per_s            DOUBLE   [bytes/s] peak of the memory
--   step_ms                DOUBLE   [ms] measured decode step
--   floor_ms               DOUBLE   [ms] its floor
--   tokens_per_s           DOUBLE   [tokens/s] mean while requests ran
--   hit_ratio              DOUBLE   0-1 prompt tokens found in the prefix cache or a tier behind it
--   tier_hit_ratio         DOUBLE   0-1 of that in a host or remote tier, null when none was asked
--   reuse_ratio            DOUBLE   0-1 share of prompt tokens that were or could be taken from a cache
--   transfer_ms            DOUBLE   [ms] to fetch the reusable part of a mean prompt from the host
--   recompute_ms           DOUBLE   [ms] to compute it again at the peak rate
--   swap_count             BIGINT   confirmed and probable swap points
--   pressure_count         BIGINT   episodes of pressure without harm
--   is_mla                 BOOLEAN  multi-head latent attention
--   is_caching_off         BOOLEAN  prefixes are not kept, as the settings say
-- notes: a level can be predicted only from a run that was at full batch; a step only where bytes are
--        what limits it. Reuse is the larger of measured hits and of what a request trace allows.
with

places as (

    select * from int_ledger_places

),

work as (

    select
        *,
        decode_floor_ms(weight_bytes, kv_read_bytes, bytes_per_s) as floor_ms
    from int_ledger_work
    where step_class = 'decode'

),

running as (

    select
        level,
        replica_id,
        favg(running_count) as sequences_mean
    from kv_occupancy
    where tier = 'hbm' and running_count > 0
    group by level, replica_id

),

rates as (

    select
        level,
        replica_id,
        fsum(tokens_per_s * bucket_ns) / nullif(sum(bucket_ns), 0) as tokens_per_s
    from token_latency
    where coalesce(running_count, tokens_per_s) > 0 and tokens_per_s is not null
    group by level, replica_id

),

points as (

    select
        level,
        replica_id,
        count(*) filter (where class in ('confirmed', 'probable')) as swap_count,
        count(*) filter (where class = 'pressure') as pressure_count
    from swap_points
    group by level, replica_id

),

worst as (

    select
        level,
        replica_id,
        at_ns,
        end_ns
    from swap_points
    qualify
        row_number() over (
            partition by level, replica_id
            order by
                case class when 'confirmed' then 0 when 'probable' then 1 else 2 end,
                at_ns,
                swap_point_id
        ) = 1

),

held as (

    select
        worst.level,
        worst.replica_id,
        cast(quantile_disc(curve.running_count, 0.5) as double) as sequences_held
    from worst
    inner join kv_occupancy as curve
        on
            worst.level is not distinct from curve.level
            and worst.replica_id = curve.replica_id
            and curve.tier = 'hbm'
            and curve.running_count > 0
            and worst.at_ns <= curve.ts_ns
            and worst.end_ns >= curve.ts_ns
    group by worst.level, worst.replica_id

),

finished as (

    select
        level,
        prompt_tokens,
        prompt_tokens + output_tokens as tokens,
        count(*) over (partition by level) as level_count,
        row_number() over (partition by level order by prompt_tokens + output_tokens) as place_no
    from requests
    where
        not coalesce(is_error, false)
        and not coalesce(is_warmup, false)
        and prompt_tokens + output_tokens > 0

),

capped as (

    -- A quantile wants a constant; the share is a threshold.
    select
        *,
        max(
            case
                when place_no <= ceil(threshold('advice_cap_quantile') * level_count) then tokens
            end
        ) over (partition by level) as long_tokens
    from finished

),

lengths as (

    select
        level,
        count(*) as request_count,
        sum(prompt_tokens) / count(*) as prompt_tokens,
        sum(tokens) / count(*) as mean_tokens,
        max(long_tokens) as long_tokens,
        count(*) filter (where tokens > long_tokens) / count(*) as over_ratio,
        sum(tokens) filter (where tokens <= long_tokens)
        / count(*) filter (where tokens <= long_tokens) as kept_tokens
    from capped
    group by level

),

prompts as (

    select
        level,
        max(value) filter (where name = 'total_input_tokens')
        / nullif(max(value) filter (where name = 'completed'), 0) as prompt_tokens
    from client_totals
    group by level

),

fits as (

    select
        level,
        replica_id,
        tier,
        tokens as request_tokens
    from capacity_ledger
    where line = 'requests_fit'

),

found as (

    select
        level,
        replica_id,
        coalesce(
            sum(hit_tokens) filter (where tier = 'hbm')
            / nullif(sum(lookup_tokens) filter (where tier = 'hbm'), 0),
            arg_max(hit_ratio, end_ns) filter (where tier = 'hbm')
        ) as own_hit_ratio,
        coalesce(
            sum(hit_tokens) filter (where tier <> 'hbm')
            / nullif(
                coalesce(
                    sum(lookup_tokens) filter (where tier = 'hbm'),
                    sum(lookup_tokens) filter (where tier <> 'hbm')
                ),
                0
            ),
            arg_max(hit_ratio, end_ns) filter (where tier <> 'hbm')
        ) as tier_hit_ratio
    from cache_hits
    group by level, replica_id

),

served as (

    select
        *,
        case
            when coalesce(own_hit_ratio, tier_hit_ratio) is not null
                then least(coalesce(own_hit_ratio, 0) + coalesce(tier_hit_ratio, 0), 1)
        end as hit_ratio
    from found

),

traces as (

    select max(reusable_block_ratio) as trace_ratio from request_trace_summary

),

stated as (

    select
        level,
        max(number) filter (where name = 'host_memory_bytes_per_s') as host_bytes_per_s,
        coalesce(
            bool_or(value in ('false', 'False', '0')) filter (where name = 'enable_prefix_caching'),
            false
        ) as is_caching_off
    from int_settings_effective
    group by level

),

gathered as (

    select
        places.level,
        places.replica_id,
        shape.kv_element_bytes as element_bytes,
        shape.kv_heads,
        shape.attention_heads,
        coalesce(shape.is_mla, false) as is_mla,
        coalesce(stated.is_caching_off, false) as is_caching_off,
        sizes.kv_bytes_per_token_gpu as kv_bytes_per_token,
        cast(pools.capacity_tokens as double) as capacity_tokens,
        cast(fits.request_tokens as double) as request_tokens,
        coalesce(lengths.prompt_tokens, prompts.prompt_tokens) as prompt_tokens,
        cast(lengths.request_count as double) as request_count,
        cast(lengths.long_tokens as double) as long_tokens,
        lengths.over_ratio,
        lengths.kept_tokens,
        lengths.mean_tokens,
        use.used_ratio_peak,
        use.used_ratio_median as used_ratio_mean,
        use.running_peak as sequences,
        use.running_at_peak as sequences_at_peak,
        running.sequences_mean,
        held.sequences_held,
        work.batch,
        cast(work.weight_bytes as double) as weight_bytes,
        cast(work.kv_read_bytes as double) as kv_read_bytes,
        sizes.weight_bytes as all_weight_bytes,
        sizes.expert_weight_bytes,
        sizes.lookup_weight_bytes,
        sizes.num_experts,
        sizes.experts_per_token,
        sizes.full_kv_bytes_gpu,
        sizes.window_kv_bytes_gpu,
        sizes.window_tokens,
        sizes.state_bytes_gpu,
        coalesce(
            sizes.matmul_parameters,
            -- A dense model as it is stored: every weight is multiplied once per token.
            case
                when shape.quantization is null and not sizes.is_moe
                    then sizes.weight_bytes / nullif(sizes.element_bytes, 0)
            end
        ) as matmul_parameters,
        sizes.full_pair_flops * sizes.prefill_pair_ratio as full_pair_flops,
        sizes.window_pair_flops * sizes.prefill_pair_ratio as window_pair_flops,
        work.bytes_per_s,
        work.compute_ms,
        work.step_ms,
        work.floor_ms,
        coalesce(rates.tokens_per_s, step_tokens_per_s(work.batch, work.step_ms)) as tokens_per_s,
        served.hit_ratio,
        served.tier_hit_ratio,
        case
            when traces.trace_ratio > coalesce(served.hit_ratio, 0) then traces.trace_ratio
            else served.hit_ratio
        end as reuse_ratio,
        case
            when traces.trace_ratio > coalesce(served.hit_ratio, 0)
                then 'request trace, an unlimited cache'
            when served.tier_hit_ratio is not null then 'hits of the prefix cache and its tiers'
            when served.hit_ratio is not null then 'hits of the prefix cache'
        end as reuse_origin,
        swap_bytes_per_s(
            gpu.pcie_bytes_per_s, stated.host_bytes_per_s, threshold('swap_achievable_ratio')
        ) as route_bytes_per_s,
        gpu.flops_per_s,
        coalesce(points.swap_count, 0) as swap_count,
        coalesce(points.pressure_count, 0) as pressure_count,
        work.reason as work_reason
    from places
    inner join int_ledger_kv_use as use
        on
            places.level is not distinct from use.level
            and places.replica_id = use.replica_id
            and use.tier = 'hbm'
    left join int_ledger_pools as pools
        on
            places.level is not distinct from pools.level
            and places.replica_id = pools.replica_id
            and pools.pool = 'device'
    left join fits
        on
            pools.level is not distinct from fits.level
            and pools.replica_id = fits.replica_id
            and pools.tier = fits.tier
    left join work
        on
            places.level is not distinct from work.level
            and places.replica_id = work.replica_id
    left join running
        on
            places.level is not distinct from running.level
            and places.replica_id = running.replica_id
    left join held
        on
            places.level is not distinct from held.level
            and places.replica_id = held.replica_id
    left join rates
        on
            places.level is not distinct from rates.level
            and places.replica_id = rates.replica_id
    left join points
        on
            places.level is not distinct from points.level
            and places.replica_id = points.replica_id
    left join served
        on
            places.level is not distinct from served.level
            and places.replica_id = served.replica_id
    left join lengths on places.level is not distinct from lengths.level
    left join prompts on places.level is not distinct from prompts.level
    left join int_model_shape as shape on places.facts_level is not distinct from shape.level
    left join int_model_sizes as sizes on places.facts_level is not distinct from sizes.level
    left join int_gpu_facts as gpu on places.facts_level is not distinct from gpu.level
    left join stated on places.facts_level is not distinct from stated.level
    cross join traces

),

moved as (

    select
        *,
        floor(reuse_ratio * prompt_tokens) as reused_tokens,
        case
            when swap_count > 0
                then max(case when swap_count = 0 then sequences end)
                    over (partition by replica_id order by sequences)
        end as sequences_calm
    from gathered

)

select
    level,
    replica_id,
    case
        when swap_count + pressure_count > 0 then 'short'
        when used_ratio_peak < threshold('kv_headroom_ratio') then 'far'
        else 'close'
    end as kv_state,
    reuse_origin,
    case
        when work_reason is not null then work_reason
        when kv_read_bytes is null then 'the KV of the batch is not known'
        when step_ms is null then 'no decode step was measured'
        when step_ms > threshold('predict_floor_factor') * floor_ms
            then 'steps take many times their floor, so bytes are not what limits them'
        when compute_ms > floor_ms then 'computing limits the steps, not memory'
    end as step_reason,
    case
        when sequences is null then 'running requests were not counted'
        when sequences_mean < threshold('predict_full_ratio') * sequences
            then 'the run was not at full batch'
    end as level_reason,
    element_bytes,
    kv_heads,
    attention_heads,
    kv_bytes_per_token,
    capacity_tokens,
    request_tokens,
    prompt_tokens,
    request_count,
    long_tokens,
    over_ratio,
    kept_tokens,
    mean_tokens,
    used_ratio_peak,
    used_ratio_mean,
    sequences,
    sequences_at_peak,
    sequences_mean,
    sequences_held,
    sequences_calm,
    batch,
    weight_bytes,
    kv_read_bytes,
    all_weight_bytes,
    expert_weight_bytes,
    lookup_weight_bytes,
    num_experts,
    experts_per_token,
    bytes_per_s,
    step_ms,
    floor_ms,
    tokens_per_s,
    hit_ratio,
    tier_hit_ratio,
    reuse_ratio,
    transfer_ms(
        sequence_kv_bytes(
            reused_tokens, full_kv_bytes_gpu, window_kv_bytes_gpu, window_tokens, state_bytes_gpu
        ),
        route_bytes_per_s
    ) as transfer_ms,
    prefill_floor_ms(
        prefill_flops(
            matmul_parameters, full_pair_flops, window_pair_flops, reused_tokens, window_tokens
        ),
        flops_per_s
    ) as recompute_ms,
    swap_count,
    pressure_count,
    is_mla,
    is_caching_off
from moved
