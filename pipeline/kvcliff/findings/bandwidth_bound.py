"""Finding: is decode limited by the bytes it moves through HBM?"""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.base import Evidence, Finding, Result, cannot_tell, not_found
from kvcliff.findings.captures import FEWER_BYTES, TRACE
from kvcliff.findings.engine_facts import CPU_WORDS, runs_on_cpu
from kvcliff.findings.marts import query_rows, read_rows, threshold
from kvcliff.units import format_number, format_pct


@dataclass(frozen=True)
class _Indicator:
    indicator: str
    value: float | None
    threshold: float | None
    state: str | None
    origin: str | None


@dataclass(frozen=True)
class _FloorRatio:
    level: str | None
    ratio: float


@dataclass(frozen=True)
class _Reason:
    meaning: str


@dataclass(frozen=True)
class _Seen:
    """What the run shows about decode and HBM.

    Attributes:
        bandwidth: mean HBM bandwidth use, over prefill and idle time too.
        compute: mean use of the multiprocessors.
        floor: decode step time over its HBM floor.
        is_near_floor: whether decode is as fast as the memory lets it be.
    """

    bandwidth: _Indicator | None
    compute: _Indicator | None
    floor: _FloorRatio | None
    is_near_floor: bool

    @property
    def is_bandwidth_high(self) -> bool:
        return self.bandwidth is not None and self.bandwidth.state == "high"

    @property
    def is_compute_high(self) -> bool:
        return self.compute is not None and self.compute.state == "high"


_REASON_SQL = """
select meaning
from bandwidth_ledger
where step_class = 'decode' and line = 'cannot_tell' and meaning is not null
order by level, replica_id, line_no
limit 1
"""
_FLOOR_SQL = """
select level, ratio
from bandwidth_ledger
where step_class = 'decode' and line = 'ratio_to_floor' and ratio is not null
order by ratio, level, replica_id
limit 1
"""


def _evaluate(con: duckdb.DuckDBPyConnection) -> tuple[Result, ...]:
    seen = _look(con)
    if seen.bandwidth is None and seen.floor is None:
        return (_unknown(con),)
    if seen.is_bandwidth_high or seen.is_near_floor:
        return (_found(seen),)
    # A mean over the run can be low although decode alone is at the limit: the floor is the better witness.
    confidence = 0.65 if seen.bandwidth is None else 0.8
    what = (
        "Not limited by HBM bandwidth but by computation"
        if seen.is_compute_high
        else "HBM bandwidth is not the limit"
    )
    return (not_found(f"{what}: {_words(seen)}.", confidence, *_evidence(seen)),)


def _look(con: duckdb.DuckDBPyConnection) -> _Seen:
    rows = read_rows(
        con, "indicators", _Indicator, where="indicator in ('hbm_bandwidth', 'sm_active')", order="indicator"
    )
    by_name = {row.indicator: row for row in rows if row.value is not None}
    floors = query_rows(con, ("bandwidth_ledger",), _FloorRatio, _FLOOR_SQL)
    floor = floors[0] if floors else None
    is_near = floor is not None and floor.ratio <= threshold(con, "decode_floor_near_ratio")
    return _Seen(by_name.get("hbm_bandwidth"), by_name.get("sm_active"), floor, is_near)


def _found(seen: _Seen) -> Result:
    both = seen.is_bandwidth_high and seen.is_near_floor
    known = seen.bandwidth is not None
    # The counter disagreeing with the floor costs as much as no counter at all.
    confidence = 0.95 if both else 0.85 if seen.is_bandwidth_high else 0.7 if known else 0.65
    tail = "" if known else " (no counter seen)"
    return Result(
        "found",
        "warning",
        confidence,
        f"Decode is limited by data movement: {_words(seen)}{tail}.",
        action=FEWER_BYTES,
        evidence=_evidence(seen),
    )


def _words(seen: _Seen) -> str:
    parts = []
    if seen.floor is not None:
        level = f" at level {seen.floor.level}" if seen.floor.level is not None else ""
        parts.append(f"decode steps take {format_number(seen.floor.ratio)} times their HBM floor{level}")
    if seen.bandwidth is not None:
        parts.append(f"HBM bandwidth {format_pct(seen.bandwidth.value, 0)}")
    if seen.compute is not None and seen.bandwidth is not None:
        parts.append(f"SM {format_pct(seen.compute.value, 0)}")
    return ", ".join(parts)


def _evidence(seen: _Seen) -> tuple[Evidence, ...]:
    items = []
    if seen.bandwidth is not None:
        numbers = (
            ("hbm_bandwidth", seen.bandwidth.value),
            ("sm_active", seen.compute.value if seen.compute is not None else None),
        )
        items.append(Evidence("indicators", "indicator in ('hbm_bandwidth', 'sm_active')", numbers))
    if seen.floor is not None:
        where = "step_class = 'decode' and line = 'ratio_to_floor'"
        items.append(Evidence("bandwidth_ledger", where, (("ratio", seen.floor.ratio),)))
    return tuple(items)


def _unknown(con: duckdb.DuckDBPyConnection) -> Result:
    """Return what is missing; the ledger knows why it has no floor."""
    if runs_on_cpu(con):
        return cannot_tell(
            f"Memory bandwidth of decode: {CPU_WORDS}, whose bandwidth no file states or counts.", None
        )
    reasons = query_rows(con, ("bandwidth_ledger",), _Reason, _REASON_SQL)
    why = reasons[0].meaning if reasons else "no decode step times were recorded"
    return cannot_tell(f"Bandwidth bound: no HBM bandwidth counter was recorded, and {why}.", TRACE)


FINDING = Finding(
    name="bandwidth_bound",
    question="Is decode limited by the bytes it moves through HBM?",
    evaluate=_evaluate,
)
