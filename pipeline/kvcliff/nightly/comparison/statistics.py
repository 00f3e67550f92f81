"""Statistics of a comparison: noise inside a run, noise between runs, and what a change then means."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Direction = Literal["lower", "higher", "neither"]
#: Windows that a run is cut into; fewer when they would get shorter than ``MIN_WINDOW_NS``.
MAX_WINDOWS = 24
MIN_WINDOW_NS = 1_000_000_000
#: Groups of windows whose spread shows the noise inside a run.
GROUPS = 6
_MIN_VALUES = 4


@dataclass(frozen=True)
class Estimate:
    """A value of one run.

    Attributes:
        value: the value.
        sampling_sd: standard deviation of its logarithm from what varies inside the run; 0 when unknown.
        exposure: what a count is counted over (generated tokens); of throughput the requests behind it; 1
            when unknown or without meaning.
    """

    value: float
    sampling_sd: float = 0.0
    exposure: float = 1.0


@dataclass(frozen=True)
class Spread:
    """Noise between runs as the standard deviation of the logarithm, and what it rests on."""

    sd: float
    measured_sd: float | None
    run_count: int


@dataclass(frozen=True)
class Change:
    """A change in logarithms, its standard deviation, and the smallest change that would have been seen."""

    size: float
    sd: float
    visible: float

    @property
    def ratio(self) -> float:
        """The change as run / base - 1."""
        return math.expm1(self.size)


def window_ns(start_ns: int, end_ns: int) -> int:
    """Return the width of the windows that a stretch of time is cut into."""
    return max(-(-max(end_ns - start_ns, 1) // MAX_WINDOWS), MIN_WINDOW_NS)


def interleaved_groups(times_ns: Sequence[int]) -> list[list[int]]:
    """Return the places of values in ``GROUPS`` groups; neighbouring windows go to different ones.

    Values of one window stay together, because they resemble each other. Windows are dealt out forth and back
    (1 to 6, 6 to 1), so that every group spans the run and a ramp counts as load, not as noise.

    Args:
        times_ns: time of each value.

    Returns:
        Places in ``times_ns`` by group; no group when the run has fewer than two windows a group.
    """
    if not times_ns:
        return []
    start = min(times_ns)
    width = window_ns(start, max(times_ns))
    windows: dict[int, list[int]] = {}
    for place, time_ns in enumerate(times_ns):
        windows.setdefault((time_ns - start) // width, []).append(place)
    if len(windows) < 2 * GROUPS:
        return []
    groups: list[list[int]] = [[] for _ in range(GROUPS)]
    for number, window in enumerate(sorted(windows)):
        turn, place = divmod(number, GROUPS)
        groups[GROUPS - 1 - place if turn % 2 else place] += windows[window]
    return groups


def sampling_sd(values: Sequence[float]) -> float:
    """Return the relative standard deviation of a run's value, from its values in interleaved groups.

    The groups are parts of one sample, so their spread divided by the root of their number is that of the
    whole (random groups, Wolter 1985). It is what varies within seconds; slower noise is that between runs.

    Args:
        values: one value a group; fewer than four say nothing and give 0.
    """
    count = len(values)
    mean = math.fsum(values) / count if count else 0.0
    if count < _MIN_VALUES or mean <= 0:
        return 0.0
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return math.sqrt(variance / count) / mean


def baseline_spread(logs: Sequence[float], floor_sd: float, floor_runs: float) -> Spread:
    """Return the noise between runs: the built-in one, moved towards that of the baseline's own runs.

    The variance is the mean of both, weighted by their degrees of freedom (moderated variance, Smyth 2004):
    two runs that agree by luck do not make a baseline exact.

    Args:
        logs: logarithms of the baseline's values.
        floor_sd: built-in standard deviation.
        floor_runs: degrees of freedom that it counts for.
    """
    if len(logs) < 2:
        return Spread(floor_sd, None, len(logs))
    mean = math.fsum(logs) / len(logs)
    measured = math.fsum((value - mean) ** 2 for value in logs) / (len(logs) - 1)
    own_runs = len(logs) - 1
    variance = (floor_runs * floor_sd**2 + own_runs * measured) / (floor_runs + own_runs)
    return Spread(math.sqrt(variance), math.sqrt(measured), len(logs))


def median(values: Sequence[float]) -> float:
    """Return the median of at least one value."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def change_between(base: Sequence[Estimate], run: Estimate, spread: Spread, *, alarm_sds: float) -> Change:
    """Return the change of a run against the median of a baseline; all values are positive.

    The noise between repeats was measured on whole runs, so it holds the noise inside runs of that size too;
    a run whose own noise is larger (short, or with a wild tail) is taken with that instead.

    Args:
        base: values of the baseline.
        run: value of the run.
        spread: noise between runs.
        alarm_sds: size in standard deviations from which a change is no chance.
    """
    size = math.log(run.value) - median([math.log(value.value) for value in base])
    count = len(base)
    # Up to two values the median is their mean; of three its variance is 0.45 of one value's, of five 0.29.
    share = 1 / count if count < 3 else math.pi / 2 / (count + math.pi / 2 - 1)
    theirs = max(spread.sd**2, run.sampling_sd**2)
    ours = math.fsum(max(spread.sd**2, value.sampling_sd**2) for value in base) / count
    sd = math.sqrt(theirs + share * ours)
    return Change(size, sd, alarm_sds * sd)


def count_deviation(base: Sequence[Estimate], run: Estimate, sd: float) -> tuple[float, float]:
    """Return how far a count is from its baseline in standard deviations, and the count that was expected.

    Square roots of counts have the variance 1/4 whatever their size (Anscombe 1948); noise between repeats is
    added to that.

    Args:
        base: counts of the baseline.
        run: count of the run.
        sd: relative noise between repeats beyond that of counting.
    """
    rate = median([estimate.value / estimate.exposure for estimate in base])
    expected = rate * run.exposure
    share = 1 / len(base)
    difference = 2 * (math.sqrt(run.value + 3 / 8) - math.sqrt(expected + 3 / 8))
    variance = (1 + sd**2 * run.value) + share * (1 + sd**2 * expected)
    return difference / math.sqrt(variance), expected


def share_deviation(base_count: float, base_total: float, run_count: float, run_total: float) -> float:
    """Return how far two shares are apart in standard deviations, by arcsines of their roots (Anscombe 1948).

    Args:
        base_count: events of the baseline.
        base_total: of how many.
        run_count: events of the run.
        run_total: of how many.
    """
    angles = [
        math.asin(math.sqrt((count + 3 / 8) / (total + 3 / 4)))
        for count, total in ((base_count, base_total), (run_count, run_total))
    ]
    return 2 * (angles[1] - angles[0]) / math.sqrt(1 / base_total + 1 / run_total)
