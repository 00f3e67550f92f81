"""Finding: is KV reused in the L2 cache, and up to which load?"""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.base import Evidence, Finding, Result, cannot_tell, not_found
from kvcliff.findings.counter_captures import IN_SITU, IN_SITU_SWEEP
from kvcliff.findings.marts import mart_columns, read_rows, threshold
from kvcliff.units import format_bytes, format_number, format_pct

_SCOPE_WORDS = {
    "attention": "attention kernels",
    "step": "whole steps",
    "all kernels": "all profiled kernels",
}
#: Why hits of this run cannot be read as reuse between kernels and steps, and what would show them.
_GATES = {
    "flushed": (
        (
            "caches were not as the engine left them when kernels were profiled, so that hits show reuse "
            "inside a kernel alone"
        ),
        IN_SITU,
    ),
    "too short": (
        "the profiled kernels are too short for their hit rates: profile a whole step as a range",
        IN_SITU,
    ),
    "not collected": ("hits and misses of SM reads were not collected", IN_SITU),
}


@dataclass(frozen=True)
class _Level:
    """One row of ``l2_reuse``."""

    level: str | None
    scope: str
    verdict: str
    load: float | None
    place_no: int | None
    group_size: float | None
    read_hit_ratio: float | None
    dram_use_ratio: float | None
    drop_ratio: float | None
    possible_hit_ratio: float | None
    prefix_hit_ratio: float | None
    kv_layer_bytes: float | None
    l2_bytes: float | None
    is_collapse: bool


def _evaluate(con: duckdb.DuckDBPyConnection) -> tuple[Result, ...]:
    if not mart_columns(con, "l2_reuse"):
        return (cannot_tell("L2 reuse: this run was stored without hits by level.", "kvcliff ingest RUN"),)
    rows = read_rows(con, "l2_reuse", _Level, order="place_no nulls last, load nulls last, level")
    if not rows:
        # No profiled kernels: the run was not asked.
        return ()
    if all(row.verdict in _GATES for row in rows):
        return (_gated(rows),)
    levels = tuple(row for row in rows if row.place_no is not None)
    collapse = next((row for row in levels if row.is_collapse), None)
    if collapse is not None:
        return (_collapsed(levels, collapse),)
    judged = tuple(row for row in rows if row.verdict not in _GATES)
    if all(row.verdict == "none" for row in judged):
        return (_nothing_to_lose(judged),)
    return (_no_collapse(con, judged, levels),)


def _gated(rows: tuple[_Level, ...]) -> Result:
    """Return why no hit rate of the run can be read, with what it shows nevertheless."""
    row = rows[-1]
    reason, capture = _GATES[row.verdict]
    parts = [f"L2 reuse: {reason}"]
    if row.verdict == "flushed":
        inside = f"there SM reads of {_SCOPE_WORDS[row.scope]} hit {format_pct(row.read_hit_ratio, 0)}"
        parts.append(f"{inside}{_possible(row)}")
    return cannot_tell("; ".join(parts) + ".", capture, _evidence(rows))


def _collapsed(levels: tuple[_Level, ...], before: _Level) -> Result:
    after = levels[levels.index(before) + 1]
    load = format_number(before.load)
    sentence = (
        f"L2 reuse collapses between level {before.level} and {after.level}: "
        f"the hit rate of SM reads of {_SCOPE_WORDS[before.scope]} falls from "
        f"{format_pct(before.read_hit_ratio, 0)} to {format_pct(after.read_hit_ratio, 0)} "
        f"while DRAM use goes from {format_pct(before.dram_use_ratio, 0)} to "
        f"{format_pct(after.dram_use_ratio, 0)}{_size(after)}; "
        f"for cache reuse the sensible limit on this hardware and configuration is {load}."
    )
    numbers = (
        ("load", before.load),
        ("read_hit_before", before.read_hit_ratio),
        ("read_hit_after", after.read_hit_ratio),
        ("dram_use_before", before.dram_use_ratio),
        ("dram_use_after", after.dram_use_ratio),
    )
    return Result(
        "found",
        "warning",
        0.85 if before.scope == "attention" else 0.75,
        sentence,
        action=f"Run {load} requests at once on each GPU, or shrink the KV that they "
        "read (FP8 KV cache, a GQA/MQA model, shared prefixes in one attention kernel).",
        evidence=(Evidence("l2_reuse", "", (("levels", len(levels)), *numbers)),),
        reason="hits fall beyond their scatter with three levels on each side, and DRAM use rises with it",
    )


