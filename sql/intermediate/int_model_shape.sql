-- what:  Shape and sharding of the served model as its files state them, for each level.
-- grain: one row per level
-- key:   level
-- columns:
--   level                 VARCHAR  level; the row with null holds for the run as a whole
--   model_type            VARCHAR  architecture family
--   quantization          VARCHAR  weight quantisation, null when none
--   shape_origin          VARCHAR  file that states the layers
--   weight_origin         VARCHAR  file that states the weight bytes
--   layers                DOUBLE   layers
--   hidden_size           DOUBLE   width
--   attention_heads       DOUBLE   query heads
--   kv_heads              DOUBLE   key/value heads
--   head_dim              DOUBLE   elements per head
--   intermediate_size     DOUBLE   feed-forward width
--   vocab_size            DOUBLE   [tokens] vocabulary
--   kv_lora_rank          DOUBLE   latent width of MLA, null otherwise
--   qk_rope_head_dim      DOUBLE   rotary width of MLA
--   weight_element_bytes  DOUBLE   [bytes] of one weight
--   kv_element_bytes      DOUBLE   [bytes] of one KV element
--   rank_count            DOUBLE   GPUs that share one copy of the weights
--   pipeline_parallel_size DOUBLE  ranks that share the layer stack
--   kv_shard_count        DOUBLE   parts that the KV heads are cut into
--   weight_bytes          DOUBLE   [bytes] stated, of one GPU
--   is_mla                BOOLEAN  multi-head latent attention
--   is_moe                BOOLEAN  mixture of experts
--   is_tied               BOOLEAN  input and output embeddings are one matrix
-- notes: parallel sizes divide only where stated. A KV dtype of auto is the model's. Families whose
--        code ties the embeddings by default are tied unless the file says otherwise.
with

effective as (

    select * from int_settings_effective

),

stated as (

    select
        level,
        max(value) filter (where name = 'model_type') as model_type,
        max(value) filter (where name = 'quantization') as quantization,
        max(value) filter (where name = 'dtype') as dtype,
        max(value) filter (where name = 'kv_cache_dtype') as kv_cache_dtype,
        max(value) filter (where name = 'tie_word_embeddings') as tie_word_embeddings,
        max(origin) filter (where name = 'layers') as shape_origin,
        max(origin) filter (where name = 'weight_bytes') as weight_origin,
        max(number) filter (where name = 'layers') as layers,
        max(number) filter (where name = 'hidden_size') as hidden_size,
        max(number) filter (where name = 'attention_heads') as attention_heads,
        max(number) filter (where name = 'kv_heads') as kv_heads,
        max(number) filter (where name = 'head_dim') as head_dim,
        max(number) filter (where name = 'intermediate_size') as intermediate_size,
        max(number) filter (where name = 'vocab_size') as vocab_size,
        max(number) filter (where name = 'kv_lora_rank') as kv_lora_rank,
        max(number) filter (where name = 'qk_rope_head_dim') as qk_rope_head_dim,
        max(number) filter (where name = 'num_experts') as num_experts,
        max(number) filter (where name = 'weight_bytes') as weight_bytes,
        coalesce(max(number) filter (where name = 'tensor_parallel_size'), 1)
            as tensor_parallel_size,
        coalesce(max(number) filter (where name = 'pipeline_parallel_size'), 1)
            as pipeline_parallel_size,
        coalesce(bool_or(is_per_rank) filter (where name = 'weight_bytes'), false)
            as is_weight_per_rank
    from effective
    group by level

)

select
    level,
    model_type,
    quantization,
    shape_origin,
    weight_origin,
    layers,
    hidden_size,
    attention_heads,
    kv_heads,
    coalesce(head_dim, hidden_size / nullif(attention_heads, 0)) as head_dim,
    intermediate_size,
    vocab_size,
    kv_lora_rank,
    qk_rope_head_dim,
    dtype_bytes(dtype) as weight_element_bytes,
    dtype_bytes(coalesce(nullif(lower(kv_cache_dtype), 'auto'), dtype)) as kv_element_bytes,
    tensor_parallel_size * pipeline_parallel_size as rank_count,
    pipeline_parallel_size,
    kv_shard_count(tensor_parallel_size, kv_heads, kv_lora_rank is not null) as kv_shard_count,
    weight_bytes / case
        when is_weight_per_rank then 1
        else tensor_parallel_size * pipeline_parallel_size
    end as weight_bytes,
    kv_lora_rank is not null as is_mla,
    coalesce(num_experts, 0) > 1 as is_moe,
    coalesce(
        tie_word_embeddings = 'true', model_type in ('gemma', 'gemma2', 'opt', 'gpt2'), false
    ) as is_tied
from stated
