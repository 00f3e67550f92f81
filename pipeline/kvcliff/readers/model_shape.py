"""The shape of a model from its Hugging Face configuration, under canonical setting names."""

from collections.abc import Mapping
from typing import Final

from kvcliff.readers.model_experts import expert_settings
from kvcliff.readers.model_layers import layer_settings
from kvcliff.readers.model_quantization import quantization_settings
from kvcliff.readers.model_values import ConfigValues

_TEXT_LIMIT: Final = 80
#: Canonical setting and the keys that carry it, newest spelling first (GPT-2 and Falcon use short ones).
_COUNTS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("layers", ("num_hidden_layers", "n_layer", "n_layers", "num_layers")),
    ("hidden_size", ("hidden_size", "n_embd", "d_model")),
    ("attention_heads", ("num_attention_heads", "n_head", "n_heads", "num_heads")),
    ("kv_heads", ("num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads")),
    ("head_dim", ("head_dim", "attention_head_dim")),
    ("intermediate_size", ("intermediate_size", "ffn_dim", "ffn_hidden_size", "n_inner")),
    ("vocab_size", ("vocab_size",)),
    ("kv_lora_rank", ("kv_lora_rank",)),
    ("qk_rope_head_dim", ("qk_rope_head_dim",)),
    ("qk_nope_head_dim", ("qk_nope_head_dim",)),
    ("q_lora_rank", ("q_lora_rank",)),
    ("v_head_dim", ("v_head_dim",)),
    ("full_kv_heads", ("num_global_key_value_heads",)),
    ("full_head_dim", ("global_head_dim",)),
    ("max_position_embeddings", ("max_position_embeddings", "n_positions", "max_seq_len")),
)
_TEXTS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("model_type", ("model_type",)),
    ("dtype", ("dtype", "torch_dtype")),
    ("state_dtype", ("mamba_ssm_dtype",)),
)
#: Multimodal models keep the language model's shape one level down, some families parts of theirs.
_INNER: Final = ("text_config", "llm_config", "language_config", "attn_config", "ffn_config")
#: Families whose feed-forward width follows from the hidden size unless it is stated.
_WIDE_FACTOR: Final = {"gpt2": 4, "falcon": 4, "bloom": 4, "gptj": 4, "gpt_bigcode": 4, "mpt": 4}


def model_shape(config: Mapping[str, object]) -> dict[str, str]:
    """Return the canonical model settings that a configuration states, with the defaults that its keys imply.

    Key/value heads default to the query heads (MHA), the head dimension to hidden size / query heads.
    Counts of layers of a kind are stated only where not all layers are of one kind.
    """
    merged = dict(config)
    for key in _INNER:
        inner = config.get(key)
        if isinstance(inner, dict):
            # An outer value stays where the inner object is silent (element type, tied embeddings).
            merged.update({name: value for name, value in inner.items() if value is not None})
    values = ConfigValues(merged)
    found: dict[str, str] = {}
    for name, keys in _TEXTS:
        text = next((text for key in keys if (text := values.text(key)) is not None), None)
        if text is not None:
            found[name] = text.removeprefix("torch.")[:_TEXT_LIMIT]
    for name, keys in _COUNTS:
        count = next((count for key in keys if (count := values.count(key)) is not None), None)
        if count is not None:
            found[name] = str(count)
    is_tied = values.flag("tie_word_embeddings")
    if is_tied is not None:
        found["tie_word_embeddings"] = str(is_tied).lower()
    _add_defaults(found, values)
    found.update(layer_settings(values, int(found.get("layers", 0))))
    found.update(expert_settings(values, int(found.get("layers", 0))))
    found.update(quantization_settings(merged.get("quantization_config")))
    return found


def _add_defaults(found: dict[str, str], values: ConfigValues) -> None:
    """Add the values that follow from others."""
    heads = int(found.get("attention_heads", 0))
    width = int(found.get("hidden_size", 0))
    is_new_falcon = values.flag("new_decoder_architecture") is True
    if heads and values.flag("multi_query") is True and not is_new_falcon:
        found["kv_heads"] = "1"
    elif heads:
        found.setdefault("kv_heads", str(heads))
    if heads and width and width % heads == 0:
        found.setdefault("head_dim", str(width // heads))
    factor = _WIDE_FACTOR.get(found.get("model_type", ""))
    if factor is not None and width:
        found.setdefault("intermediate_size", str(factor * width))
    if found.get("full_head_dim") == found.get("head_dim"):
        found.pop("full_head_dim", None)
    if found.get("full_kv_heads") == found.get("kv_heads"):
        found.pop("full_kv_heads", None)
    if "kv_lora_rank" not in found and found.get("v_head_dim") == found.get("head_dim"):
        found.pop("v_head_dim", None)
