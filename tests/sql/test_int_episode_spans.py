"""int_episode_spans: when an episode began, acted and ended."""

from builders_raw import Row, Rows, table
from builders_serving import MS, S, model, ns

EPISODE = {
    "replica_id": "0",
    "episode_no": 1,
    "e_proof": "counter",
    "first_mark_ns": 20 * S,
    "last_mark_ns": 30 * S,
}
DATE = {"replica_id": "0", "episode_no": 1, "dated_by": "flip", "at_ns": 19 * S, "error_ns": S}
PERIOD = {"replica_id": "0", "start_ns": 12 * S, "end_ns": 33 * S}


def sample(second: float, kv: float = 0.97, *, number: int = 0, **values: object) -> Row:
    return {
        "replica_id": "0",
        "source_id": 1,
        "origin": "metrics",
        "sample_no": number or int(second),
        "kv_rolling_ratio": kv,
        "kv_footprint_ratio": 0.1,
        "is_pressure": kv >= 0.9,
        "is_blocked": False,
        "ts_ns": ns(second),
        "previous_ts_ns": ns(second - 1),
        "interval_ns": S,
        "uncertainty_ns": 0,
        **values,
    }


def spans(
    columns: str,
    *,
    episodes: Rows = (EPISODE,),
    dates: Rows = (DATE,),
    periods: Rows = (PERIOD,),
    samples: Rows = (),
) -> list[tuple[object, ...]]:
    stubs = {
        "int_episodes": episodes,
        "int_episode_dates": dates,
        "int_pressure_periods": periods,
        "int_kv_pressure": samples,
    }
    con = model("int_episode_spans", {}, stubs)
    return table(con, f"select {columns} from int_episode_spans order by level, replica_id, episode_no")


def test_date_pressure_and_end() -> None:
    rows = spans("at_ns, error_ns, dated_by, pressure_at_ns, end_ns")
    assert rows == [(19 * S, S, "flip", 12 * S, 30 * S)]


def test_blocked_episode_begins_at_its_first_mark_within_a_sample() -> None:
    rows = spans(
        "at_ns, error_ns, dated_by",
        dates=(),
        samples=[sample(20, interval_ns=5 * S, uncertainty_ns=40 * MS)],
    )
    assert rows == [(20 * S, 5 * S + 40 * MS, "blocked")]


def test_pressure_never_begins_after_the_action() -> None:
    late = {**PERIOD, "start_ns": ns(19.5)}
    assert spans("pressure_at_ns", periods=[late]) == [(19 * S,)]


def test_pressure_begins_at_the_last_period_before_the_first_mark() -> None:
    periods = [
        {**PERIOD, "start_ns": 2 * S, "end_ns": 5 * S},
        PERIOD,
        {**PERIOD, "start_ns": 40 * S, "end_ns": 50 * S},
    ]
    assert spans("pressure_at_ns", periods=periods) == [(12 * S,)]


def test_second_episode_of_a_period_begins_after_the_first() -> None:
    second = {**EPISODE, "episode_no": 2, "first_mark_ns": 50 * S, "last_mark_ns": 60 * S}
    date = {**DATE, "episode_no": 2, "at_ns": 49 * S}
    long_period = {**PERIOD, "end_ns": 70 * S}
    rows = spans("pressure_at_ns", episodes=[EPISODE, second], dates=[DATE, date], periods=[long_period])
    assert rows == [(12 * S,), (30 * S,)]


def test_action_after_the_last_mark_extends_the_end() -> None:
    assert spans("end_ns", dates=[{**DATE, "at_ns": 31 * S}]) == [(31 * S,)]


def test_recovery_is_the_first_sample_without_pressure_after_the_end() -> None:
    samples = [sample(25, 0.5), sample(30, 0.5), sample(31), sample(32, 0.6), sample(33, 0.5)]
    assert spans("recovered_at_ns", samples=samples) == [(32 * S,)]


def test_data_that_ends_before_recovery_leaves_it_open() -> None:
    assert spans("recovered_at_ns", samples=[sample(25), sample(31)]) == [(None,)]


def test_occupancy_is_that_of_the_sample_nearest_to_the_action() -> None:
    samples = [sample(17, 0.91), sample(18.9, 0.95, number=2), sample(19.2, 0.99, number=3)]
    assert spans("kv_used_ratio, kv_footprint_ratio", samples=samples) == [(0.95, 0.1)]


def test_samples_without_occupancy_are_passed_over() -> None:
    empty = sample(19, 0.5, kv_rolling_ratio=None, is_pressure=False)
    assert spans("kv_used_ratio", samples=[empty, sample(17, 0.93)]) == [(0.93,)]


def test_blocked_time_is_the_time_of_blocked_samples() -> None:
    samples = [sample(second, is_blocked=second in (21, 22, 25)) for second in range(20, 31)]
    assert spans("blocked_s", samples=samples) == [(3.0,)]


def test_hole_in_the_scrapes_counts_three_intervals_at_most() -> None:
    assert spans("blocked_s", samples=[sample(28, is_blocked=True, previous_ts_ns=15 * S)]) == [(3.0,)]


def test_two_sources_do_not_add_their_blocked_time() -> None:
    samples = [
        *[sample(second, is_blocked=True) for second in (21, 22)],
        *[sample(second, is_blocked=True, source_id=2, origin="log") for second in (21, 22, 23)],
    ]
    assert spans("blocked_s", samples=samples) == [(3.0,)]


def test_blocked_samples_outside_the_episode_do_not_count() -> None:
    assert spans("blocked_s", samples=[sample(19, is_blocked=True), sample(31, is_blocked=True)]) == [(0.0,)]


def test_replicas_and_levels_stay_apart() -> None:
    episodes = [EPISODE, {**EPISODE, "replica_id": "1"}, {**EPISODE, "level": "c8"}]
    rows = spans("level, replica_id, dated_by, pressure_at_ns", episodes=episodes)
    assert sorted(rows, key=str) == [
        ("c8", "0", "blocked", 20 * S),
        (None, "0", "flip", 12 * S),
        (None, "1", "blocked", 20 * S),
    ]
