"""int_jump_spans: neighbouring seconds that stand out, as one jump."""

import pytest

from builders_raw import Row, table
from builders_serving import S, model


def bucket(second: int, value_ms: float = 60.0, metric: str = "itl_p50", **values: object) -> Row:
    return {
        "replica_id": "0",
        "metric": metric,
        "value_ms": value_ms,
        "before_ms": 20.0,
        "size_mads": 50.0 if metric == "itl_p50" else None,
        "ts_ns": second * S,
        "bucket_ns": S,
        **values,
    }


def spans(
    *buckets: Row, columns: str = "at_ns // 1000000000, end_ns // 1000000000"
) -> list[tuple[object, ...]]:
    con = model("int_jump_spans", {}, {"int_jump_buckets": buckets})
    return table(con, f"select {columns} from int_jump_spans order by level, replica_id, jump_no")


@pytest.mark.parametrize(("second", "expected"), [(13, [(10, 14)]), (14, [(10, 11), (14, 15)])])
def test_jumps_within_three_seconds_are_one(second: int, expected: list[object]) -> None:
    assert spans(bucket(10), bucket(second)) == expected


def test_jump_in_which_the_median_rose_is_named_after_it() -> None:
    rows = spans(
        bucket(10, 900.0, "itl_max"),
        bucket(11, 50.0, before_ms=21.0),
        bucket(12, 70.0),
        columns="metric, before_ms, after_ms",
    )
    assert rows == [("itl_p50", 21.0, 70.0)]


def test_jump_of_the_tail_alone() -> None:
    rows = spans(
        bucket(10, 900.0, "itl_max"), bucket(11, 500.0, "itl_max"), columns="metric, after_ms, size_mads"
    )
    assert rows == [("itl_max", 900.0, None)]


def test_jumps_are_numbered_for_each_replica() -> None:
    rows = spans(bucket(10), bucket(30), bucket(11, replica_id="1"), columns="replica_id, jump_no")
    assert rows == [("0", 1), ("0", 2), ("1", 1)]


def test_levels_stay_apart() -> None:
    assert len(spans(bucket(10, level="c8"), bucket(11, level="c16"))) == 2


@pytest.mark.parametrize(("rise_ms", "expected"), [(20.0, True), (19.9, False), (None, True)])
def test_a_jump_is_abrupt_when_half_of_it_came_at_once(rise_ms: float | None, expected: bool) -> None:
    rows = spans(bucket(10, 40.0, rise_ms=rise_ms), bucket(11, 60.0, rise_ms=15.0), columns="is_abrupt")
    assert rows == [(expected,)]


def test_a_jump_peaks_at_the_end_of_its_highest_bucket() -> None:
    rows = spans(bucket(10, 40.0), bucket(11, 60.0), bucket(12, 50.0), columns="peak_ns // 1000000000")
    assert rows == [(12,)]
