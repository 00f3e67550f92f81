"""int_jump_buckets: seconds whose latency stands out from the half minute before."""

import pytest

from builders_raw import Row, table
from builders_serving import S, model


def bucket(second: int, p50_ms: float | None, max_ms: float | None = None, **values: object) -> Row:
    return {
        "replica_id": "0",
        "origin": "tokens",
        "itl_p50_ms": p50_ms,
        "itl_max_ms": max_ms if max_ms is not None or p50_ms is None else p50_ms,
        "ts_ns": second * S,
        "bucket_ns": S,
        **values,
    }


def calm(count: int = 10, p50_ms: float = 20.0, first: int = 0, **values: object) -> list[Row]:
    return [bucket(first + number, p50_ms, **values) for number in range(count)]


def jumps(*buckets: Row, columns: str = "metric, ts_ns // 1000000000") -> list[tuple[object, ...]]:
    con = model("int_jump_buckets", {}, {"token_latency": buckets})
    return table(con, f"select {columns} from int_jump_buckets order by level, replica_id, ts_ns")


@pytest.mark.parametrize(("p50_ms", "expected"), [(29.9, []), (30.0, [("itl_p50", 10)])])
def test_median_jumps_by_half(p50_ms: float, expected: list[object]) -> None:
    assert jumps(*calm(), bucket(10, p50_ms)) == expected


def test_jump_has_to_leave_the_noise() -> None:
    # Half of the seconds at 20, half at 30 ms: the median is 25, the spread 5, six spreads up is 55.
    noisy = [bucket(number, 20.0 if number % 2 else 30.0) for number in range(10)]
    assert jumps(*noisy, bucket(10, 54.9)) == []
    assert jumps(*noisy, bucket(10, 55.0)) == [("itl_p50", 10)]


@pytest.mark.parametrize(("count", "expected"), [(4, []), (5, [("itl_p50", 5)])])
def test_trailing_window_needs_five_buckets(count: int, expected: list[object]) -> None:
    assert jumps(*calm(count, first=5 - count), bucket(5, 60.0)) == expected


def test_window_looks_back_half_a_minute() -> None:
    assert jumps(*calm(), bucket(35, 60.0)) == [("itl_p50", 35)]
    assert jumps(*calm(), bucket(36, 60.0)) == []


@pytest.mark.parametrize(("max_ms", "expected"), [(299.0, []), (300.0, [("itl_max", 10)])])
def test_tail_jumps_from_a_stall_on(max_ms: float, expected: list[object]) -> None:
    assert jumps(*calm(), bucket(10, 20.0, max_ms)) == expected


@pytest.mark.parametrize(("max_ms", "expected"), [(799.0, []), (800.0, [("itl_max", 10)])])
def test_tail_jumps_fourfold(max_ms: float, expected: list[object]) -> None:
    usual = [bucket(number, 20.0, 200.0) for number in range(10)]
    assert jumps(*usual, bucket(10, 20.0, max_ms)) == expected


def test_size_in_spreads_at_least_two_percent_of_the_median() -> None:
    assert jumps(*calm(), bucket(10, 40.0), columns="before_ms, value_ms, size_mads") == [
        (20.0, 40.0, pytest.approx(50.0))
    ]


def test_tail_jump_has_no_size_in_spreads() -> None:
    assert jumps(*calm(), bucket(10, 20.0, 500.0), columns="before_ms, value_ms, size_mads") == [
        (20.0, 500.0, None)
    ]


def test_slow_growth_is_no_jump() -> None:
    assert jumps(*[bucket(second, 15.0 * 1.01**second) for second in range(60)]) == []


def test_seconds_without_latency_are_passed_over() -> None:
    assert jumps(*calm(), bucket(10, None), bucket(11, 60.0)) == [("itl_p50", 11)]


def test_sources_of_latency_are_not_compared_with_each_other() -> None:
    assert jumps(*calm(origin="iterations"), bucket(10, 60.0)) == []


def test_levels_and_replicas_are_not_compared_with_each_other() -> None:
    assert jumps(*calm(level="c8"), bucket(10, 60.0, level="c16")) == []
    assert jumps(*calm(), bucket(10, 60.0, replica_id="1")) == []


def test_growth_since_the_bucket_before() -> None:
    assert jumps(*calm(), bucket(10, 35.0), bucket(11, 60.0), columns="rise_ms") == [(15.0,), (25.0,)]
    assert jumps(*calm(), bucket(14, 60.0), columns="rise_ms") == [(40.0,)]


@pytest.mark.parametrize(("p50_ms", "expected"), [(44.9, []), (45.0, [("itl_p50", 10)])])
def test_the_next_bound_of_a_histogram_is_no_jump(p50_ms: float, expected: list[object]) -> None:
    calm_bounds = calm(origin="histogram")
    assert jumps(*calm_bounds, bucket(10, p50_ms, origin="histogram")) == expected
