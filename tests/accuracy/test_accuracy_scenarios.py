"""Simulated runs against their truth: `make accuracy` prints the tables of README.md."""

import pytest

from accuracy.scenario_score import Models, Reading, Score, by_kind, by_mix, failures, table
from accuracy.scenarios import scenarios

pytestmark = pytest.mark.accuracy

COUNT = 528


@pytest.fixture(scope="module")
def readings() -> list[Reading]:
    """Return the readings of all scenarios, and print what they say."""
    models = Models()
    found = [models.read(scenario) for scenario in scenarios(COUNT)]
    groups = [Score("all", tuple(found)), _fine(found), _coarse(found)]
    print(f"\n\n{table(groups, 'data')}\n\n{table(by_mix(found), 'data')}\n\n{table(by_kind(found), 'kind')}")
    print(f"\n{failures(found)}")
    return found


def _fine(readings: list[Reading]) -> Score:
    return Score(
        "preemptions or finished requests counted, or every step or action recorded",
        tuple(reading for reading in readings if reading.scenario.is_fine),
    )


def _coarse(readings: list[Reading]) -> Score:
    return Score(
        "gauges without any count",
        tuple(reading for reading in readings if not reading.scenario.is_fine),
    )


def test_swap_points_are_true(readings: list[Reading]) -> None:
    assert Score("all", tuple(readings)).precision >= 0.99
    # Gauges alone cannot always tell the end of a request from a preemption.
    assert _coarse(readings).precision >= 0.95


def test_true_episodes_are_found(readings: list[Reading]) -> None:
    score = Score("all", tuple(readings))
    assert score.wanted_count >= 250
    assert score.recall >= 0.95
    assert _fine(readings).recall >= 0.98


def test_error_bars_hold(readings: list[Reading]) -> None:
    assert Score("all", tuple(readings)).inside_ratio >= 0.95
    assert _coarse(readings).inside_ratio >= 0.9


def test_median_error_is_below_the_sampling_interval(readings: list[Reading]) -> None:
    for score in by_mix(readings):
        mix = score.readings[0].scenario.mix
        interval = min(distance for distance in (mix.scrape_s, mix.stats_s) if distance is not None)
        assert score.median_error_s is not None
        assert score.median_error_s <= interval, mix.name
