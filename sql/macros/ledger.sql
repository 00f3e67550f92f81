-- Ledger formulas: pure arithmetic in doubles (integers would overflow); an unknown input gives
-- an unknown result, never a guess.

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

-- what:   into how many parts tensor parallelism cuts the KV heads; more ranks copy heads
-- unit:   parts; an unstated tensor_parallel_size counts as one rank
-- source: Megatron-style head sharding as vLLM and SGLang do it; MLA latents are not cut
create or replace temp macro kv_shard_count(tensor_parallel_size, kv_heads, is_mla) as (
    case
        when is_mla then 1
        else least(coalesce(tensor_parallel_size, 1), kv_heads)
    end
);

-- what:   parameters of a dense decoder: embeddings, attention, feed-forward, norms
-- unit:   parameters; is_gated: three feed-forward matrices (SwiGLU family) instead of two
-- source: matrix shapes of the Llama family (arXiv 2302.13971); biases left out
create or replace temp macro dense_parameter_count(
    layers, hidden_size, attention_heads, kv_heads, head_dim,
    intermediate_size, vocab_size, is_gated, is_tied
) as (
    1e0 * vocab_size * hidden_size * case when is_tied then 1 else 2 end
    + hidden_size
    + layers * (
        2e0 * hidden_size * attention_heads * head_dim
        + 2e0 * hidden_size * kv_heads * head_dim
        + case when is_gated then 3e0 else 2e0 end * hidden_size * intermediate_size
        + 2 * hidden_size
    )
);

-- what:   time that bytes need through a memory or a link
-- unit:   ms; bytes and bytes per second
-- source: bytes / bandwidth
create or replace temp macro transfer_ms(moved_bytes, bytes_per_s) as (
    1e3 * moved_bytes / nullif(bytes_per_s, 0)
);

-- what:   least time of one decode step: weights once for the whole batch, plus the batch's KV
-- unit:   ms; bytes and bytes per second of one GPU
-- source: roofline of a bandwidth-bound step (Williams et al. 2009; Pope et al. 2022):
--         14 GB + 2 GB at 2 TB/s = 8 ms
create or replace temp macro decode_floor_ms(weight_bytes, kv_bytes, bytes_per_s) as (
    transfer_ms(weight_bytes + kv_bytes, bytes_per_s)
);

-- what:   FLOPs of a forward pass without attention scores: one multiply and one add per weight
-- unit:   FLOPs
-- source: Kaplan et al. 2020, arXiv 2001.08361, section 2.1
create or replace temp macro forward_flops(parameter_count, token_count) as (
    2e0 * parameter_count * token_count
);

-- what:   least time of one prefill step
-- unit:   ms; FLOPs and dense FLOPs per second
-- source: FLOPs / peak rate
create or replace temp macro prefill_floor_ms(flops, flops_per_s) as (
    1e3 * flops / nullif(flops_per_s, 0)
);

-- what:   token rate of a batch at a step time
-- unit:   tokens per second
-- source: one token per sequence and step (speculation: accepted tokens)
create or replace temp macro step_tokens_per_s(batch_tokens, step_ms) as (
    1e3 * batch_tokens / nullif(step_ms, 0)
);

-- what:   one line of a ledger as a struct, so that the lines of a ledger read as a list
-- unit:   bytes, tokens, time_ms (ms), tokens_per_s, ratio as named
-- source: none (layout, not arithmetic)
create or replace temp macro ledger_line(
    line_no, line, meaning, origin,
    bytes := null, tokens := null, time_ms := null, tokens_per_s := null, ratio := null
) as (
    struct_pack(
        line := line,
        meaning := meaning,
        origin := origin,
        bytes := cast(round(bytes) as bigint),
        tokens := cast(round(tokens) as bigint),
        time_ms := cast(time_ms as double),
        tokens_per_s := cast(tokens_per_s as double),
        ratio := cast(ratio as double),
        line_no := cast(line_no as integer)
    )
);
