-- what:  KV bytes per token, KV pool and weight bytes of one GPU, each with where it comes from.
-- grain: one row per level
-- key:   level
-- columns:
--   level                VARCHAR  level; the row with null holds for the run as a whole
--   kv_origin            VARCHAR  run.toml (stated there), shape, engine (printed, or pool bytes over
--                                 pool tokens) or null
--   kv_reason            VARCHAR  why KV bytes per token are unknown, null when they are known
--   weight_origin        VARCHAR  file that states them, 'estimated from the shape', or null
--   weight_reason        VARCHAR  why the weight bytes are unknown, null when they are known
--   kv_bytes_per_token   DOUBLE   [bytes] of one token on all GPUs of one model copy
--   kv_bytes_per_token_gpu DOUBLE [bytes] of one token on one GPU
--   full_kv_bytes_gpu    DOUBLE   [bytes] of that in layers that keep all tokens
--   window_kv_bytes_gpu  DOUBLE   [bytes] of that in layers that keep a window of tokens
--   window_tokens        DOUBLE   [tokens] that window, null when there is none
--   state_bytes_gpu      DOUBLE   [bytes] per sequence in layers with a state of constant size
--   kv_capacity_tokens   DOUBLE   [tokens] that the device pool holds
--   kv_pool_bytes        DOUBLE   [bytes] of the device pool on one GPU
--   host_capacity_tokens DOUBLE   [tokens] that the host tier holds
--   host_pool_bytes      DOUBLE   [bytes] of the host tier
--   block_size           DOUBLE   [tokens] per KV block, null when not stated
--   parameter_count      DOUBLE   parameters of the model, all experts counted
--   active_parameter_count DOUBLE parameters that one token uses
--   matmul_parameters    DOUBLE   parameters of a token on one GPU, embeddings left out
--   head_parameters      DOUBLE   parameters of the output embedding on one GPU
--   full_pair_flops      DOUBLE   [FLOPs] of decode attention per cached token on one GPU, full layers
--   window_pair_flops    DOUBLE   [FLOPs] the same of windowed layers
--   prefill_pair_ratio   DOUBLE   FLOPs per pair of prefill attention over those of decode
--   weight_bytes         DOUBLE   [bytes] of one GPU
--   expert_weight_bytes  DOUBLE   [bytes] of that in routed experts, null when unknown
--   lookup_weight_bytes  DOUBLE   [bytes] of that in an input embedding, looked up by row
--   num_experts          DOUBLE   routed experts per layer, null when dense
--   experts_per_token    DOUBLE   experts that a token uses
--   layers               DOUBLE   layers on one GPU
--   hidden_size          DOUBLE   width
--   element_bytes        DOUBLE   [bytes] of one activation
--   tensor_parallel_size DOUBLE   ranks that share each layer
--   is_moe               BOOLEAN  mixture of experts
-- notes: stated pool bytes are not trusted over tokens x bytes per token: an override of the block
--        count leaves them untouched. In the pool a token takes room in windowed layers as in full
--        ones (engines count so); a long sequence gives its share back, sequence_kv_bytes says how
--        much. A row is the argument sizes of the ledger macros.
with

shape as (

    -- One column with all: a macro that takes a row spells out every column at each use.
    select
        *,
        int_model_shape as packed
    from int_model_shape

),

given as (

    select
        level,
        map_from_entries(list((name, number) order by name)) as numbers,
        map_from_entries(list((name, number) order by name) filter (where source_id = 0))
            as own_numbers
    from int_settings_effective
    group by level

),

pool as (

    select
        level,
        numbers['block_size'] as block_size,
        coalesce(
            numbers['kv_cache_tokens'], numbers['num_gpu_blocks'] * numbers['block_size']
        ) as kv_capacity_tokens,
        numbers['num_cpu_blocks'] * numbers['block_size'] as swap_tokens,
        numbers['kv_cache_bytes'] as kv_cache_bytes,
        own_numbers['kv_bytes_per_token'] as wanted_token_bytes,
        numbers['kv_bytes_per_token'] as printed_token_bytes,
        numbers['host_kv_bytes'] as host_kv_bytes
    from given

),

measured as (

    select
        * exclude (packed),
        kv_shard_count * pipeline_parallel_size as kv_parts,
        full_kv_bytes_per_token(packed) as full_bytes,
        window_kv_bytes_per_token(packed) as window_bytes,
        state_bytes_per_sequence(packed) as state_bytes,
        embedding_parameters(packed) as embedding_parameters,
        shared_parameters(packed) as shared_parameters,
        one_expert_parameters(packed) as one_expert,
        norm_parameters(packed) as norm_parameters,
        pair_flops(packed, true) as decode_pair_flops,
        pair_flops(packed, false) as prefill_pair_flops
    from shape

),

