"""The grammar of LMCache lines (0.3 to 0.5), which stand between those of the engine it serves."""

import re
from dataclasses import replace
from typing import Final

from kvcliff.readers.envelope import Envelope, Process, moment_ns
from kvcliff.readers.lines.base import (
    NUMBER,
    Grammar,
    Head,
    LookupRow,
    Record,
    Row,
    Rule,
    TierTransferRow,
    UnreadableLineError,
    amount_of,
    count_of,
    event_of,
    scaled_bytes,
)
from kvcliff.units import GIB

_TIER: Final = "lmcache"
_TRANSFERS: Final = "raw_tier_transfers"
_HEAD = re.compile(
    rb"\[(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:,(?P<fraction>\d{1,9}))?\] LMCache "
    rb"(?P<level>[A-Z]{4,8})\s?:\s{1,4}"
)
_ID = r"(?P<id>[^\s,\]]{1,256})"
_LOOKUP = re.compile(
    rf"Reqid: {_ID}, Total tokens (?P<total>\d+), (?:Inference Engine computed tokens: (?P<engine>\d+), )?"
    r"LMCache hit tokens: (?P<hit>\d+|None)"
    r"(?:, (?P<but>but )?need to load: (?P<load>-?\d+))?"
)
#: "gb" is 2^30 bytes.
_COST = (
    rf"\. size: (?P<size>{NUMBER}) [gG][bB], cost (?P<ms>{NUMBER}) ms, "
    rf"throughput: (?P<rate>{NUMBER}) [gG][bB]/s"
)
_STORED = re.compile(
    rf"(?:\[req_id={_ID}\] )?Stored (?P<moved>\d+) out of total (?P<total>\d+) tokens(?:{_COST})?"
)
_RETRIEVED = re.compile(
    rf"(?:\[req_id={_ID}\] )?Retrieved (?P<moved>\d+) out of (?P<asked>\d+) "
    rf"(?:required tokens \(from (?P<total>\d+) total tokens\)(?:{_COST})?"
    r"|out of total (?P<all>\d+) tokens)"
)
_SERVER = re.compile(rf"(?P<what>Stored|Retrieved) (?P<moved>\d+) tokens in (?P<s>{NUMBER}) seconds")
#: What the tier could not do: no room to store, or promised KV that did not come.
_FULL: Final = (
    "Failed to allocate memory for the KV cache",
    "No eviction candidates found in local cpu backend",
    "LMCache is unhealthy, skipping store operation",
)
_BROKEN: Final = (
    "The cache block is in the storage, but it can't be retrieved",
    "The number of retrieved tokens is less than the expected number of tokens",
    "Num retrieved tokens: ",
    "Pin timeout detected",
)


def unwrap(match: re.Match[bytes], envelope: Envelope) -> Envelope:
    """Return the envelope with stamp and level of the head."""
    return replace(
        envelope,
        outer_local_ns=moment_ns(match["stamp"], match["fraction"]),
        outer_resolution_ns=envelope.inner_step_ns(match["fraction"]),
        process=envelope.process or Process("lmcache", "0", ""),
        level={"WARN": "WARNING"}.get(match["level"].decode(), match["level"].decode()),
    )


def parse_lookup(record: Record) -> tuple[Row, ...]:
    """Return a lookup; its answer may still be pending."""
    match = _LOOKUP.match(record.message)
    if match is None:
        raise UnreadableLineError("a lookup line has another form than known")
    load = match["load"]
    return (
        LookupRow(
            record.line_no,
            record.src_ns,
            record.engine(),
            _TIER,
            match["id"],
            count_of(match["total"]),
            count_of(match["hit"]),
            count_of(match["engine"]),
            # A full hit prints -1: the last token is computed anyway.
            0 if load is not None and load.startswith("-") else count_of(load),
            is_load_skipped=match["but"] is not None,
        ),
    )


def parse_transfer(record: Record) -> tuple[Row, ...]:
    """Return tokens stored into the tier or retrieved from it."""
    server = _SERVER.match(record.message)
    if server is not None:
        return (_server_row(record, server),)
    stored = _STORED.match(record.message)
    match = stored or _RETRIEVED.match(record.message)
    if match is None:
        raise UnreadableLineError("a transfer line has another form than known")
    total = match["total"] if stored else match["total"] or match["all"]
    return (
        TierTransferRow(
            record.line_no,
            record.src_ns,
            record.engine(),
            record.scope,
            _TIER,
            "store" if stored else "load",
            match["id"],
            count_of(match["moved"]),
            count_of(total if stored else match["asked"]),
            count_of(total),
            scaled_bytes(match["size"], GIB),
            amount_of(match["ms"]),
            _rate(match["rate"]),
        ),
    )


def _rate(text: str | None) -> float | None:
    value = amount_of(text)
    return value * GIB if value is not None else None


def _server_row(record: Record, match: re.Match[str]) -> TierTransferRow:
    seconds = amount_of(match["s"])
    return TierTransferRow(
        record.line_no,
        record.src_ns,
        record.engine(),
        record.scope,
        _TIER,
        "store" if match["what"] == "Stored" else "load",
        tokens=count_of(match["moved"]),
        duration_ms=seconds * 1e3 if seconds is not None else None,
    )


def parse_trouble(record: Record) -> tuple[Row, ...]:
    """Return a store refused for lack of room, or KV that was found but did not come."""
    if record.message.startswith(_FULL):
        return (event_of(record, "offload_store_failed"),)
    return (event_of(record, "tier_error"),) if record.message.startswith(_BROKEN) else ()


LMCACHE: Final = Grammar(
    name="lmcache",
    title="LMCache",
    heads=(Head(b"[", _HEAD, unwrap),),
    rules=(
        Rule("lookup", "raw_cache_lookups", parse_lookup, starts=(b"Reqid: ",)),
        Rule("transfer", _TRANSFERS, parse_transfer, starts=(b"Stored ", b"Retrieved ", b"[req_id=")),
        Rule(
            "trouble",
            "raw_log_events",
            parse_trouble,
            starts=tuple(text.encode() for text in (*_FULL, *_BROKEN)),
        ),
    ),
    interest=((b"LMCache hit tokens: ", "a lookup line has no complete head"),),
)
