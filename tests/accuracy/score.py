"""Scores of swap points and clocks: what a diagnosis says of recorded runs against what truly happened."""

import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from accuracy.recordings import Recording
from kvcliff.store.ingest import stage_run
from kvcliff.store.plan import plan_run

S = 1_000_000_000
#: A swap point farther than this from every true preemption is a false alarm.
FAR_NS = 30 * S
#: Allowance for the delay between the scheduler's decision and the first trace of it.
SLACK_NS = S // 20
_HOUR_NS = 3600 * S
_CLOCK_SLACK_NS = S // 2


@dataclass(frozen=True)
class Point:
    """A confirmed or probable swap point as diagnosed."""

    at_ns: int
    error_ns: int
    point_class: str
    l_status: str


@dataclass(frozen=True)
class Reading:
    """What a diagnosis says of one run: swap points on the clock of the truth, and how far a clock is off.

    Attributes:
        recording: the run.
        points: swap points in order of time.
        clock_excess_ns: how far the tie of two clocks lies outside its bounds, ``None`` without bounds.
    """

    recording: Recording
    points: tuple[Point, ...]
    clock_excess_ns: int | None

    @property
    def delta_ns(self) -> int | None:
        """Return the time from the first true preemption to the first swap point."""
        if not self.points or not self.recording.preemptions_ns:
            return None
        return self.points[0].at_ns - self.recording.preemptions_ns[0]

    @property
    def is_inside_error(self) -> bool:
        """Return whether the first true preemption lies in the error bar of the first swap point."""
        delta = self.delta_ns
        if delta is None:
            return False
        reach = self.points[0].error_ns + SLACK_NS
        return -reach - self.recording.resolution_ns <= delta <= reach

    @property
    def false_points(self) -> tuple[Point, ...]:
        """Return the swap points that no true preemption explains."""
        if self.recording.is_quiet:
            return self.points
        if self.recording.relative_to is not None:
            # Only the first preemption is known there.
            return ()
        times = self.recording.preemptions_ns
        return tuple(p for p in self.points if min(abs(p.at_ns - time) for time in times) > FAR_NS)


@dataclass(frozen=True)
class Score:
    """Readings of one set of recordings under one cut of their files."""

    title: str
    tolerance_ns: int
    readings: tuple[Reading, ...]

    @property
    def positives(self) -> tuple[Reading, ...]:
        """Return the runs that have a swap point to find."""
        return tuple(reading for reading in self.readings if reading.recording.is_scored)

    @property
    def quiet_count(self) -> int:
        """Return the number of runs without any preemption."""
        return sum(reading.recording.is_quiet for reading in self.readings)

    @property
    def found(self) -> tuple[Reading, ...]:
        """Return the runs whose swap point was found, whatever its time."""
        return tuple(reading for reading in self.positives if reading.points)

    @property
    def in_time(self) -> tuple[Reading, ...]:
        """Return the runs whose first swap point lies within the tolerance."""
        return tuple(reading for reading in self.found if abs(reading.delta_ns or 0) <= self.tolerance_ns)

    @property
    def inside_error(self) -> tuple[Reading, ...]:
        """Return the runs whose true time lies in the error bar."""
        return tuple(reading for reading in self.found if reading.is_inside_error)

    @property
    def false_alarms(self) -> tuple[Reading, ...]:
        """Return the runs with a swap point that nothing explains."""
        return tuple(reading for reading in self.readings if reading.false_points)

    @property
    def most_points(self) -> int:
        """Return the largest number of swap points in a run."""
        return max(len(reading.points) for reading in self.readings)

    @property
    def median_error_s(self) -> float | None:
        """Return the median distance of the first swap point from the first true preemption."""
        errors = [abs(reading.delta_ns or 0) / S for reading in self.found]
        return statistics.median(errors) if errors else None

    @property
    def clocks(self) -> tuple[int, int]:
        """Return how many clocks fit their bounds, of how many."""
        known = [reading.clock_excess_ns for reading in self.readings if reading.clock_excess_ns is not None]
        return sum(excess <= _CLOCK_SLACK_NS for excess in known), len(known)

    @property
    def classes(self) -> str:
        """Return the classes and harm of first swap points with their number."""
        firsts = Counter(f"{r.points[0].point_class} / {r.points[0].l_status}" for r in self.found)
        return ", ".join(f"{count} {name}" for name, count in sorted(firsts.items()))


