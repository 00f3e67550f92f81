-- Sizes of a model: bytes, parameters and FLOPs from its shape. A macro with the argument shape takes
-- a row of int_model_shape (its alias in the query). Unknown inputs give unknown results.

-- what:   bytes of one element of a dtype as engines and config files spell it; null when unknown
-- unit:   bytes
-- source: the widths of the formats themselves; packed 4-bit types count half a byte
create or replace temp macro dtype_bytes(dtype) as (
    case
        when regexp_matches(lower(dtype), '(^|\.)(float32|fp32|float|f32)$') then 4e0
        when regexp_matches(lower(dtype), '(^|\.)(bfloat16|float16|bf16|fp16|half|f16)$') then 2e0
        when regexp_matches(lower(dtype), '(^|\.)(fp8|float8|f8|int8|uint8)') then 1e0
        when regexp_matches(lower(dtype), '(^|\.)(fp4|nvfp4|mxfp4|float4|int4|uint4)') then 5e-1
    end
);

-- what:   bytes of one KV element with its share of the scales that are stored beside it
-- unit:   bytes; head_dim: elements that share a scale when it is one per token and head
-- source: one scale per tensor or layer counts nothing (vLLM and SGLang fp8); per token and head a
--         float32 (vLLM *_per_token_head); NVFP4 one byte per 16, MXFP4 one per 32 elements
create or replace temp macro kv_element_bytes(dtype, head_dim) as (
    dtype_bytes(dtype)
    + case
        when regexp_matches(lower(dtype), 'per_token_head') then 4e0 / head_dim
        when regexp_matches(lower(dtype), '(^|\.)nvfp4') then 1e0 / 16
        when regexp_matches(lower(dtype), '(^|\.)mxfp4') then 1e0 / 32
        else 0
    end
);

-- what:   bytes of one stored weight with its share of scale and zero point
-- unit:   bytes; bits of a weight and of what a group of weights shares
-- source: layouts of AWQ, GPTQ, bitsandbytes, FP8 blocks, MXFP4 and NVFP4 checkpoints
create or replace temp macro stored_weight_bytes(weight_bits, group_size, scale_bits) as (
    (weight_bits + coalesce(scale_bits / nullif(group_size, 0), 0)) / 8e0
);

-- what:   KV cache of one token over all layers, keys and values of every KV head
-- unit:   bytes per token; layers, kv_heads and head_dim are counts, element_bytes bytes
-- source: 2 (K and V) x layers x KV heads x head dim x element size; MHA has KV heads x head dim =
--         hidden size, GQA and MQA have fewer heads (Pope et al. 2022, arXiv 2211.05102)
create or replace temp macro kv_bytes_per_token(layers, kv_heads, head_dim, element_bytes) as (
    2e0 * layers * kv_heads * head_dim * element_bytes
);

-- what:   KV cache of one token of a multi-head latent attention model: latent and rotary key, once
-- unit:   bytes per token
-- source: DeepSeek-V2, arXiv 2405.04434, section 2.1 (keys and values share one latent)
create or replace temp macro mla_kv_bytes_per_token(
    layers, latent_dim, rope_dim, element_bytes
) as (
    1e0 * layers * (latent_dim + rope_dim) * element_bytes
);

-- what:   KV of one token in the layers that keep all tokens
-- unit:   bytes per token, over all GPUs of a model copy; shape: a row of int_model_shape
-- source: the two formulas above; vLLM's fp8_ds_mla keeps 656 bytes per token and layer (512 FP8
--         latents, 4 float32 scales, 64 rotary values of 2 bytes)
create or replace temp macro full_kv_bytes_per_token(shape) as (
    case
        when shape.is_mla and shape.kv_cache_dtype = 'fp8_ds_mla' then 656e0 * shape.full_layers
        when shape.is_mla
            then mla_kv_bytes_per_token(
                shape.full_layers, shape.kv_lora_rank, shape.qk_rope_head_dim,
                shape.kv_element_bytes
            )
        when shape.full_layers = 0 then 0e0
        else kv_bytes_per_token(
            shape.full_layers, shape.full_kv_heads, shape.full_head_dim, shape.kv_element_bytes
        )
    end
);

-- what:   KV of one token in the layers that keep a window of tokens
-- unit:   bytes per token, over all GPUs of a model copy; shape: a row of int_model_shape
-- source: kv_bytes_per_token over the windowed layers
create or replace temp macro window_kv_bytes_per_token(shape) as (
    case
        when shape.window_layers = 0 then 0e0
        else kv_bytes_per_token(
            shape.window_layers, shape.kv_heads, shape.head_dim, shape.kv_element_bytes
        )
    end
);

-- what:   state of one sequence in layers that keep a state of constant size, however long it is
-- unit:   bytes per sequence, over all GPUs of a model copy; shape: a row of int_model_shape
-- source: Mamba-2 (arXiv 2405.21060) and gated delta layers: heads x head dim x state width, and
--         kernel - 1 columns of the short convolution; states in their own type
create or replace temp macro state_bytes_per_sequence(shape) as (
    case
        when shape.state_layers = 0 then 0e0
        when shape.state_heads is not null or shape.conv_channels is not null
            then shape.state_layers * (
                coalesce(shape.state_heads * shape.state_head_dim * shape.state_width, 0)
                * shape.state_element_bytes
                + coalesce(shape.conv_channels * (shape.conv_kernel - 1), 0)
                * shape.weight_element_bytes
            )
    end
);

