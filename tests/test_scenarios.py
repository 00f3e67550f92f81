"""A few simulated runs against their truth, one of each kind (hundreds of them: make accuracy)."""

import random

import pytest

from accuracy.engine_sim import Arrival, Engine, simulate
from accuracy.scenario_score import Models, Reading, Score, failures, true_episodes
from accuracy.scenarios import KINDS, scenario, scenarios


@pytest.fixture(scope="module")
def readings() -> list[Reading]:
    """Return the readings of one scenario of each kind."""
    models = Models()
    return [models.read(item) for item in scenarios(len(KINDS))]


def test_scenarios_with_and_without_swap_points_are_told_apart(readings: list[Reading]) -> None:
    score = Score("all", tuple(readings))
    assert score.wanted_count >= 10
    assert not any(reading.missed or reading.false_points for reading in readings), failures(readings)


def test_error_bars_hold_the_truth(readings: list[Reading]) -> None:
    assert sum(len(reading.outside) for reading in readings) <= 1, failures(readings)


def test_quiet_kinds_have_nothing_to_find() -> None:
    quiet = [item for item in scenarios(len(KINDS)) if item.kind.startswith("quiet")]
    assert quiet
    assert not any(episode.is_harmful for item in quiet for episode in true_episodes(item))


def test_a_scenario_follows_from_its_number() -> None:
    assert scenario(3) == scenario(3)


def test_the_last_request_pays_when_the_first_one_grows() -> None:
    engine = Engine(block_count=8, step_s=0.1, decode_s=0, prefill_s=0, noise_ratio=0)
    arrivals = [Arrival(0.0, 60, 40), Arrival(0.0, 60, 40)]
    history = simulate(engine, arrivals, random.Random(0), end_s=20)
    (event,) = history.preemptions
    # Both hold four blocks; the 65th token of the first one needs a fifth.
    assert event.request_no == 1
    assert [request.generated_tokens for request in history.requests] == [40, 40]
    counters = [step.preemptions for step in history.steps]
    seconds = history.requests[1].token_seconds
    resumed = next(second for second in seconds if second > event.second + 0.5)
    assert next(step.end_s for step in history.steps if step.preemptions) == pytest.approx(resumed)
    assert counters[-1] == 1


def test_an_engine_that_reserves_preempts_nothing() -> None:
    engine = Engine(block_count=8, mode="reserve")
    history = simulate(engine, [Arrival(0.0, 60, 40), Arrival(0.0, 60, 40)], random.Random(0), end_s=20)
    assert history.preemptions == ()
    assert max(step.waiting for step in history.steps) == 1
