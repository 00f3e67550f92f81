"""Configuration printed by vLLM: a bracket-aware scan of argument lists, and the facts that may be kept."""

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from kvcliff.readers.lines.base import amount_of, count_of
from kvcliff.readers.lines.facts import Fact, bytes_fact, model_name
from kvcliff.units import GIB

_OPEN: Final = MappingProxyType({"(": ")", "[": "]", "{": "}"})
_CLOSE: Final = frozenset(")]}")
#: Longest configuration text that is scanned.
_SCAN_LIMIT: Final = 256 * 1024
_KEY = re.compile(r"\s*['\"]?(?P<key>[A-Za-z_]\w{0,80})['\"]?\s*[=:]\s*")
_SCAN = re.compile(r"[()\[\]{},'\"\\]")
_WORD = re.compile(r"[\w.+:-]{1,64}")
_CONNECTOR = re.compile(r"['\"]?kv_connector['\"]?\s*[:=]\s*['\"](\w{1,64})['\"]")
_SPECULATIVE = re.compile(r"['\"]?num_spec(?:ulative)?_tokens['\"]?\s*[:=]\s*(\d{1,6})\b")
_GRAPH_MODE = re.compile(r"['\"]?cudagraph_mode['\"]?\s*[:=]\s*['\"]?(?:<?CUDAGraphMode\.)?([A-Za-z_]{1,32})")


def split_arguments(text: str) -> Iterator[tuple[str, str]]:
    """Yield key and raw value of ``k=v, k=v`` or ``'k': v``, split at commas outside brackets and quotes."""
    for part in split_top_level(text[:_SCAN_LIMIT]):
        match = _KEY.match(part)
        if match is not None:
            yield match["key"].strip(), part[match.end() :].strip()


def split_top_level(text: str) -> Iterator[str]:
    """Yield the parts between commas outside brackets and quotes; ends where the outer bracket closes."""
    expected: list[str] = []
    quote, start, skip = "", 0, -1
    for match in _SCAN.finditer(text):
        at, char = match.start(), match[0]
        if at == skip:
            continue
        if char == "\\":
            skip = at + 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in _OPEN:
            expected.append(_OPEN[char])
        elif char in _CLOSE:
            if not expected:
                yield text[start:at]
                return
            if char == expected[-1]:
                expected.pop()
        elif char == "," and not expected:
            yield text[start:at]
            start = at + 1
    # A quote or bracket that never closes means a cut text: its last value is not whole.
    if not expected and not quote:
        yield text[start:]


def arguments_of(text: str) -> dict[str, str]:
    """Return the arguments of a printed dict or ``Namespace(...)`` body as text, without quotes."""
    inner = text.strip()
    if inner.startswith("{"):
        literal = literal_dict(inner)
        if literal is not None:
            return {str(key): str(value) for key, value in literal.items()}
        inner = inner[1:]
    return {key: _unquoted(value) for key, value in split_arguments(inner)}


def literal_dict(text: str) -> dict[object, object] | None:
    """Return the dict when the text is all literals; a class in it (``ProfilerConfig(..)``) makes it none."""
    if len(text) > _SCAN_LIMIT:
        return None
    try:
        with warnings.catch_warnings():
            # An odd escape in a path makes the compiler warn; the text is not ours to mend.
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, dict) else None


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"" else value


def _number(name: str, value: str, unit: str | None = None) -> Fact | None:
    number = count_of(value)
    return Fact(name, str(number), unit) if number is not None else None


def _ratio(name: str, value: str) -> Fact | None:
    number = amount_of(value)
    return Fact(name, f"{number:.12g}", "ratio") if number is not None and number <= 1 else None


def _switch(name: str, value: str) -> Fact | None:
    return Fact(name, value.lower(), None) if value in {"True", "False", "true", "false"} else None


def _word(name: str, value: str) -> Fact | None:
    value = value.removeprefix("torch.")
    return Fact(name, value, None) if _WORD.fullmatch(value) else None


def _quantization(name: str, value: str) -> Fact | None:
    return _word(name, "none" if value == "None" else value)


def _model(name: str, value: str) -> Fact | None:
    model = model_name(value)
    return Fact(name, model, None) if model else None


def _found(name: str, pattern: re.Pattern[str], value: str) -> Fact | None:
    match = pattern.search(value)
    return Fact(name, match[1], None) if match else None


def fact_of(key: str, value: str) -> Fact | None:
    """Return the fact that an argument states, or ``None``: whatever is not on this list is never kept."""
    name = _ALIASES.get(key, key)
    if name in _COUNTS:
        return _number(name, value, _COUNTS[name])
    if name in _SWITCHES:
        return _switch(name, value)
    if name == "gpu_memory_utilization":
        return _ratio(name, value)
    if name in {"dtype", "kv_cache_dtype", "device_type"}:
        return _word(name, value)
    if name == "quantization":
        return _quantization(name, value)
    if name == "model":
        return _model("model_name", value)
    if name == "preemption_mode":
        return Fact(name, value, None) if value in {"swap", "recompute"} else None
    if name == "swap_space":
        return bytes_fact("swap_space_bytes", value, GIB)
    if name == "kv_cache_memory_bytes":
        return bytes_fact("kv_cache_bytes", value, 1)
    if name in _NESTED:
        fact, pattern = _NESTED[name]
        return _found(fact, pattern, value)
    return None


_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "max_seq_len": "max_model_len",
        "chunked_prefill_enabled": "enable_chunked_prefill",
        "model_tag": "model",
        "num_gpu_blocks_override": "num_gpu_blocks",
        "device_config": "device_type",
    }
)
_COUNTS: Mapping[str, str | None] = MappingProxyType(
    {
        "max_model_len": "tokens",
        "max_num_seqs": None,
        "max_num_batched_tokens": "tokens",
        "tensor_parallel_size": None,
        "pipeline_parallel_size": None,
        "data_parallel_size": None,
        "block_size": "tokens",
        "num_gpu_blocks": "blocks",
        "num_speculative_tokens": "tokens",
    }
)
_SWITCHES: Final = frozenset({"enable_prefix_caching", "enable_chunked_prefill", "enforce_eager"})
_NESTED: Mapping[str, tuple[str, re.Pattern[str]]] = MappingProxyType(
    {
        "speculative_config": ("num_speculative_tokens", _SPECULATIVE),
        "compilation_config": ("cuda_graph_mode", _GRAPH_MODE),
        "kv_transfer_config": ("kv_connector", _CONNECTOR),
    }
)
