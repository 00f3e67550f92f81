import json
from pathlib import Path

import pytest

from builders_clients import (
    CLIENTS,
    MS,
    corpus_file,
    load,
    load_source,
    needs_corpus,
    picked,
    query,
    totals,
    trtllm_report,
    trtllm_requests,
)
from builders_metrics import read, source_of

START_NS = 51_234_500_000_000


def test_requests_are_on_a_monotonic_clock_without_token_times(tmp_path: Path) -> None:
    sink, report = load(tmp_path, "r.json", trtllm_requests())
    columns = ("request_id", "submit_src_ns", "first_token_src_ns", "done_src_ns", "ttft_ns", "output_tokens")
    assert sink.rows("raw_client_requests", *columns) == [
        ("7", START_NS, START_NS + 250 * MS, START_NS + 770 * MS, 250 * MS, 3)
    ]
    assert "raw_client_tokens" not in sink.tables()
    assert sink.settings() == {("", "client_clock"): "monotonic"}
    assert (report.skipped_count, report.damage) == (0, None)


def test_report_gives_totals_and_settings(tmp_path: Path) -> None:
    sink, _ = load(tmp_path, "r.json", trtllm_report())
    assert totals(sink) == {
        "duration_s": 30.0,
        "mean_concurrency": 12.5,
        "mean_e2el_ms": 710.0,
        "mean_ttft_ms": 250.0,
        "median_e2el_ms": 700.0,
        "p99_e2el_ms": 900.0,
        "p99_ttft_ms": 300.0,
        "request_throughput_per_s": 2.0,
        "requests": 60.0,
    }
    assert {name: value for (_, name), value in sink.settings().items()} == {
        "dtype": "bfloat16",
        "engine": "tensorrt_llm",
        "engine_version": "1.2.0",
        "kv_cache_dtype": "FP8",
        "max_num_batched_tokens": "8192",
        "max_num_seqs": "256",
        "model_name": "acme/llm-8b",
        "pipeline_parallel_size": "1",
        "tensor_parallel_size": "2",
    }


def test_request_without_start_is_counted_and_a_cut_is_told(tmp_path: Path) -> None:
    broken = {**trtllm_requests()[0], "start_timestamp": None}
    _, report = load(tmp_path, "r.json", [broken, *trtllm_requests()])
    assert (report.skipped_count, report.first_skip_reason) == (1, "request has no start time")
    text = json.dumps(trtllm_requests() * 3)
    source = source_of(tmp_path, "c.json", text[:-20])
    sink, report = read(picked(source), source)
    assert sink.frame("raw_client_requests").height == 2
    assert report.damage == "the text ends or breaks inside a value"


@needs_corpus
def test_every_expected_number_of_the_generated_run() -> None:
    expected = json.loads((CLIENTS / "generated" / "expected.json").read_text())
    sink, _ = load_source(corpus_file("generated", "trtllm_bench_request.json"))
    row = query(
        sink,
        """
        select count(*), sum(prompt_tokens), sum(output_tokens), quantile_cont(ttft_ns, [0.5, 0.99]),
            count(submit_src_ns), list(request_id order by request_no)
        from raw_client_requests
        """,
    )
    assert row[:3] == (expected["ok"], expected["input_tokens_ok"], expected["output_tokens_ok"])
    assert [value / MS for value in row[3]] == pytest.approx(
        [expected["ttft_p50_ms"], expected["ttft_p99_ms"]]
    )  # type: ignore[attr-defined]
    assert row[4] == expected["ok"], "every start is known"
    assert str(expected["failed_index"]) not in row[5]  # type: ignore[operator]
