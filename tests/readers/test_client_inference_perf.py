import json
from pathlib import Path

import pytest

from builders_clients import (
    CLIENTS,
    GAP_FACTS,
    MS,
    PERF_S,
    S,
    corpus_file,
    inference_perf_requests,
    inference_perf_stage,
    load,
    load_source,
    needs_corpus,
    picked,
    query,
    totals,
)
from builders_metrics import read, source_of
from kvcliff.readers import pick_reader

PERF_NS = round(PERF_S * S)
BEHIND = (
    "the client sent fewer requests per second than planned: its latencies leave out how long requests "
    "waited in the client (schedule delay)"
)


def test_requests_are_on_a_monotonic_clock(tmp_path: Path) -> None:
    sink, report = load(tmp_path, "per_request_lifecycle_metrics.json", inference_perf_requests())
    columns = ("submit_src_ns", "ttft_ns", "done_src_ns", "prompt_tokens", "output_tokens", "error_kind")
    assert sink.rows("raw_client_requests", *columns) == [
        (PERF_NS, 250 * MS, PERF_NS + 780 * MS, 500, 3, None),
        (PERF_NS + S, None, PERF_NS + 1500 * MS, 510, None, "TimeoutError"),
    ]
    assert sink.rows("raw_client_tokens", "src_ns") == [(PERF_NS + at * MS,) for at in (250, 270, 770)]
    assert sink.settings() == {("", "client_clock"): "monotonic"}
    assert (report.skipped_count, report.damage) == (0, None)


def test_older_layout_keeps_counts_flat(tmp_path: Path) -> None:
    request = inference_perf_requests()[0]
    request["info"] = {
        "input_tokens": 500,
        "output_tokens": 2,
        "output_token_times": [PERF_S + 0.25, PERF_S + 1],
    }
    sink, _ = load(tmp_path, "p.json", [request])
    assert sink.rows("raw_client_requests", "prompt_tokens", "output_tokens") == [(500, 2)]
    assert sink.frame("raw_client_tokens").height == 2


def test_stage_file_is_a_level(tmp_path: Path) -> None:
    text = json.dumps(inference_perf_stage())
    for name, level in (
        ("stage_3_lifecycle_metrics.json", "stage_3"),
        ("summary_lifecycle_metrics.json", None),
    ):
        assert pick_reader(source_of(tmp_path, name, text))[1].level == level
    sink, report = load(tmp_path, "stage_3_lifecycle_metrics.json", inference_perf_stage())
    assert totals(sink) == {
        "achieved_rate_per_s": 2.0,
        "completed": 59.0,
        "failed": 1.0,
        "mean_schedule_delay_ms": 500.0,
        "mean_ttft_ms": 250.0,
        "median_schedule_delay_ms": 250.0,
        "median_ttft_ms": 240.0,
        "output_tokens_per_s": 120.0,
        "p99.9_ttft_ms": 500.0,
        "p99_schedule_delay_ms": 1500.0,
        "request_rate": 2.0,
        "requests": 60.0,
        "send_duration_s": 30.0,
    }
    assert report.notes == ()


def test_client_that_falls_behind_is_told(tmp_path: Path) -> None:
    _, report = load(tmp_path, "stage_4_lifecycle_metrics.json", inference_perf_stage(achieved=1.8))
    assert report.notes == (BEHIND,)


def test_cut_files_give_what_came_before(tmp_path: Path) -> None:
    text = json.dumps(inference_perf_requests())
    source = source_of(tmp_path, "p.json", text[: text.rindex('"start_time"')])
    sink, report = read(picked(source), source)
    assert sink.frame("raw_client_requests").height == 1
    assert report.damage == "the text ends or breaks inside a value"
    source = source_of(tmp_path, "s.json", json.dumps(inference_perf_stage())[:-3])
    _, report = read(picked(source), source)
    assert report.damage == "the text ends or breaks inside a value"


@needs_corpus
def test_every_expected_number_of_the_generated_run() -> None:
    expected = json.loads((CLIENTS / "generated" / "expected.json").read_text())
    sink, _ = load_source(corpus_file("generated", "inference_perf_per_request_lifecycle_metrics.json"))
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
    (longest_ns,) = query(
        sink,
        """
        select before_ns from (
            select lag(src_ns) over streams as before_ns, src_ns - lag(src_ns) over streams as gap
            from raw_client_tokens window streams as (partition by request_no order by chunk_no))
        order by gap desc nulls last limit 1
        """,
    )
    origin_ns = round(expected["perf_counter_origin_s"] * S)
    starts_at_s = (longest_ns - origin_ns) / S  # type: ignore[operator]
    assert starts_at_s == pytest.approx(expected["longest_gap_starts_at_s_after_first_request_clock_origin"])
    assert expected["relative_start_known"]["inference_perf"]
    assert not expected["absolute_time_known"]["inference_perf"]


@needs_corpus
def test_every_expected_number_of_the_real_stages() -> None:
    expected = json.loads((CLIENTS / "inference-perf" / "expected.json").read_text())
    names = {
        "count": ("requests", 1),
        "requested_rate": ("request_rate", 1),
        "achieved_rate": ("achieved_rate_per_s", 1),
        "ok": ("completed", 1),
        "failures": ("failed", 1),
        "ttft_p50_s": ("median_ttft_ms", 1000),
        "itl_p50_s": ("median_itl_ms", 1000),
        "itl_mean_s": ("mean_itl_ms", 1000),
        "latency_p50_s": ("median_e2el_ms", 1000),
        "output_tokens_per_sec": ("output_tokens_per_s", 1),
        "sched_delay_p50_s": ("median_schedule_delay_ms", 1000),
    }
    for run, stages in expected.items():
        for stage in stages:
            source = corpus_file("inference-perf", run, f"stage_{stage['stage']}_lifecycle_metrics.json")
            sink, report = load_source(source)
            found = totals(sink)
            for key, (name, factor) in names.items():
                allowed = 6e-4 if key == "achieved_rate" else 1e-12
                assert found[name] == pytest.approx(stage[key] * factor, rel=1e-9, abs=allowed), (
                    run,
                    stage,
                    key,
                )
            assert (report.notes == (BEHIND,)) is (stage["stage"] >= 4)