-- what:   into how many parts tensor parallelism cuts the KV heads; more ranks copy heads
-- unit:   parts; an unstated tensor_parallel_size counts as one rank
-- source: Megatron-style head sharding as vLLM and SGLang do it; MLA latents are not cut
create or replace temp macro kv_shard_count(tensor_parallel_size, kv_heads, is_mla) as (
    case
        when is_mla then 1
        else least(coalesce(tensor_parallel_size, 1), kv_heads)
    end
);

-- what:   weights of one attention layer: projections of queries, keys, values and the output
-- unit:   parameters; shape: a row of int_model_shape
-- source: matrix shapes; MLA: arXiv 2405.04434, appendix; biases and small norms left out
create or replace temp macro attention_parameters(shape) as (
    case
        when shape.is_mla
            then
                coalesce(shape.q_lora_rank, shape.hidden_size)
                * shape.attention_heads * (shape.qk_nope_head_dim + shape.qk_rope_head_dim)
                + coalesce(shape.hidden_size * shape.q_lora_rank, 0)
                + shape.hidden_size * (shape.kv_lora_rank + shape.qk_rope_head_dim)
                + shape.kv_lora_rank * shape.attention_heads
                * (shape.qk_nope_head_dim + shape.value_head_dim)
                + shape.attention_heads * shape.value_head_dim * shape.hidden_size
        else shape.hidden_size * 2e0 * (shape.attention_heads + shape.kv_heads) * shape.head_dim
    end
);

-- what:   weights of one layer with a state of constant size
-- unit:   parameters; shape: a row of int_model_shape
-- source: input projection to convolution channels, gate and one step per head, output projection
--         (arXiv 2405.21060); the second step of delta layers and the convolution are left out
create or replace temp macro state_layer_parameters(shape) as (
    shape.hidden_size * (
        shape.conv_channels + 2e0 * shape.state_heads * shape.state_head_dim + shape.state_heads
    )
);

-- what:   weights of one expert over all its layers
-- unit:   parameters; shape: a row of int_model_shape
-- source: three matrices with a gate (SwiGLU family), two without
create or replace temp macro one_expert_parameters(shape) as (
    case
        when shape.num_experts > 1
            then
                1e0 * shape.moe_layers * shape.mlp_matrices
                * shape.hidden_size * shape.expert_intermediate_size
        else 0e0
    end
);

-- what:   weights of one embedding matrix
-- unit:   parameters; shape: a row of int_model_shape
-- source: vocabulary x hidden size
create or replace temp macro embedding_parameters(shape) as (
    1e0 * shape.vocab_size * shape.hidden_size
);

-- what:   weights in matrices of all layers that every token uses: attention, states, dense
--         feed-forward, shared experts and routers
-- unit:   parameters; shape: a row of int_model_shape
-- source: the macros above
create or replace temp macro shared_parameters(shape) as (
    shape.attention_layers * attention_parameters(shape)
    + case
        when shape.state_layers > 0 then shape.state_layers * state_layer_parameters(shape) else 0
    end
    + case
        when shape.mlp_layers > shape.moe_layers
            then
                1e0 * (shape.mlp_layers - shape.moe_layers) * shape.mlp_matrices
                * shape.hidden_size * shape.intermediate_size
        else 0
    end
    + case
        when shape.num_experts > 1
            then 1e0 * shape.moe_layers * shape.hidden_size * (
                shape.num_experts + shape.mlp_matrices * shape.shared_expert_intermediate_size
            )
        else 0
    end
);

-- what:   weights of the norms
-- unit:   parameters; shape: a row of int_model_shape
-- source: two per layer and one at the end
create or replace temp macro norm_parameters(shape) as (
    shape.hidden_size * (2e0 * shape.layers + 1)
);

-- what:   parameters of a model, all experts counted
-- unit:   parameters; of one embedding matrix, of what every token uses, of one expert, of the norms
-- source: sum of the parts; biases, learned positions and norms inside attention are left out
--         (below 0.5 % of the models in the tests)
create or replace temp macro parameter_count(
    embedding, shared, one_expert, norms, num_experts, is_tied
) as (
    embedding * case when is_tied then 1 else 2 end
    + shared
    + coalesce(num_experts, 0) * one_expert
    + norms
);

-- what:   parameters that one token uses
-- unit:   parameters
-- source: all less the experts that the router does not choose
create or replace temp macro active_parameter_count(
    parameters, one_expert, num_experts, experts_per_token
) as (
    parameters - (coalesce(num_experts, 0) - coalesce(experts_per_token, 0)) * one_expert
);

-- what:   bytes of the weights that every token uses, and of the embeddings
-- unit:   bytes over all GPUs of a model copy; element sizes in bytes, scales included
-- source: matrices of the quantised part in their stored form, all else in the model's type
create or replace temp macro common_weight_bytes(
    embedding, shared, norms, is_tied, weight_element_bytes, shared_element_bytes
) as (
    weight_element_bytes * (embedding * case when is_tied then 1 else 2 end + norms)
    + shared * shared_element_bytes
);

-- what:   FLOPs of attention for one query and one key/value in one layer: score and weighted sum
-- unit:   FLOPs; shape: a row of int_model_shape; in decode MLA works on the latents
-- source: 2 x (key width + value width) per query head; absorbed MLA: arXiv 2405.04434, section 2.1
create or replace temp macro pair_flops(shape, is_decode) as (
    case
        when shape.is_mla and is_decode
            then 2e0 * shape.attention_heads * (2 * shape.kv_lora_rank + shape.qk_rope_head_dim)
        when shape.is_mla
            then
                2e0 * shape.attention_heads
                * (shape.qk_nope_head_dim + shape.qk_rope_head_dim + shape.value_head_dim)
        else 4e0 * shape.attention_heads * shape.head_dim
    end
);
