import json
from pathlib import Path

import pytest

from builders_clients import (
    CLIENTS,
    MS,
    START_NS,
    S,
    corpus_file,
    guidellm,
    guidellm_benchmark,
    guidellm_old,
    guidellm_request,
    load,
    load_source,
    needs_corpus,
    picked,
    query,
    totals,
)
from builders_metrics import CORPUS, read, source_of
from kvcliff.readers.base import Source

NO_TIMES = "GuideLLM keeps no token times: only first token, end and counts are known"


def test_requests_have_first_token_and_end_but_no_token_times(tmp_path: Path) -> None:
    sink, report = load(tmp_path, "b.json", guidellm())
    columns = ("request_id", "tag", "concurrency", "submit_src_ns", "first_token_src_ns", "done_src_ns")
    assert sink.rows("raw_client_requests", *columns)[0] == (
        "req-0",
        "concurrent@4",
        4,
        START_NS,
        START_NS + 250 * MS,
        START_NS + 875 * MS,
    )
    assert sink.rows("raw_client_requests", "prompt_tokens", "output_tokens", "ttft_ns", "latency_ns")[0] == (
        500,
        3,
        250 * MS,
        875 * MS,
    )
    assert "raw_client_tokens" not in sink.tables()
    assert report.notes == (NO_TIMES,)
    assert sink.settings() == {("", "client_clock"): "unix", ("", "model_name"): "acme/llm-8b"}


def test_failed_and_cut_off_requests_are_marked(tmp_path: Path) -> None:
    sink, _ = load(tmp_path, "b.json", guidellm())
    assert sink.rows("raw_client_requests", "is_error", "error_kind") == [
        (False, None),
        (True, "TimeoutError"),
        (True, "incomplete"),
    ]


def test_each_benchmark_is_a_load(tmp_path: Path) -> None:
    sink, _ = load(tmp_path, "b.json", guidellm(guidellm_benchmark(4), guidellm_benchmark(16)))
    assert [totals(sink, load_no)["max_concurrency"] for load_no in (0, 1)] == [4.0, 16.0]
    assert totals(sink)["p1_ttft_ms"] == 1.0
    assert totals(sink)["mean_e2el_ms"] == 875.0
    assert totals(sink)["completed"] == 1.0
    assert sink.frame("raw_client_requests")["tag"].to_list() == ["concurrent@4"] * 3 + ["concurrent@16"] * 3


def test_level_may_stand_behind_the_requests(tmp_path: Path) -> None:
    benchmark = guidellm_benchmark(8)
    benchmark["config"] = benchmark.pop("config")
    sink, _ = load(tmp_path, "b.json", guidellm(benchmark))
    assert sink.frame("raw_client_requests")["concurrency"].to_list() == [8, 8, 8]


def test_sampled_lists_are_told(tmp_path: Path) -> None:
    benchmark = guidellm_benchmark()
    benchmark["scheduler_metrics"] = {"requests_made": {"successful": 30, "errored": 1, "incomplete": 1}}
    _, report = load(tmp_path, "b.json", guidellm(benchmark))
    assert report.notes == (
        "the request lists are samples: 29 requests that were made are not in them",
        NO_TIMES,
    )


def test_older_family_has_flat_times(tmp_path: Path) -> None:
    sink, report = load(tmp_path, "b.json", guidellm_old())
    columns = ("tag", "submit_src_ns", "first_token_src_ns", "done_src_ns", "ttft_ns", "prompt_tokens")
    assert sink.rows("raw_client_requests", *columns) == [
        ("constant@2.5", START_NS, START_NS + 250 * MS, START_NS + 875 * MS, 250 * MS, 500)
    ]
    assert totals(sink)["request_rate"] == 2.5
    assert report.notes[0] == "the request lists are samples: 6 requests that were made are not in them"


def test_cut_report_gives_the_requests_before_the_cut(tmp_path: Path) -> None:
    many = guidellm_benchmark()
    many["requests"] = {"successful": [guidellm_request(number) for number in range(50)]}
    text = json.dumps(guidellm(many))
    source = source_of(tmp_path, "b.json", text[: text.index('"req-30"')])
    sink, report = read(picked(source), source)
    assert sink.frame("raw_client_requests").height == 30
    assert report.damage == "the text ends or breaks inside a value"
    assert report.notes == (NO_TIMES,)


