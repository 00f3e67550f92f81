"""The ledger without a run: the same SQL models and formulas on facts given by hand."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

import duckdb

from kvcliff.errors import UsageProblem
from kvcliff.store.models import load_macros, load_models, load_seeds

#: Models that turn effective settings into sizes; the runs' ledgers read the same ones.
_MODELS: Final = ("int_model_shape", "int_model_sizes", "int_gpu_facts")


@dataclass(frozen=True)
class Load:
    """What is asked of the engine.

    Attributes:
        context_tokens: tokens of one sequence in the KV cache.
        prompt_tokens: tokens of one prompt to prefill.
        batch: sequences that decode together.
        block_tokens: tokens per KV block.
        limit_ratio: share of the GPU's memory that the engine may take.
        other_bytes: memory of one GPU beside weights and KV pool (activations, CUDA graphs, driver).
    """

    context_tokens: int
    prompt_tokens: int
    batch: int
    block_tokens: int = 16
    limit_ratio: float = 1.0
    other_bytes: int = 0


@dataclass(frozen=True)
class Ledger:
    """All that the formulas say; ``None`` is what the given facts do not tell.

    Bytes, FLOPs and parameters are those of one GPU unless the name says ``model``.
    """

    model_parameter_count: float | None
    model_active_parameter_count: float | None
    model_kv_bytes_per_token: float | None
    full_layers: float | None
    window_layers: float | None
    window_tokens: float | None
    state_layers: float | None
    shared_layers: float | None
    num_experts: float | None
    touched_experts: float | None
    weight_bytes: float | None
    weight_reason: str | None
    kv_reason: str | None
    kv_bytes_per_token: float | None
    state_bytes: float | None
    sequence_bytes: float | None
    batch_bytes: float | None
    gpu_model: str | None
    bandwidth_bytes_per_s: float | None
    bandwidth_origin: str | None
    bandwidth_reason: str | None
    flops_per_s: float | None
    memory_bytes: float | None
    step_weight_bytes: float | None
    step_write_bytes: float | None
    decode_flops: float | None
    decode_compute_ms: float | None
    decode_floor_ms: float | None
    decode_tokens_per_s: float | None
    achievable_ratio: float
    achievable_ms: float | None
    achievable_tokens_per_s: float | None
    collective_bytes: float | None
    collective_ms: float | None
    prefill_flops: float | None
    prefill_compute_ms: float | None
    prefill_floor_ms: float | None
    prefill_tokens_per_s: float | None
    pool_bytes: float | None
    pool_tokens: float | None
    block_count: float | None
    request_bytes: float | None
    request_count: float | None
    route_bytes_per_s: float | None
    swap_ms: float | None
    swap_realistic_ratio: float
    swap_realistic_ms: float | None
    hbm_ms: float | None


_SQL: Final = """
with

asked as (

    select
        cast($context_tokens as double) as context_tokens,
        cast($prompt_tokens as double) as prompt_tokens,
        cast($batch as double) as batch,
        cast($block_tokens as double) as block_tokens,
        cast($limit_ratio as double) as limit_ratio,
        cast($other_bytes as double) as other_bytes

),

facts as (

    select
        sizes.*,
        asked.*,
        shape.full_layers,
        shape.window_layers,
        shape.state_layers,
        shape.attention_layers - shape.full_layers - shape.window_layers as shared_layers,
        gpu.gpu_model,
        gpu.hbm_bytes_per_s,
        gpu.bandwidth_origin,
        gpu.reason as bandwidth_reason,
        gpu.flops_per_s,
        gpu.pcie_bytes_per_s,
        gpu.nvlink_bytes_per_s,
        -- Without a measured size the nominal one of the part has to do.
        coalesce(gpu.memory_bytes, gpus.memory_bytes) as memory_bytes,
        (
            select max(number) from int_settings_effective where name = 'host_memory_bytes_per_s'
        ) as host_bytes_per_s
    from int_model_sizes as sizes
    cross join asked
    inner join int_model_shape as shape on sizes.level is not distinct from shape.level
    left join int_gpu_facts as gpu on sizes.level is not distinct from gpu.level
    left join gpus on gpu.gpu_model = gpus.gpu

),

