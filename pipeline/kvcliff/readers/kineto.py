"""Reader of PyTorch profiler traces (Kineto, Chrome trace JSON) as vLLM and SGLang write them."""

import re
from dataclasses import dataclass
from typing import Any

import msgspec
import polars as pl

from kvcliff.errors import InputError, UsageProblem
from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.kineto_rows import EventRows
from kvcliff.readers.kineto_stream import EventStream
from kvcliff.units import format_count

#: Key of the file's ``[[file]]`` table with a further regular expression for annotation texts to keep.
PATTERN_OPTION = "nvtx_pattern"
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d{1,19})')
_DEVICES = re.compile(rb'"deviceProperties"\s*:\s*(?=\[)')
_DISTRIBUTED = re.compile(rb'"distributedInfo"\s*:\s*(?=\{)')
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_GPU_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .\-/()+]{0,79}")
#: A time of day in microseconds since 1970: traces from before PyTorch 2.2 state no base time.
_FIRST_UNIX_NS = 1_400_000_000 * 10**9
#: A profiler that is stopped loses the work of the last few launches; a buffer that was full loses more.
_EDGE_RATIO = 0.02


@dataclass(frozen=True)
class _Device:
    device_id: int
    name: str | None
    memory_bytes: int | None
    sm_count: int | None
    capability: str | None


@dataclass(frozen=True)
class _Header:
    """What the file says outside its events."""

    base_ns: int | None
    devices: tuple[_Device, ...]
    rank: int | None
    world_size: int | None


_NO_STEPS = ("absent", "no annotation names an engine step or stage")


def _sniff(source: Source) -> Sniff:
    if source.is_dir:
        return NO_MATCH
    head = source.head.lstrip()
    if not head.startswith((b"{", b"[")) or b'"' not in head:
        return NO_MATCH
    if b'"deviceProperties"' in head and b'"schemaVersion"' in head:
        return Sniff(95, "a trace of the PyTorch profiler (Kineto)")
    if b'"traceEvents"' in head and b'"ph"' in head:
        return Sniff(80, "a Chrome trace with events")
    if head.startswith(b"[") and re.match(rb'\[\s*\{\s*"(?:ph|cat|name)"', head) and b'"ph"' in head:
        return Sniff(70, "a list of Chrome trace events")
    return NO_MATCH


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    rows = EventRows(extra=_extra_patterns(source, context))
    written = 0
    with source.open() as stream:
        events = EventStream(stream)
        for block in events.blocks():
            rows.add(block)
            written += sum(sink.append(table, frame) for table, frame in rows.frames())
        damage = events.damage or stream.damage
    if damage is not None and rows.span_ns is None and not events.header:
        raise InputError(f"{source.relative} is cut before its first event", hint="copy the file again")
    written += sum(sink.append(table, frame) for table, frame in rows.frames(is_last=True))
    header = _header(events)
    states = _states(rows, header, damage)
    for table, frame in (
        ("raw_kernel_names", rows.names_frame()),
        ("raw_capture_facts", _facts(rows, header)),
        ("raw_settings", _settings(header)),
        ("raw_capture_diagnostics", states),
    ):
        written += sink.append(table, frame) if frame.height else 0
    skipped = rows.skipped_count + events.skipped_count
    return LoadReport(
        row_count=written,
        skipped_count=skipped,
        first_skip_reason="an event without a readable time or form" if skipped else None,
        damage=damage,
        notes=_notes(rows, header, states),
    )


def _extra_patterns(source: Source, context: ReadContext) -> tuple[re.Pattern[str], ...]:
    text = context.options.get(PATTERN_OPTION)
    try:
        return (re.compile(text),) if text else ()
    except re.error as exc:
        raise UsageProblem(
            f"{PATTERN_OPTION} for {source.relative} is not a regular expression: {exc}",
            hint="correct it in run.toml",
        ) from exc


def _header(events: EventStream) -> _Header:
    text = events.header + b"\n" + events.tail
    base = _BASE.search(text)
    devices = _value_after(_DEVICES, text)
    distributed = _value_after(_DISTRIBUTED, text)
    info = distributed if isinstance(distributed, dict) else {}
    return _Header(
        base_ns=int(base.group(1)) if base else None,
        devices=_devices(devices if isinstance(devices, list) else []),
        rank=_number(info.get("rank")),
        world_size=_number(info.get("world_size")),
    )


def _value_after(key: re.Pattern[bytes], text: bytes) -> Any:
    """Return the JSON value that follows a key, or ``None``; the text around it need not be whole."""
    match = key.search(text)
    if match is None:
        return None
    rest = text[match.end() :]
    try:
        return msgspec.json.decode(rest)
    except msgspec.DecodeError as exc:
        end = _TRAILING.search(str(exc))
        if end is None:
            return None
        behind = int(end.group(1))
        value = rest[: max(rest.rfind(b"]", 0, behind), rest.rfind(b"}", 0, behind)) + 1]
    except RecursionError:
        return None
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        # The cut took another bracket for its end: the text is damaged.
        return None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _devices(entries: list[Any]) -> tuple[_Device, ...]:
    found: dict[int, _Device] = {}
    for entry in entries:
        number = _number(entry.get("id")) if isinstance(entry, dict) else None
        if number is None:
            continue
        name, major, minor = entry.get("name"), entry.get("computeMajor"), entry.get("computeMinor")
        is_named = isinstance(name, str) and _GPU_NAME.fullmatch(name)
        has_capability = _number(major) is not None and _number(minor) is not None
        found[number] = _Device(
            number,
            name if is_named else None,
            _number(entry.get("totalGlobalMem")),
            _number(entry.get("numSms")),
            f"{major}.{minor}" if has_capability else None,
        )
    return tuple(found[number] for number in sorted(found))