counted as (

    select
        *,
        parameter_count(
            embedding_parameters, shared_parameters, one_expert, norm_parameters,
            num_experts, is_tied
        ) as parameter_count,
        common_weight_bytes(
            embedding_parameters, shared_parameters, norm_parameters, is_tied,
            weight_element_bytes, shared_element_bytes
        ) as common_bytes,
        coalesce(num_experts, 0) * one_expert * expert_element_bytes as expert_bytes
    from measured

),

per_gpu as (

    select
        counted.*,
        pool.block_size,
        pool.kv_capacity_tokens,
        pool.swap_tokens,
        pool.kv_cache_bytes,
        pool.host_kv_bytes,
        pool.wanted_token_bytes,
        coalesce(pool.wanted_token_bytes, counted.full_bytes + counted.window_bytes)
        / counted.kv_parts as shape_bytes_gpu,
        coalesce(
            pool.printed_token_bytes, pool.kv_cache_bytes / nullif(pool.kv_capacity_tokens, 0)
        ) as engine_bytes_gpu,
        counted.common_bytes / counted.rank_count
        + counted.expert_bytes / counted.expert_rank_count as estimated_weight_bytes
    from counted
    inner join pool on counted.level is not distinct from pool.level

),

weighed as (

    select
        *,
        coalesce(shape_bytes_gpu, engine_bytes_gpu) as token_bytes_gpu,
        -- Engines round, pad and convert; their figure is shared out as the estimate is.
        coalesce(weight_bytes / nullif(estimated_weight_bytes, 0), 1) as stated_ratio
    from per_gpu

)

select
    level,
    case
        when wanted_token_bytes is not null then 'run.toml'
        when shape_bytes_gpu is not null then 'shape'
        when engine_bytes_gpu is not null then 'engine'
    end as kv_origin,
    case
        when coalesce(shape_bytes_gpu, engine_bytes_gpu) is not null then null
        when layers is null then 'the shape of the model is not stated'
        when kv_element_bytes is null then 'the element type of the KV cache is not stated'
        when is_mla then 'the rotary width of the latent attention is not stated'
        else 'KV heads or head width are not stated'
    end as kv_reason,
    case
        when weight_bytes is not null then weight_origin
        when estimated_weight_bytes is not null then 'estimated from the shape'
    end as weight_origin,
    case
        when coalesce(weight_bytes, estimated_weight_bytes) is not null then null
        when is_moe then 'weights of a mixture of experts are not stated by the engine'
        when quantization is not null then 'quantised weights are not stated by the engine'
        else 'neither the engine nor the shape tells the size of the weights'
    end as weight_reason,
    token_bytes_gpu * kv_parts as kv_bytes_per_token,
    token_bytes_gpu as kv_bytes_per_token_gpu,
    token_bytes_gpu - if(wanted_token_bytes is null, coalesce(window_bytes / kv_parts, 0), 0)
        as full_kv_bytes_gpu,
    if(wanted_token_bytes is null, coalesce(window_bytes / kv_parts, 0), 0) as window_kv_bytes_gpu,
    window_tokens,
    state_bytes / rank_count as state_bytes_gpu,
    kv_capacity_tokens,
    coalesce(kv_capacity_tokens * token_bytes_gpu, kv_cache_bytes) as kv_pool_bytes,
    coalesce(swap_tokens, floor(host_kv_bytes / token_bytes_gpu)) as host_capacity_tokens,
    coalesce(host_kv_bytes, swap_tokens * token_bytes_gpu) as host_pool_bytes,
    block_size,
    parameter_count,
    active_parameter_count(parameter_count, one_expert, num_experts, experts_per_token)
        as active_parameter_count,
    (
        active_parameter_count(parameter_count, one_expert, num_experts, experts_per_token)
        - embedding_parameters * if(is_tied, 1, 2)
    ) / rank_count as matmul_parameters,
    embedding_parameters / rank_count as head_parameters,
    (attention_layers - window_layers) * decode_pair_flops / rank_count as full_pair_flops,
    window_layers * decode_pair_flops / rank_count as window_pair_flops,
    prefill_pair_flops / decode_pair_flops as prefill_pair_ratio,
    coalesce(weight_bytes, estimated_weight_bytes) as weight_bytes,
    expert_bytes / expert_rank_count * stated_ratio as expert_weight_bytes,
    if(is_tied, 0, embedding_parameters * weight_element_bytes / rank_count * stated_ratio)
        as lookup_weight_bytes,
    num_experts,
    experts_per_token,
    layers / pipeline_parallel_size as layers,
    hidden_size,
    weight_element_bytes as element_bytes,
    tensor_parallel_size,
    is_moe
from weighed
