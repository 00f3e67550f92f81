"""The lines of ``kvcliff ledger``: order, words and number format."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvcliff.store.calculator import Ledger, Load
from kvcliff.units import format_bytes, format_count, format_ms, format_number, format_pct

_DECIMAL_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


@dataclass(frozen=True)
class LedgerSection:
    """One table of the calculator: a title and rows of line, value and meaning."""

    title: str
    rows: tuple[tuple[str, str, str], ...]


def ledger_sections(found: Ledger, load: Load) -> tuple[LedgerSection, ...]:
    """Return the tables; a line whose value is unknown is left out (``unknown_reasons`` says why)."""
    sections = (
        LedgerSection("Model", _model(found)),
        LedgerSection("KV cache", _kv(found, load)),
        LedgerSection("Decode step", _decode(found, load)),
        LedgerSection("Prefill", _prefill(found, load)),
        LedgerSection("Capacity of one GPU", _capacity(found, load)),
        LedgerSection("Swap route", _swap(found, load)),
    )
    shown = (
        LedgerSection(section.title, tuple(row for row in section.rows if row[1] != "n/a"))
        for section in sections
    )
    return tuple(section for section in shown if section.rows)


def unknown_reasons(found: Ledger) -> tuple[str, ...]:
    """Return what cannot be told, why, and which option would tell it."""
    reasons = []
    if found.weight_bytes is None:
        reasons.append(
            f"the decode floor and the capacity: {found.weight_reason} "
            "(--weights, or --intermediate and --vocab)"
        )
    elif found.step_weight_bytes is None:
        reasons.append(
            "the decode floor: how many experts a step reads is not known "
            "(--experts-per-token, --expert-intermediate)"
        )
    if found.bandwidth_bytes_per_s is None:
        reasons.append("times: no GPU and no bandwidth is given (--gpu or --bandwidth)")
    if found.weight_bytes is not None and found.prefill_compute_ms is None:
        needs = "the compute rate of the GPU" if found.flops_per_s is None else "the full shape of the model"
        reasons.append(f"the compute time: {needs} is not known (--flops, --intermediate, --vocab)")
    if found.memory_bytes is None:
        reasons.append("the capacity: the memory of the GPU is not known (--gpu or --memory)")
    if found.route_bytes_per_s is None:
        reasons.append("the swap route: the host link is not known (--gpu or --link)")
    return tuple(reasons)


def whole_numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values for JSON: bytes and counts as integers when they are whole."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e18 else value
        for name, value in values.items()
        if name not in {"kv_reason", "weight_reason", "bandwidth_reason"}
    }


def _bytes(value: float | None) -> str:
    """Return bytes in binary and, from 1 KB on, in decimal units: data sheets use the latter."""
    if value is None:
        return "n/a"
    amount, unit = float(value), 0
    while abs(amount) >= 1000 and unit < len(_DECIMAL_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    decimal = f" ({format_number(amount)} {_DECIMAL_UNITS[unit]})" if unit else ""
    return format_bytes(value) + decimal


def _rate(value: float | None) -> str:
    return "n/a" if value is None else f"{_decimal(value)}B/s"


def _flops(value: float | None) -> str:
    return "n/a" if value is None else f"{_decimal(value)}FLOP"


def _decimal(value: float) -> str:
    amount, unit = value, 0
    while abs(amount) >= 1000 and unit < 5:
        amount, unit = amount / 1000, unit + 1
    return f"{format_number(amount)} {('', 'k', 'M', 'G', 'T', 'P')[unit]}"


def _parameters(value: float | None) -> str:
    return "n/a" if value is None else f"{format_number(value / 1e9)} billion"


def _per_s(value: float | None) -> str:
    return "n/a" if value is None else f"{format_number(value, 4)} tokens/s"


def _sequences(count: int) -> str:
    return "1 sequence" if count == 1 else f"{format_count(count)} sequences"


def _origin(found: Ledger) -> str:
    """Return where the bandwidth comes from: what the user gave, or the source of the part's row."""
    source = (found.bandwidth_origin or "").removeprefix("gpus.csv: ").split(";")[0]
    return "as given" if source == "given" else f"{found.gpu_model}: {source}"


def _model(found: Ledger) -> tuple[tuple[str, str, str], ...]:
    is_mixture = found.num_experts is not None
    return (
        ("parameters", _parameters(found.model_parameter_count), "all of the model, from its shape"),
        (
            "active parameters",
            _parameters(found.model_active_parameter_count if is_mixture else None),
            "used by one token",
        ),
        ("weights", _bytes(found.weight_bytes), "memory on one GPU"),
        ("layers", _layers(found), "what each keeps for later tokens"),
    )


