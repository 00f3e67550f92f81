"""What changed over an incident window and the time before it, and when: levels, swap points, events."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from kvcliff.nightly.change_points import Limits, level_changes
from kvcliff.nightly.comparison.marts import StoredMarts
from kvcliff.nightly.comparison.statistics import Estimate, count_deviation
from kvcliff.nightly.window_series import Series, StoredPart, read_series
from kvcliff.units import NS_PER_S

#: Deviation of a count, in standard deviations, from which an event counts as more or less frequent.
_COUNT_SDS = 3.0


@dataclass(frozen=True)
class WindowChange:
    """One thing that changed.

    Attributes:
        at_ns: when.
        error_ns: how far from the truth that can be, ``None`` when unknown.
        what: words of ours.
        level: level of a sweep.
        replica_id: replica, ``None`` when it is not told apart.
        before: value before, ``None`` for an event that has none.
        after: value after it.
        unit: unit of both.
    """

    at_ns: int
    error_ns: int | None
    what: str
    level: str | None
    replica_id: str | None
    before: float | None = None
    after: float | None = None
    unit: str = ""


def window_changes(
    marts: StoredMarts, before: StoredPart, window: StoredPart, thresholds: dict[str, float]
) -> tuple[WindowChange, ...]:
    """Return what changed in the time before a window and in it, in order of time.

    Args:
        marts: the store with both parts as runs.
        before: the time before.
        window: the window.
        thresholds: values of ``sql/seeds/thresholds.csv`` that hold for them.
    """
    parts = (before, window)
    found = [
        *(change for series in read_series(marts, parts) for change in _levels(series, thresholds)),
        *_swap_points(marts, before, window, round(thresholds["episode_gap_s"] * NS_PER_S)),
        *(change for part in parts for change in _jumps(marts, part)),
        *_events(marts, before, window),
    ]
    return tuple(sorted(found, key=lambda change: (change.at_ns, change.what, change.level or "")))


def _levels(series: Series, thresholds: dict[str, float]) -> Iterator[WindowChange]:
    minimum = {
        "requests": thresholds["window_change_requests"],
        "share": thresholds["window_change_share"],
        "ratio": 0.0,
    }[series.measure.scale]
    limits = Limits(
        minimum=minimum,
        minimum_ratio=thresholds["window_change_ratio"],
        hold_ns=round(thresholds["window_change_hold_s"] * NS_PER_S),
        noise_sds=thresholds["window_change_sds"],
        chance=thresholds["window_change_chance"],
    )
    for change in level_changes(series.points, limits):
        yield WindowChange(
            change.at_ns,
            change.error_ns,
            series.measure.title,
            series.level,
            series.replica_id,
            change.before,
            change.after,
            series.measure.unit,
        )


def _swap_points(
    marts: StoredMarts, before: StoredPart, window: StoredPart, gap_ns: int
) -> Iterator[WindowChange]:
    """Yield the swap points of both parts; one that goes on over the edge between them is told once.

    Args:
        marts: the store.
        before: the time before.
        window: the window.
        gap_ns: quiet time after which an episode is over.
    """
    last_ends: dict[tuple[str | None, str | None], int] = {}
    for part in (before, window):
        rows = marts.rows(
            "swap_points",
            ("level", "replica_id", "class", "mechanism", "at_ns", "error_ns", "end_ns"),
            part.run_id,
            where="class in ('confirmed', 'probable')",
            order="at_ns, swap_point_id",
            needs=("class", "at_ns", "swap_point_id"),
        )
        for level, replica_id, sureness, mechanism, at_ns, error_ns, end_ns in rows:
            reach_ns = error_ns or 0
            # Its first action may lie between the edge and the sample before it.
            if not (part.start_ns <= at_ns + reach_ns and at_ns <= part.end_ns):
                continue
            ended_ns = last_ends.get((level, replica_id)) if part is window else None
            last_ends[level, replica_id] = end_ns if end_ns is not None else at_ns
            if ended_ns is not None and at_ns <= ended_ns + gap_ns:
                continue
            by = f" by {mechanism}" if mechanism and mechanism not in ("none", "unknown") else ""
            yield WindowChange(at_ns, error_ns, f"swap point, {sureness}{by}", level, replica_id)


def _jumps(marts: StoredMarts, part: StoredPart) -> Iterator[WindowChange]:
    rows = marts.rows(
        "latency_jumps",
        ("level", "replica_id", "cause", "metric", "before_ms", "after_ms", "at_ns", "error_ns"),
        part.run_id,
    )
    for level, replica_id, cause, metric, before_ms, after_ms, at_ns, error_ns in rows:
        if part.holds(at_ns):
            which = "median" if metric == "itl_p50" else "longest"
            by = f"cause {cause}" if cause != "unknown" else "cause unknown"
            what = f"jump of the {which} time between tokens, {by}"
            yield WindowChange(at_ns, error_ns, what, level, replica_id, before_ms, after_ms, "ms")


def _events(marts: StoredMarts, before: StoredPart, window: StoredPart) -> Iterator[WindowChange]:
    """Yield the kinds of engine events that are new in the window, or more or less frequent than before."""
    counts, firsts = _counted(marts, before, window)
    for level, replica_id, kind in sorted(firsts, key=lambda key: tuple(part or "" for part in key)):
        key = (level, replica_id, kind)
        earlier, later = counts[key]
        exposure = tuple(max(part.end_ns - part.start_ns, 1) / NS_PER_S for part in (before, window))
        base, run = Estimate(earlier, exposure=exposure[0]), Estimate(later, exposure=exposure[1])
        if earlier and abs(count_deviation([base], run, 0.0)[0]) < _COUNT_SDS:
            continue
        at_ns, error_ns = firsts[key]
        what = f"{kind.replace('_', ' ')}, {'first' if not earlier else 'other rate'}"
        rates = (earlier / exposure[0] * 60, later / exposure[1] * 60)
        yield WindowChange(at_ns, error_ns, what, level, replica_id, *rates, "events/min")


_EventKey = tuple[str | None, str | None, str]


def _counted(
    marts: StoredMarts, before: StoredPart, window: StoredPart
) -> tuple[dict[_EventKey, tuple[float, float]], dict[_EventKey, tuple[int, int | None]]]:
    """Return the events of each kind in both parts by the best evidence, and the first ones in the window.

    The same event can stand in several rows, once for each kind of evidence.
    """
    sums: dict[_EventKey, dict[str, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0.0, 0.0]))
    firsts: dict[_EventKey, tuple[int, int | None]] = {}
    for place, part in enumerate((before, window)):
        rows = marts.rows(
            "engine_events",
            ("level", "replica_id", "kind", "proof", "event_count", "ts_ns", "error_ns"),
            part.run_id,
            order="ts_ns, event_no",
            needs=("ts_ns", "event_no", "kind"),
        )
        for level, replica_id, kind, proof, count, ts_ns, error_ns in rows:
            if not part.holds(ts_ns):
                continue
            key = (level, replica_id, kind)
            sums[key][proof or ""][place] += count or 1
            if place == 1:
                firsts.setdefault(key, (ts_ns, error_ns))
    counts = {}
    for key, by_proof in sums.items():
        best = max(sorted(by_proof), key=lambda proof: math.fsum(by_proof[proof]))
        counts[key] = (by_proof[best][0], by_proof[best][1])
    return counts, firsts
