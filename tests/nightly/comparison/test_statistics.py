"""Statistics of the comparison: noise inside a run, between runs, and what a change means against both."""

import math
import random

import pytest

from kvcliff.nightly.comparison.statistics import (
    GROUPS,
    Estimate,
    Spread,
    baseline_spread,
    change_between,
    count_deviation,
    interleaved_groups,
    median,
    sampling_sd,
    share_deviation,
    window_ns,
)

S = 1_000_000_000


def test_windows_are_a_24th_of_the_run_and_never_below_a_second() -> None:
    assert window_ns(0, 240 * S) == 10 * S
    assert window_ns(0, 12 * S) == S
    assert window_ns(5, 5) == S


def test_windows_are_dealt_forth_and_back_so_that_every_group_spans_the_run() -> None:
    groups = interleaved_groups([second * S for second in range(24)])
    assert len(groups) == GROUPS
    assert groups[0] == [0, 11, 12, 23]
    assert groups[5] == [5, 6, 17, 18]


def test_values_of_one_window_stay_together() -> None:
    times = [second * S + part for second in range(24) for part in (0, S // 2)]
    assert interleaved_groups(times)[0] == [0, 1, 22, 23, 24, 25, 46, 47]


@pytest.mark.parametrize(("seconds", "count"), [(12, GROUPS), (11, 0), (0, 0)])
def test_a_run_with_fewer_than_two_windows_a_group_has_none(seconds: int, count: int) -> None:
    assert len(interleaved_groups([second * S for second in range(seconds)])) == count


def test_sampling_noise_is_that_of_the_mean_of_the_groups() -> None:
    # Standard deviation of 9, 10, 11, 9, 10, 11 is 0.894; of their mean 0.365 or 3.65 %.
    assert sampling_sd([9, 10, 11, 9, 10, 11]) == pytest.approx(0.0365, abs=1e-4)
    assert sampling_sd([10.0] * 6) == 0
    assert sampling_sd([9, 11, 10]) == 0


def test_a_ramp_is_no_noise_inside_the_run() -> None:
    values = [10.0 + second for second in range(120)]
    groups = interleaved_groups([second * S for second in range(120)])
    ramp = sampling_sd([median([values[place] for place in group]) for group in groups])
    shuffled = values[:]
    random.Random(1).shuffle(shuffled)
    noise = sampling_sd([median([shuffled[place] for place in group]) for group in groups])
    assert ramp < 0.015
    assert noise > 0.03


def test_one_run_has_the_built_in_noise() -> None:
    assert baseline_spread([1.0], 0.02, 6) == Spread(0.02, None, 1)


def test_runs_of_the_baseline_move_the_noise_by_their_number() -> None:
    logs = [0.0, 0.1, 0.2]
    spread = baseline_spread(logs, 0.02, 6)
    assert spread.measured_sd == pytest.approx(0.1)
    assert spread.sd == pytest.approx(math.sqrt((6 * 0.02**2 + 2 * 0.1**2) / 8))
    assert baseline_spread([0.0, 0.0], 0.02, 6).sd == pytest.approx(0.02 * math.sqrt(6 / 7))


def test_change_of_one_run_against_one() -> None:
    change = change_between([Estimate(10.0)], Estimate(11.0), Spread(0.02, None, 1), alarm_sds=3)
    assert change.ratio == pytest.approx(0.1)
    assert change.sd == pytest.approx(0.02 * math.sqrt(2))
    assert change.visible == pytest.approx(3 * 0.02 * math.sqrt(2))


def test_more_baseline_runs_see_smaller_changes() -> None:
    spread = Spread(0.02, 0.02, 2)
    visible = [
        change_between([Estimate(10.0)] * count, Estimate(11.0), spread, alarm_sds=3).visible
        for count in (1, 2, 3, 10)
    ]
    assert visible == sorted(visible, reverse=True)
    assert visible[1] == pytest.approx(3 * 0.02 * math.sqrt(1.5))
    assert visible[2] == pytest.approx(3 * 0.02 * math.sqrt(1.44), rel=1e-3)


def test_noise_inside_a_run_counts_when_it_is_the_larger_one() -> None:
    spread = Spread(0.02, None, 1)
    calm = change_between([Estimate(10.0, 0.01)], Estimate(11.0, 0.019), spread, alarm_sds=3)
    noisy = change_between([Estimate(10.0, 0.01)], Estimate(11.0, 0.05), spread, alarm_sds=3)
    assert calm.sd == pytest.approx(0.02 * math.sqrt(2))
    assert noisy.sd == pytest.approx(math.sqrt(0.05**2 + 0.02**2))


def test_one_outlier_does_not_move_a_baseline_of_three() -> None:
    base = [Estimate(10.0), Estimate(10.1), Estimate(20.0)]
    change = change_between(base, Estimate(10.1), Spread(0.02, None, 3), alarm_sds=3)
    assert change.size == pytest.approx(0)


def test_counts_differ_by_more_than_chance() -> None:
    assert abs(count_deviation([Estimate(40)], Estimate(42), 0.1)[0]) < 1
    assert count_deviation([Estimate(0)], Estimate(9), 0.1)[0] > 3
    assert count_deviation([Estimate(9)], Estimate(0), 0.1)[0] < -3
    assert count_deviation([Estimate(9)], Estimate(1114), 0.1)[0] > 3
    assert abs(count_deviation([Estimate(1600)], Estimate(1700), 0.1)[0]) < 1


def test_counts_are_taken_over_generated_tokens() -> None:
    deviation, expected = count_deviation([Estimate(40, exposure=1000)], Estimate(80, exposure=2000), 0.1)
    assert expected == pytest.approx(80)
    assert deviation == pytest.approx(0)


def test_shares_differ_by_more_than_chance() -> None:
    assert abs(share_deviation(1, 40, 2, 40)) < 1
    assert share_deviation(0, 40, 20, 40) > 3
    assert share_deviation(20, 40, 0, 40) < -3


@pytest.mark.parametrize(("values", "expected"), [([3, 1, 2], 2), ([4, 1, 2, 3], 2.5), ([7], 7)])
def test_median(values: list[float], expected: float) -> None:
    assert median(values) == expected
