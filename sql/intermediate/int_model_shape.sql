-- what:  Shape and sharding of the served model as its files state them, for each level.
-- grain: one row per level
-- key:   level
-- columns:
--   level                 VARCHAR  level; the row with null holds for the run as a whole
--   model_type            VARCHAR  architecture family
--   quantization          VARCHAR  weight quantisation, null when none
--   kv_cache_dtype        VARCHAR  element type of the KV cache, that of the model when not stated
--   shape_origin          VARCHAR  file that states the layers
--   weight_origin         VARCHAR  file that states the weight bytes
--   layers                DOUBLE   layers
--   hidden_size           DOUBLE   width
--   attention_heads       DOUBLE   query heads
--   kv_heads              DOUBLE   key/value heads
--   head_dim              DOUBLE   elements per head, mean of key and value
--   full_kv_heads         DOUBLE   key/value heads of full-attention layers
--   full_head_dim         DOUBLE   elements per head of full-attention layers
--   intermediate_size     DOUBLE   feed-forward width
--   vocab_size            DOUBLE   [tokens] vocabulary
--   attention_layers      DOUBLE   layers with attention
--   full_layers           DOUBLE   layers that keep KV of all tokens
--   window_layers         DOUBLE   layers that keep KV of a window
--   window_tokens         DOUBLE   [tokens] that window, null when there is none
--   kv_lora_rank          DOUBLE   latent width of MLA, null otherwise
--   qk_rope_head_dim      DOUBLE   rotary width of MLA
--   qk_nope_head_dim      DOUBLE   width of MLA keys without the rotary part
--   q_lora_rank           DOUBLE   latent width of MLA queries, null when they have none
--   value_head_dim        DOUBLE   elements per value head
--   state_layers          DOUBLE   layers with a state of constant size
--   state_heads           DOUBLE   heads of such a layer
--   state_head_dim        DOUBLE   elements per head of such a layer
--   state_width           DOUBLE   states per element
--   conv_channels         DOUBLE   channels of its convolution
--   conv_kernel           DOUBLE   length of its convolution
--   mlp_layers            DOUBLE   layers with a feed-forward part
--   moe_layers            DOUBLE   layers with experts
--   num_experts           DOUBLE   routed experts of such a layer, null when dense
--   experts_per_token     DOUBLE   experts that a token uses
--   expert_intermediate_size DOUBLE feed-forward width of an expert
--   shared_expert_intermediate_size DOUBLE width of what every token uses beside them
--   mlp_matrices          DOUBLE   feed-forward matrices (3 with a gate), null for an unknown family
--   weight_element_bytes  DOUBLE   [bytes] of one weight that is not quantised
--   shared_element_bytes  DOUBLE   [bytes] of one weight that every token uses, scales included
--   expert_element_bytes  DOUBLE   [bytes] of one weight of an expert, scales included
--   kv_element_bytes      DOUBLE   [bytes] of one KV element, scales included
--   state_element_bytes   DOUBLE   [bytes] of one state
--   tensor_parallel_size  DOUBLE   ranks that share each layer
--   pipeline_parallel_size DOUBLE  ranks that share the layer stack
--   rank_count            DOUBLE   GPUs that share one copy of the weights
--   expert_rank_count     DOUBLE   GPUs that share one copy of the experts
--   kv_shard_count        DOUBLE   parts that the KV heads are cut into
--   weight_bytes          DOUBLE   [bytes] stated, of one GPU
--   is_mla                BOOLEAN  multi-head latent attention
--   is_moe                BOOLEAN  mixture of experts
--   is_tied               BOOLEAN  input and output embeddings are one matrix
-- notes: parallel sizes divide only where stated. A KV dtype of auto is the model's. Families whose
--        code ties the embeddings by default (seed model_families) are tied unless the file says
--        otherwise. A row is the argument shape of the ledger macros.
with

given as (

    -- Maps, because planning one filtered aggregate per setting takes ten times as long.
    select
        level,
        map_from_entries(list((name, value) order by name)) as texts,
        map_from_entries(list((name, number) order by name)) as numbers,
        map_from_entries(list((name, origin) order by name)) as origins,
        coalesce(bool_or(is_per_rank) filter (where name = 'weight_bytes'), false)
            as is_weight_per_rank
    from int_settings_effective
    group by level

),

