-- what:  KV bytes per token, KV pool and weight bytes of one GPU, each with where it comes from.
-- grain: one row per level
-- key:   level
-- columns:
--   level                VARCHAR  level; the row with null holds for the run as a whole
--   kv_origin            VARCHAR  shape, engine (pool bytes over pool tokens) or null
--   kv_reason            VARCHAR  why KV bytes per token are unknown, null when they are known
--   weight_origin        VARCHAR  file that states them, 'estimated from the shape', or null
--   weight_reason        VARCHAR  why the weight bytes are unknown, null when they are known
--   kv_bytes_per_token   DOUBLE   [bytes] of one token on all GPUs of one model copy
--   kv_bytes_per_token_gpu DOUBLE [bytes] of one token on one GPU
--   kv_capacity_tokens   DOUBLE   [tokens] that the device pool holds
--   kv_pool_bytes        DOUBLE   [bytes] of the device pool on one GPU
--   host_capacity_tokens DOUBLE   [tokens] that the host tier holds
--   host_pool_bytes      DOUBLE   [bytes] of the host tier
--   matmul_parameters    DOUBLE   parameters of a dense model on one GPU, embeddings left out
--   weight_bytes         DOUBLE   [bytes] of one GPU
--   is_moe               BOOLEAN  mixture of experts
-- notes: stated pool bytes are not trusted over tokens x bytes per token: an override of the block
--        count leaves them untouched. Layers with a sliding window count as full ones.
with

shape as (

    select * from int_model_shape

),

effective as (

    select * from int_settings_effective

),

pool as (

    select
        level,
        max(number) filter (where name = 'block_size') as block_size,
        max(number) filter (where name = 'num_gpu_blocks') as num_gpu_blocks,
        max(number) filter (where name = 'num_cpu_blocks') as num_cpu_blocks,
        max(number) filter (where name = 'kv_cache_tokens') as kv_cache_tokens,
        max(number) filter (where name = 'kv_cache_bytes') as kv_cache_bytes,
        max(number) filter (where name = 'host_kv_bytes') as host_kv_bytes
    from effective
    group by level

),

measured as (

    select
        shape.*,
        coalesce(pool.kv_cache_tokens, pool.num_gpu_blocks * pool.block_size)
            as kv_capacity_tokens,
        pool.num_cpu_blocks * pool.block_size as swap_tokens,
        pool.kv_cache_bytes,
        pool.host_kv_bytes,
        case
            when shape.is_mla
                then mla_kv_bytes_per_token(
                    shape.layers, shape.kv_lora_rank, shape.qk_rope_head_dim, shape.kv_element_bytes
                )
            else kv_bytes_per_token(
                shape.layers, shape.kv_heads, shape.head_dim, shape.kv_element_bytes
            )
        end as shape_bytes,
        case
            when
                not shape.is_moe and not shape.is_mla
                and shape.model_type in (
                    'llama', 'mistral', 'qwen2', 'qwen3', 'gemma', 'gemma2', 'phi3', 'opt', 'gpt2'
                )
                then dense_parameter_count(
                    shape.layers, shape.hidden_size, shape.attention_heads, shape.kv_heads,
                    shape.head_dim, shape.intermediate_size, shape.vocab_size,
                    shape.model_type not in ('opt', 'gpt2'), shape.is_tied
                )
        end as parameter_count
    from shape
    inner join pool on shape.level is not distinct from pool.level

),

per_gpu as (

    select
        *,
        shape_bytes / (kv_shard_count * pipeline_parallel_size) as shape_bytes_gpu,
        kv_cache_bytes / nullif(kv_capacity_tokens, 0) as engine_bytes_gpu,
        case
            when quantization is null
                then parameter_count * weight_element_bytes / rank_count
        end as estimated_weight_bytes
    from measured

)

select
    level,
    case
        when shape_bytes is not null then 'shape'
        when engine_bytes_gpu is not null then 'engine'
    end as kv_origin,
    case
        when coalesce(shape_bytes, engine_bytes_gpu) is not null then null
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
    coalesce(shape_bytes, engine_bytes_gpu * kv_shard_count * pipeline_parallel_size)
        as kv_bytes_per_token,
    coalesce(shape_bytes_gpu, engine_bytes_gpu) as kv_bytes_per_token_gpu,
    kv_capacity_tokens,
    coalesce(kv_capacity_tokens * coalesce(shape_bytes_gpu, engine_bytes_gpu), kv_cache_bytes)
        as kv_pool_bytes,
    coalesce(swap_tokens, floor(host_kv_bytes / coalesce(shape_bytes_gpu, engine_bytes_gpu)))
        as host_capacity_tokens,
    coalesce(host_kv_bytes, swap_tokens * coalesce(shape_bytes_gpu, engine_bytes_gpu))
        as host_pool_bytes,
    (
        parameter_count
        - vocab_size * hidden_size * case when is_tied then 1 else 2 end
    ) / rank_count as matmul_parameters,
    coalesce(weight_bytes, estimated_weight_bytes) as weight_bytes,
    is_moe
from per_gpu
