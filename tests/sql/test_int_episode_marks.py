"""int_episode_marks: actions and blocked samples, numbered by episode."""

import pytest

from builders_raw import Row, Rows, table
from builders_serving import MS, S, model, ns


def action(action_no: int, second: float, proof: str = "log", source_id: int = 2, **values: object) -> Row:
    return {
        "action_no": action_no,
        "replica_id": "0",
        "source_id": source_id,
        "proof": proof,
        "mark_ns": ns(second),
        **values,
    }


def blocked(second: float, interval_s: float = 1, **values: object) -> Row:
    return {
        "replica_id": "0",
        "source_id": 1,
        "origin": "metrics",
        "is_blocked": True,
        "ts_ns": ns(second),
        "interval_ns": ns(interval_s),
        **values,
    }


def idle(second: float, uncertainty_ms: int = 0, origin: str = "metrics", **values: object) -> Row:
    return {
        "replica_id": "0",
        "source_id": 1,
        "origin": origin,
        "running_count": 0.0,
        "ts_ns": ns(second),
        "uncertainty_ns": uncertainty_ms * MS,
        **values,
    }


def episodes(actions: Rows = (), samples: Rows = (), idles: Rows = ()) -> list[int]:
    """Return the episode of each mark in order of time."""
    stubs = {"int_actions_judged": actions, "int_kv_pressure": samples, "int_kv_samples": idles}
    con = model("int_episode_marks", {}, stubs)
    return [
        row[0] for row in table(con, "select episode_no from int_episode_marks order by mark_ns, mark_no")
    ]  # type: ignore[misc]


def test_nothing_makes_no_mark() -> None:
    assert episodes() == []


@pytest.mark.parametrize(("distance_s", "expected"), [(10, [1, 1]), (10.001, [1, 2])])
def test_ten_quiet_seconds_end_an_episode(distance_s: float, expected: list[int]) -> None:
    assert episodes([action(1, 20), action(2, 20 + distance_s)]) == expected


@pytest.mark.parametrize(("distance_s", "expected"), [(12, [1, 1]), (12.001, [1, 2])])
def test_samples_prove_quiet_only_from_the_next_to_the_one_before(
    distance_s: float, expected: list[int]
) -> None:
    # One second apart: of twelve seconds between two blocked samples, ten are seen to be quiet.
    assert episodes(samples=[blocked(20), blocked(20 + distance_s)]) == expected


@pytest.mark.parametrize(("distance_s", "expected"), [(25, [1, 1]), (25.001, [1, 2])])
def test_coarse_samples_need_three_quiet_intervals(distance_s: float, expected: list[int]) -> None:
    assert episodes(samples=[blocked(20, 5), blocked(20 + distance_s, 5)]) == expected


def test_blocked_admission_keeps_an_episode_alive() -> None:
    assert episodes([action(1, 20), action(2, 40)], [blocked(28), blocked(34)]) == [1, 1, 1, 1]


def test_unblocked_samples_do_not() -> None:
    assert episodes([action(1, 20), action(2, 40)], [blocked(30, is_blocked=False)]) == [1, 2]


def test_gauge_action_has_the_interval_of_its_source() -> None:
    # Scrapes five seconds apart: three intervals of quiet, and one unseen on the sampled side.
    coarse = blocked(0, 5, is_blocked=False)
    flips = [action(1, 20, "gauges", source_id=1), action(2, 45, "gauges", source_id=1)]
    assert episodes(flips, [coarse]) == [1, 1]
    assert episodes(flips, [blocked(0, 1, is_blocked=False)]) == [1, 2]


def test_engine_that_runs_nothing_ends_an_episode() -> None:
    assert episodes([action(1, 20), action(2, 22)], idles=[idle(21)]) == [1, 2]


def test_idle_before_the_first_mark_splits_nothing() -> None:
    assert episodes([action(1, 20), action(2, 22)], idles=[idle(5), idle(19)]) == [1, 1]


def test_running_engine_splits_nothing() -> None:
    assert episodes([action(1, 20), action(2, 22)], idles=[idle(21, running_count=3.0)]) == [1, 1]


@pytest.mark.parametrize(("uncertainty_ms", "expected"), [(999, [1, 2]), (1001, [1, 1])])
def test_idle_counts_after_its_uncertainty(uncertainty_ms: int, expected: list[int]) -> None:
    # A whole-second stamp says that nothing runs at 21 s; the action at 22 s may have come before.
    assert episodes([action(1, 20), action(2, 22)], idles=[idle(21, uncertainty_ms)]) == expected


def test_gaps_between_steps_are_no_idle_engine() -> None:
    assert episodes([action(1, 20), action(2, 22)], idles=[idle(21, origin="iterations")]) == [1, 1]


def test_replicas_have_episodes_of_their_own() -> None:
    rows = [action(1, 20), action(2, 25, replica_id="1"), action(3, 40, replica_id="1")]
    assert episodes(rows) == [1, 1, 2]


def test_levels_have_episodes_of_their_own() -> None:
    assert episodes([action(1, 20, level="c8"), action(2, 21, level="c16")]) == [1, 1]


def test_idle_replica_ends_only_its_own_episode() -> None:
    assert episodes([action(1, 20), action(2, 22)], idles=[idle(21, replica_id="1")]) == [1, 1]


def test_interval_of_the_source_goes_through() -> None:
    stubs: dict[str, Rows] = {
        "int_actions_judged": [],
        "int_kv_pressure": [blocked(5, 2)],
        "int_kv_samples": [],
    }
    con = model("int_episode_marks", {}, stubs)
    assert table(con, "select action_no, mark_ns, interval_ns from int_episode_marks") == [
        (None, 5 * S, 2 * S)
    ]


def test_what_has_no_time_makes_no_mark() -> None:
    assert episodes(samples=[blocked(20), {**blocked(21), "ts_ns": None}]) == [1]
