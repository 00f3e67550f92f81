import random

from kvcliff.nightly.change_points import LevelChange, Limits, Point, level_changes

S = 1_000_000_000
LIMITS = Limits(minimum=0.0, minimum_ratio=0.2, hold_ns=3 * S, noise_sds=2.0, chance=0.01)


def series(*levels: tuple[float, int], seed: int = 1, noise: float = 0.05) -> tuple[Point, ...]:
    """Return one value a second: of each level its length, with noise as a share of its value."""
    draw = random.Random(seed)
    values = [value * (1 + draw.gauss(0, noise)) for value, count in levels for _ in range(count)]
    return tuple(Point(number * S, value) for number, value in enumerate(values))


def test_a_step_is_dated_to_its_first_point() -> None:
    (change,) = level_changes(series((10, 30), (15, 40)), LIMITS)
    assert (change.at_ns, change.error_ns) == (30 * S, S)
    assert abs(change.before - 10) < 0.5
    assert abs(change.after - 15) < 0.5


def test_a_hole_widens_the_error() -> None:
    points = series((10, 30), (15, 40))
    (change,) = level_changes(points[:25] + points[33:], LIMITS)
    assert (change.at_ns, change.error_ns) == (33 * S, 9 * S)


def test_several_levels_in_order_of_time() -> None:
    changes = level_changes(series((10, 30), (30, 30), (10, 30)), LIMITS)
    assert [change.at_ns // S for change in changes] == [30, 60]
    assert [change.after > change.before for change in changes] == [True, False]


def test_a_small_a_short_and_an_unsure_change_are_none() -> None:
    assert level_changes(series((10, 30), (11.5, 40)), LIMITS) == ()
    assert level_changes(series((10, 30), (40, 2), (10, 30)), LIMITS) == ()
    assert level_changes(series((10, 30), (13, 30), noise=0.6), LIMITS) == ()
    assert level_changes(series((10, 5), (15, 4)), LIMITS) == ()
    absolute = Limits(6.0, 0.2, 3 * S, 2.0, 0.01)
    assert level_changes(series((10, 30), (15, 40)), absolute) == ()


def test_nothing_in_nothing() -> None:
    assert level_changes((), LIMITS) == ()
    assert level_changes(series((10, 1)), LIMITS) == ()
    assert level_changes(series((0, 50)), LIMITS) == ()


def test_zero_to_something_counts() -> None:
    (change,) = level_changes(series((0, 30), (8, 30)), LIMITS)
    assert change == LevelChange(30 * S, S, 0.0, change.after)


def test_false_alarms_are_rare() -> None:
    """Independent noise, and noise in which neighbours resemble each other, around one level."""
    alarms = {0.0: 0, 0.5: 0}
    for follows in alarms:
        for seed in range(200):
            draw = random.Random(seed)
            values, last = [], 0.0
            for _ in range(80):
                last = follows * last + draw.gauss(0, 1)
                values.append(20 + 4 * last)
            points = tuple(Point(number * S, value) for number, value in enumerate(values))
            alarms[follows] += bool(level_changes(points, LIMITS))
    assert alarms[0.0] == 0
    assert alarms[0.5] <= 4


def test_the_order_of_equal_values_does_not_matter() -> None:
    points = tuple(Point(number * S, float(number // 25)) for number in range(50))
    (change,) = level_changes(points, LIMITS)
    assert (change.at_ns, change.before, change.after) == (25 * S, 0.0, 1.0)
