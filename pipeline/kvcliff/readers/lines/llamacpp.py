"""The grammar of llama.cpp's server (2023 to 2026, four eras): timings of requests, a full KV cache."""

import re
from dataclasses import replace
from typing import Final

from kvcliff.readers.envelope import Envelope, Process
from kvcliff.readers.lines.base import (
    NUMBER,
    Grammar,
    Handled,
    Head,
    OwnedRequest,
    Owner,
    Record,
    RequestRow,
    Row,
    Rule,
    UnreadableLineError,
    amount_of,
    count_of,
    event_of,
)
from kvcliff.units import NS_PER_S

_EVENTS: Final = "raw_log_events"
_REQUESTS: Final = "raw_log_requests"
#: Since 2026: time since the start of the process; a router puts the port of its server in front.
_TIMED = re.compile(
    rb"(?:\[OLLAMA\] )?(?:\[(?P<port>\d{2,5})\] )?(?P<m>\d{1,7})\.(?P<s>[0-5]\d)\.(?P<us>\d{3}\.\d{3}) "
    rb"(?P<level>[IWED]) "
)
#: 2024: key=value at the end of the line, with the wall clock.
_KEYED = re.compile(rb"(?P<level>INFO|WARN|ERR|ERROR|VERB) \[\s{0,32}\w{1,64}\] ")
_WALL = re.compile(rb" timestamp=(?P<s>[1-8]\d{8,9})\b")
#: Without any head: the words that only the server writes.
_BARE = re.compile(
    rb"()(?:\[OLLAMA\] )?(?=(?:slot|srv|que|res) {1,16}[\w()]{1,40} {0,16}: |update_slots {0,4}: "
    rb"|decode: failed | {0,16}(?:(?:prompt |generation )?eval|total) time {0,16}=)"
)
_LEVELS: Final = {b"W": "WARNING", b"E": "ERROR", b"WARN": "WARNING", b"ERR": "ERROR", b"ERROR": "ERROR"}
_UNIT = re.compile(
    r"(?:slot|srv|que|res) +[\w()]+ *: (?:id +(?P<slot>\d{1,9}) \| task (?P<task>-?\d{1,18}) \| ?)?"
    r"(?P<text>.*)",
    re.DOTALL,
)
_KEYED_IDS = re.compile(r" id_slot=(?P<slot>\d{1,9}) id_task=(?P<task>-?\d{1,18})\b")
_TIMING = re.compile(
    rf"\s*(?P<what>(?:prompt |generation )?eval|total) time\s*=\s*(?P<ms>{NUMBER}) ms"
    r"(?:\s*/\s*(?P<tokens>\d+) (?:tokens|runs))?"
)
_LIVE = re.compile(rf"n_(?:gen|decoded) =\s*\d+, tg =\s*{NUMBER} t/s")
_RELEASED = re.compile(r"stop processing: n_(?:past|tokens) = (?P<tokens>\d+)")
_NO_SPACE = re.compile(
    r"failed to find free space in the KV cache(?:, retrying with smaller (?:batch size|n_batch)"
    r"(?:, (?:i|off) = \d+, n_batch)?(?: = (?P<batch>\d+))?)?"
    r"|failed to find a memory slot for batch of size (?P<size>\d+)"
)
_PURGED = re.compile(r"purging slot (?P<slot>\d+) with (?P<tokens>\d+) tokens")
_PLACES: Final = ("slot", "srv", "que", "res", "update_slots", "decode: ")


def unwrap_timed(match: re.Match[bytes], envelope: Envelope) -> Envelope:
    """Return the envelope with the time since the start of the process."""
    port = match["port"]
    elapsed_ns = (int(match["m"]) * 60 + int(match["s"])) * NS_PER_S + int(
        match["us"].replace(b".", b"")
    ) * 1000
    return replace(
        envelope,
        replica=envelope.replica or (port.decode() if port else ""),
        elapsed_ns=elapsed_ns,
        outer_resolution_ns=1000 if not envelope.is_stamped else envelope.outer_resolution_ns,
        level=_LEVELS.get(match["level"], "INFO"),
        process=envelope.process or Process("llama-server", "0", ""),
    )


