"""Start-up facts in vLLM logs: version, configuration, weights, memory split, size of the KV cache."""

import re
from collections.abc import Iterable
from typing import Final

from kvcliff.readers.lines.base import NUMBER, Record, Row, Rule, SettingRow, amount_of, count_of
from kvcliff.readers.lines.facts import Fact, bytes_fact
from kvcliff.readers.lines.vllm_config import arguments_of, fact_of, split_arguments
from kvcliff.units import GIB

_SETTINGS: Final = "raw_settings"
_VERSION = r"(?P<version>\d[\w.+-]{0,63}?)"
_SERVER_VERSION = re.compile(rf"vLLM API server version {_VERSION}\s*$")
_ENGINE = re.compile(
    rf"Initializing an? (?:V(?P<generation>[01]) )?LLM engine(?: \(v{_VERSION}\))? "
    r"with config: (?P<config>.*)",
    re.DOTALL,
)
_CRASH = re.compile(rf"Dumping input data for V(?P<generation>[01]) LLM engine \(v{_VERSION}\)")
_ARGUMENTS = re.compile(r"(?:args: Namespace\(|non-default args: (?=\{))(?P<text>.*)", re.DOTALL)
_MAX_LEN = re.compile(r"Using max model len (\d+)")
_CHUNKED = re.compile(r"Chunked prefill is enabled with max_num_batched_tokens=(\d+)")
_WEIGHTS = re.compile(rf"(?:Loading model weights took|Model loading took) (?P<size>{NUMBER}) Gi?B\b")
_BUDGET = re.compile(
    rf"the current vLLM instance can use total_gpu_memory \((?P<total>{NUMBER})GiB\) "
    rf"x gpu_memory_utilization \((?P<share>{NUMBER})\)"
)
_SPLIT = re.compile(
    rf"model weights take (?P<weights>{NUMBER})GiB; non_torch_memory takes (?P<other>{NUMBER})GiB; "
    rf"PyTorch activation peak memory takes (?P<activation>{NUMBER})GiB; "
    rf"the rest of the memory reserved for KV Cache is (?P<kv>{NUMBER})GiB"
)
_PROFILED = re.compile(rf"(?P<key>\w+)=(?P<value>{NUMBER})(?:GiB)?(?=\s|$)")
_PROFILE_NAMES: Final = (
    ("total_gpu_memory", "total_gpu_memory_bytes"),
    ("peak_torch_memory", "peak_torch_memory_bytes"),
    ("non_torch_memory", "non_torch_memory_bytes"),
    ("kv_cache_size", "kv_cache_bytes"),
)
_BLOCKS = re.compile(r"# \w+ blocks: (?P<device>\d+)(?:, # CPU blocks: (?P<host>\d+))?")
_KV_BYTES = re.compile(
    rf"Available KV cache memory: (?P<size>{NUMBER}) GiB"
    rf"|Explicitly set \((?P<set>{NUMBER})/{NUMBER}\) GiB for KV cache"
)
_KV_TOKENS = re.compile(r"[A-Z]{2,8} KV cache size: (?P<tokens>[\d,]+) tokens")
_PER_REQUEST = re.compile(r"(?:^|, )Maximum concurrency for (?P<length>[\d,]+) tokens per request: ")
_NUM_BLOCKS = re.compile(
    r"(?:Engine (?P<engine>\d{1,9}): |(?P<engines>\d+) Engines: )?"
    r"vllm cache_config_info with initialization after num_gpu_blocks is: (?P<blocks>\d+)"
)
_OVERRIDE = re.compile(r"Overriding num_gpu_blocks=\d+ with num_gpu_blocks_override=(\d+)")
_BACKEND = re.compile(r"Using (?:the )?(?P<name>[A-Za-z][\w. -]{1,40}?)(?: attention)? backend\b")
_BACKEND_WORDS = re.compile(r"attn|attention|flash|xformers|triton|sdpa|mla", re.IGNORECASE)
_SPECULATIVE = re.compile(r"Speculative metrics: .*Number of speculative tokens: (\d+),")


def _rows(record: Record, facts: Iterable[Fact | None], scope: str | None = None) -> tuple[Row, ...]:
    place = record.settings_scope() if scope is None else scope
    return tuple(
        SettingRow(record.line_no, place, fact.name, fact.value, fact.unit)
        for fact in facts
        if fact is not None
    )


