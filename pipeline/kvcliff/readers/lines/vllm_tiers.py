"""Tier lines in vLLM logs: the native host tier, KV handed from engine to engine and lost on the way."""

import re
from typing import Final

from kvcliff.readers.lines.base import (
    NUMBER,
    LookupRow,
    Record,
    Row,
    Rule,
    count_of,
    event_of,
)
from kvcliff.readers.lines.facts import bytes_fact, count_fact, setting_rows
from kvcliff.units import GIB

_EVENTS: Final = "raw_log_events"
_ID = r"(?P<id>\S{1,256}?)"
_EXPIRED = re.compile(rf"Releasing expired KV blocks for request {_ID} which were retrieved by \d+ ")
_TIMED_OUT = re.compile(
    rf"Request {_ID} (?:timed out after \d+ seconds without being sent|expired before sending)"
)
_HOST_BLOCKS = re.compile(
    rf"SimpleCPUOffloadScheduler: Allocating (?P<blocks>\d+) CPU blocks \((?P<size>{NUMBER}) GB"
)
_HIT = re.compile(rf"Request {_ID} hit (?P<hit>\d+) offloaded tokens after (?P<engine>\d+) GPU hit tokens")
_BROKEN: Final = ("NIXL transfer failure: ", "Potentially invalid KV blocks for unrecognized request")


def parse_expired(record: Record) -> tuple[Row, ...]:
    """Return KV blocks that were given up before the engine that waits for them had read them."""
    match = _EXPIRED.match(record.message) or _TIMED_OUT.match(record.message)
    return (event_of(record, "kv_expired", request_id=match["id"]),) if match else ()


def parse_broken(record: Record) -> tuple[Row, ...]:
    """Return a transfer between engines that failed."""
    return (event_of(record, "tier_error"),) if record.message.startswith(_BROKEN) else ()


def parse_host_blocks(record: Record) -> tuple[Row, ...]:
    """Return the size of the native host tier."""
    match = _HOST_BLOCKS.match(record.message)
    if match is None:
        return ()
    facts = [
        count_fact("num_cpu_blocks", match["blocks"], "blocks"),
        bytes_fact("host_kv_bytes", match["size"], GIB),
    ]
    return setting_rows(record, facts)


def parse_host_hit(record: Record) -> tuple[Row, ...]:
    """Return what the host tier has of a request; the length of the prompt is not in the line."""
    match = _HIT.match(record.message)
    if match is None:
        return ()
    hit, engine = count_of(match["hit"]), count_of(match["engine"])
    return (
        LookupRow(
            record.line_no, record.src_ns, record.engine(), "host", match["id"], None, hit, engine, hit
        ),
    )


TIER_RULES: Final = (
    Rule("nixl_expired", _EVENTS, parse_expired, starts=(b"Releasing expired KV blocks", b"Request ")),
    Rule("nixl_broken", _EVENTS, parse_broken, starts=tuple(text.encode() for text in _BROKEN)),
    Rule("host_blocks", "raw_settings", parse_host_blocks, starts=(b"SimpleCPUOffloadScheduler: ",)),
    Rule("host_hit", "raw_cache_lookups", parse_host_hit, starts=(b"Request ",)),
)
