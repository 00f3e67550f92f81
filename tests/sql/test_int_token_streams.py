"""int_token_streams: each token stream as a whole."""

from builders_raw import Row, table
from builders_serving import MS, S, model


def arrival(chunk_no: int, gap_ms: float | None, request_no: int = 0) -> Row:
    return {
        "replica_id": "0",
        "source_id": 3,
        "request_no": request_no,
        "chunk_no": chunk_no,
        "tokens": 1,
        "gap_ns": None if gap_ms is None else round(gap_ms * MS),
        "ts_ns": S + chunk_no,
    }


def streams(columns: str, *arrivals: Row) -> list[tuple[object, ...]]:
    con = model("int_token_streams", {}, {"int_token_arrivals": arrivals})
    return table(con, f"select {columns} from int_token_streams order by request_no")


def test_median_and_longest_gap() -> None:
    gaps = [None, 10, 20, 900]
    rows = streams(
        "chunk_count, median_gap_ns, longest_gap_ns", *[arrival(n, gap) for n, gap in enumerate(gaps)]
    )
    assert rows == [(4, 20 * MS, 900 * MS)]


def test_chunks_less_than_a_tenth_of_a_millisecond_apart_came_together() -> None:
    assert streams(
        "zero_gap_count", arrival(0, None), arrival(1, 0.0999), arrival(2, 0.1), arrival(3, 0)
    ) == [(2,)]


def test_single_token_has_no_gap() -> None:
    rows = streams(
        "chunk_count, zero_gap_count, median_gap_ns, longest_gap_ns, first_ns, last_ns", arrival(0, None)
    )
    assert rows == [(1, 0, None, None, S, S)]


def test_one_row_for_each_request() -> None:
    rows = streams("request_no, chunk_count", arrival(0, None), arrival(0, None, 1), arrival(1, 5, 1))
    assert rows == [(0, 1), (1, 2)]
