"""Native histograms of the query API, spelt out as the classic bucket, count and sum series."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from kvcliff.readers.json_values import elements_of, members_of, nanoseconds
from kvcliff.units import NS_PER_S

_BUCKET_FIELDS: Final = 4  # kind of boundaries, lower bound, upper bound, count
_INFINITY: Final = "+Inf"


@dataclass(frozen=True)
class NativeHistogram:
    """One point: time, totals as text, and the filled buckets in rising order."""

    time_ns: int
    count: str
    sum: str
    lefts: tuple[float, ...]
    rights: tuple[float, ...]
    counts: tuple[float, ...]

    def splits(self, bound: float) -> bool:
        """Return whether a bound lies inside a filled bucket, so that the count below it is unknown."""
        place = bisect_left(self.rights, bound)
        return place < len(self.rights) and self.lefts[place] < bound < self.rights[place]


def parse_point(pair: object) -> NativeHistogram | None:
    """Return a ``[time, histogram]`` pair of an answer, or ``None`` when it is none."""
    parts = elements_of(pair)
    time_ns = nanoseconds(parts[0], NS_PER_S) if len(parts) == 2 else None
    members = members_of(parts[1]) if len(parts) == 2 else {}
    count, total = members.get("count"), members.get("sum")
    if time_ns is None or not isinstance(count, str) or not isinstance(total, str):
        return None
    buckets = sorted(
        filter(None, map(_bucket, elements_of(members.get("buckets")))), key=lambda item: item[1]
    )
    if len(buckets) < len(elements_of(members.get("buckets"))):
        return None
    lefts, rights, counts = zip(*buckets, strict=True) if buckets else ((), (), ())
    return NativeHistogram(time_ns, count, total, lefts, rights, counts)


def _bucket(entry: object) -> tuple[float, float, float] | None:
    """Return lower bound, upper bound and count of a bucket."""
    fields = elements_of(entry)
    if len(fields) != _BUCKET_FIELDS or not all(isinstance(text, str) for text in fields[1:]):
        return None
    try:
        left, right, count = (float(str(text)) for text in fields[1:])
    except ValueError:
        return None
    return (left, right, count) if left <= right and count >= 0 and not math.isnan(count) else None


def classic_series(points: list[NativeHistogram]) -> Iterator[tuple[str, str | None, list[str]]]:
    """Yield suffix, ``le`` and values of each classic series that the points of one histogram amount to.

    Buckets that stayed empty are not listed, and an overfull histogram merges its buckets: the bounds are
    those of all points, without those that split a bucket of some point.
    """
    bounds = sorted({right for point in points for right in point.rights if math.isfinite(right)})
    kept = [bound for bound in bounds if not any(point.splits(bound) for point in points)]
    below = [_cumulative_counts(point, kept) for point in points]
    for place, bound in enumerate(kept):
        yield "_bucket", repr(bound), [repr(counts[place]) for counts in below]
    yield "_bucket", _INFINITY, [point.count for point in points]
    yield "_count", None, [point.count for point in points]
    yield "_sum", None, [point.sum for point in points]


def _cumulative_counts(point: NativeHistogram, bounds: list[float]) -> list[float]:
    """Return the observations at or below each bound."""
    sums = [0.0, *accumulate(point.counts)]
    return [sums[bisect_right(point.rights, bound)] for bound in bounds]
