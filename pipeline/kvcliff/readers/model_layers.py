"""Which layers of a model keep what between tokens: a full cache, a window, a constant state or nothing."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal

from kvcliff.readers.model_values import ConfigValues

Kind = Literal["full", "window", "state", "state_and_full", "none"]

#: Words that configurations use for the kinds of layers.
_KIND_WORDS: Final[dict[str, Kind]] = {
    "full_attention": "full",
    "attention": "full",
    "global_attention": "full",
    "global": "full",
    "sliding_attention": "window",
    "sliding_window": "window",
    "local_attention": "window",
    "local": "window",
    "chunked_attention": "window",
    "linear_attention": "state",
    "mamba": "state",
    "mamba2": "state",
    "recurrent": "state",
    "conv": "state",
    # Falcon-H1 and Zamba2: attention and Mamba side by side.
    "hybrid": "state_and_full",
    "moe": "none",
    "mlp": "none",
}
#: Nemotron-H writes one letter per layer.
_PATTERN_LETTERS: Final[dict[str, Kind]] = {"M": "state", "*": "full", "-": "none", "E": "none"}
#: Sliding layers per full one where neither the file nor a list tells (transformers configurations).
_PERIODS: Final = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}
_CHUNK_PERIOD: Final = 4


def layer_settings(values: ConfigValues, layers: int) -> dict[str, str]:
    """Return the settings that tell how many layers are of which kind; empty when all are full attention."""
    window = _window(values)
    kinds = _kinds(values, layers, has_window=window is not None)
    own = kinds[: max(layers - (values.number("num_kv_shared_layers") or 0), 0)]
    found: dict[str, str] = {}
    count, owned = Counter(kinds), Counter(own)
    if count["state"] + count["state_and_full"]:
        found["state_layers"] = str(count["state"] + count["state_and_full"])
        found.update(_state_settings(values))
    if count["state"] + count["none"]:
        found["attention_layers"] = str(layers - count["state"] - count["none"])
    if window is not None and owned["window"]:
        found["sliding_window"] = str(window)
        found["sliding_window_layers"] = str(owned["window"])
    shared = _shared_layers(values, kinds, own)
    if shared:
        found["kv_shared_layers"] = str(shared)
    if _pattern(values) is not None:
        found["mlp_layers"] = str(count["none"])
    return found


def _window(values: ConfigValues) -> int | None:
    """Return the attention window in tokens; ``None`` when there is none or it is switched off."""
    if values.flag("use_sliding_window") is False:
        return None
    keys = ("sliding_window", "attention_chunk_size", "attention_window_size", "window_size")
    return next((count for key in keys if (count := values.count(key)) is not None), None)


def _kinds(values: ConfigValues, layers: int, *, has_window: bool) -> Sequence[Kind]:
    """Return the kind of every layer, from the most explicit statement of the configuration."""
    if layers <= 0 or layers > 100_000:
        return ()
    stated = _stated_kinds(values, layers)
    if stated is not None:
        return stated
    period, offset = values.count("attn_layer_period"), values.number("attn_layer_offset") or 0
    if period is not None:
        return ["full" if layer % period == offset else "state" for layer in range(layers)]
    interval = values.count("full_attention_interval")
    if interval is not None:
        return ["full" if (layer + 1) % interval == 0 else "state" for layer in range(layers)]
    if values.text("model_type") == "falcon_h1":
        return ["state_and_full"] * layers
    return _windowed_kinds(values, layers) if has_window else ["full"] * layers


def _stated_kinds(values: ConfigValues, layers: int) -> Sequence[Kind] | None:
    """Return the kinds that a list or pattern spells out."""
    pattern = _pattern(values)
    if pattern is not None:
        return [_PATTERN_LETTERS[letter] for letter in pattern[:layers]]
    words = next(
        (found for key in ("layer_types", "layers_block_type") if (found := values.texts(key)) is not None),
        None,
    )
    if words is not None and all(word in _KIND_WORDS for word in words):
        return [_KIND_WORDS[word] for word in words[:layers]]
    blocks = values.texts("block_types") or values.texts("_block_types")
    if blocks is not None and all(word in _KIND_WORDS for word in blocks):
        return _recurrent_kinds(values, blocks, layers)
    linear = values.numbers("attn_type_list")
    return ["full" if item else "state" for item in linear[:layers]] if linear else None


def _recurrent_kinds(values: ConfigValues, blocks: tuple[str, ...], layers: int) -> Sequence[Kind]:
    """Return the kinds of a pattern that repeats; its attention is windowed when a window is stated."""
    attention: Kind = "window" if values.count("attention_window_size") else "full"
    kinds = [_KIND_WORDS[blocks[layer % len(blocks)]] for layer in range(layers)]
    return [attention if kind == "full" else kind for kind in kinds]


def _pattern(values: ConfigValues) -> str | None:
    """Return the letters of a hybrid pattern when all of them are known."""
    pattern = values.text("hybrid_override_pattern")
    return pattern if pattern is not None and set(pattern) <= set(_PATTERN_LETTERS) else None


def _windowed_kinds(values: ConfigValues, layers: int) -> Sequence[Kind]:
    """Return which layers are windowed in a model with a window and no list of layers."""
    letters = values.text("sliding_window_pattern")
    if letters is not None and set(letters) <= {"L", "G"}:
        return ["window" if letters[layer % len(letters)] == "L" else "full" for layer in range(layers)]
    rotary = values.numbers("no_rope_layers")
    if values.count("attention_chunk_size") is not None:
        # Llama 4: the layers without rotary embedding are the ones that see everything.
        flags = rotary if rotary else [int((layer + 1) % _CHUNK_PERIOD != 0) for layer in range(layers)]
        return ["window" if flag else "full" for flag in flags[:layers]]
    period = values.count("sliding_window_pattern") or _PERIODS.get(values.text("model_type") or "")
    if period is not None:
        return ["full" if (layer + 1) % period == 0 else "window" for layer in range(layers)]
    first = values.number("max_window_layers")
    if values.flag("use_sliding_window") is True and first is not None:
        return ["full" if layer < first else "window" for layer in range(layers)]
    return ["window"] * layers


def _shared_layers(values: ConfigValues, kinds: Sequence[Kind], own: Sequence[Kind]) -> int:
    """Return how many attention layers read the cache of another layer."""
    factor = values.count("cla_share_factor")
    if values.flag("use_cla") is True and factor is not None:
        return len(kinds) - -(-len(kinds) // factor)
    return sum(kind in ("full", "window", "state_and_full") for kind in kinds[len(own) :])


def _state_settings(values: ConfigValues) -> dict[str, str]:
    """Return the size of one state layer's memory; empty when the keys are not those of a known kind."""
    kinds = (_delta_state, _mamba2_state, _mamba_state, _lightning_state, _recurrent_state, _conv_state)
    found = next((state for kind in kinds if (state := kind(values)) is not None), {})
    return {name: str(value) for name, value in found.items() if value}