def unwrap_keyed(match: re.Match[bytes], envelope: Envelope) -> Envelope:
    """Return the envelope with the wall clock at the end of the line."""
    wall = _WALL.search(match.string, match.end())
    level = _LEVELS.get(match["level"], "INFO")
    if wall is None or envelope.outer_ns is not None:
        return replace(envelope, level=level)
    return replace(envelope, level=level, outer_ns=int(wall["s"]) * NS_PER_S, outer_resolution_ns=NS_PER_S)


def _split(record: Record) -> tuple[str | None, str]:
    """Return slot and task as one id, and what the line says about them."""
    unit = _UNIT.match(record.message)
    if unit is not None:
        return (f"{unit['slot']}/{unit['task']}" if unit["slot"] else None), unit["text"]
    keyed = _KEYED_IDS.search(record.message)
    return (f"{keyed['slot']}/{keyed['task']}" if keyed else None), record.message


def parse_timing(record: Record) -> tuple[Row, ...]:
    """Return a part of a request's times; a line that does not name it belongs to the last one named."""
    request_id, text = _split(record)
    match = _TIMING.match(text)
    if match is None:
        raise UnreadableLineError("a timing line has another form than known")
    ms, tokens = amount_of(match["ms"]), count_of(match["tokens"])
    row = RequestRow(record.line_no, record.src_ns, record.engine(), request_id)
    if match["what"] == "prompt eval":
        row = row._replace(prompt_tokens=tokens, prefill_ms=ms)
    elif match["what"] == "total":
        row = row._replace(total_ms=ms)
    else:
        row = row._replace(output_tokens=tokens, decode_ms=ms)
    return (row,) if request_id is not None else (OwnedRequest(row),)


def parse_unit(record: Record) -> tuple[Row, ...]:
    """Return what a slot or the server says: timings, the end of a request, or a KV cache without room."""
    request_id, text = _split(record)
    if _TIMING.match(text):
        return parse_timing(record)
    if "print_timing" in record.message[:64] and request_id is not None and not text.strip():
        return (Owner(record.engine(), request_id),)
    if _LIVE.match(text) or text.startswith("prompt processing"):
        return (Handled("progress of a request that goes on"),)
    released = _RELEASED.match(text)
    if released is not None:
        event = event_of(record, "request_finished", request_id=request_id)
        return (event._replace(tokens=count_of(released["tokens"])),)
    return _pressure(record, request_id, text)


def _pressure(record: Record, request_id: str | None, text: str) -> tuple[Row, ...]:
    """Return a KV cache that had no room, gave up a cached prompt, or lost one that is computed again."""
    full, purged = _NO_SPACE.search(text), _PURGED.search(text)
    if full is not None:
        tokens = count_of(full["batch"] or full["size"])
        return (event_of(record, "kv_full", request_id=request_id)._replace(tokens=tokens),)
    if "failed to decode the batch" in text:
        return (event_of(record, "fatal"),)
    if purged is not None:
        tokens = count_of(purged["tokens"])
        return (event_of(record, "cache_evict")._replace(tokens=tokens),)
    if "forcing full prompt re-processing" in text:
        return (event_of(record, "recompute", "recompute", request_id),)
    if text.startswith("slot context shift"):
        return (event_of(record, "cache_evict", request_id=request_id),)
    return ()


LLAMACPP: Final = Grammar(
    name="llamacpp",
    title="llama.cpp",
    heads=(
        Head(b"[0123456789", _TIMED, unwrap_timed),
        Head(b"IWEV", _KEYED, unwrap_keyed),
        Head(b"sqrudpgt [", _BARE),
    ),
    rules=(
        Rule("unit", _EVENTS, parse_unit, starts=tuple(place.encode() for place in _PLACES)),
        Rule(
            "timing",
            _REQUESTS,
            parse_timing,
            starts=(b" ", b"prompt eval time", b"generation eval time", b"eval time", b"total time"),
        ),
    ),
    engine="llama.cpp",
    interest=(
        (b"failed to find free space in the KV cache", "a line on a full KV cache has no complete head"),
        (b" eval time =", "a timing line has no complete head"),
    ),
)
