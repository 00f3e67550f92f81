"""Arrivals of request traces, ready for replay."""

from builders_raw import Row, build, has_documented_columns, is_unique, source, table

S = 1_000_000_000


def arrivals(columns: str, *rows: Row) -> list[tuple[object, ...]]:
    given = {"sources": [source(1, "trace.jsonl", "arrivals")], "raw_request_arrivals": rows}
    con = build("request_arrivals", given)
    assert has_documented_columns(con, "request_arrivals")
    assert is_unique(con, "request_arrivals")
    return table(con, f"select {columns} from request_arrivals order by source_id, arrival_ns, request_no")


def row(number: int, at_s: int, blocks: list[int] | None = None) -> Row:
    return {
        "source_id": 1,
        "request_no": number,
        "arrival_src_ns": at_s * S,
        "input_tokens": 100,
        "output_tokens": 10,
        "block_ids": blocks,
    }


def test_time_counts_from_the_first_arrival_and_the_given_one_is_kept() -> None:
    assert arrivals("request_no, arrival_ns, given_ns, is_failed", row(0, 105), row(1, 100)) == [
        (1, 0, 100 * S, False),
        (0, 5 * S, 105 * S, False),
    ]


def test_blocks_are_known_in_the_order_of_arrival_not_of_the_file() -> None:
    found = arrivals(
        "request_no, block_count, reusable_block_count", row(0, 2, [1, 2]), row(1, 1, [1, 3]), row(2, 3)
    )
    assert found == [(1, 2, 0), (0, 2, 1), (2, None, None)]


def test_own_blocks_are_no_reuse() -> None:
    assert arrivals("reusable_block_count", row(0, 0, [1, 1, 1])) == [(0,)]