@needs_corpus
def test_every_expected_number_of_the_real_run() -> None:
    expected = json.loads((CLIENTS / "guidellm_0.8.1" / "expected.json").read_text())
    sink, report = load_source(corpus_file("guidellm_0.8.1", "benchmarks.json"))
    assert report.notes == (NO_TIMES,)
    row = query(
        sink,
        """
        select count(*) filter (where not is_error),
            count(*) filter (where is_error and error_kind != 'incomplete'),
            count(*) filter (where error_kind = 'incomplete'), sum(prompt_tokens), sum(output_tokens),
            min(submit_src_ns), max(done_src_ns), max(concurrency),
            quantile_cont(ttft_ns, [0.5, 0.99]), avg(ttft_ns), max(ttft_ns),
            quantile_cont(latency_ns, 0.5), avg(latency_ns)
        from raw_client_requests
        """,
    )
    assert row[:5] == (
        expected["requests_successful"],
        expected["errored"],
        expected["incomplete"],
        expected["prompt_tokens_sum"],
        expected["output_tokens_sum"],
    )
    assert row[5] / S == pytest.approx(expected["first_request_start_s"], abs=1e-6)  # type: ignore[operator]
    assert row[6] / S == pytest.approx(expected["last_request_end_s"], abs=1e-6)  # type: ignore[operator]
    assert (row[6] - row[5]) / S == pytest.approx(expected["duration_s"], abs=1e-6)  # type: ignore[operator]
    assert row[7] == expected["max_concurrency"]
    ttft = expected["ttft_ms"]
    assert [value / MS for value in row[8]] == pytest.approx([ttft["p50_linear"], ttft["p99_linear"]])  # type: ignore[attr-defined]
    assert [row[9] / MS, row[10] / MS] == pytest.approx([ttft["mean"], ttft["max"]])  # type: ignore[operator]
    latency = expected["request_latency_s"]
    assert [row[11] / S, row[12] / S] == pytest.approx([latency["p50_linear"], latency["mean"]])  # type: ignore[operator]


@needs_corpus
def test_derived_times_and_the_files_own_statistics() -> None:
    expected = json.loads((CLIENTS / "guidellm_0.8.1" / "expected.json").read_text())
    sink, _ = load_source(corpus_file("guidellm_0.8.1", "benchmarks.json"))
    found, file_says = totals(sink), expected["file_says"]
    made = found["completed"] + found["failed"] + found["incomplete"]
    assert (made, found["completed"]) == (expected["requests_made_total"], expected["requests_successful"])
    assert found["median_ttft_ms"] == file_says["time_to_first_token_ms.median"]
    assert found["median_itl_ms"] == file_says["inter_token_latency_ms.median"]
    assert found["itl_count"] == file_says["inter_token_latency_ms.count"]
    assert found["median_latency_per_token_ms"] == pytest.approx(file_says["time_per_output_token_ms.median"])
    assert found["mean_latency_per_token_ms"] == pytest.approx(expected["time_per_output_token_ms"]["mean"])
    row = query(
        sink,
        """
        select quantile_cont(itl, 0.5), avg(itl), quantile_cont(per_token, 0.5), avg(per_token) from (
            select (last_token_src_ns - first_token_src_ns) / (output_tokens - 1) / 1e6 as itl,
                (last_token_src_ns - submit_src_ns) / output_tokens / 1e6 as per_token
            from raw_client_requests)
        """,
    )
    itl, per_token = expected["itl_request_mean_ms"], expected["time_per_output_token_ms"]
    assert row[:2] == pytest.approx((itl["p50_linear"], itl["mean"]), abs=1e-5)
    assert row[2:] == pytest.approx((per_token["p50_linear"], per_token["mean"]), abs=1e-5)


@needs_corpus
def test_two_levels_of_the_run_that_drove_an_engine() -> None:
    path = CORPUS / "serving_runs" / "vllm_cpu" / "clients" / "guidellm.json"
    sink, report = load_source(Source(path, path.name))
    row = query(
        sink,
        """
        select count(*), count(distinct tag), count(*) filter (where error_kind = 'incomplete')
        from raw_client_requests
        """,
    )
    assert row == (24 + 4 + 31 + 16, 2, 4 + 16)
    assert report.notes == (NO_TIMES,)
