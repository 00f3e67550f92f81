"""Start-up facts in SGLang logs: arguments, memory ledger, size of the KV pools, limits."""

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from kvcliff.readers.lines.base import NUMBER, Handled, Record, Row, Rule, amount_of, event_of, scaled_bytes
from kvcliff.readers.lines.facts import Fact, bytes_fact, count_fact, model_name, setting_rows
from kvcliff.units import GIB

_SETTINGS: Final = "raw_settings"
#: In memory lines "GB" is 2^30 bytes, in the line on the hierarchical cache it is 10^9.
_DECIMAL_GB: Final = 10**9
_ARGUMENTS = re.compile(r"server_args=ServerArgs\((?P<text>.*)\)\s*$", re.DOTALL)
_WORD = re.compile(r"[\w.+:-]{1,64}")
_POOL = re.compile(
    r"(?P<label>[\w -]{1,60}: (?:draft )?|[\w -]{1,40} )?KV [Cc]ache (?:(?:is )?allocated|VA upper bound)\. "
    rf"(?:dtype: (?P<dtype>\S{{1,64}}), )?#tokens: (?P<tokens>\d+), "
    rf"(?:K size: (?P<k>{NUMBER}) GB, V size: (?P<v>{NUMBER}) GB|KV size: (?P<kv>{NUMBER}) GB)"
)
_WEIGHTS = re.compile(rf"Load weight end\..*?\bmem usage=(?P<used>{NUMBER}) GB")
_DTYPE = re.compile(r"\bdtype=(?P<dtype>[\w.]{1,64})")
_LIMITS = re.compile(
    r"max_total_num_tokens=(?P<tokens>\d+)(?:, chunked_prefill_size=(?P<chunk>-?\d+|None))?"
    r", max_prefill_tokens=(?P<prefill>\d+), max_running_requests=(?P<running>\d+)"
    rf", context_len=(?P<length>\d+)(?:, available_[gc]pu_mem=(?P<free>{NUMBER}) GB)?"
)
_HOST = re.compile(rf"Allocating (?P<size>{NUMBER}) GB host memory for hierarchical KV cache")
_CAPTURED = re.compile(r"Capture .{0,60}?(?:cuda|CUDA) graph end\b")
_CAPTURE_S = re.compile(rf"(?:Time elapsed: |elapsed=)(?P<s>{NUMBER}) s")
_CAPTURE_GB = re.compile(rf"mem usage=(?P<used>{NUMBER}) GB")

_COUNTS: Mapping[str, tuple[str, str | None]] = MappingProxyType(
    {
        "tp_size": ("tensor_parallel_size", None),
        "pp_size": ("pipeline_parallel_size", None),
        "dp_size": ("data_parallel_size", None),
        "page_size": ("block_size", "tokens"),
        "max_running_requests": ("max_num_seqs", None),
        "max_total_tokens": ("kv_cache_tokens", "tokens"),
        "context_length": ("max_model_len", "tokens"),
        "speculative_num_draft_tokens": ("num_speculative_tokens", "tokens"),
    }
)
_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "kv_cache_dtype": "kv_cache_dtype",
        "dtype": "dtype",
        "quantization": "quantization",
        "schedule_policy": "scheduling_policy",
        "attention_backend": "attention_backend",
    }
)
_SWITCHES: Mapping[str, tuple[str, bool]] = MappingProxyType(
    {
        "disable_radix_cache": ("enable_prefix_caching", False),
        "disable_cuda_graph": ("enforce_eager", True),
    }
)


def _arguments(text: str) -> Iterator[tuple[str, object]]:
    """Yield the arguments that are plain constants; nested calls and lists are passed over."""
    try:
        with warnings.catch_warnings():
            # An odd escape in a path makes the compiler warn; the text is not ours to mend.
            warnings.simplefilter("ignore")
            call = ast.parse(f"f({text})", mode="eval").body
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return
    for keyword in call.keywords if isinstance(call, ast.Call) else ():
        if keyword.arg is not None and isinstance(keyword.value, ast.Constant):
            yield keyword.arg, keyword.value.value


def _fact(key: str, value: object) -> Fact | None:
    """Return the fact that an argument states; whatever is not listed is never kept."""
    if key in _COUNTS and type(value) is int:
        return count_fact(_COUNTS[key][0], str(value), _COUNTS[key][1])
    if key in _SWITCHES and isinstance(value, bool):
        name, when_set = _SWITCHES[key]
        return Fact(name, str(value is when_set).lower(), None)
    if key == "mem_fraction_static" and isinstance(value, float) and 0 <= value <= 1:
        return Fact(key, f"{value:.12g}", "ratio")
    if key == "chunked_prefill_size" and type(value) is int:
        return _chunk(str(value))
    if not isinstance(value, str):
        return None
    if key == "model_path":
        name_text = model_name(value)
        return Fact("model_name", name_text, None) if name_text else None
    # "auto" leaves the decision to the engine, but for the KV cache it says "as the model".
    if key in _WORDS and _WORD.fullmatch(value) and (value != "auto" or key == "kv_cache_dtype"):
        return Fact(_WORDS[key], value, None)
    return None