def _nothing_to_lose(rows: tuple[_Level, ...]) -> Result:
    """Return that KV is read once and never hits, with what could hit."""
    best = max(rows, key=lambda row: row.read_hit_ratio or 0)
    where = "" if len(rows) == 1 else f" at each of {len(rows)} levels"
    scope = _SCOPE_WORDS[best.scope]
    hit = f"SM reads of {scope} hit {format_pct(best.read_hit_ratio, 0)} at most{where}"
    return not_found(
        f"No L2 reuse to lose: {hit}{_possible(best)}{_size(rows[-1])}.",
        0.85,
        _evidence(rows),
        reason="hits and look-ups of SM reads, caches as the engine left them",
    )


def _no_collapse(
    con: duckdb.DuckDBPyConnection, judged: tuple[_Level, ...], levels: tuple[_Level, ...]
) -> Result:
    row = judged[-1]
    side = int(threshold(con, "l2_side_levels"))
    shown = f"SM reads of {_SCOPE_WORDS[row.scope]} hit {format_pct(row.read_hit_ratio, 0)}{_possible(row)}"
    if len(levels) < 2 * side:
        return cannot_tell(
            f"L2 reuse over load: {shown}, but {len(levels)} comparable levels are too few for a collapse "
            f"with {side} on each side.",
            IN_SITU_SWEEP,
            _evidence(judged),
        )
    drop = max((level.drop_ratio for level in levels if level.drop_ratio is not None), default=0.0)
    if drop >= threshold(con, "l2_drop_ratio"):
        return cannot_tell(
            f"L2 reuse over load: the hit rate of SM reads falls by up to {format_pct(drop, 0)} between "
            "levels, but within its scatter, in small steps, without more DRAM traffic, or too close to the "
            "end of the sweep: no collapse is claimed.",
            IN_SITU_SWEEP,
            _evidence(judged),
        )
    return not_found(
        f"No collapse of L2 reuse up to level {levels[-1].level}: {shown} there{_size(levels[-1])}.",
        0.8,
        _evidence(judged),
    )


def _possible(row: _Level) -> str:
    """Return what could hit at all, in brackets: heads that share KV, and prefixes that requests share."""
    parts = []
    if row.group_size is not None and row.group_size > 1:
        parts.append(
            f"{format_number(row.group_size)} query heads share a KV head, so that "
            f"{format_pct(row.possible_hit_ratio, 0)} could hit inside a kernel that does not merge them"
        )
    elif row.group_size is not None:
        parts.append("no query heads share a KV head")
    if row.prefix_hit_ratio is not None:
        parts.append(f"{format_pct(row.prefix_hit_ratio, 0)} of the prompt tokens are shared prefixes")
    return f" ({'; '.join(parts)})" if parts else ""


def _size(row: _Level) -> str:
    """Return the KV of one layer next to the cache, when both are known."""
    if row.kv_layer_bytes is None or row.l2_bytes is None:
        return ""
    return f" (KV of one layer {format_bytes(row.kv_layer_bytes)}, L2 {format_bytes(row.l2_bytes)})"


def _evidence(rows: tuple[_Level, ...]) -> Evidence:
    hits = [row.read_hit_ratio for row in rows if row.read_hit_ratio is not None]
    bounds = (("read_hit_min", min(hits)), ("read_hit_max", max(hits))) if hits else ()
    return Evidence("l2_reuse", "", (("levels", len(rows)), *bounds))


FINDING = Finding(
    name="l2_reuse",
    question="Is KV reused in the L2 cache, and up to which load?",
    evaluate=_evaluate,
)
