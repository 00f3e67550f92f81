"""Events in vLLM logs: preemption, requests, failures, latency spikes that are not KV, transfers."""

import re
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from kvcliff.readers.lines.base import (
    EventRow,
    Record,
    RepeatedEvent,
    Row,
    Rule,
    UnreadableLineError,
    amount_of,
    count_of,
    scaled_bytes,
)
from kvcliff.readers.lines.vllm_config import literal_dict, split_top_level
from kvcliff.readers.lines.vllm_startup import parse_crash_version
from kvcliff.units import GIB, MIB

_Amount = TypeVar("_Amount", int, float)
_EVENTS: Final = "raw_log_events"
_ID = r"(?P<id>\S{1,256}?)"
_PREEMPTED = re.compile(
    rf"Sequence group {_ID} is preempted by (?:PreemptionMode\.)?(?P<mode>SWAP|RECOMPUTE) mode "
    r".*total_num_cumulative_preemption=(?P<total>\d+)\.?\s*$"
)
_RECEIVED = re.compile(rf"Received request {_ID}: ")
_MAX_TOKENS = re.compile(r"\bmax_tokens=(\d{1,18})\b")
_ADDED = re.compile(rf"Added request {_ID}\.?\s*$")
_FINISHED = re.compile(rf"Finished request {_ID}\.?\s*$")
_ABORTED = re.compile(rf"Aborted request(?:\(s\))? {_ID}\.?\s*$")
_REQUEST = re.compile(
    rf"Request {_ID}(?P<colon>:)? (?P<what>aborted|failed|cannot store)\b(?: (?P<blocks>\d+) blocks)?"
)
_JIT = re.compile(r"\w[\w ]{0,63} during inference: ")
_COMPILED = re.compile(r"Compiling a graph for .{0,200}? takes? (?P<s>[\d.]+) s")
_STALL = re.compile(r"No available shared memory broadcast block found in (?P<s>\d+) seconds?")
_CAPTURED = re.compile(r"Graph capturing finished in (?P<s>\d+) secs?(?:, took (?P<gib>-?[\d.]+) GiB)?")
_SPACE = re.compile(r"KV cache space|KV cache memory")

#: Keys of the offloading connectors: before and since 0.24.
_STORE_BYTES: Final = ("GPU_to_CPU_total_bytes", "vllm:kv_offload_store_bytes")
_STORE_TIME: Final = ("GPU_to_CPU_total_time", "vllm:kv_offload_store_time")
_LOAD_BYTES: Final = ("CPU_to_GPU_total_bytes", "vllm:kv_offload_load_bytes")
_LOAD_TIME: Final = ("CPU_to_GPU_total_time", "vllm:kv_offload_load_time")
#: Literal, kind, reason. The first that occurs names the event; the reason tells repetitions from new ones.
_FAILURES: Final = (
    ("CUDA out of memory", "oom", "device_memory"),
    ("OutOfMemoryError", "oom", "device_memory"),
    ("CUDA error: out of memory", "oom", "device_memory"),
    ("No available memory for the cache blocks", "fatal", "no_cache_memory"),
    (
        "is larger than the maximum number of tokens that can be stored in KV cache",
        "fatal",
        "max_len_exceeds_kv",
    ),
    ("is larger than the available KV cache memory", "fatal", "request_exceeds_kv"),
    ("is less than desired GPU memory utilization", "fatal", "free_memory_at_start"),
    ("lack of CPU swap space", "fatal", "no_swap_space"),
    ("Engine iteration timed out", "fatal", "iteration_timeout"),
    ("EngineCore encountered a fatal error", "fatal", "engine_core_fatal"),
    ("Dumping input data for V1 LLM engine", "fatal", "dump_config"),
    ("EngineDeadError", "fatal", "engine_dead"),
    ("AsyncEngineDeadError", "fatal", "engine_dead"),
    ("died unexpectedly", "fatal", "engine_dead"),
)


def parse_preemption(record: Record) -> tuple[Row, ...]:
    """Return a V0 preemption; only every 50th is logged: the cumulative count is the datum, not the line."""
    match = _PREEMPTED.match(record.message)
    if match is None:
        if _SPACE.search(record.message):
            raise UnreadableLineError("a preemption line has another form than known")
        return ()
    mode = match["mode"].lower()
    return (
        _event(
            record, "preempt", mode=mode, request_id=match["id"], cumulative_count=count_of(match["total"])
        ),
    )


def parse_received(record: Record) -> tuple[Row, ...]:
    """Return id and token limit of a request; the line holds the prompt, nothing else of it is read."""
    match = _RECEIVED.match(record.message)
    if match is None:
        return ()
    # The parameters follow the prompt, which may hold the same words: only the last ones are the engine's.
    limit = _MAX_TOKENS.search(record.message, max(record.message.rfind("SamplingParams("), match.end()))
    return (
        _event(
            record, "request_received", request_id=match["id"], tokens=count_of(limit[1]) if limit else None
        ),
    )


