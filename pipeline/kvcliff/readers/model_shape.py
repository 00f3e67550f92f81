"""The shape of a model from its Hugging Face configuration, under canonical setting names."""

from collections.abc import Mapping
from typing import Final

_TEXT_LIMIT: Final = 80
#: Canonical setting and the keys that carry it, newest spelling first (GPT-2 and Falcon use short ones).
_KEYS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("model_type", ("model_type",)),
    ("layers", ("num_hidden_layers", "n_layer", "num_layers")),
    ("hidden_size", ("hidden_size", "n_embd", "d_model")),
    ("attention_heads", ("num_attention_heads", "n_head", "num_heads")),
    ("kv_heads", ("num_key_value_heads", "num_kv_heads", "n_head_kv")),
    ("head_dim", ("head_dim",)),
    ("intermediate_size", ("intermediate_size", "ffn_dim", "n_inner")),
    ("vocab_size", ("vocab_size",)),
    ("dtype", ("dtype", "torch_dtype")),
    ("sliding_window", ("sliding_window",)),
    ("kv_lora_rank", ("kv_lora_rank",)),
    ("qk_rope_head_dim", ("qk_rope_head_dim",)),
    ("num_experts", ("num_local_experts", "num_experts", "n_routed_experts")),
    ("experts_per_token", ("num_experts_per_tok", "num_experts_per_token", "moe_topk")),
    ("tie_word_embeddings", ("tie_word_embeddings",)),
    ("max_position_embeddings", ("max_position_embeddings", "n_positions", "max_seq_len")),
)
_TEXT_SETTINGS: Final = ("model_type", "dtype")
_FLAG_SETTINGS: Final = ("tie_word_embeddings",)
#: Multimodal models keep the language model's shape one level down.
_INNER: Final = ("text_config", "llm_config", "language_config")


def model_shape(config: Mapping[str, object]) -> dict[str, str]:
    """Return the canonical model settings that a configuration states, with the defaults that its keys imply.

    Key/value heads default to the query heads (MHA), the head dimension to hidden size / query heads.
    """
    inner = next((config[key] for key in _INNER if isinstance(config.get(key), dict)), {})
    merged = {**config, **inner} if isinstance(inner, dict) else dict(config)
    found: dict[str, str] = {}
    for name, keys in _KEYS:
        text = next((text for key in keys if (text := _text(name, merged.get(key))) is not None), None)
        if text is not None:
            found[name] = text
    if merged.get("use_sliding_window") is False:
        found.pop("sliding_window", None)
    method = merged.get("quantization_config")
    if isinstance(method, dict) and isinstance(method.get("quant_method"), str):
        found["quantization"] = method["quant_method"][:_TEXT_LIMIT]
    return _with_defaults(found, merged)


def _with_defaults(found: dict[str, str], config: Mapping[str, object]) -> dict[str, str]:
    """Return the shape with the values that follow from others."""
    heads = int(found.get("attention_heads", 0))
    width = int(found.get("hidden_size", 0))
    if heads and config.get("multi_query") is True and config.get("new_decoder_architecture") is not True:
        found["kv_heads"] = "1"
    elif heads:
        found.setdefault("kv_heads", str(heads))
    if heads and width and width % heads == 0:
        found.setdefault("head_dim", str(width // heads))
    return found


def _text(name: str, value: object) -> str | None:
    """Return a value as setting text, or ``None`` when it has not the kind that the setting needs."""
    if name in _TEXT_SETTINGS:
        return value.removeprefix("torch.")[:_TEXT_LIMIT] if isinstance(value, str) and value else None
    if name in _FLAG_SETTINGS:
        return str(value).lower() if isinstance(value, bool) else None
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 48
    return str(value) if is_count else None