def _count(name: str, text: str | None, unit: str | None = None) -> Fact | None:
    number = count_of(text.replace(",", "")) if text else None
    return Fact(name, str(number), unit) if number is not None else None


def _engine_facts(version: str | None, generation: str | None) -> list[Fact | None]:
    return [
        Fact("engine", "vllm", None),
        Fact("engine_version", version, None) if version else None,
        Fact("engine_generation", f"V{generation}", None) if generation else None,
    ]


def _generation_before_names(version: str | None) -> str | None:
    """Return ``0`` for a version with one generation only; from 0.6.6 to 0.7.2 both wrote the same line."""
    if version is None:
        return "0"
    numbers = re.match(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})", version)
    return "0" if numbers and tuple(map(int, numbers.groups())) < (0, 6, 6) else None


def parse_version(record: Record) -> tuple[Row, ...]:
    """Return engine and version of the API server's first line."""
    match = _SERVER_VERSION.match(record.message)
    return _rows(record, _engine_facts(match["version"], None)) if match else ()


def parse_engine(record: Record) -> tuple[Row, ...]:
    """Return version, generation and configuration of the engine's first line."""
    match = _ENGINE.match(record.message)
    if match is None:
        return ()
    facts = _engine_facts(match["version"], match["generation"] or _generation_before_names(match["version"]))
    facts.extend(fact_of(key, value.strip("'\"")) for key, value in split_arguments(match["config"]))
    return _rows(record, facts)


def parse_crash_version(record: Record) -> tuple[Row, ...]:
    """Return the version that a dying engine states."""
    match = _CRASH.match(record.message)
    return _rows(record, _engine_facts(match["version"], match["generation"])) if match else ()


def parse_arguments(record: Record) -> tuple[Row, ...]:
    """Return the arguments that are facts we keep; ``auto`` and ``None`` leave the decision to the engine."""
    match = _ARGUMENTS.match(record.message)
    if match is None:
        return ()
    values = arguments_of(match["text"])
    # Both may be there: the option wins over the positional argument, which it repeats.
    if "model" in values:
        values.pop("model_tag", None)
    return _rows(
        record, (fact_of(key, value) for key, value in values.items() if value not in {"None", "auto"})
    )


def parse_limits(record: Record) -> tuple[Row, ...]:
    """Return the model length and the token budget that the engine settled on."""
    length = _MAX_LEN.match(record.message)
    if length is not None:
        return _rows(record, [_count("max_model_len", length[1], "tokens")])
    chunked = _CHUNKED.match(record.message)
    if chunked is None:
        return ()
    return _rows(
        record,
        [
            Fact("enable_chunked_prefill", "true", None),
            _count("max_num_batched_tokens", chunked[1], "tokens"),
        ],
    )


def parse_weights(record: Record) -> tuple[Row, ...]:
    """Return the bytes of weights of a rank; "GB" in older versions is 2^30 as well."""
    match = _WEIGHTS.match(record.message)
    return _rows(record, [bytes_fact("weight_bytes", match["size"], GIB)]) if match else ()


def parse_memory(record: Record) -> tuple[Row, ...]:
    """Return how V0 split the device memory, in each of its spellings."""
    message = record.message
    budget = _BUDGET.match(message)
    if budget is not None:
        return _rows(
            record, [bytes_fact("total_gpu_memory_bytes", budget["total"], GIB), _share(budget["share"])]
        )
    split = _SPLIT.match(message)
    if split is not None:
        # This activation peak is without weights, the peak_torch_memory of the older spelling is with them.
        return _rows(
            record,
            [
                bytes_fact("weight_bytes", split["weights"], GIB),
                bytes_fact("non_torch_memory_bytes", split["other"], GIB),
                bytes_fact("activation_memory_bytes", split["activation"], GIB),
                bytes_fact("kv_cache_bytes", split["kv"], GIB),
            ],
        )
    if not message.startswith("Memory profiling results: "):
        return ()
    values = {match["key"]: match["value"] for match in _PROFILED.finditer(message)}
    facts = [bytes_fact(name, values.get(key), GIB) for key, name in _PROFILE_NAMES]
    return _rows(record, [*facts, _share(values.get("gpu_memory_utilization"))])


