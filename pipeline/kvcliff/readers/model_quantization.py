"""How the weights of a model are stored: bits, scales, and which part of the model is quantised."""

from collections.abc import Mapping
from typing import Final

from kvcliff.readers.model_values import ConfigValues

_TEXT_LIMIT: Final = 80
_FLOAT16_BITS: Final = 16
#: Methods whose bits are part of their name.
_FIXED_BITS: Final = {"fp8": 8, "fbgemm_fp8": 8, "mxfp4": 4, "mxfp8": 8, "modelopt_fp4": 4, "nvfp4": 4}


def quantization_settings(stated: object) -> dict[str, str]:
    """Return the settings of a ``quantization_config``; empty when there is none.

    Of a method that is not known only its name is returned: nothing can be said about its bytes.
    """
    if not isinstance(stated, dict):
        return {}
    values = ConfigValues(stated)
    method = values.text("quant_method")
    if method is None:
        return {}
    found = {"quantization": method[:_TEXT_LIMIT]}
    layout = _layout(method, values, stated)
    if layout is None:
        return found
    bits, group, scale_bits = layout
    found["weight_bits"] = str(bits)
    if group:
        found["quant_group_size"] = str(group)
        found["quant_scale_bits"] = str(scale_bits)
    found["quantized_part"] = "experts" if _keeps_attention(method, values) else "linear"
    return found


def _layout(method: str, values: ConfigValues, stated: Mapping[str, object]) -> tuple[int, int, int] | None:
    """Return bits of a weight, weights per scale (0: so many that scales do not count), bits of a scale."""
    if method in ("awq", "gptq", "auto-round", "intel/auto-round"):
        bits, group = values.count("bits") or values.count("w_bit"), values.count("group_size") or 0
        # A zero point as wide as the weight stands beside each half-precision scale.
        return (bits, group, _FLOAT16_BITS + bits) if bits is not None else None
    if method == "bitsandbytes":
        return _bitsandbytes(values)
    if method == "compressed-tensors":
        return _compressed(stated)
    if method == "modelopt":
        return _modelopt(values)
    if method in ("mxfp4", "mxfp8"):
        return _FIXED_BITS[method], 32, 8
    if method in ("nvfp4", "modelopt_fp4"):
        return _FIXED_BITS[method], 16, 8
    if method in _FIXED_BITS:
        block = values.numbers("weight_block_size")
        group = block[0] * block[1] if block is not None and len(block) == 2 else 0
        return _FIXED_BITS[method], max(group, 0), 32
    bits = values.count("bits")
    return (bits, values.count("group_size") or 0, _FLOAT16_BITS) if bits is not None else None


def _bitsandbytes(values: ConfigValues) -> tuple[int, int, int] | None:
    """Return the layout of bitsandbytes: blocks of 64 with a float scale, itself quantised when doubled."""
    if values.flag("load_in_4bit") is True:
        return 4, 64, 8 if values.flag("bnb_4bit_use_double_quant") is True else 32
    return (8, 0, 0) if values.flag("load_in_8bit") is True else None


def _modelopt(values: ConfigValues) -> tuple[int, int, int] | None:
    """Return the layout of a ModelOpt checkpoint."""
    algorithm = (values.text("quant_algo") or "").upper()
    if algorithm in ("NVFP4", "W4A8_NVFP4_FP8", "W4A16_NVFP4"):
        return 4, 16, 8
    return (8, 0, 0) if algorithm.startswith("FP8") else None


def _compressed(stated: Mapping[str, object]) -> tuple[int, int, int] | None:
    """Return the layout of the first group of a compressed-tensors checkpoint."""
    groups = stated.get("config_groups")
    first = next((groups[name] for name in sorted(groups)), None) if isinstance(groups, dict) else None
    weights = first.get("weights") if isinstance(first, dict) else None
    if not isinstance(weights, dict):
        return None
    values = ConfigValues(weights)
    bits, group = values.count("num_bits"), values.count("group_size") or 0
    if bits is None:
        return None
    block = values.numbers("block_structure")
    if block is not None and len(block) == 2:
        group = block[0] * block[1]
    # NVFP4 and MXFP4 keep one byte per scale.
    is_small_float = values.text("type") == "float" and bits == 4
    return bits, group, 8 if is_small_float else _FLOAT16_BITS


def _keeps_attention(method: str, values: ConfigValues) -> bool:
    """Return whether attention keeps its full precision, so that the experts alone are quantised."""
    kept = values.texts("modules_to_not_convert") or values.texts("ignore") or values.texts("exclude_modules")
    if kept is None:
        return method == "mxfp4"
    return any("self_attn" in name and not name.rstrip("*").endswith("indexer") for name in kept)
