"""int_latency_tokens: latency per second from token arrivals."""

import pytest

from builders_raw import Row, table
from builders_serving import MS, S, model, ns


def arrival(second: float, gap_ms: float | None, tokens: int = 1, **values: object) -> Row:
    return {
        "replica_id": "0",
        "source_id": 3,
        "request_no": 0,
        "tokens": tokens,
        "gap_ns": None if gap_ms is None else round(gap_ms * MS),
        "ts_ns": ns(second),
        **values,
    }


def latency(columns: str, *arrivals: Row) -> list[tuple[object, ...]]:
    con = model("int_latency_tokens", {}, {"int_token_arrivals": arrivals})
    return table(con, f"select {columns} from int_latency_tokens order by replica_id, ts_ns")


def test_quantiles_interpolate_linearly() -> None:
    rows = latency(
        "token_count, itl_p50_ms, itl_p90_ms, itl_p99_ms, itl_max_ms",
        *[arrival(5 + number / 10, gap) for number, gap in enumerate([10, 20, 30, 40, 110])],
    )
    assert rows == [(5, 30.0, pytest.approx(82.0), pytest.approx(107.2), 110.0)]


def test_buckets_are_half_open_seconds() -> None:
    assert latency("ts_ns, token_count", arrival(4.999, 10), arrival(5, 10)) == [(4 * S, 1), (5 * S, 1)]


def test_first_tokens_count_as_tokens_and_have_no_gap() -> None:
    assert latency("token_count, itl_p50_ms, zero_gap_ratio", arrival(5, None)) == [(1, None, None)]


def test_chunks_of_several_tokens() -> None:
    assert latency("token_count", arrival(5, 10, 3), arrival(5.5, 10, 2)) == [(5,)]


def test_share_of_zero_gaps() -> None:
    rows = latency("zero_gap_ratio", arrival(5, None), arrival(5.1, 0), arrival(5.2, 20), arrival(5.3, 0.05))
    assert rows == [(pytest.approx(2 / 3),)]


def test_replicas_and_levels_stay_apart() -> None:
    rows = latency(
        "level, replica_id", arrival(5, 10), arrival(5, 10, replica_id="1"), arrival(5, 10, level="c8")
    )
    assert sorted(rows, key=str) == [("c8", "0"), (None, "0"), (None, "1")]
