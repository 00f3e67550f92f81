"""The grammar of Mooncake logs: the master's summary, stores that failed, the transfer engine."""

import re
from dataclasses import replace
from typing import Final

from kvcliff.readers.envelope import Envelope, Process, fraction_ns, moment_ns
from kvcliff.readers.lines.base import (
    NUMBER,
    EventRow,
    Grammar,
    Head,
    Record,
    Row,
    Rule,
    TierSampleRow,
    TierTransferRow,
    UnreadableLineError,
    amount_of,
    count_of,
    event_of,
    ratio_of_pct,
    scaled_bytes,
)
from kvcliff.units import GIB, MIB

_TIER: Final = "mooncake"
_EVENTS: Final = "raw_log_events"
#: glog prints no year; the blank behind the bracket may be missing.
_GLOG = re.compile(
    rb"(?P<level>[IWEF])(?P<month>\d\d)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)\.(?P<fraction>\d{6})"
    rb"\s{1,8}\d{1,10} [\w./-]{1,128}:\d{1,6}\] ?"
)
_CORO_RPC = re.compile(
    rb"(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.(?P<fraction>\d{6}) (?P<level>[A-Z]{4,8})\s{1,4}"
    rb"\[\d{1,10}\] \[[\w./-]{1,128}:\d{1,6}\] ?"
)
_LEVELS: Final = {b"W": "WARNING", b"E": "ERROR", b"F": "CRITICAL"}
_SIZE = r"\d+(?:\.\d+)? [KMGT]?B"
_STORAGE = re.compile(rf"(?:Mem )?Storage: (?P<used>{_SIZE}) / (?P<capacity>{_SIZE}) \((?P<pct>{NUMBER})%\)")
_KEYS = re.compile(r"\bKeys: (?P<keys>\d+)")
_EVICTION = re.compile(
    rf"Eviction: Success/Attempts=\s?(?P<done>{NUMBER})/(?P<tries>{NUMBER}),"
    rf"(?: AllocFail=(?P<failed>{NUMBER}),)? keys=(?P<keys>{NUMBER}), size=(?P<size>{_SIZE})"
)
#: Sizes are printed in steps of 1024.
_UNITS: Final = {"B": 1, "KB": 1024, "MB": MIB, "GB": GIB, "TB": 1024 * GIB}
_BATCH_PUT = re.compile(r"BatchPut failed for (?P<keys>\d+) keys(?P<rest>.*)", re.DOTALL)
_NO_SPACE = re.compile(r"NO_AVAILABLE_HANDLE|\(?-200\b")
_ENGINE = re.compile(
    rf"\[Metrics\] Transfer Engine Stats \(over last \d+s\): Throughput: (?P<rate>{NUMBER}) MB/s"
)
_PUT_ERRORS: Final = (
    "Failed to start put operation",
    "Failed to end put operation",
    "Put operation failed with error",
)


def unwrap_glog(match: re.Match[bytes], envelope: Envelope) -> Envelope:
    """Return the envelope with stamp and level of a glog head."""
    return replace(
        envelope,
        outer_month_day=b"%s-%s %s" % (match["month"], match["day"], match["clock"]),
        month_day_fraction_ns=fraction_ns(match["fraction"]),
        outer_resolution_ns=envelope.inner_step_ns(match["fraction"]),
        process=envelope.process or Process(_TIER, "0", ""),
        level=_LEVELS.get(match["level"], "INFO"),
    )


def unwrap_coro_rpc(match: re.Match[bytes], envelope: Envelope) -> Envelope:
    """Return the envelope with stamp and level of a coro_rpc head."""
    return replace(
        envelope,
        outer_local_ns=moment_ns(match["stamp"], match["fraction"]),
        outer_resolution_ns=envelope.inner_step_ns(match["fraction"]),
        process=envelope.process or Process(_TIER, "0", ""),
        level=match["level"].decode(),
    )


def _bytes(text: str | None) -> int | None:
    number, _, unit = (text or "").partition(" ")
    return scaled_bytes(number, _UNITS.get(unit, 1)) if number else None


def parse_master(record: Record) -> tuple[Row, ...]:
    """Return the occupancy of the store, and a failed store when it refused some and could evict none."""
    storage, keys = _STORAGE.search(record.message), _KEYS.search(record.message)
    if storage is None or keys is None:
        raise UnreadableLineError("a master summary lacks storage or keys")
    eviction = _EVICTION.search(record.message)
    failed = amount_of(eviction["failed"]) if eviction else None
    is_cumulative = " per sec)" not in record.message
    sample = TierSampleRow(
        record.line_no,
        record.src_ns,
        _TIER,
        _bytes(storage["used"]),
        _bytes(storage["capacity"]),
        ratio_of_pct(storage["pct"]),
        count_of(keys["keys"]),
        amount_of(eviction["done"]) if eviction else None,
        amount_of(eviction["tries"]) if eviction else None,
        amount_of(eviction["keys"]) if eviction else None,
        _bytes(eviction["size"]) if eviction else None,
        failed,
        is_cumulative,
    )
    # Since the start, failures say nothing about this interval.
    if not failed or is_cumulative or sample.evictions or failed >= 1 << 62:
        return (sample,)
    return (sample, _refused(record, max(round(failed), 1)))


def _refused(record: Record, event_count: int | None) -> EventRow:
    return event_of(record, "offload_store_failed")._replace(event_count=event_count)


def parse_put_error(record: Record) -> tuple[Row, ...]:
    """Return a store that failed: for lack of space, or for another reason."""
    batch = _BATCH_PUT.match(record.message)
    if batch is not None:
        count = count_of(batch["keys"])
        if _NO_SPACE.search(batch["rest"]):
            return (_refused(record, count),)
        return (event_of(record, "tier_error")._replace(event_count=count),)
    if record.message.startswith("[EVICT] No memory freed this cycle"):
        return (_refused(record, None),)
    return (event_of(record, "tier_error"),) if record.message.startswith(_PUT_ERRORS) else ()


def parse_engine(record: Record) -> tuple[Row, ...]:
    """Return the rate of the transfer engine, both directions together."""
    match = _ENGINE.match(record.message)
    if match is None:
        return ()
    rate = amount_of(match["rate"])
    return (
        TierTransferRow(
            record.line_no,
            record.src_ns,
            record.engine(),
            record.scope,
            _TIER,
            "both",
            printed_bytes_per_s=rate * 1e6 if rate is not None else None,
        ),
    )


MOONCAKE: Final = Grammar(
    name="mooncake",
    title="Mooncake",
    heads=(
        Head(b"IWEF", _GLOG, unwrap_glog),
        Head(b"123456789", _CORO_RPC, unwrap_coro_rpc),
    ),
    rules=(
        Rule(
            "master_metrics",
            "raw_tier_samples",
            parse_master,
            starts=(b"Master Metrics: ", b"Master Admin Metrics: "),
        ),
        Rule(
            "put_error",
            _EVENTS,
            parse_put_error,
            starts=(b"BatchPut failed", b"[EVICT] No memory freed", *(text.encode() for text in _PUT_ERRORS)),
        ),
        Rule("transfer_engine", "raw_tier_transfers", parse_engine, starts=(b"[Metrics] Transfer Engine",)),
    ),
    interest=(
        (b"Master Metrics: ", "a master summary has no complete head"),
        (b"Master Admin Metrics: ", "a master summary has no complete head"),
    ),
)
