"""The summary of request traces: rates, lengths, reusable prefixes."""

import json

import pytest

from builders_metrics import CORPUS, NO_CORPUS
from builders_raw import Row, build, has_documented_columns, is_unique, source, table
from kvcliff.readers.request_traces import READER

S = 1_000_000_000
TRACES = CORPUS / "request_traces"


def arrival(number: int, at_s: float, prompt: int = 100, output: int = 10, **values: object) -> Row:
    return {
        "source_id": 1,
        "request_no": number,
        "arrival_src_ns": round(at_s * S),
        "input_tokens": prompt,
        "output_tokens": output,
        "is_failed": False,
        **values,
    }


def summary(columns: str, *arrivals: Row) -> tuple[object, ...]:
    rows = {"sources": [source(1, "trace.csv", "arrivals")], "raw_request_arrivals": arrivals}
    con = build("request_trace_summary", rows)
    assert has_documented_columns(con, "request_trace_summary")
    assert is_unique(con, "request_trace_summary")
    (row,) = table(con, f"select {columns} from request_trace_summary")
    return row


def test_rates_come_from_first_to_last_arrival() -> None:
    arrivals = [arrival(number, at) for number, at in enumerate((100.0, 100.2, 100.9, 102.0, 104.0))]
    assert summary("path, request_count, span_s, requests_per_s, peak_requests_per_s", *arrivals) == (
        "trace.csv",
        5,
        4.0,
        1.25,
        3,
    )


def test_even_arrivals_have_no_variation() -> None:
    assert summary("gap_variation", *(arrival(number, number) for number in range(5))) == (0.0,)


def test_failed_requests_count_but_not_in_the_lengths() -> None:
    row = summary(
        "request_count, failed_count, no_output_count, input_tokens, input_p50, output_max",
        arrival(0, 0, 100, 10),
        arrival(1, 1, 300, 30),
        arrival(2, 2, 9000, 0, is_failed=True),
        arrival(3, 3, 200, 0),
    )
    assert row == (4, 1, 1, 600, 200.0, 30)


def test_reuse_is_the_leading_run_of_known_blocks() -> None:
    row = summary(
        "block_count, distinct_block_count, reusable_block_count, reusable_block_ratio",
        arrival(0, 0, block_ids=[1, 2, 3]),
        arrival(1, 1, block_ids=[1, 2, 4]),
        arrival(2, 2, block_ids=[5, 2, 3]),
        arrival(3, 3),
    )
    assert row == (9, 5, 2, 2 / 9)


def test_trace_without_blocks_says_nothing_about_reuse() -> None:
    assert summary("block_count, reusable_block_ratio, requests_per_s", arrival(0, 7)) == (None, None, None)


@pytest.mark.skipif(not TRACES.is_dir(), reason=NO_CORPUS)
def test_every_expected_number_of_the_published_traces() -> None:
    expected = json.loads((TRACES / "expected.json").read_text())
    sources = [source(number, name, "arrivals") for number, name in enumerate(expected, 1)]
    files = {number: (READER, TRACES / name) for number, name in enumerate(expected, 1)}
    con = build("request_trace_summary", {"sources": sources}, None, files)
    names = [column[0] for column in con.execute("select * from request_trace_summary").description]
    rows = table(con, "select * from request_trace_summary order by source_id")
    for row, (trace, wanted) in zip(rows, expected.items(), strict=True):
        found = dict(zip(names, row, strict=True))
        assert (found["path"], found["request_count"]) == (trace, wanted["rows"])
        assert found["requests_per_s"] == pytest.approx(wanted["mean_rps"], abs=6e-4)
        for what, key in (
            ("input", ("input_length", "ContextTokens")),
            ("output", ("output_length", "GeneratedTokens")),
        ):
            lengths = next(wanted[name] for name in key if name in wanted)
            assert found[f"{what}_tokens"] == lengths["sum"]
            assert (found[f"{what}_min"], found[f"{what}_max"]) == (lengths["min"], lengths["max"])
            assert found[f"{what}_p50"] == lengths["p50"]
            assert found[f"{what}_mean"] == pytest.approx(lengths["mean"], abs=5e-3)
        if "hash_ids" in wanted:
            assert found["block_count"] == wanted["hash_ids"]
            assert found["distinct_block_count"] == wanted["hash_ids_unique"]
            assert found["reusable_block_count"] == wanted["leading_hit_blocks_infinite_cache"]
            assert found["reusable_block_ratio"] == pytest.approx(wanted["hit_ratio"], abs=5e-5)
            first_ms, last_ms = wanted["timestamp_ms"]
            assert found["span_s"] == pytest.approx((last_ms - first_ms) / 1000)
        else:
            assert found["span_s"] == pytest.approx(wanted["span_s"], abs=5e-4)
            assert found["block_count"] is None