def _chunk(text: str | None) -> Fact | None:
    """Return the most prompt tokens in one step; -1 switches chunks off."""
    return count_fact("max_num_batched_tokens", text, "tokens") if text and text.isdecimal() else None


def parse_arguments(record: Record) -> tuple[Row, ...]:
    """Return the arguments of the server that are facts we keep."""
    match = _ARGUMENTS.match(record.message)
    if match is None:
        return ()
    facts = [_fact(key, value) for key, value in _arguments(match["text"])]
    return setting_rows(record, facts)


def parse_weights(record: Record) -> tuple[Row, ...]:
    """Return memory and type of the weights of a rank."""
    match = _WEIGHTS.match(record.message)
    if match is None:
        return ()
    dtype = _DTYPE.search(record.message)
    facts = [
        bytes_fact("weight_bytes", match["used"], GIB),
        Fact("dtype", dtype["dtype"].removeprefix("torch."), None) if dtype else None,
    ]
    return setting_rows(record, facts)


def parse_pool(record: Record) -> tuple[Row, ...]:
    """Return the size of the KV pool; an upper bound of addresses and side pools are not it."""
    match = _POOL.match(record.message)
    if match is None:
        return ()
    if "VA upper bound" in match[0] or re.search("draft|swa|mamba", match["label"] or "", re.IGNORECASE):
        return (Handled("not the size of the main pool"),)
    sizes = [amount_of(match[key]) for key in ("k", "v", "kv") if match[key] is not None]
    total = sum(size for size in sizes if size is not None)
    dtype = match["dtype"]
    facts = [
        count_fact("kv_cache_tokens", match["tokens"], "tokens"),
        bytes_fact("kv_cache_bytes", str(total), GIB) if None not in sizes else None,
        Fact("kv_cache_dtype", dtype.removeprefix("torch."), None)
        if dtype and _WORD.fullmatch(dtype)
        else None,
    ]
    return setting_rows(record, facts)


def parse_limits(record: Record) -> tuple[Row, ...]:
    """Return what the scheduler settled on."""
    match = _LIMITS.match(record.message)
    if match is None:
        return ()
    facts = [
        count_fact("kv_cache_tokens", match["tokens"], "tokens"),
        _chunk(match["chunk"]),
        count_fact("max_num_seqs", match["running"]),
        count_fact("max_model_len", match["length"], "tokens"),
        bytes_fact("free_gpu_memory_bytes", match["free"], GIB),
    ]
    return setting_rows(record, facts)


def parse_host(record: Record) -> tuple[Row, ...]:
    """Return the host memory of the hierarchical cache."""
    match = _HOST.match(record.message)
    return setting_rows(record, [bytes_fact("host_kv_bytes", match["size"], _DECIMAL_GB)]) if match else ()


def parse_capture(record: Record) -> tuple[Row, ...]:
    """Return the end of graph capture with its time and memory."""
    if not _CAPTURED.match(record.message):
        return ()
    seconds, used = _CAPTURE_S.search(record.message), _CAPTURE_GB.search(record.message)
    duration_s = amount_of(seconds["s"]) if seconds else None
    return (
        event_of(record, "graph_capture")._replace(
            duration_ms=duration_s * 1e3 if duration_s is not None else None,
            bytes=scaled_bytes(used["used"], GIB) if used else None,
        ),
    )


STARTUP_RULES: Final = (
    Rule("server_args", _SETTINGS, parse_arguments, starts=(b"server_args=ServerArgs(",)),
    Rule("weights", _SETTINGS, parse_weights, starts=(b"Load weight end.",)),
    Rule("limits", _SETTINGS, parse_limits, starts=(b"max_total_num_tokens=",)),
    Rule("hicache_host", _SETTINGS, parse_host, starts=(b"Allocating ",)),
    Rule("graph_capture", "raw_log_events", parse_capture, starts=(b"Capture ",)),
    Rule(
        "kv_pool",
        _SETTINGS,
        parse_pool,
        starts=(b"KV Cache ", b"KV cache allocated", b"Post-capture KV sizing: "),
        contains=(b" KV Cache is allocated. ",),
    ),
)
