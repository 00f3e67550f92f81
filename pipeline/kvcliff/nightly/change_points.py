"""Where the level of a series changes: rank CUSUM, split by split, with the noise of the series itself."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from kvcliff.nightly.comparison.statistics import median

#: Points that a level needs at least, whatever their distance.
_MIN_POINTS = 4
_MAX_LEVELS = 8
#: Neighbours that resemble each other more than that are a level of their own rather than scatter.
_MOST_FOLLOWING = 0.6
#: A normal distribution's standard deviation in median absolute deviations.
_MADS_PER_SD = 1.4826


@dataclass(frozen=True)
class Point:
    """A value at an instant."""

    ts_ns: int
    value: float


@dataclass(frozen=True)
class Limits:
    """What counts as a change of level.

    Attributes:
        minimum: smallest relevant difference.
        minimum_ratio: smallest relevant difference as a share of the larger level.
        hold_ns: how long a level must last.
        noise_sds: difference in standard deviations of the values around their levels.
        chance: highest chance that scatter alone makes such a step.
    """

    minimum: float
    minimum_ratio: float
    hold_ns: int
    noise_sds: float
    chance: float


@dataclass(frozen=True)
class LevelChange:
    """A change of level.

    Attributes:
        at_ns: first point of the new level.
        error_ns: to the last point of the old one.
        before: median of the old level.
        after: median of the new level.
    """

    at_ns: int
    error_ns: int
    before: float
    after: float


def level_changes(points: Sequence[Point], limits: Limits) -> tuple[LevelChange, ...]:
    """Return the changes of level of a series in order of time.

    The series is split where the cumulated ranks depart most from those of a steady one (Pettitt 1979), each
    part again. A split stays when its levels last, when they differ by more than is relevant and by more than
    the values scatter around them, and when chance would not make it; values that follow each other closely
    count as fewer.

    Args:
        points: the series in order of time.
        limits: what counts.
    """
    edges = [0, *_splits(points, 0, len(points), limits, _MAX_LEVELS), len(points)]
    # A split found early may not hold between the levels that later ones left beside it.
    while weak := _weakest(points, edges, limits):
        edges.remove(weak)
    return tuple(
        LevelChange(
            points[middle].ts_ns,
            points[middle].ts_ns - points[middle - 1].ts_ns,
            _level(points[start:middle]),
            _level(points[middle:end]),
        )
        for start, middle, end in zip(edges, edges[1:], edges[2:], strict=False)
    )


def _splits(points: Sequence[Point], start: int, end: int, limits: Limits, left: int) -> list[int]:
    """Return the places at which the part of a series is split, in order."""
    place = _first_split(points, start, end, limits) if left > 0 else None
    if place is None:
        return []
    return [
        *_splits(points, start, place, limits, left - 1),
        place,
        *_splits(points, place, end, limits, left - 1),
    ]


def _first_split(points: Sequence[Point], start: int, end: int, limits: Limits) -> int | None:
    """Return a split of the whole part, else of the longest stretch of it that has one.

    What comes and goes leaves the whole without a split: halves, quarters ... that overlap by half are looked
    at then (seeded intervals, Kovács et al. 2023).
    """
    length = end - start
    while length >= 2 * _MIN_POINTS:
        for low in range(start, end - length + 1, max(length // 2, 1)):
            part = points[low : low + length]
            middle = _best_split(part, limits.hold_ns)
            if middle is not None and _is_change(part[:middle], part[middle:], limits):
                return low + middle
        length //= 2
    return None


def _weakest(points: Sequence[Point], edges: Sequence[int], limits: Limits) -> int | None:
    """Return the split whose levels no longer differ, the one with the smallest difference first."""
    failing = []
    for start, middle, end in zip(edges, edges[1:], edges[2:], strict=False):
        left, right = points[start:middle], points[middle:end]
        if not _is_change(left, right, limits):
            failing.append((abs(_level(left) - _level(right)), middle))
    return min(failing)[1] if failing else None


def _level(points: Sequence[Point]) -> float:
    return median([point.value for point in points])


def _best_split(points: Sequence[Point], hold_ns: int) -> int | None:
    """Return the place where the cumulated ranks are largest among those that leave two lasting levels."""
    sums = _rank_sums([point.value for point in points])
    best, place = 0.0, None
    for middle in range(_MIN_POINTS, len(points) - _MIN_POINTS + 1):
        lasts = (
            points[middle].ts_ns - points[0].ts_ns >= hold_ns
            and points[-1].ts_ns - points[middle].ts_ns >= hold_ns
        )
        if lasts and abs(sums[middle - 1]) > best:
            best, place = abs(sums[middle - 1]), middle
    return place


def _rank_sums(values: Sequence[float]) -> list[float]:
    """Return Pettitt's statistic for a split behind each value; equal values share their mean rank."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    ranks = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for place in order[first : last + 1]:
            ranks[place] = (first + last) / 2 + 1
        first = last + 1
    sums, total = [], 0.0
    for count, rank in enumerate(ranks, start=1):
        total += rank
        sums.append(2 * total - count * (len(values) + 1))
    return sums


def _is_change(left: Sequence[Point], right: Sequence[Point], limits: Limits) -> bool:
    before, after = _level(left), _level(right)
    difference = abs(after - before)
    if (
        difference < max(limits.minimum, limits.minimum_ratio * max(abs(before), abs(after)))
        or not difference
    ):
        return False
    rests = [*(point.value - before for point in left), *(point.value - after for point in right)]
    if difference < limits.noise_sds * _MADS_PER_SD * median([abs(rest) for rest in rests]):
        return False
    return _chance(left, right, rests) <= limits.chance


def _chance(left: Sequence[Point], right: Sequence[Point], rests: Sequence[float]) -> float:
    """Return how likely scatter alone departs as far from steadiness.

    Args:
        left: points before the split.
        right: points after it.
        rests: all values without their level; how close neighbours are says how many of them count.
    """
    count = len(left) + len(right)
    departure = _rank_sums([point.value for point in (*left, *right)])[len(left) - 1]
    follows = min(max(_follows(rests), 0.0), _MOST_FOLLOWING)
    independent = count * (1 - follows) / (1 + follows)
    return 2 * math.exp(-6 * departure**2 / (count**3 + count**2) * independent / count)


def _follows(rests: Sequence[float]) -> float:
    """Return the correlation of neighbours in a series around zero."""
    power = math.fsum(rest * rest for rest in rests)
    return math.fsum(one * other for one, other in pairwise(rests)) / power if power else 0.0