def _share(text: str | None) -> Fact | None:
    # Printed with two decimals; the argument is exact and may already be known with more.
    value = amount_of(text)
    return fact_of("gpu_memory_utilization", text) if text is not None and value is not None else None


def parse_blocks(record: Record) -> tuple[Row, ...]:
    """Return the number of KV blocks on device and host."""
    match = _BLOCKS.match(record.message)
    if match is None:
        return ()
    return _rows(
        record,
        [
            _count("num_gpu_blocks", match["device"], "blocks"),
            _count("num_cpu_blocks", match["host"], "blocks"),
        ],
    )


def parse_num_blocks(record: Record) -> tuple[Row, ...]:
    """Return the number of KV blocks as the front end or an override states it."""
    match = _NUM_BLOCKS.match(record.message)
    if match is not None:
        engine = match["engine"]
        number = f"dp{int(engine)}" if engine is not None and int(engine) > 0 else ""
        scope = "/".join(part for part in (record.replica, number) if part)
        facts = [
            _count("num_gpu_blocks", match["blocks"], "blocks"),
            _count("data_parallel_size", match["engines"]),
        ]
        return _rows(record, facts, scope)
    override = _OVERRIDE.match(record.message)
    return _rows(record, [_count("num_gpu_blocks", override[1], "blocks")]) if override else ()


def parse_kv_size(record: Record) -> tuple[Row, ...]:
    """Return the KV cache in bytes or tokens, and the model length stated with it."""
    size = _KV_BYTES.match(record.message)
    if size is not None:
        return _rows(record, [bytes_fact("kv_cache_bytes", size["size"] or size["set"], GIB)])
    tokens, length = _KV_TOKENS.match(record.message), _PER_REQUEST.search(record.message)
    return _rows(
        record,
        [
            _count("kv_cache_tokens", tokens["tokens"], "tokens") if tokens else None,
            _count("max_model_len", length["length"], "tokens") if length else None,
        ],
    )


def parse_backend(record: Record) -> tuple[Row, ...]:
    """Return the attention backend; other backends (distributed executor ...) are not it."""
    match = _BACKEND.match(record.message)
    if match is None or not _BACKEND_WORDS.search(match[0]):
        return ()
    return _rows(record, [Fact("attention_backend", match["name"], None)])


def parse_speculation(record: Record) -> tuple[Row, ...]:
    """Return the number of speculative tokens of V0's periodic line."""
    match = _SPECULATIVE.match(record.message)
    return _rows(record, [_count("num_speculative_tokens", match[1], "tokens")]) if match else ()


STARTUP_RULES: Final = (
    Rule("version", _SETTINGS, parse_version, starts=(b"vLLM API server version",)),
    Rule("engine_config", _SETTINGS, parse_engine, starts=(b"Initializing a",)),
    Rule("cli_args", _SETTINGS, parse_arguments, starts=(b"args: Namespace(", b"non-default args: ")),
    Rule("limits", _SETTINGS, parse_limits, starts=(b"Using max model len", b"Chunked prefill is enabled")),
    Rule("weights", _SETTINGS, parse_weights, starts=(b"Loading model weights took", b"Model loading took")),
    Rule(
        "memory_split",
        _SETTINGS,
        parse_memory,
        starts=(b"Memory profiling results: ", b"the current vLLM instance", b"model weights take"),
    ),
    Rule("kv_blocks", _SETTINGS, parse_blocks, starts=(b"# ",)),
    Rule(
        "num_gpu_blocks",
        _SETTINGS,
        parse_num_blocks,
        starts=(
            b"Engine ",
            *(b"%d" % digit for digit in range(1, 10)),
            b"vllm cache_config_info",
            b"Overriding num_gpu_blocks",
        ),
    ),
    Rule(
        "kv_size",
        _SETTINGS,
        parse_kv_size,
        starts=(
            b"GPU KV cache size",
            b"CPU KV cache size",
            b"XPU KV cache size",
            b"Maximum concurrency for",
            b"Available KV",
            b"Explicitly set (",
        ),
    ),
    Rule("attention_backend", _SETTINGS, parse_backend, starts=(b"Using ",)),
    Rule("speculation", _SETTINGS, parse_speculation, starts=(b"Speculative metrics: ",)),
)
