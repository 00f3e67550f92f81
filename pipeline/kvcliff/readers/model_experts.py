"""The mixture of experts in a model configuration: how many, how wide, in which layers."""

from typing import Final

from kvcliff.readers.model_values import ConfigValues

_EXPERT_KEYS: Final = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_CHOSEN_KEYS: Final = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "moe_topk",
    "moe_top_k",
    "moe_k",
    "top_k_experts",
)
_WIDTH_KEYS: Final = (
    "moe_intermediate_size",
    "expert_ffn_hidden_size",
    "intermediate_size",
    "ffn_hidden_size",
)
_SHARED_WIDTH_KEYS: Final = (
    "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "shared_intermediate_size",
)


def expert_settings(values: ConfigValues, layers: int) -> dict[str, str]:
    """Return the settings of the experts; empty for a dense model."""
    experts = _first(values, _EXPERT_KEYS)
    if experts is None or experts < 2:
        return {}
    found = {"num_experts": experts}
    chosen = _first(values, _CHOSEN_KEYS)
    if chosen is not None:
        found["experts_per_token"] = chosen
    width = _first(values, _WIDTH_KEYS)
    if width is not None:
        found["expert_intermediate_size"] = width
    shared = _shared_width(values, width)
    if shared:
        found["shared_expert_intermediate_size"] = shared
    sparse = _sparse_layers(values, layers)
    if sparse != layers:
        found["moe_layers"] = sparse
    dense_width = values.count("intermediate_size_mlp")
    if dense_width is not None:
        found["intermediate_size"] = dense_width
    return {name: str(value) for name, value in found.items()}


def _first(values: ConfigValues, keys: tuple[str, ...]) -> int | None:
    """Return the first of several spellings that is stated."""
    return next((count for key in keys if (count := values.count(key)) is not None), None)


def _shared_width(values: ConfigValues, width: int | None) -> int:
    """Return the summed width of the experts that every token uses."""
    stated = _first(values, _SHARED_WIDTH_KEYS)
    if stated is not None:
        return stated
    number = values.count("n_shared_experts") or values.count("num_shared_experts")
    if values.text("model_type") in ("llama4", "llama4_text"):
        number = 1
    return number * width if number is not None and width is not None else 0


def _sparse_layers(values: ConfigValues, layers: int) -> int:
    """Return how many layers hold experts."""
    pattern = values.text("hybrid_override_pattern")
    if pattern is not None:
        return pattern[:layers].count("E")
    listed = values.numbers("moe_layers")
    if listed is not None:
        return len(listed)
    flags = values.numbers("moe_layer_freq")
    if flags is not None:
        return sum(1 for flag in flags[:layers] if flag)
    period = values.count("expert_layer_period")
    if period is not None:
        return len(range(values.number("expert_layer_offset") or 0, layers, period))
    first = values.number("first_k_dense_replace") or values.number("num_dense_layers") or 0
    step = (
        values.count("moe_layer_freq")
        or values.count("decoder_sparse_step")
        or values.count("interleave_moe_layer_step")
        or 1
    )
    # DeepSeek counts a step from layer 0, the others from layer 1.
    lead = 0 if values.count("moe_layer_freq") is not None else 1
    dense = set(values.numbers("mlp_only_layers") or ())
    return sum(1 for layer in range(first, layers) if (layer + lead) % step == 0 and layer not in dense)
