"""int_pressure_periods: spans under KV pressure, from all sources together."""

from builders_raw import Row, table
from builders_serving import S, model, ns


def sample(
    second: float, *, previous: float | None = None, is_pressure: bool = True, **values: object
) -> Row:
    return {
        "replica_id": "0",
        "source_id": 1,
        "origin": "metrics",
        "is_pressure": is_pressure,
        "ts_ns": ns(second),
        "previous_ts_ns": None if previous is None else ns(previous),
        "interval_ns": S,
        **values,
    }


def periods(*samples: Row) -> list[tuple[object, ...]]:
    con = model("int_pressure_periods", {}, {"int_kv_pressure": list(samples)})
    columns = "replica_id, start_ns / 1e9, end_ns / 1e9"
    return table(con, f"select {columns} from int_pressure_periods order by level, replica_id, start_ns")


def test_period_reaches_from_the_sample_before_to_the_window_after() -> None:
    assert periods(sample(10, previous=9)) == [("0", 9.0, 12.0)]


def test_neighbouring_samples_are_one_period() -> None:
    assert periods(sample(10, previous=9), sample(11, previous=10), sample(12, previous=11)) == [
        ("0", 9.0, 14.0)
    ]


def test_samples_without_pressure_are_not_in_it() -> None:
    assert periods(sample(10, previous=9, is_pressure=False)) == []


def test_long_holes_are_not_all_pressure() -> None:
    # A hole of a minute before the sample: at most the window of four seconds counts.
    assert periods(sample(100, previous=40)) == [("0", 96.0, 102.0)]


def test_coarse_samples_reach_three_intervals_back() -> None:
    assert periods(sample(100, previous=40, interval_ns=5 * S)) == [("0", 85.0, 105.0)]


def test_first_sample_begins_at_itself() -> None:
    assert periods(sample(10)) == [("0", 10.0, 12.0)]


def test_periods_apart_stay_apart_and_touching_ones_join() -> None:
    assert periods(sample(10, previous=9), sample(13, previous=12), sample(20, previous=19)) == [
        ("0", 9.0, 15.0),
        ("0", 19.0, 22.0),
    ]


def test_sources_are_joined_and_replicas_are_not() -> None:
    rows = periods(
        sample(10, previous=9),
        sample(12, previous=11.5, source_id=2, origin="log"),
        sample(11, previous=10, replica_id="1"),
    )
    assert rows == [("0", 9.0, 14.0), ("1", 10.0, 13.0)]


def test_levels_are_not_joined() -> None:
    rows = periods(sample(10, previous=9, level="c8"), sample(11, previous=10, level="c16"))
    assert rows == [("0", 10.0, 13.0), ("0", 9.0, 12.0)]
