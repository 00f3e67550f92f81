"""The grammar of Ollama's own lines: web access with durations, memory of the KV cache, cut prompts."""

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from kvcliff.readers.envelope import Envelope, Process, calendar_ns, fraction_ns, stamp_step_ns
from kvcliff.readers.lines.base import (
    NUMBER,
    AccessRow,
    Grammar,
    Head,
    Record,
    RequestRow,
    Row,
    Rule,
    UnreadableLineError,
    count_of,
    duration_ms_of,
    event_of,
)
from kvcliff.readers.lines.facts import bytes_fact, setting_rows
from kvcliff.units import GIB, MIB, NS_PER_S

_ACCESS_HEAD = re.compile(rb"\[GIN\] (?P<date>\d{4}/\d\d/\d\d) - (?P<clock>\d\d:\d\d:\d\d) \| ?")
_SLOG_HEAD = re.compile(
    rb"time=(?P<stamp>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?"
    rb"(?P<zone>Z|[+-]\d\d:\d\d) level=(?P<level>[A-Z]{4,8})(?: source=\S{1,128})? "
)
_ACCESS = re.compile(
    r"(?P<status>\d{3}) \|\s*(?P<duration>[\d.a-zµμ]{1,32})\s*\|[^|]{1,64}\| "
    r"[A-Z]{3,8}\s+\"(?P<path>[^\"]{1,512})\""
)
_SIZE = re.compile(
    rf'msg="kv cache" device=(?P<device>[\w.-]{{1,32}}) size="(?P<size>{NUMBER}) (?P<unit>[KMG]iB)"'
)
_CUT = re.compile(r'msg="truncating input prompt" limit=(?P<limit>\d+) prompt=(?P<prompt>\d+)\b')
_UNITS: Mapping[str, int] = MappingProxyType({"KiB": 1024, "MiB": MIB, "GiB": GIB})
_COMPLETIONS: Final = ("/api/generate", "/api/chat", "/v1/completions", "/v1/chat/completions")


def unwrap_access(match: re.Match[bytes], envelope: Envelope) -> Envelope:
    """Return the envelope with the local time of an access line."""
    stamp = match["date"].replace(b"/", b"-") + b" " + match["clock"]
    return replace(
        envelope,
        outer_local_ns=calendar_ns(stamp),
        outer_resolution_ns=envelope.inner_step_ns(),
        process=envelope.process or Process("ollama", "0", ""),
        level="INFO",
    )


def unwrap_slog(match: re.Match[bytes], envelope: Envelope) -> Envelope:
    """Return the envelope with the stamp of a key=value line, which states its zone."""
    local_ns, zone = calendar_ns(match["stamp"]), match["zone"]
    level = {"WARN": "WARNING"}.get(match["level"].decode(), match["level"].decode())
    process = envelope.process or Process("ollama", "0", "")
    if local_ns is None or envelope.outer_ns is not None:
        return replace(envelope, process=process, level=level)
    minutes = 0 if zone == b"Z" else int(zone[1:3]) * 60 + int(zone[4:6])
    east_ns = (-minutes if zone[:1] == b"-" else minutes) * 60 * NS_PER_S
    return replace(
        envelope,
        outer_ns=local_ns - east_ns + fraction_ns(match["fraction"]),
        outer_resolution_ns=stamp_step_ns(match["fraction"]),
        process=process,
        level=level,
    )


def parse_access(record: Record) -> tuple[Row, ...]:
    """Return an access line, which unlike those of other servers has a time and a duration."""
    match = _ACCESS.match(record.message)
    if match is None:
        raise UnreadableLineError("an access line has another form than known")
    path = match["path"].partition("?")[0].rstrip("/")
    kind = "completions" if path in _COMPLETIONS else "other"
    access = AccessRow(record.line_no, kind, int(match["status"]), 1, record.src_ns, record.src_ns)
    total_ms = duration_ms_of(match["duration"])
    if kind == "other" or total_ms is None:
        return (access,)
    return (access, RequestRow(record.line_no, record.src_ns, record.engine(), total_ms=total_ms))


def parse_kv_size(record: Record) -> tuple[Row, ...]:
    """Return the memory of the KV cache on one device."""
    match = _SIZE.match(record.message)
    if match is None:
        return ()
    size = bytes_fact("kv_cache_bytes", match["size"], _UNITS[match["unit"]])
    device = record._replace(scope=match["device"].lower())
    return setting_rows(device, [size])


def parse_cut_prompt(record: Record) -> tuple[Row, ...]:
    """Return a prompt that was longer than the context and lost its beginning."""
    match = _CUT.match(record.message)
    if match is None:
        return ()
    return (event_of(record, "prompt_truncated")._replace(tokens=count_of(match["prompt"])),)


OLLAMA: Final = Grammar(
    name="ollama",
    title="Ollama",
    heads=(Head(b"[", _ACCESS_HEAD, unwrap_access), Head(b"t", _SLOG_HEAD, unwrap_slog)),
    rules=(
        Rule("access", "raw_log_access", parse_access, starts=tuple(b"%d" % digit for digit in range(1, 6))),
        Rule("kv_size", "raw_settings", parse_kv_size, starts=(b'msg="kv cache"',)),
        Rule("cut_prompt", "raw_log_events", parse_cut_prompt, starts=(b'msg="truncating input prompt"',)),
    ),
    engine="ollama",
    interest=((b"[GIN] ", "an access line has no complete head"),),
)