def parse_added(record: Record) -> tuple[Row, ...]:
    """Return a request that entered the engine."""
    match = _ADDED.match(record.message)
    return (_event(record, "request_added", request_id=match["id"]),) if match else ()


def parse_finished(record: Record) -> tuple[Row, ...]:
    """Return a request that ended (V0 only)."""
    match = _FINISHED.match(record.message)
    return (_event(record, "request_finished", request_id=match["id"]),) if match else ()


def parse_aborted(record: Record) -> tuple[Row, ...]:
    """Return a request (or a comma list of ids) that was aborted."""
    match = _ABORTED.match(record.message)
    return (_event(record, "request_aborted", request_id=match["id"]),) if match else ()


def parse_request(record: Record) -> tuple[Row, ...]:
    """Return what happened to a request: aborted, failed, or its blocks did not fit into the host tier."""
    match = _REQUEST.match(record.message)
    if match is None or (match["colon"] is not None) != (match["what"] == "cannot store"):
        return ()
    kind = "offload_store_failed" if match["what"] == "cannot store" else "request_aborted"
    event = _event(record, kind, request_id=match["id"])
    return (event._replace(event_count=count_of(match["blocks"])),)


def parse_jit(record: Record) -> tuple[Row, ...]:
    """Return a compilation or tuning that holds up steps."""
    if record.level not in {"WARNING", "INFO", "DEBUG"}:
        return ()
    if _JIT.match(record.message):
        return (_event(record, "jit"),)
    match = _COMPILED.match(record.message)
    return (_event(record, "jit", duration_ms=_ms(match["s"])),) if match else ()


def parse_stall(record: Record) -> tuple[Row, ...]:
    """Return a worker that did not finish its step for a minute or more."""
    match = _STALL.match(record.message)
    return (_event(record, "worker_stall", duration_ms=_ms(match["s"])),) if match else ()


def parse_capture(record: Record) -> tuple[Row, ...]:
    """Return the end of graph capture with its time and memory."""
    match = _CAPTURED.match(record.message)
    if match is None:
        return ()
    return (
        _event(
            record, "graph_capture", duration_ms=_ms(match["s"]), size_bytes=scaled_bytes(match["gib"], GIB)
        ),
    )


def parse_profiler(record: Record) -> tuple[Row, ...]:
    """Return the moment at which the server begins to start or stop its profiler, which stalls the engine."""
    kind = {"Starting profiler...": "profiler_start", "Stopping profiler...": "profiler_stop"}.get(
        record.message.strip()
    )
    return (_event(record, kind),) if kind else ()


def parse_failure(record: Record) -> tuple[Row, ...]:
    """Return an out-of-memory or fatal error, and the version when a dying engine dumps its configuration."""
    for literal, kind, reason in _FAILURES:
        if literal in record.message:
            mode = "swap" if reason == "no_swap_space" else None
            # A front end that outlives its engine by a moment during shutdown reports it dead.
            event = RepeatedEvent(_event(record, kind, mode=mode), reason, reason == "engine_dead")
            return (event, *parse_crash_version(record))
    return ()


def parse_shutdown(record: Record) -> tuple[Row, ...]:
    """Return the beginning of an orderly shutdown."""
    return (RepeatedEvent(_event(record, "shutdown"), "shutdown"),)


def parse_transfer(record: Record) -> tuple[Row, ...]:
    """Return bytes and busy time of the KV transfers of an interval (both directions, summed over ranks)."""
    pairs = list(_transfer_pairs(record.message.partition(": ")[2]))
    store_bytes, store_ms = _sums(pairs, _STORE_BYTES, _STORE_TIME)
    load_bytes, load_ms = _sums(pairs, _LOAD_BYTES, _LOAD_TIME)
    values = dict(pairs)
    remote_bytes, remote_ms = _remote(values)
    put_bytes, put_ms = _operations(values, is_load=False)
    get_bytes, get_ms = _operations(values, is_load=True)
    load_bytes, load_ms = _sum((load_bytes, get_bytes)), _sum((load_ms, get_ms))
    size, busy_ms = (
        _sum((store_bytes, load_bytes, remote_bytes, put_bytes)),
        _sum((store_ms, load_ms, remote_ms, put_ms)),
    )
    if size is None and busy_ms is None:
        return ()
    return (
        _event(
            record,
            "kv_transfer",
            size_bytes=size,
            duration_ms=busy_ms,
            load_bytes=load_bytes,
            load_ms=load_ms,
        ),
    )


