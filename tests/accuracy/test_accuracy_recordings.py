"""Diagnoses of recorded runs against the truth: `make accuracy` prints the table of README.md."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest

from accuracy.recordings import (
    ROOT,
    WHY_SKIPPED,
    Recording,
    all_files,
    log_alone,
    memory_gap,
    scrapes_alone,
    scrapes_thinned,
    statistics_alone,
    vllm_cpu,
    without_counter,
)
from accuracy.score import Score, details, score, table
from kvcliff.store.ingest import stage_run
from kvcliff.store.plan import plan_run

pytestmark = [pytest.mark.accuracy, pytest.mark.skipif(not ROOT.is_dir(), reason=WHY_SKIPPED)]


@dataclass(frozen=True)
class Scenario:
    """Recordings, what of them is read, and what is asked of the result.

    Attributes:
        title: name in the table.
        recordings: the runs.
        cut: what leaves out some of their files.
        tolerance_s: time within which a swap point has to be found.
        is_timely: whether every swap point has to be found within it.
        classes: what a first swap point may be called.
        least_found: in how many runs a swap point has to be found, when the files cannot show all.
    """

    title: str
    recordings: Callable[[], tuple[Recording, ...]]
    cut: Callable[[Path, Path], Path]
    tolerance_s: float
    is_timely: bool
    classes: frozenset[str]
    least_found: int = 6


#: Quiet time that ends an episode where samples are closer than a third of it.
EPISODE_GAP_NS = 10 * 10**9
HARM_UNKNOWN = frozenset({"probable / not_measurable"})
HARM_MEASURED = frozenset({"confirmed / worse"})
#: The histogram needs a calm baseline, which the ramp of `clients` does not leave.
HARM_BY_HISTOGRAM = HARM_MEASURED | HARM_UNKNOWN
SCENARIOS = (
    Scenario("memory_gap, all files", memory_gap, all_files, 2, True, HARM_UNKNOWN),
    Scenario("memory_gap, counter and warnings masked", memory_gap, without_counter, 2, True, HARM_UNKNOWN),
    Scenario("vllm_cpu, all files", vllm_cpu, all_files, 1, True, HARM_MEASURED),
    Scenario("vllm_cpu, log alone", vllm_cpu, log_alone, 1, False, HARM_UNKNOWN),
    Scenario("vllm_cpu, statistics lines (1 s)", vllm_cpu, statistics_alone(1), 1, False, HARM_UNKNOWN),
    Scenario(
        "vllm_cpu, statistics lines (10 s)",
        vllm_cpu,
        statistics_alone(10),
        1,
        False,
        HARM_UNKNOWN,
        # Nothing counts what finished: a run with fewer than three flips between 10 s lines stays open.
        least_found=0,
    ),
    Scenario("vllm_cpu, scrapes alone (0.2 s)", vllm_cpu, scrapes_alone, 1, False, HARM_BY_HISTOGRAM),
    Scenario("vllm_cpu, every 5th scrape (1 s)", vllm_cpu, scrapes_thinned(5), 1, False, HARM_BY_HISTOGRAM),
    Scenario("vllm_cpu, every 25th scrape (5 s)", vllm_cpu, scrapes_thinned(25), 1, False, HARM_BY_HISTOGRAM),
)


@pytest.fixture(scope="module")
def finished() -> Iterator[list[Score]]:
    """Collect the scores and print them as one table in the end."""
    scores: list[Score] = []
    yield scores
    print(f"\n\n{table(scores)}")


@pytest.fixture(scope="module", params=SCENARIOS, ids=lambda scenario: scenario.title)
def scored(request: pytest.FixtureRequest, finished: list[Score]) -> tuple[Scenario, Score]:
    """Return a scenario and its score."""
    scenario: Scenario = request.param
    result = score(scenario.title, scenario.recordings(), scenario.cut, tolerance_s=scenario.tolerance_s)
    finished.append(result)
    print(f"\n{scenario.title}\n{details(result)}")
    return scenario, result


Scored = tuple[Scenario, Score]


def test_every_run_was_read(scored: Scored) -> None:
    scenario, result = scored
    counts = (len(result.positives), result.quiet_count)
    assert counts == ((6, 23) if scenario.recordings is memory_gap else (6, 13))


def test_every_swap_point_is_found(scored: Scored) -> None:
    scenario, result = scored
    assert len(result.found) >= min(len(result.positives), scenario.least_found)
    if scenario.is_timely:
        assert len(result.in_time) == len(result.positives)


def test_true_time_lies_in_the_error_bar(scored: Scored) -> None:
    _, result = scored
    assert len(result.inside_error) == len(result.found)


def test_no_false_alarm(scored: Scored) -> None:
    _, result = scored
    assert [reading.recording.name for reading in result.false_alarms] == []


def test_one_storm_is_not_many_swap_points(scored: Scored) -> None:
    _, result = scored
    assert result.most_points <= 3


def test_class_says_what_can_be_known(scored: Scored) -> None:
    scenario, result = scored
    firsts = {f"{r.points[0].point_class} / {r.points[0].l_status}" for r in result.found}
    assert firsts <= scenario.classes


def test_clocks_are_tied_within_their_bounds(scored: Scored) -> None:
    scenario, result = scored
    fitting, known = result.clocks
    assert fitting == known
    if scenario.recordings is memory_gap:
        assert known == 29


@pytest.mark.parametrize("run", [run for run in vllm_cpu() if not run.is_quiet] if ROOT.is_dir() else [])
def test_episodes_are_as_many_as_in_truth(run: Recording) -> None:
    times = run.preemptions_ns
    true_count = 1 + sum(later - at > EPISODE_GAP_NS for at, later in pairwise(times))
    with duckdb.connect() as con:
        stage_run(con, plan_run(run.folder))
        found = con.execute(
            "select class, count(*), sum(action_count) from swap_points group by class"
        ).fetchall()
    ((point_class, count, action_count),) = found
    # One or two preemptions without harm are told, and no alarm.
    assert point_class == ("confirmed" if run.is_scored else "pressure")
    assert abs(count - true_count) <= 1
    assert abs(action_count - len(times)) <= max(2, 0.02 * len(times))