def score(
    title: str,
    recordings: Iterable[Recording],
    cut: Callable[[Path, Path], Path],
    *,
    tolerance_s: float,
) -> Score:
    """Return the score of recordings, each read after ``cut`` has left out some of its files."""
    readings = []
    for recording in recordings:
        with tempfile.TemporaryDirectory() as scratch:
            readings.append(read(recording, cut(recording.folder, Path(scratch))))
    return Score(title, int(tolerance_s * S), tuple(readings))


def read(recording: Recording, folder: Path) -> Reading:
    """Return what kvcliff says of the files in ``folder``."""
    with duckdb.connect() as con:
        stage_run(con, plan_run(folder))
        points = con.execute(
            "select at_ns, error_ns, class, l_status from swap_points "
            "where class in ('confirmed', 'probable') order by at_ns"
        ).fetchall()
        offsets = dict(
            con.execute("select path, offset_ns from clocks join sources using (source_id)").fetchall()
        )
    zero_ns = 0 if recording.relative_to is None else offsets[recording.relative_to]
    if recording.relative_to is None and points and recording.preemptions_ns:
        zero_ns = _whole_hours_ns(points[0][0] - recording.preemptions_ns[0])
    return Reading(
        recording,
        tuple(Point(at - zero_ns, error, name, status) for at, error, name, status in points),
        _clock_excess_ns(recording, zero_ns, offsets.get("server.log")),
    )


def _whole_hours_ns(difference_ns: int) -> int:
    """Return the whole hours in a difference: a log alone tells neither its year nor its zone."""
    return (difference_ns + _HOUR_NS // 2) // _HOUR_NS * _HOUR_NS


def _clock_excess_ns(recording: Recording, zero_ns: int, log_ns: int | None) -> int | None:
    """Return how far offset(series) - offset(log) lies outside its bounds, year and zone left aside."""
    if recording.clock_bounds_ns is None:
        return None
    if log_ns is None:
        return _HOUR_NS
    low, high = recording.clock_bounds_ns
    gap = zero_ns - log_ns - (low + high) // 2
    gap -= _whole_hours_ns(gap)
    return max(abs(gap) - (high - low) // 2, 0)


def table(scores: Sequence[Score]) -> str:
    """Return the scores as a Markdown table."""
    lines = [
        "| recordings | found | in time | inside error bar | median error | false | classes | clocks |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for item in scores:
        total = len(item.positives)
        median = "-" if item.median_error_s is None else f"{item.median_error_s:.2f} s"
        fitting, known = item.clocks
        lines.append(
            f"| {item.title} | {len(item.found)}/{total} | {len(item.in_time)}/{total} "
            f"within {item.tolerance_ns / S:g} s | {len(item.inside_error)}/{len(item.found)} | {median} "
            f"| {len(item.false_alarms)} in {item.quiet_count} quiet | {item.classes or '-'} "
            f"| {f'{fitting}/{known}' if known else '-'} |"
        )
    return "\n".join(lines)


def details(item: Score) -> str:
    """Return one line per run that has swap points or should have."""
    lines = []
    for reading in item.readings:
        if reading.recording.is_quiet and not reading.points:
            continue
        delta = "none" if reading.delta_ns is None else f"{reading.delta_ns / S:+.2f} s"
        error = f"+- {reading.points[0].error_ns / S:.2f} s" if reading.points else ""
        kinds = ", ".join(point.point_class for point in reading.points)
        lines.append(f"  {reading.recording.name}: {delta} {error} ({len(reading.points)} points: {kinds})")
    return "\n".join(lines)