def _delta_state(values: ConfigValues) -> dict[str, int] | None:
    """Return the state of gated delta layers (Qwen3-Next)."""
    key_heads, value_heads = values.count("linear_num_key_heads"), values.count("linear_num_value_heads")
    key_dim, value_dim = values.count("linear_key_head_dim"), values.count("linear_value_head_dim")
    kernel = values.count("linear_conv_kernel_dim")
    if key_heads is None or value_heads is None or key_dim is None or value_dim is None or kernel is None:
        return None
    channels = 2 * key_heads * key_dim + value_heads * value_dim
    return _state(value_heads, value_dim, key_dim, channels, kernel)


def _mamba2_state(values: ConfigValues) -> dict[str, int] | None:
    """Return the state of Mamba-2 layers (Bamba, Falcon-H1, Nemotron-H spellings)."""
    heads = values.count("mamba_n_heads") or values.count("mamba_num_heads")
    head_dim = values.count("mamba_d_head") or values.count("mamba_head_dim")
    width = values.count("mamba_d_state") or values.count("ssm_state_size")
    groups = values.count("mamba_n_groups") or values.count("n_groups")
    kernel = values.count("mamba_d_conv") or values.count("conv_kernel")
    if heads is None or head_dim is None or width is None or groups is None or kernel is None:
        return None
    return _state(heads, head_dim, width, heads * head_dim + 2 * groups * width, kernel)


def _mamba_state(values: ConfigValues) -> dict[str, int] | None:
    """Return the state of Mamba-1 layers (Jamba)."""
    hidden, expand = values.count("hidden_size"), values.count("mamba_expand")
    width, kernel = values.count("mamba_d_state"), values.count("mamba_d_conv")
    if hidden is None or expand is None or width is None or kernel is None:
        return None
    return _state(1, hidden * expand, width, hidden * expand, kernel)


def _lightning_state(values: ConfigValues) -> dict[str, int] | None:
    """Return the state of lightning attention layers (MiniMax)."""
    heads, head_dim = values.count("num_attention_heads"), values.count("head_dim")
    if values.numbers("attn_type_list") is None or heads is None or head_dim is None:
        return None
    return _state(heads, head_dim, head_dim, 0, 0)


def _recurrent_state(values: ConfigValues) -> dict[str, int] | None:
    """Return the state of linear recurrent units (RecurrentGemma)."""
    width, kernel = values.count("lru_width"), values.count("conv1d_width")
    return _state(1, width, 1, width, kernel) if width is not None and kernel is not None else None


def _conv_state(values: ConfigValues) -> dict[str, int] | None:
    """Return the state of layers that are a short convolution only (LFM2)."""
    channels, kernel = values.count("hidden_size"), values.count("conv_L_cache")
    return _state(0, 0, 0, channels, kernel) if channels is not None and kernel is not None else None


def _state(heads: int, head_dim: int, width: int, channels: int, kernel: int) -> dict[str, int]:
    """Return the settings of a state layer."""
    return {
        "state_heads": heads,
        "state_head_dim": head_dim,
        "state_width": width,
        "conv_channels": channels,
        "conv_kernel": kernel,
    }
