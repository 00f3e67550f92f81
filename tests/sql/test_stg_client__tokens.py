"""stg_client__tokens: token arrivals on the run clock."""

from builders_serving import S, rows_of, token_rows


def test_times_are_shifted() -> None:
    rows = rows_of(
        "stg_client__tokens",
        "request_no, chunk_no, tokens, ts_ns",
        clocks=[{"source_id": 3, "offset_ns": S, "uncertainty_ns": 0, "method": "stated"}],
        raw_client_tokens=token_rows(4, [1, 1.5]),
    )
    assert rows == [(4, 0, 1, 2 * S), (4, 1, 1, 2_500_000_000)]


def test_stream_that_keeps_only_gaps_has_no_times() -> None:
    rows = rows_of(
        "stg_client__tokens",
        "chunk_no, ts_ns",
        raw_client_tokens=[{"source_id": 3, "request_no": 0, "chunk_no": 0, "gap_ns": 5, "tokens": 1}],
    )
    assert rows == [(0, None)]