stated as (

    select
        level,
        texts['model_type'] as model_type,
        texts['quantization'] as quantization,
        texts['quantized_part'] as quantized_part,
        texts['dtype'] as dtype,
        texts['state_dtype'] as state_dtype,
        lower(texts['kv_cache_dtype']) as kv_cache_dtype,
        texts['tie_word_embeddings'] as tie_word_embeddings,
        origins['layers'] as shape_origin,
        origins['weight_bytes'] as weight_origin,
        numbers['layers'] as layers,
        numbers['hidden_size'] as hidden_size,
        numbers['attention_heads'] as attention_heads,
        numbers['kv_heads'] as kv_heads,
        numbers['head_dim'] as head_dim,
        numbers['v_head_dim'] as v_head_dim,
        numbers['full_kv_heads'] as full_kv_heads,
        numbers['full_head_dim'] as full_head_dim,
        numbers['intermediate_size'] as intermediate_size,
        numbers['vocab_size'] as vocab_size,
        numbers['attention_layers'] as attention_layers,
        numbers['kv_shared_layers'] as kv_shared_layers,
        numbers['sliding_window'] as sliding_window,
        numbers['sliding_window_layers'] as sliding_window_layers,
        numbers['kv_lora_rank'] as kv_lora_rank,
        numbers['qk_rope_head_dim'] as qk_rope_head_dim,
        numbers['qk_nope_head_dim'] as qk_nope_head_dim,
        numbers['q_lora_rank'] as q_lora_rank,
        coalesce(numbers['state_layers'], 0) as state_layers,
        numbers['state_heads'] as state_heads,
        numbers['state_head_dim'] as state_head_dim,
        numbers['state_width'] as state_width,
        numbers['conv_channels'] as conv_channels,
        numbers['conv_kernel'] as conv_kernel,
        numbers['mlp_layers'] as mlp_layers,
        numbers['moe_layers'] as moe_layers,
        numbers['num_experts'] as num_experts,
        numbers['experts_per_token'] as experts_per_token,
        numbers['expert_intermediate_size'] as expert_intermediate_size,
        coalesce(numbers['shared_expert_intermediate_size'], 0) as shared_expert_intermediate_size,
        numbers['weight_bits'] as weight_bits,
        numbers['quant_group_size'] as quant_group_size,
        numbers['quant_scale_bits'] as quant_scale_bits,
        numbers['weight_bytes'] as weight_bytes,
        coalesce(numbers['tensor_parallel_size'], 1) as tensor_parallel_size,
        coalesce(numbers['pipeline_parallel_size'], 1) as pipeline_parallel_size,
        numbers['expert_parallel_size'] as expert_parallel_size,
        is_weight_per_rank
    from given

),

measured as (

    select
        *,
        coalesce(nullif(kv_cache_dtype, 'auto'), lower(dtype)) as kv_dtype,
        dtype_bytes(dtype) as plain_bytes,
        -- An engine that quantises to FP8 while it loads keeps no scales worth counting.
        stored_weight_bytes(
            coalesce(weight_bits, if(regexp_matches(quantization, '^(fbgemm_)?fp8$'), 8, null)),
            quant_group_size,
            quant_scale_bits
        ) as stored_bytes,
        coalesce(head_dim, hidden_size / nullif(attention_heads, 0)) as key_head_dim,
        coalesce(attention_layers, layers - state_layers) as attending_layers,
        coalesce(num_experts, 0) > 1 as has_experts,
        kv_lora_rank is not null as is_latent
    from stated

),

layered as (

    select
        *,
        if(is_latent, key_head_dim, (key_head_dim + coalesce(v_head_dim, key_head_dim)) / 2)
            as mean_head_dim,
        if(
            sliding_window is null, 0, coalesce(sliding_window_layers, attending_layers)
        ) as window_layers
    from measured

)

select
    layered.level,
    layered.model_type,
    layered.quantization,
    layered.kv_dtype as kv_cache_dtype,
    layered.shape_origin,
    layered.weight_origin,
    layered.layers,
    layered.hidden_size,
    layered.attention_heads,
    layered.kv_heads,
    layered.mean_head_dim as head_dim,
    coalesce(layered.full_kv_heads, layered.kv_heads) as full_kv_heads,
    coalesce(layered.full_head_dim, layered.mean_head_dim) as full_head_dim,
    layered.intermediate_size,
    layered.vocab_size,
    layered.attending_layers as attention_layers,
    layered.attending_layers - layered.window_layers - coalesce(layered.kv_shared_layers, 0)
        as full_layers,
    layered.window_layers,
    layered.sliding_window as window_tokens,
    layered.kv_lora_rank,
    layered.qk_rope_head_dim,
    layered.qk_nope_head_dim,
    layered.q_lora_rank,
    coalesce(layered.v_head_dim, layered.key_head_dim) as value_head_dim,
    layered.state_layers,
    layered.state_heads,
    layered.state_head_dim,
    layered.state_width,
    layered.conv_channels,
    layered.conv_kernel,
    coalesce(layered.mlp_layers, layered.layers) as mlp_layers,
    if(layered.has_experts, coalesce(layered.moe_layers, layered.mlp_layers, layered.layers), 0)
        as moe_layers,
    if(layered.has_experts, layered.num_experts, null) as num_experts,
    if(layered.has_experts, layered.experts_per_token, null) as experts_per_token,
    layered.expert_intermediate_size,
    layered.shared_expert_intermediate_size,
    cast(families.mlp_matrices as double) as mlp_matrices,
    layered.plain_bytes as weight_element_bytes,
    case
        when layered.quantization is null or layered.quantized_part = 'experts'
            then layered.plain_bytes
        else layered.stored_bytes
    end as shared_element_bytes,
    case
        when layered.quantization is null then layered.plain_bytes
        else layered.stored_bytes
    end as expert_element_bytes,
    kv_element_bytes(layered.kv_dtype, layered.mean_head_dim) as kv_element_bytes,
    coalesce(dtype_bytes(layered.state_dtype), layered.plain_bytes) as state_element_bytes,
    layered.tensor_parallel_size,
    layered.pipeline_parallel_size,
    layered.tensor_parallel_size * layered.pipeline_parallel_size as rank_count,
    coalesce(layered.expert_parallel_size, layered.tensor_parallel_size)
    * layered.pipeline_parallel_size as expert_rank_count,
    kv_shard_count(layered.tensor_parallel_size, layered.kv_heads, layered.is_latent)
        as kv_shard_count,
    layered.weight_bytes / case
        when layered.is_weight_per_rank then 1
        else layered.tensor_parallel_size * layered.pipeline_parallel_size
    end as weight_bytes,
    layered.is_latent as is_mla,
    layered.has_experts as is_moe,
    coalesce(layered.tie_word_embeddings = 'true', families.ties_embeddings, false) as is_tied
from layered
left join model_families as families on layered.model_type = families.model_type