def _utc_epoch_ns(rows: EventRows, header: _Header) -> int | None:
    if header.base_ns is not None:
        return header.base_ns
    return 0 if rows.span_ns is not None and rows.span_ns[0] > _FIRST_UNIX_NS else None


def _facts(rows: EventRows, header: _Header) -> pl.DataFrame:
    capture = {
        "utc_epoch_ns": _utc_epoch_ns(rows, header),
        "rank": header.rank,
        "world_size": header.world_size,
        "nvtx_range_count": rows.annotation_count,
        "nvtx_kept_count": rows.counts["raw_nvtx_ranges"],
        "graph_mode": "node" if rows.graph_kernel_count else None,
        "duration_ns": None if rows.span_ns is None else rows.span_ns[1] - rows.span_ns[0],
    }
    values = [("", name, str(value)) for name, value in sorted(capture.items()) if value is not None]
    for device in header.devices:
        of_gpu = {
            "compute_capability": device.capability,
            "gpu_memory_bytes": device.memory_bytes,
            "gpu_name": device.name,
            "sm_count": device.sm_count,
        }
        values += [
            (f"device:{device.device_id}", name, str(value))
            for name, value in of_gpu.items()
            if value is not None
        ]
    schema = {"scope": pl.String, "name": pl.String, "value": pl.String}
    return pl.DataFrame(values, schema=schema, orient="row")


def _settings(header: _Header) -> pl.DataFrame:
    values = [
        (0, f"device:{device.device_id}", name, str(value), unit)
        for device in header.devices
        for name, value, unit in (
            ("gpu_memory_bytes", device.memory_bytes, "bytes"),
            ("gpu_name", device.name, None),
            ("sm_count", device.sm_count, None),
        )
        if value is not None
    ]
    schema = {
        "line_no": pl.Int64,
        "scope": pl.String,
        "name": pl.String,
        "value": pl.String,
        "unit": pl.String,
    }
    return pl.DataFrame(values, schema=schema, orient="row")


def _states(rows: EventRows, header: _Header, damage: str | None) -> pl.DataFrame:
    verdict, reason, count = _kernel_state(rows, header, damage)
    until_ns = rows.last_gpu_ns if count and rows.late_launch_ratio > _EDGE_RATIO else None
    if until_ns is not None and rows.span_ns is not None:
        after_s = (until_ns - rows.span_ns[0]) / 1e9
        verdict = "partial"
        reason = (
            "the profiler stopped recording the GPU; "
            f"GPU work after {after_s:.3f} s of the capture is missing"
        )
    kept = rows.counts["raw_nvtx_ranges"]
    nvtx = ("present", "annotations name engine steps or stages") if kept else _NO_STEPS
    states = [
        ("kernels", verdict, reason, count, until_ns),
        ("graphs", *_graph_state(rows), None),
        ("nvtx", *nvtx, kept, None),
    ]
    schema = {
        "capability": pl.String,
        "verdict": pl.String,
        "reason": pl.String,
        "event_count": pl.Int64,
        "data_until_src_ns": pl.Int64,
    }
    return pl.DataFrame(states, schema=schema, orient="row")


def _kernel_state(rows: EventRows, header: _Header, damage: str | None) -> tuple[str, str, int]:
    count = rows.counts["raw_kernels"]
    if count and damage is not None:
        return "partial", "the trace file is cut; the events behind the cut are missing", count
    if count:
        return "present", "kernels were recorded", count
    if damage is not None:
        return "failed", "the trace file is cut, and GPU events come last in it", 0
    if rows.call_count:
        return "failed", "CUDA calls were recorded but no kernel; the GPU part of the profiler failed", 0
    if header.devices:
        return "absent", "the trace holds neither CUDA calls nor kernels although the host has a GPU", 0
    return "not_traced", "the profiler recorded CPU operators only; no GPU was there to trace", 0


def _graph_state(rows: EventRows) -> tuple[str, str, int]:
    if rows.graph_kernel_count:
        return "present", "kernels inside CUDA graphs were recorded", rows.graph_kernel_count
    if rows.graph_launch_count:
        return "present", "CUDA graphs were launched; their kernels share the launch", rows.graph_launch_count
    return "absent", "no CUDA graph was launched", 0


def _notes(rows: EventRows, header: _Header, states: pl.DataFrame) -> tuple[str, ...]:
    notes = [
        f"{capability}: {reason}"
        for capability, verdict, reason, *_ in states.iter_rows()
        if verdict in ("failed", "partial") or (capability == "kernels" and verdict != "present")
    ]
    if _utc_epoch_ns(rows, header) is None:
        notes.append("the trace does not state its start in UTC")
    if rows.process_count > 1:
        notes.append(f"the trace is merged from {format_count(rows.process_count)} processes")
    return tuple(notes)


READER = Reader(
    name="kineto",
    title="PyTorch profiler trace (annotations tried on real files, GPU events on built ones)",
    tables=(
        "raw_kernels",
        "raw_kernel_names",
        "raw_copies",
        "raw_launches",
        "raw_nvtx_ranges",
        "raw_capture_facts",
        "raw_settings",
        "raw_capture_diagnostics",
    ),
    sniff=_sniff,
    load=_load,
    role="trace",
    tried_on_real_files=True,
)