moved as (

    select
        *,
        sequence_kv_bytes(
            context_tokens, full_kv_bytes_gpu, window_kv_bytes_gpu, window_tokens, state_bytes_gpu
        ) as sequence_bytes,
        sequence_kv_bytes(
            whole_blocks(context_tokens, block_tokens),
            full_kv_bytes_gpu,
            window_kv_bytes_gpu,
            whole_blocks(window_tokens, block_tokens),
            state_bytes_gpu
        ) as request_bytes,
        step_weight_bytes(
            weight_bytes, expert_weight_bytes, lookup_weight_bytes, num_experts, experts_per_token, batch
        ) as read_weight_bytes,
        decode_flops(
            matmul_parameters + head_parameters,
            full_pair_flops, window_pair_flops, context_tokens, window_tokens, batch
        ) as decode_flops,
        prefill_flops(
            matmul_parameters, full_pair_flops * prefill_pair_ratio, window_pair_flops * prefill_pair_ratio,
            prompt_tokens, window_tokens
        ) as prefill_flops,
        all_reduce_bytes(layers, hidden_size, batch, element_bytes, tensor_parallel_size) as collective_bytes,
        kv_pool_room_bytes(memory_bytes, limit_ratio, weight_bytes, other_bytes) as pool_bytes,
        swap_bytes_per_s(pcie_bytes_per_s, host_bytes_per_s, 1) as route_bytes_per_s
    from facts

),

timed as (

    select
        *,
        batch * sequence_bytes as batch_bytes,
        transfer_ms(collective_bytes, nvlink_bytes_per_s) as collective_ms,
        prefill_floor_ms(decode_flops, flops_per_s) as decode_compute_ms,
        prefill_floor_ms(prefill_flops, flops_per_s) as prefill_compute_ms,
        decode_floor_ms(read_weight_bytes, batch * sequence_bytes, hbm_bytes_per_s) as floor_ms,
        step_floor_ms(
            read_weight_bytes + batch * sequence_bytes,
            hbm_bytes_per_s,
            prefill_floor_ms(decode_flops, flops_per_s)
        ) as limit_ms,
        step_floor_ms(
            step_weight_bytes(
                weight_bytes, expert_weight_bytes, lookup_weight_bytes,
                num_experts, experts_per_token, prompt_tokens
            ),
            hbm_bytes_per_s,
            prefill_floor_ms(prefill_flops, flops_per_s)
        ) as prompt_ms
    from moved

)

select
    parameter_count as model_parameter_count,
    active_parameter_count as model_active_parameter_count,
    kv_bytes_per_token as model_kv_bytes_per_token,
    full_layers,
    window_layers,
    window_tokens,
    state_layers,
    shared_layers,
    num_experts,
    num_experts * expected_expert_ratio(num_experts, experts_per_token, batch) as touched_experts,
    weight_bytes,
    weight_reason,
    kv_reason,
    kv_bytes_per_token_gpu as kv_bytes_per_token,
    state_bytes_gpu as state_bytes,
    sequence_bytes,
    batch_bytes,
    gpu_model,
    hbm_bytes_per_s as bandwidth_bytes_per_s,
    bandwidth_origin,
    bandwidth_reason,
    flops_per_s,
    memory_bytes,
    read_weight_bytes as step_weight_bytes,
    batch * kv_bytes_per_token_gpu as step_write_bytes,
    decode_flops,
    decode_compute_ms,
    floor_ms as decode_floor_ms,
    step_tokens_per_s(batch, limit_ms) as decode_tokens_per_s,
    threshold('hbm_achievable_ratio') as achievable_ratio,
    limit_ms / threshold('hbm_achievable_ratio') as achievable_ms,
    step_tokens_per_s(batch, limit_ms / threshold('hbm_achievable_ratio')) as achievable_tokens_per_s,
    collective_bytes,
    collective_ms,
    prefill_flops,
    prefill_compute_ms,
    prompt_ms as prefill_floor_ms,
    step_tokens_per_s(prompt_tokens, prompt_ms) as prefill_tokens_per_s,
    pool_bytes,
    block_count(pool_bytes, block_tokens, kv_bytes_per_token_gpu) * block_tokens as pool_tokens,
    block_count(pool_bytes, block_tokens, kv_bytes_per_token_gpu) as block_count,
    request_bytes,
    request_capacity(pool_bytes, request_bytes) as request_count,
    route_bytes_per_s,
    transfer_ms(sequence_bytes, route_bytes_per_s) as swap_ms,
    threshold('swap_achievable_ratio') as swap_realistic_ratio,
    transfer_ms(
        sequence_bytes,
        swap_bytes_per_s(pcie_bytes_per_s, host_bytes_per_s, threshold('swap_achievable_ratio'))
    ) as swap_realistic_ms,
    transfer_ms(sequence_bytes, hbm_bytes_per_s) as hbm_ms