def _layers(found: Ledger) -> str:
    if found.full_layers is None:
        return "n/a"
    window = f"window of {format_count(found.window_tokens)} tokens"
    kinds = (
        (found.full_layers, "full"),
        (found.window_layers, window),
        (found.state_layers, "constant state"),
        (found.shared_layers, "shared"),
    )
    return ", ".join(f"{format_count(count)} {kind}" for count, kind in kinds if count)


def _kv(found: Ledger, load: Load) -> tuple[tuple[str, str, str], ...]:
    context = format_count(load.context_tokens)
    return (
        ("per token", _bytes(found.model_kv_bytes_per_token), "over all GPUs of one model copy"),
        (
            "per token and GPU",
            _bytes(found.kv_bytes_per_token)
            if found.kv_bytes_per_token != found.model_kv_bytes_per_token
            else "n/a",
            "heads are copied when there are more ranks than heads",
        ),
        ("state", _bytes(found.state_bytes or None), "per sequence and GPU, whatever its length"),
        ("one sequence", _bytes(found.sequence_bytes), f"{context} tokens, on one GPU"),
        ("batch", _bytes(found.batch_bytes), f"{_sequences(load.batch)} of {context} tokens"),
    )


def _decode(found: Ledger, load: Load) -> tuple[tuple[str, str, str], ...]:
    experts = (
        "n/a"
        if found.touched_experts is None
        else f"{format_number(found.touched_experts)} of {format_count(found.num_experts)}"
    )
    share = format_pct(found.achievable_ratio, 0)
    is_computing = (found.decode_compute_ms or 0) > (found.decode_floor_ms or 0)
    limit = "compute time, which is longer than the floor" if is_computing else "floor"
    return (
        ("weights read", _bytes(found.step_weight_bytes), "once for the whole batch"),
        ("experts touched", experts, "expected per layer when routing is even"),
        ("KV read", _bytes(found.batch_bytes), "of the whole batch"),
        ("KV written", _bytes(found.step_write_bytes), "one token per sequence"),
        ("all-reduce", _bytes(found.collective_bytes or None), "sent by one GPU"),
        (
            "all-reduce time",
            format_ms(found.collective_ms or None),
            "at the peak of NVLink, beside the floor",
        ),
        ("bandwidth", _rate(found.bandwidth_bytes_per_s), _origin(found)),
        ("compute", format_ms(found.decode_compute_ms), f"{_flops(found.decode_flops)} at the dense peak"),
        (
            "floor",
            format_ms(found.decode_floor_ms),
            "weights and KV at peak bandwidth",
        ),
        ("ceiling", _per_s(found.decode_tokens_per_s), f"{_sequences(load.batch)} at the {limit}"),
        ("achievable", format_ms(found.achievable_ms), f"at {share} of the peak"),
        ("achievable rate", _per_s(found.achievable_tokens_per_s), f"at {share} of the peak"),
    )


def _prefill(found: Ledger, load: Load) -> tuple[tuple[str, str, str], ...]:
    if found.prefill_compute_ms is None:
        return ()
    prompt = format_count(load.prompt_tokens)
    return (
        ("FLOPs", _flops(found.prefill_flops), f"prompt of {prompt} tokens, attention included"),
        ("floor", format_ms(found.prefill_floor_ms), "FLOPs at the dense peak, or reading the weights"),
        ("ceiling", _per_s(found.prefill_tokens_per_s), "prompt tokens at the floor"),
    )


def _capacity(found: Ledger, load: Load) -> tuple[tuple[str, str, str], ...]:
    if found.pool_bytes is None:
        return ()
    other = format_bytes(load.other_bytes) if load.other_bytes else "nothing"
    request = (
        f"{format_count(load.context_tokens)} tokens in whole blocks of {format_count(load.block_tokens)}"
    )
    return (
        ("memory", _bytes(found.memory_bytes), "nominal size of one GPU"),
        (
            "KV pool",
            _bytes(found.pool_bytes),
            f"{format_pct(load.limit_ratio, 0)} of the memory, less weights and {other} for the rest",
        ),
        ("tokens", format_count(found.pool_tokens), "that the pool holds"),
        ("blocks", format_count(found.block_count), f"of {format_count(load.block_tokens)} tokens"),
        ("requests", format_count(found.request_count), f"of {request}"),
    )


def _swap(found: Ledger, load: Load) -> tuple[tuple[str, str, str], ...]:
    if found.swap_ms is None:
        return ()
    return (
        ("route", _rate(found.route_bytes_per_s), "slower of host link and host memory, one direction"),
        ("one sequence", format_ms(found.swap_ms), "at the nominal rate"),
        (
            "realistic",
            format_ms(found.swap_realistic_ms),
            f"at {format_pct(found.swap_realistic_ratio, 0)} of the nominal rate",
        ),
        ("in HBM", format_ms(found.hbm_ms), "the same bytes at peak HBM bandwidth"),
    )
