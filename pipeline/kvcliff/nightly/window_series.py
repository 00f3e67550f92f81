"""The series of an incident window and the time before it, joined: load, queue, KV, latency, cache hits."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kvcliff.nightly.change_points import Point
from kvcliff.nightly.comparison.marts import StoredMarts
from kvcliff.nightly.comparison.statistics import median
from kvcliff.units import NS_PER_S

#: What bounds the smallest relevant change of a measure.
Scale = Literal["requests", "share", "ratio"]
#: More points than that say no more about a window, and take longer.
_MAX_POINTS: Final = 1000
#: Buckets in which arrivals are counted.
_ARRIVAL_BUCKETS: Final = 120


@dataclass(frozen=True)
class Measure:
    """A measure that changes over time: its key, its words, its unit, and what bounds a relevant change."""

    key: str
    title: str
    unit: str
    scale: Scale


@dataclass(frozen=True)
class Series:
    """The values of one measure at one level and replica, in order of time."""

    measure: Measure
    level: str | None
    replica_id: str | None
    points: tuple[Point, ...]


@dataclass(frozen=True)
class StoredPart:
    """A stored part of a run: its id and when it was, both instants included."""

    run_id: str
    start_ns: int
    end_ns: int

    def holds(self, ts_ns: int | None) -> bool:
        """Return whether an instant lies in it."""
        return ts_ns is not None and self.start_ns <= ts_ns <= self.end_ns


_ARRIVALS: Final = Measure("arrivals", "arriving requests", "requests/s", "ratio")
_TTFT: Final = Measure("ttft", "time to first token", "ms", "ratio")
_HITS: Final = Measure("hit_ratio", "prefix-cache hit rate", "ratio", "share")
_KV: Final = (
    ("used_ratio", Measure("kv_used", "KV occupancy", "ratio", "share")),
    ("running_count", Measure("running", "running requests", "requests", "requests")),
    ("waiting_count", Measure("waiting", "waiting requests", "requests", "requests")),
)
_LATENCY: Final = (
    ("itl_p50_ms", Measure("itl_p50", "median time between tokens", "ms", "ratio")),
    ("itl_p99_ms", Measure("itl_p99", "p99 time between tokens", "ms", "ratio")),
    ("tokens_per_s", Measure("tokens_per_s", "generated tokens", "tokens/s", "ratio")),
)

#: One value with its level, replica and time.
_Sample = tuple[str | None, str | None, int, float]


def read_series(marts: StoredMarts, parts: Sequence[StoredPart]) -> tuple[Series, ...]:
    """Return all series of adjoining parts of a run; a value counts in the part in which its time lies.

    Args:
        marts: the store.
        parts: parts in order of time.
    """
    found: list[Series] = []
    found += _joined(_ARRIVALS, _arrivals(marts, parts))
    for column, measure in _KV:
        found += _joined(measure, _gauge(marts, parts, column))
    for column, measure in _LATENCY:
        found += _joined(measure, _latency(marts, parts, column))
    found += _joined(_TTFT, _first_tokens(marts, parts))
    found += _joined(_HITS, _hits(marts, parts))
    return tuple(found)


def _joined(measure: Measure, samples: Iterable[_Sample]) -> list[Series]:
    grouped: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    names: dict[tuple[str, str], tuple[str | None, str | None]] = {}
    for level, replica_id, ts_ns, value in samples:
        key = (level or "", replica_id or "")
        names[key] = (level, replica_id)
        grouped[key].append((ts_ns, value))
    return [
        Series(measure, *names[key], _thinned([Point(*sample) for sample in sorted(grouped[key])]))
        for key in sorted(grouped)
    ]


def _thinned(points: list[Point]) -> tuple[Point, ...]:
    """Return at most ``_MAX_POINTS`` points, each the median of neighbours at the time of the first."""
    share = -(-len(points) // _MAX_POINTS)
    if share <= 1:
        return tuple(points)
    groups = (points[place : place + share] for place in range(0, len(points), share))
    return tuple(Point(group[0].ts_ns, median([point.value for point in group])) for group in groups)


def _gauge(marts: StoredMarts, parts: Sequence[StoredPart], column: str) -> Iterator[_Sample]:
    for part in parts:
        rows = marts.rows(
            "kv_occupancy",
            ("level", "replica_id", "ts_ns", column),
            part.run_id,
            where="tier = 'hbm'",
            needs=("tier", "ts_ns"),
        )
        for level, replica_id, ts_ns, value in rows:
            if part.holds(ts_ns) and value is not None:
                yield level, replica_id, ts_ns, float(value)


def _latency(marts: StoredMarts, parts: Sequence[StoredPart], column: str) -> Iterator[_Sample]:
    for part in parts:
        rows = marts.rows(
            "token_latency", ("level", "replica_id", "ts_ns", "bucket_ns", column), part.run_id,
            needs=("ts_ns", "bucket_ns"),
        )  # fmt: skip
        for level, replica_id, ts_ns, bucket_ns, value in rows:
            # A bucket over an edge holds a part of its tokens only.
            if part.holds(ts_ns) and part.holds(ts_ns + bucket_ns - 1) and value is not None:
                yield level, replica_id, ts_ns, float(value)


def _first_tokens(marts: StoredMarts, parts: Sequence[StoredPart]) -> Iterator[_Sample]:
    for part in parts:
        rows = marts.rows(
            "requests", ("level", "replica_id", "first_token_ns", "ttft_ms"), part.run_id,
            where="not coalesce(is_warmup, false)", needs=("is_warmup",),
        )  # fmt: skip
        for level, replica_id, ts_ns, value in rows:
            if part.holds(ts_ns) and value is not None:
                yield level, replica_id, ts_ns, float(value)


def _arrivals(marts: StoredMarts, parts: Sequence[StoredPart]) -> Iterator[_Sample]:
    """Yield arrivals per second in whole buckets from the first arrival to the last."""
    times: dict[tuple[str | None, str | None], list[int]] = defaultdict(list)
    for part in parts:
        rows = marts.rows("requests", ("level", "replica_id", "arrival_ns"), part.run_id)
        for level, replica_id, arrival_ns in rows:
            if part.holds(arrival_ns):
                times[level, replica_id].append(arrival_ns)
    for (level, replica_id), arrivals in times.items():
        first, last = min(arrivals), max(arrivals)
        width_ns = max(NS_PER_S, -(-(last - first) // _ARRIVAL_BUCKETS))
        counts = [0] * ((last - first) // width_ns)
        for arrival_ns in arrivals:
            if (bucket := (arrival_ns - first) // width_ns) < len(counts):
                counts[bucket] += 1
        for bucket, count in enumerate(counts):
            yield level, replica_id, first + bucket * width_ns, count * NS_PER_S / width_ns


def _hits(marts: StoredMarts, parts: Sequence[StoredPart]) -> Iterator[_Sample]:
    for part in parts:
        rows = marts.rows(
            "cache_hits", ("level", "replica_id", "end_ns", "lookup_tokens", "hit_ratio"), part.run_id,
            where="tier = 'hbm' and origin = 'counters'", needs=("tier", "origin", "end_ns"),
        )  # fmt: skip
        for level, replica_id, ts_ns, lookups, value in rows:
            if part.holds(ts_ns) and lookups and value is not None and math.isfinite(value):
                yield level, replica_id, ts_ns, float(value)
