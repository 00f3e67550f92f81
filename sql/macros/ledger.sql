-- Ledger formulas: pure arithmetic in doubles (integers would overflow); an unknown input gives
-- an unknown result, never a guess. The marts, the advice and the calculator (kvcliff ledger) all
-- call these; sizes of a model are in model.sql.

-- what:   KV and state of one sequence at a context length
-- unit:   bytes; the two rates in bytes per token, window in tokens
-- source: windowed layers keep the last window tokens only; blocks are not rounded up here
create or replace temp macro sequence_kv_bytes(
    context_tokens, full_bytes_per_token, window_bytes_per_token, window_tokens, state_bytes
) as (
    full_bytes_per_token * context_tokens
    + window_bytes_per_token * least(context_tokens, coalesce(window_tokens, context_tokens))
    + coalesce(state_bytes, 0)
);

-- what:   share of the experts of a layer that a batch is expected to touch
-- unit:   0-1; batch tokens that each choose experts_per_token of num_experts
-- source: E x (1 - (1 - k/E)^B) experts when tokens choose independently and evenly; skewed routing
--         touches fewer
create or replace temp macro expected_expert_ratio(num_experts, experts_per_token, batch) as (
    1e0 - pow(1e0 - 1e0 * experts_per_token / nullif(num_experts, 0), batch)
);

