import json
from pathlib import Path

import pytest

from builders_clients import (
    CLIENTS,
    GAP_FACTS,
    MS,
    corpus_file,
    lines_of,
    load,
    load_source,
    needs_corpus,
    query,
    sglang_result,
    totals,
)
from builders_metrics import bench_result, source_of
from kvcliff.readers.client_sglang_bench import READER

NO_STARTS = "2 requests have no start time: only gaps and lengths are known"


def test_details_become_gaps_because_no_times_are_kept(tmp_path: Path) -> None:
    sink, report = load(tmp_path, "sglang.jsonl", lines_of(sglang_result()))
    columns = (
        "tag",
        "submit_src_ns",
        "ttft_ns",
        "prompt_tokens",
        "output_tokens",
        "concurrency",
        "error_kind",
    )
    assert sink.rows("raw_client_requests", *columns) == [
        ("night", None, 250 * MS, 500, 3, 2, None),
        ("night", None, None, 510, 0, 2, "TimeoutError"),
    ]
    assert sink.rows("raw_client_tokens", "request_no", "chunk_no", "src_ns", "gap_ns") == [
        (0, 0, None, 250 * MS),
        (0, 1, None, 20 * MS),
        (0, 2, None, 500 * MS),
    ]
    assert sink.settings() == {("", "client_clock"): "none"}
    assert report.notes == (NO_STARTS,)


def test_each_line_is_a_load_and_infinity_is_no_rate(tmp_path: Path) -> None:
    text = lines_of(sglang_result(), sglang_result(request_rate=1.5, max_concurrency=4))
    assert "Infinity" in text
    sink, _ = load(tmp_path, "sglang.jsonl", text)
    assert "request_rate" not in totals(sink)
    assert totals(sink, 1) == {
        "completed": 1.0,
        "duration_s": 2.5,
        "max_concurrency": 4.0,
        "mean_ttft_ms": 250.0,
        "p99_e2el_ms": 770.0,
        "request_rate": 1.5,
        "total_input_tokens": 500.0,
        "total_output_tokens": 3.0,
    }


def test_broken_line_does_not_take_the_next_with_it(tmp_path: Path) -> None:
    good = lines_of(sglang_result())
    sink, report = load(tmp_path, "sglang.jsonl", good + good[:200] + "\nno result\n" + good)
    assert sink.frame("raw_client_requests").height == 4
    assert report.skipped_count == 2
    assert report.first_skip_reason == "a result object ends or breaks before its closing brace"
    assert report.damage is None


def test_cut_file_gives_what_came_before(tmp_path: Path) -> None:
    text = lines_of(sglang_result())
    sink, report = load(tmp_path, "sglang.jsonl", text[: text.index('"errors"')])
    assert report.damage is not None
    assert sink.rows("raw_client_requests", "ttft_ns") == [(250 * MS,), (None,)]


def test_vllm_results_are_left_to_their_reader(tmp_path: Path) -> None:
    source = source_of(tmp_path, "b.json", json.dumps(bench_result()))
    assert READER.sniff(source).score == 0


@needs_corpus
def test_every_expected_number_of_the_generated_run() -> None:
    expected = json.loads((CLIENTS / "generated" / "expected.json").read_text())
    sink, _ = load_source(corpus_file("generated", "sglang_bench_serving.jsonl"))
    row = query(
        sink,
        """
        select count(*), count(*) filter (where not is_error), min(request_no) filter (where is_error),
            sum(prompt_tokens) filter (where not is_error), sum(output_tokens) filter (where not is_error),
            quantile_cont(ttft_ns, [0.5, 0.99]) filter (where not is_error)
        from raw_client_requests
        """,
    )
    names = ("requests", "ok", "failed_index", "input_tokens_ok", "output_tokens_ok")
    assert row[:5] == tuple(expected[name] for name in names)
    assert [value / MS for value in row[5]] == pytest.approx(
        [expected["ttft_p50_ms"], expected["ttft_p99_ms"]]
    )  # type: ignore[attr-defined]
    gaps = query(
        sink,
        GAP_FACTS,
    )
    names = ("gap_count", "gap_p50_ms", "gap_zero", "longest_gap_ms")
    assert gaps == pytest.approx(tuple(expected[name] for name in names))
    assert totals(sink, 1)["duration_s"] == pytest.approx(expected["duration_s"])
    assert not expected["relative_start_known"]["sglang_bench_serving"]