from timed
"""


def calculate(
    settings: Mapping[str, str], load: Load, thresholds: Mapping[str, float] | None = None
) -> Ledger:
    """Return the ledger of a model on a GPU under a load.

    Args:
        settings: canonical settings (``readers/settings.py``) with their values as text.
        load: context, batch and limits.
        thresholds: values that replace those of the seed table.
    """
    with duckdb.connect() as con:
        _prepare(con, thresholds)
        con.executemany(
            "insert into int_settings_effective values "
            "(null, 0, ?, ?, null, 'given', try_cast(? as double), false)",
            [[name, value, value] for name, value in sorted(settings.items())] or [["engine", "none", None]],
        )
        for model in load_models():
            if model.name in _MODELS:
                con.execute(f"create temp table {model.name} as {model.sql}")
        result = con.execute(_SQL, {field.name: getattr(load, field.name) for field in fields(Load)})
        names = [column[0] for column in result.description or ()]
        row = result.fetchone()
    return Ledger(**dict(zip(names, row or (None,) * len(names), strict=True)))


def gpu_names() -> tuple[str, ...]:
    """Return the names of the known GPUs, sorted."""
    with duckdb.connect() as con:
        load_seeds(con)
        return tuple(row[0] for row in con.execute("select gpu from gpus order by gpu").fetchall())


def find_gpu(name: str) -> str:
    """Return the known GPU that a name means: its name in the table, the start of it, or a driver's spelling.

    Raises:
        UsageProblem: no known GPU or more than one answers to the name.
    """
    with duckdb.connect() as con:
        load_seeds(con)
        rows = con.execute(
            """
            select
                gpu,
                case
                    when lower(gpu) = lower($name) then 1
                    when regexp_matches(lower($name), name_pattern) then 2
                    else 3
                end as preference
            from gpus
            where
                regexp_matches(lower($name), name_pattern)
                or lower(gpu) = lower($name)
                or starts_with(lower(gpu), lower($name) || ' ')
            order by preference, gpu
            """,
            {"name": name.strip()},
        ).fetchall()
    best = [gpu for gpu, preference in rows if preference == rows[0][1]]
    if len(best) == 1:
        return str(best[0])
    if best:
        raise UsageProblem(f"more than one GPU is called {name}", hint=f"one of: {', '.join(best)}")
    known = ", ".join(gpu_names())
    raise UsageProblem(
        f"the GPU {name} is not in the list of known parts",
        hint=f"give --bandwidth and --memory instead, or one of: {known}",
    )


def _prepare(con: duckdb.DuckDBPyConnection, thresholds: Mapping[str, float] | None) -> None:
    """Create seeds, macros and the empty table of effective settings."""
    load_seeds(con, thresholds)
    load_macros(con)
    columns = next(model for model in load_models() if model.name == "int_settings_effective").columns
    listed = ", ".join(f"{column.name} {column.type}" for column in columns)
    con.execute(f"create temp table int_settings_effective ({listed})")
