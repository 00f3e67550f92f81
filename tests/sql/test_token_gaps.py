"""The token_gaps mart: long silences inside token streams, and which of them are stalls."""

import pytest

from builders_raw import Row, table
from builders_serving import MS, every, model, ns

STREAM = {"replica_id": "0", "source_id": 3, "request_no": 0, "median_gap_ns": 20 * MS}
REQUEST = {"source_id": 3, "request_no": 0, "request_id": "r0"}


def arrival(second: float, gap_ms: float | None = 20, request_no: int = 0, **values: object) -> Row:
    return {
        "replica_id": "0",
        "source_id": 3,
        "request_no": request_no,
        "chunk_no": round(second * 1000),
        "tokens": 1,
        "gap_ns": None if gap_ms is None else round(gap_ms * MS),
        "ts_ns": ns(second),
        **values,
    }


def gaps(
    *arrivals: Row,
    columns: str = "gap_ms",
    median_ms: float | None = 20,
    pressure: tuple[Row, ...] = (),
) -> list[tuple[object, ...]]:
    stubs = {
        "int_token_arrivals": arrivals,
        "int_token_streams": [
            {
                **STREAM,
                "median_gap_ns": None if median_ms is None else round(median_ms * MS),
                "longest_gap_ns": max(arrival["gap_ns"] or 0 for arrival in arrivals),
            }
        ],
        "int_kv_pressure": pressure,
        "stg_client__requests": [REQUEST],
    }
    con = model("token_gaps", {}, stubs)
    return table(con, f"select {columns} from token_gaps order by start_ns")


def others(*seconds: float, request_no: int = 1) -> list[Row]:
    return [arrival(second, request_no=request_no) for second in seconds]


@pytest.mark.parametrize(("gap_ms", "expected"), [(299.9, []), (300, [(300.0,)])])
def test_gap_is_long_from_three_tenths_of_a_second(gap_ms: float, expected: list[object]) -> None:
    assert gaps(arrival(10, gap_ms)) == expected


@pytest.mark.parametrize(("gap_ms", "expected"), [(599.9, []), (600, [(600.0,)])])
def test_gap_is_long_from_six_median_gaps(gap_ms: float, expected: list[object]) -> None:
    assert gaps(arrival(10, gap_ms), median_ms=100) == expected


def test_gap_with_its_measures() -> None:
    rows = gaps(arrival(10, 1000), columns="request_id, gap_ms, median_itl_ms, gap_ratio, start_ns, end_ns")
    assert rows == [("r0", 1000.0, 20.0, 50.0, ns(9), ns(10))]


# The middle three fifths of a gap from 9 to 10 s are 9.2 to 9.8 s.
@pytest.mark.parametrize(
    ("seconds", "count", "is_stall"),
    [
        ((9.3, 9.5), 2, True),
        ((9.5,), 1, False),
        ((), 0, False),
        ((9.1, 9.2, 9.81, 9.9), 0, False),
        ((9.201, 9.8), 2, True),
    ],
)
def test_gap_is_a_stall_when_others_progress_in_its_middle(
    seconds: tuple[float, ...], count: int, is_stall: bool
) -> None:
    rows = gaps(arrival(10, 1000), *others(*seconds), columns="others_token_count, is_stall")
    assert rows == [(count, is_stall)]


def test_streams_of_another_replica_are_no_others() -> None:
    elsewhere = [arrival(second, request_no=1, replica_id="1") for second in every(0.1, 9, 10)]
    assert gaps(arrival(10, 1000), *elsewhere, columns="is_stall") == [(False,)]


def test_streams_of_another_level_are_no_others() -> None:
    elsewhere = [arrival(second, request_no=1, level="c16") for second in every(0.1, 9, 10)]
    rows = gaps(arrival(10, 1000, level="c8"), *elsewhere, columns="level, is_stall")
    assert rows == [("c8", False)]


def test_tokens_that_arrive_together_all_count() -> None:
    rows = gaps(arrival(10, 1000), *others(9.5), *others(9.5, request_no=2), columns="others_token_count")
    assert rows == [(2,)]


def sample(second: float, kv: float | None) -> Row:
    return {
        "replica_id": "0",
        "source_id": 1,
        "origin": "metrics",
        "kv_rolling_ratio": kv,
        "ts_ns": ns(second),
    }


def test_occupancy_is_that_of_the_last_sample_before_the_gap() -> None:
    samples = (sample(7, 0.5), sample(8.9, 0.97), sample(9.1, 0.2))
    assert gaps(arrival(10, 1000), columns="kv_used_ratio", pressure=samples) == [(0.97,)]


def test_sample_without_occupancy_is_passed_over() -> None:
    samples = (sample(7, 0.5), sample(8.9, None))
    assert gaps(arrival(10, 1000), columns="kv_used_ratio", pressure=samples) == [(0.5,)]


def test_occupancy_is_unknown_before_the_first_sample() -> None:
    assert gaps(arrival(10, 1000), columns="kv_used_ratio", pressure=(sample(9.5, 0.97),)) == [(None,)]


def test_stream_without_a_median_has_no_long_gaps() -> None:
    assert gaps(arrival(10, 1000), median_ms=None) == []
