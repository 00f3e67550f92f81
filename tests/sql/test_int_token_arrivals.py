"""int_token_arrivals: tokens of measured requests with the gap before each."""

from builders_raw import Row, source
from builders_serving import MS, request_row, rows_of, token_rows

NO_REPLICAS: dict[str, list[Row]] = {"int_client_replicas": []}


def arrivals(
    columns: str, requests: list[Row], tokens: list[Row], replicas: list[Row] | None = None, **raw: list[Row]
) -> list[tuple[object, ...]]:
    return rows_of(
        "int_token_arrivals",
        columns,
        stubs={"int_client_replicas": replicas or []},
        order="source_id, request_no, chunk_no",
        raw_client_requests=requests,
        raw_client_tokens=tokens,
        **raw,
    )


def test_gap_before_each_token_but_the_first() -> None:
    rows = arrivals("chunk_no, gap_ns", [request_row(0, 1, 3)], token_rows(0, [1, 1.02, 1.5]))
    assert rows == [(0, None), (1, 20 * MS), (2, 480 * MS)]


def test_streams_do_not_mix() -> None:
    tokens = [*token_rows(0, [1, 1.02]), *token_rows(1, [1.01, 1.05])]
    rows = arrivals("request_no, gap_ns", [request_row(0, 1, 3), request_row(1, 1, 3)], tokens)
    assert rows == [(0, None), (0, 20 * MS), (1, None), (1, 40 * MS)]


def test_order_is_that_of_the_chunks_not_of_the_rows() -> None:
    rows = arrivals("gap_ns", [request_row(0, 1, 3)], token_rows(0, [1, 1.02, 1.05])[::-1])
    assert rows == [(None,), (20 * MS,), (30 * MS,)]


def test_warmup_is_left_out() -> None:
    assert arrivals("1", [request_row(0, 1, 3, is_warmup=True)], token_rows(0, [1, 2])) == []


def test_replica_of_the_server_when_there_is_one() -> None:
    rows = arrivals("replica_id", [request_row(0, 1, 3)], token_rows(0, [1]), [{"replica_id": "3"}])
    assert rows == [("3",)]


def test_replica_of_the_file_wins() -> None:
    rows = arrivals(
        "replica_id",
        [request_row(0, 1, 3)],
        token_rows(0, [1]),
        [{"replica_id": "?"}],
        sources=[source(3, "a/requests.jsonl", "client", replica="a")],
    )
    assert rows == [("a",)]


def test_without_a_server_the_replica_is_zero() -> None:
    assert arrivals("replica_id", [request_row(0, 1, 3)], token_rows(0, [1])) == [("0",)]
