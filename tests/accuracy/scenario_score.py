"""Swap points of simulated runs against the simulator's own record."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import duckdb
import polars as pl

from accuracy.engine_sim import History, Step
from accuracy.scenario_rows import Table, raw_rows
from accuracy.scenarios import Scenario
from builders_raw import needed
from kvcliff.store.models import build_models, create_raw_tables, load_macros, load_models, load_seeds

S = 1_000_000_000
#: Delay between the scheduler's decision and the first trace of it that any source can show.
SLACK_S = 0.05
_EPISODE_GAP_S = 10.0
_EPISODE_GAP_INTERVALS = 3
_LEAST_ACTIONS = 3
_STALL_MIN_S = 0.3
_STALL_FACTOR = 6
_HIGH_RATIO = 0.8
_STORE_TABLES = {
    "sources": "source_id integer, path varchar, reader varchar, role varchar, level varchar, "
    "level_number double, replica varchar, status varchar",
    "clocks": "source_id integer, offset_ns bigint, uncertainty_ns bigint, method varchar",
}


@dataclass(frozen=True)
class Episode:
    """A true episode.

    Attributes:
        replica_id: the replica.
        first_s: first preemption.
        last_s: last preemption or blocked admission.
        action_count: preemptions.
        is_harmful: whether a victim's stream stalled and there were more than a corner case of preemptions.
    """

    replica_id: str
    first_s: float
    last_s: float
    action_count: int
    is_harmful: bool


@dataclass(frozen=True)
class Point:
    """A confirmed or probable swap point as diagnosed."""

    replica_id: str
    at_s: float
    error_s: float
    end_s: float
    point_class: str
    proof: str
    dated_by: str
    l_status: str


@dataclass(frozen=True)
class Reading:
    """What the models say of one scenario, and what was true."""

    scenario: Scenario
    episodes: tuple[Episode, ...]
    points: tuple[Point, ...]

    def _meet(self, point: Point, episode: Episode) -> bool:
        reach = point.error_s + SLACK_S
        return (
            point.replica_id == episode.replica_id
            and point.at_s - reach <= episode.last_s
            and episode.first_s <= max(point.end_s, point.at_s) + reach
        )

    @cached_property
    def wanted(self) -> tuple[Episode, ...]:
        """Return the episodes that have to be found."""
        return tuple(episode for episode in self.episodes if episode.is_harmful)

    @cached_property
    def missed(self) -> tuple[Episode, ...]:
        """Return the episodes that no swap point meets."""
        return tuple(e for e in self.wanted if not any(self._meet(point, e) for point in self.points))

    @cached_property
    def false_points(self) -> tuple[Point, ...]:
        """Return the swap points without any preemption in them."""
        return tuple(p for p in self.points if not any(self._meet(p, episode) for episode in self.episodes))

    @cached_property
    def dated(self) -> tuple[tuple[Point, Episode], ...]:
        """Return each true episode with the first swap point in it, a merged point only with its first."""
        pairs = []
        used: set[Point] = set()
        for episode in self.episodes:
            meeting = [point for point in self.points if self._meet(point, episode)]
            if meeting and meeting[0] not in used:
                used.add(meeting[0])
                pairs.append((meeting[0], episode))
        return tuple(pairs)

    @cached_property
    def outside(self) -> tuple[tuple[Point, Episode], ...]:
        """Return the dated pairs whose truth lies outside the error bar."""
        return tuple(
            (point, episode)
            for point, episode in self.dated
            if abs(point.at_s - episode.first_s) > point.error_s + SLACK_S
        )


class Models:
    """One connection whose raw tables take one scenario after the other."""

    def __init__(self) -> None:
        self.con = duckdb.connect()
        self.con.execute("set threads = 1")
        create_raw_tables(self.con)
        load_seeds(self.con)
        load_macros(self.con)
        for name, columns in _STORE_TABLES.items():
            self.con.execute(f"create temp table {name} ({columns})")
        (transfers,) = [model for model in load_models() if model.name == "transfers"]
        columns = ", ".join(f"{column.name} {column.type}" for column in transfers.columns)
        self.con.execute(f"create temp table transfers ({columns})")
        self.chosen = needed("swap_points", frozenset({"transfers"}))
        self.filled: list[str] = []

    def read(self, scenario: Scenario) -> Reading:
        """Return the reading of one scenario."""
        for name in self.filled:
            self.con.execute(f"delete from temp.{name}")
        tables = raw_rows(scenario)
        self.filled = list(tables)
        for name, table in tables.items():
            self._insert(name, table)
        build_models(self.con, self.chosen)
        rows = self.con.execute(
            "select replica_id, at_ns / 1e9, error_ns / 1e9, end_ns / 1e9, class, e_proof, dated_by, "
            "l_status from swap_points where class in ('confirmed', 'probable') order by at_ns, replica_id"
        ).fetchall()
        return Reading(scenario, true_episodes(scenario), tuple(Point(*row) for row in rows))

    def _insert(self, name: str, table: Table) -> None:
        frame = pl.DataFrame(table.columns, strict=False)
        columns = ", ".join(f'"{column}"' for column in frame.columns)
        self.con.register("frame", frame.to_arrow())
        self.con.execute(f"insert into temp.{name} ({columns}) select {columns} from frame")
        self.con.unregister("frame")


def true_episodes(scenario: Scenario) -> tuple[Episode, ...]:
    """Return the episodes of all replicas by the rule of the definition, in order of time."""
    mix = scenario.mix
    distances = [distance for distance in (mix.scrape_s, mix.stats_s) if distance is not None]
    gap_s = max(_EPISODE_GAP_S, _EPISODE_GAP_INTERVALS * max(distances))
    found = [
        episode
        for number, history in enumerate(scenario.histories)
        for episode in _episodes(str(number), history, gap_s)
    ]
    return tuple(sorted(found, key=lambda episode: (episode.first_s, episode.replica_id)))


def _is_blocked(step: Step, limit: int) -> bool:
    """Return whether requests wait under pressure although there are slots."""
    footprint = step.kv_used_ratio / step.running if step.running else 1.0
    near_full = max(_HIGH_RATIO, 1 - footprint)
    return step.waiting + step.swapped > 0 and step.running < limit and step.kv_used_ratio >= near_full


def _episodes(replica_id: str, history: History, gap_s: float) -> Iterable[Episode]:
    """Yield the episodes with a preemption."""
    limit = history.engine.running_limit
    marks = sorted(
        [(event.second, 0) for event in history.preemptions]
        + [(step.end_s, 1) for step in history.steps if _is_blocked(step, limit)]
        + [(step.end_s, 2) for step in history.steps if step.running == 0]
    )
    group: list[tuple[float, int]] = []
    for second, kind in [*marks, (float("inf"), 2)]:
        if group and (kind == 2 or second - group[-1][0] > gap_s):
            actions = [at for at, what in group if what == 0]
            if actions:
                harmful = len(actions) >= _LEAST_ACTIONS and _is_harmed(history, actions)
                yield Episode(replica_id, actions[0], group[-1][0], len(actions), harmful)
            group = []
        if kind != 2:
            group.append((second, kind))


def _is_harmed(history: History, actions: Sequence[float]) -> bool:
    """Return whether the stream of a victim of these preemptions stalled."""
    victims = {event.request_no for event in history.preemptions if actions[0] <= event.second <= actions[-1]}
    for number in sorted(victims):
        seconds = history.requests[number].token_seconds
        gaps = [later - earlier for earlier, later in pairwise(seconds)]
        if not gaps:
            continue
        limit = max(_STALL_MIN_S, _STALL_FACTOR * statistics.median(gaps))
        if any(
            gap >= limit and actions[0] - 1 <= since <= actions[-1] + 1
            for gap, since in zip(gaps, seconds, strict=False)
        ):
            return True
    return False


@dataclass(frozen=True)
class Score:
    """Counts over the readings of one group."""

    title: str
    readings: tuple[Reading, ...]

    @property
    def wanted_count(self) -> int:
        """Return how many episodes there are to find."""
        return sum(len(reading.wanted) for reading in self.readings)

    @property
    def recall(self) -> float:
        """Return the share of true episodes that a swap point meets."""
        missed = sum(len(reading.missed) for reading in self.readings)
        return 1 - missed / self.wanted_count if self.wanted_count else 1.0

    @property
    def point_count(self) -> int:
        """Return how many swap points were diagnosed."""
        return sum(len(reading.points) for reading in self.readings)

    @property
    def precision(self) -> float:
        """Return the share of swap points with a preemption in them."""
        false = sum(len(reading.false_points) for reading in self.readings)
        return 1 - false / self.point_count if self.point_count else 1.0

    @property
    def inside_ratio(self) -> float:
        """Return the share of dated episodes whose truth lies in the error bar."""
        dated = sum(len(reading.dated) for reading in self.readings)
        outside = sum(len(reading.outside) for reading in self.readings)
        return 1 - outside / dated if dated else 1.0

    @property
    def median_error_s(self) -> float | None:
        """Return the median distance of a swap point from the first preemption."""
        errors = [abs(p.at_s - e.first_s) for reading in self.readings for p, e in reading.dated]
        return statistics.median(errors) if errors else None

    @property
    def classes(self) -> str:
        """Return the classes of the true swap points with their number."""
        names = Counter(p.point_class for reading in self.readings for p, _ in reading.dated)
        return ", ".join(f"{number} {name}" for name, number in sorted(names.items())) or "-"

    @property
    def extra_count(self) -> int:
        """Return how many more swap points than true episodes there are, run by run."""
        return sum(max(len(r.points) - len(r.episodes), 0) for r in self.readings)


def table(scores: Sequence[Score], first: str) -> str:
    """Return scores as a Markdown table."""
    lines = [
        f"| {first} | runs | true | found | points | false | inside error bar | median error | classes |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for score in scores:
        found = score.wanted_count - sum(len(reading.missed) for reading in score.readings)
        false = sum(len(reading.false_points) for reading in score.readings)
        median = "-" if score.median_error_s is None else f"{score.median_error_s:.2f} s"
        inside = f"{score.inside_ratio:.0%}" if score.median_error_s is not None else "-"
        lines.append(
            f"| {score.title} | {len(score.readings)} | {score.wanted_count} | {found} "
            f"| {score.point_count} | {false} | {inside} | {median} | {score.classes} |"
        )
    return "\n".join(lines)


def by_kind(readings: Sequence[Reading]) -> list[Score]:
    """Return the scores of each kind of scenario."""
    kinds = dict.fromkeys(reading.scenario.kind for reading in readings)
    return [Score(kind, tuple(r for r in readings if r.scenario.kind == kind)) for kind in kinds]


def by_mix(readings: Sequence[Reading]) -> list[Score]:
    """Return the scores of each mix of data."""
    mixes = dict.fromkeys(reading.scenario.mix.name for reading in readings)
    return [Score(mix, tuple(r for r in readings if r.scenario.mix.name == mix)) for mix in mixes]


def failures(readings: Sequence[Reading]) -> str:
    """Return one line per failure."""
    lines = []
    for reading in readings:
        name = f"{reading.scenario.number} {reading.scenario.kind}, {reading.scenario.mix.name}"
        lines += [
            f"{name}: missed {e.first_s:.1f}-{e.last_s:.1f} s ({e.action_count})" for e in reading.missed
        ]
        lines += [
            f"{name}: false {p.point_class} at {p.at_s:.1f} s ({p.proof}, {p.l_status})"
            for p in reading.false_points
        ]
        lines += [
            f"{name}: {p.at_s - e.first_s:+.2f} s, error bar {p.error_s:.2f} s ({p.dated_by})"
            for p, e in reading.outside
        ]
    return "\n".join(lines)
