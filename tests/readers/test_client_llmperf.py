import json
from pathlib import Path

import pytest

from builders_clients import (
    CLIENTS,
    MS,
    corpus_file,
    llmperf_responses,
    llmperf_summary,
    load,
    load_source,
    needs_corpus,
    picked,
    query,
    totals,
)
from builders_metrics import read, source_of


def test_requests_have_lengths_and_no_times(tmp_path: Path) -> None:
    sink, report = load(tmp_path, "r.json", llmperf_responses())
    columns = ("submit_src_ns", "ttft_ns", "latency_ns", "prompt_tokens", "output_tokens", "error_kind")
    assert sink.rows("raw_client_requests", *columns) == [
        (None, 250 * MS, 770 * MS, 500, 3, None),
        (None, None, 770 * MS, 500, 0, "http_500"),
    ]
    assert sink.settings() == {("", "client_clock"): "none"}
    assert report.notes == ("2 requests have no start time: only gaps and lengths are known",)


def test_summary_gives_totals(tmp_path: Path) -> None:
    sink, _ = load(tmp_path, "s.json", llmperf_summary())
    assert totals(sink) == {
        "completed": 59.0,
        "failed": 1.0,
        "max_concurrency": 8.0,
        "mean_ttft_ms": 300.0,
        "median_ttft_ms": 250.0,
        "p99_ttft_ms": 500.0,
    }


def test_foreign_elements_are_counted_and_a_cut_is_told(tmp_path: Path) -> None:
    _, report = load(tmp_path, "r.json", [*llmperf_responses(), 7])
    assert (report.skipped_count, report.first_skip_reason) == (1, "element is no request")
    source = source_of(tmp_path, "c.json", json.dumps(llmperf_responses())[:-9])
    sink, report = read(picked(source), source)
    assert sink.frame("raw_client_requests").height == 1
    assert report.damage == "the text ends or breaks inside a value"


@needs_corpus
def test_every_expected_number_of_the_generated_run() -> None:
    expected = json.loads((CLIENTS / "generated" / "expected.json").read_text())
    sink, _ = load_source(corpus_file("generated", "llmperf_individual_responses.json"))
    row = query(
        sink,
        """
        select count(*), count(*) filter (where not is_error), count(*) filter (where is_error),
            min(request_no) filter (where is_error), sum(prompt_tokens) filter (where not is_error),
            sum(output_tokens) filter (where not is_error), count(submit_src_ns),
            quantile_cont(ttft_ns, [0.5, 0.99]) filter (where not is_error)
        from raw_client_requests
        """,
    )
    names = ("requests", "ok", "failed", "failed_index", "input_tokens_ok", "output_tokens_ok")
    assert row[:6] == tuple(expected[name] for name in names)
    assert row[6] == 0, "no start is known"
    assert [value / MS for value in row[7]] == pytest.approx(
        [expected["ttft_p50_ms"], expected["ttft_p99_ms"]]
    )  # type: ignore[attr-defined]