-- what:   bytes of weights that one decode step reads on one GPU
-- unit:   bytes; weight_bytes all, of which expert_bytes in routed experts and lookup_bytes in an
--         input embedding that is looked up and not multiplied
-- source: everything once for the whole batch, of the experts those that the batch is expected to
--         touch, of the looked-up embedding next to nothing
create or replace temp macro step_weight_bytes(
    weight_bytes, expert_bytes, lookup_bytes, num_experts, experts_per_token, batch
) as (
    weight_bytes
    - coalesce(lookup_bytes, 0)
    - case
        when num_experts > 1
            then expert_bytes * (1 - expected_expert_ratio(num_experts, experts_per_token, batch))
        else 0
    end
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

-- what:   query-key pairs of a causal prompt, with at most window keys per query
-- unit:   pairs; window null means all
-- source: n(n+1)/2, and w(w+1)/2 + (n-w)w when the window w is shorter than the prompt n
create or replace temp macro causal_pairs(prompt_tokens, window_tokens) as (
    case
        when window_tokens < prompt_tokens
            then
                window_tokens * (window_tokens + 1e0) / 2
                + (prompt_tokens - window_tokens) * 1e0 * window_tokens
        else prompt_tokens * (prompt_tokens + 1e0) / 2
    end
);

-- what:   least time of one prefill step
-- unit:   ms; FLOPs and dense FLOPs per second
-- source: FLOPs / peak rate
create or replace temp macro prefill_floor_ms(flops, flops_per_s) as (
    1e3 * flops / nullif(flops_per_s, 0)
);

-- what:   least time of one step: moving its bytes or computing its FLOPs, whichever is longer
-- unit:   ms; bytes and bytes per second of one GPU, compute_ms null when unknown
-- source: roofline (Williams et al. 2009); null when the bytes or the bandwidth are unknown
create or replace temp macro step_floor_ms(moved_bytes, bytes_per_s, compute_ms) as (
    case
        when compute_ms > transfer_ms(moved_bytes, bytes_per_s) then compute_ms
        else transfer_ms(moved_bytes, bytes_per_s)
    end
);

-- what:   bytes that one step writes to and reads from the residual stream
-- unit:   bytes of one GPU
-- source: tokens x hidden size in and out of every layer; what fits stays in the L2 cache, so this
--         is no part of a floor
create or replace temp macro activation_bytes(layers, hidden_size, token_count, element_bytes) as (
    2e0 * layers * hidden_size * token_count * element_bytes
);

-- what:   FLOPs of one decode step
-- unit:   FLOPs; parameters that a token uses, FLOPs per cached token of both kinds of layers
-- source: one multiply and add per weight and token, and attention over the cached tokens
create or replace temp macro decode_flops(
    parameters, full_pair_flops, window_pair_flops, context_tokens, window_tokens, batch
) as (
    forward_flops(parameters, batch)
    + batch * sequence_kv_bytes(
        context_tokens, full_pair_flops, window_pair_flops, window_tokens, 0
    )
);

-- what:   FLOPs of one prompt
-- unit:   FLOPs; as above; the output embedding is applied to the last token only and left out
-- source: one multiply and add per weight and token, and attention over causal pairs
create or replace temp macro prefill_flops(
    parameters, full_pair_flops, window_pair_flops, prompt_tokens, window_tokens
) as (
    forward_flops(parameters, prompt_tokens)
    + full_pair_flops * causal_pairs(prompt_tokens, null)
    + window_pair_flops * causal_pairs(prompt_tokens, window_tokens)
);

-- what:   token rate of a batch at a step time
-- unit:   tokens per second
-- source: one token per sequence and step (speculation: accepted tokens)
create or replace temp macro step_tokens_per_s(batch_tokens, step_ms) as (
    1e3 * batch_tokens / nullif(step_ms, 0)
);

-- what:   bytes that one GPU sends in the all-reduces of a step with tensor parallelism
-- unit:   bytes; two all-reduces per layer of tokens x hidden size elements
-- source: ring all-reduce sends 2 (p - 1) / p of the buffer (Thakur et al. 2005); Megatron-LM,
--         arXiv 1909.08053, has one all-reduce behind attention and one behind the feed-forward
create or replace temp macro all_reduce_bytes(
    layers, hidden_size, token_count, element_bytes, tensor_parallel_size
) as (
    case
        when tensor_parallel_size > 1
            then
                2e0 * layers * token_count * hidden_size * element_bytes
                * 2 * (tensor_parallel_size - 1) / tensor_parallel_size
        else 0e0
    end
);

-- what:   memory that is left for the KV pool
-- unit:   bytes of one GPU; limit_ratio 0-1 share of the memory that the engine may take
-- source: memory x gpu_memory_utilization - weights - everything else that is resident
create or replace temp macro kv_pool_room_bytes(
    memory_bytes, limit_ratio, weight_bytes, other_bytes
) as (
    memory_bytes * limit_ratio - weight_bytes - other_bytes
);

-- what:   KV blocks that fit into a pool
-- unit:   blocks; block_tokens tokens per block
-- source: whole blocks only
create or replace temp macro block_count(pool_bytes, block_tokens, bytes_per_token) as (
    floor(
        case when pool_bytes < 0 then 0 else pool_bytes end
        / nullif(block_tokens * bytes_per_token, 0)
    )
);

-- what:   tokens of the whole blocks that a number of tokens takes
-- unit:   tokens; null tokens (no window) stay null
-- source: the last block of a sequence is rarely full
create or replace temp macro whole_blocks(token_count, block_tokens) as (
    ceil(token_count / nullif(block_tokens, 0)) * block_tokens
);

-- what:   requests of one length that fit into a pool
-- unit:   requests; bytes of the pool and of one request
-- source: whole requests only
create or replace temp macro request_capacity(pool_bytes, request_bytes) as (
    floor(
        case when pool_bytes < 0 then 0 else pool_bytes end / nullif(request_bytes, 0)
    )
);

-- what:   speed of the route between HBM and a host tier, in one direction
-- unit:   bytes per second; ratio 0-1 share of the nominal rate that is reached
-- source: the slower of link and host memory; about half of the nominal rate is realistic: 2 GB
--         at 50 GB/s = 40 ms
create or replace temp macro swap_bytes_per_s(link_bytes_per_s, host_bytes_per_s, ratio) as (
    case
        when host_bytes_per_s < link_bytes_per_s then host_bytes_per_s
        else link_bytes_per_s
    end * ratio
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