def _transfer_pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield key and value of ``k=v, k=v``; several connectors are printed as ``Name={'k': v}``."""
    for part in split_top_level(text):
        nested = literal_dict(part[part.find("={") + 1 :].strip()) if "={" in part else None
        if nested is not None:
            yield from ((str(key), str(value)) for key, value in nested.items())
        else:
            key, _, value = part.rpartition("=")
            yield key.strip(), value.strip()


def _sums(
    pairs: list[tuple[str, str]], size_keys: tuple[str, ...], time_keys: tuple[str, ...]
) -> tuple[int | None, float | None]:
    """Return the summed bytes and milliseconds of one direction; a label may follow the key."""
    sizes = [
        size for key, value in pairs if key.startswith(size_keys) and (size := count_of(value)) is not None
    ]
    times = [
        seconds
        for key, value in pairs
        if key.startswith(time_keys) and (seconds := amount_of(value)) is not None
    ]
    return sum(sizes) if sizes else None, sum(times) * 1e3 if times else None


def _remote(values: dict[str, str]) -> tuple[int | None, float | None]:
    """Return bytes and ms of transfers between engines, from count and means ("MB" is MiB there)."""
    count = count_of(values.get("Num successful transfers"))
    mean_bytes = amount_of(values.get("Avg MB per transfer"))
    mean_ms = amount_of(values.get("Avg xfer time (ms)"))
    if count is None:
        return None, None
    size = scaled_bytes(str(mean_bytes * count), MIB) if mean_bytes is not None else None
    return size, mean_ms * count if mean_ms is not None else None


def _operations(values: dict[str, str], *, is_load: bool) -> tuple[int | None, float | None]:
    """Return bytes and ms of the operations of a Mooncake store: of those that get, or of all others."""
    names = [key.removesuffix("_total_bytes") for key in values if key.endswith("_total_bytes")]
    # Bytes of the offloading connector end in the same words, and have a total time of their own.
    names = [name for name in names if f"{name}_count" in values and ("get" in name) is is_load]
    sizes = [count_of(values[f"{name}_total_bytes"]) for name in names]
    counts = [(count_of(values[f"{name}_count"]), amount_of(values.get(f"{name}_avg_ms"))) for name in names]
    times = [count * mean for count, mean in counts if count is not None and mean is not None]
    return _sum(sizes), _sum(times)


def _sum(parts: Iterable[_Amount | None]) -> _Amount | None:
    """Return the sum of what is known, ``None`` when nothing is."""
    known = [part for part in parts if part is not None]
    return sum(known[1:], known[0]) if known else None


def _ms(seconds: str) -> float | None:
    value = amount_of(seconds)
    return value * 1e3 if value is not None else None


def _event(
    record: Record,
    kind: str,
    *,
    mode: str | None = None,
    request_id: str | None = None,
    cumulative_count: int | None = None,
    tokens: int | None = None,
    size_bytes: int | None = None,
    duration_ms: float | None = None,
    load_bytes: int | None = None,
    load_ms: float | None = None,
) -> EventRow:
    return EventRow(
        record.line_no,
        record.src_ns,
        record.engine(),
        kind,
        mode,
        request_id,
        cumulative_count,
        tokens,
        size_bytes,
        duration_ms,
        load_bytes,
        load_ms,
    )


EVENT_RULES: Final = (
    Rule("preemption_v0", _EVENTS, parse_preemption, starts=(b"Sequence group ",)),
    Rule("request_received", _EVENTS, parse_received, starts=(b"Received request ",)),
    Rule("request_added", _EVENTS, parse_added, starts=(b"Added request ",)),
    Rule("request_finished", _EVENTS, parse_finished, starts=(b"Finished request ",)),
    Rule("request_aborted", _EVENTS, parse_aborted, starts=(b"Aborted request",)),
    Rule("request", _EVENTS, parse_request, starts=(b"Request ",)),
    Rule(
        "jit_spike",
        _EVENTS,
        parse_jit,
        starts=(b"Compiling a graph for ",),
        contains=(b" during inference: ",),
    ),
    Rule("worker_stall", _EVENTS, parse_stall, starts=(b"No available shared memory broadcast block",)),
    Rule("graph_capture", _EVENTS, parse_capture, starts=(b"Graph capturing finished",)),
    Rule("profiler", _EVENTS, parse_profiler, starts=(b"Starting profiler...", b"Stopping profiler...")),
    Rule("kv_transfer", _EVENTS, parse_transfer, starts=(b"KV Transfer metrics: ",)),
    Rule(
        "shutdown",
        _EVENTS,
        parse_shutdown,
        starts=(b"Shutting down FastAPI HTTP server", b"[shutdown] API server: shutdown triggered"),
    ),
    Rule("failure", _EVENTS, parse_failure, contains=tuple(literal.encode() for literal, _, _ in _FAILURES)),
)
