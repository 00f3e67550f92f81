import json
from pathlib import Path

import duckdb
import pytest

from accuracy.recordings import vllm_cpu
from builders_clients import (
    CLIENTS,
    GAPS,
    MS,
    START_NS,
    S,
    aiperf_raw,
    aiperf_record,
    aiperf_summary,
    corpus_file,
    lines_of,
    load,
    load_source,
    needs_corpus,
    picked,
    query,
    totals,
)
from builders_metrics import CORPUS, read, source_of
from kvcliff.store.ingest import stage_run
from kvcliff.store.plan import plan_run


def test_records_become_requests_and_chunk_times(tmp_path: Path) -> None:
    sink, report = load(tmp_path, "export.jsonl", lines_of(aiperf_record(), aiperf_record(1)))
    assert sink.rows(
        "raw_client_requests", "request_id", "tag", "submit_src_ns", "ttft_ns", "latency_ns", "done_src_ns"
    ) == [
        (f"req-{n}", "profiling", START_NS + n * S, 250 * MS, 770 * MS, START_NS + n * S + 771 * MS)
        for n in (0, 1)
    ]
    assert (
        sink.rows("raw_client_requests", "prompt_tokens", "output_tokens", "is_error", "is_warmup")
        == [(70, 3, False, False)] * 2
    )
    first = [(0, place, START_NS + at * MS, None, 1) for place, at in enumerate((250, 270, 770))]
    columns = ("request_no", "chunk_no", "src_ns", "gap_ns", "tokens")
    assert sink.rows("raw_client_tokens", *columns)[:3] == first
    assert sink.settings() == {("", "client_clock"): "unix"}
    assert (report.skipped_count, report.damage, report.notes) == (0, None, ())


def test_warmup_cancelled_and_failed_requests_are_marked(tmp_path: Path) -> None:
    warm = aiperf_record()
    warm["metadata"] = {**warm["metadata"], "benchmark_phase": "warmup"}  # type: ignore[dict-item]
    cancelled = aiperf_record(1)
    cancelled["metadata"] = {**cancelled["metadata"], "was_cancelled": True}  # type: ignore[dict-item]
    failed = aiperf_record(2, metrics={}, error={"code": 500, "type": "HTTPError", "message": "secret"})
    sink, _ = load(tmp_path, "x.jsonl", lines_of(warm, cancelled, failed))
    assert sink.rows("raw_client_requests", "is_warmup", "is_error", "error_kind") == [
        (True, False, None),
        (False, True, "cancelled"),
        (False, True, "HTTPError"),
    ]


def test_client_counts_stand_in_for_missing_usage(tmp_path: Path) -> None:
    record = aiperf_record()
    del record["metrics"]["usage_prompt_tokens"], record["metrics"]["usage_completion_tokens"]  # type: ignore[attr-defined]
    sink, _ = load(tmp_path, "x.jsonl", lines_of(record))
    assert sink.rows("raw_client_requests", "prompt_tokens", "output_tokens") == [(64, 5)]


def test_raw_records_count_only_chunks_with_text(tmp_path: Path) -> None:
    sink, _ = load(tmp_path, "x.jsonl", lines_of(aiperf_raw()))
    assert sink.rows("raw_client_tokens", "src_ns") == [(START_NS + at * MS,) for at in (250, 270, 770)]
    columns = ("prompt_tokens", "output_tokens", "cached_tokens", "max_tokens", "ttft_ns", "latency_ns")
    assert sink.rows("raw_client_requests", *columns) == [(70, 3, 16, 32, 250 * MS, 770 * MS)]


def test_summary_gives_totals_and_no_requests(tmp_path: Path) -> None:
    sink, report = load(tmp_path, "x.json", aiperf_summary())
    assert totals(sink) == {
        "completed": 5.0,
        "max_concurrency": 4.0,
        "mean_e2el_ms": 770.0,
        "mean_ttft_ms": 250.0,
        "median_ttft_ms": 240.0,
        "p99_ttft_ms": 300.0,
        "request_throughput_per_s": 2.5,
    }
    assert sink.settings() == {("", "model_name"): "llm-8b"}
    assert report.damage is None


def test_broken_and_cut_lines_are_counted(tmp_path: Path) -> None:
    text = lines_of(aiperf_record()) + "no record\n" + lines_of(aiperf_record(1))[:-40]
    sink, report = load(tmp_path, "x.jsonl", text)
    assert sink.frame("raw_client_requests").height == 1
    assert report.skipped_count == 2
    assert report.first_skip_reason == "line is no record with a start time"
    assert report.damage == "the file ends inside a line"
    source = source_of(tmp_path, "s.json", json.dumps(aiperf_summary())[:-5])
    _, report = read(picked(source), source)
    assert report.damage == "the summary ends or breaks before its closing brace"


@needs_corpus
def test_every_expected_number_of_the_real_run() -> None:
    expected = json.loads((CLIENTS / "aiperf_0.13.0" / "expected.json").read_text())
    sink, report = load_source(corpus_file("aiperf_0.13.0", "profile_export.jsonl"))
    assert (report.skipped_count, report.damage) == (0, None)
    row = query(
        sink,
        """
        select count(*), count(*) filter (where is_error), list(distinct tag), min(submit_src_ns),
            max(done_src_ns), sum(prompt_tokens), sum(output_tokens),
            quantile_cont(ttft_ns, [0.5, 0.9, 0.99]), avg(ttft_ns), quantile_cont(latency_ns, [0.5, 0.99]),
            max(done_src_ns - submit_src_ns - latency_ns) / 1e6
        from raw_client_requests
        """,
    )
    assert row[:4] == (
        expected["requests"],
        expected["errors"],
        expected["phases"],
        expected["first_request_start_ns"],
    )
    assert row[4] == expected["last_request_end_ns"]
    assert (row[4] - row[3]) / S == pytest.approx(expected["span_s"], abs=1e-9)  # type: ignore[operator]
    assert row[5:7] == (expected["usage_prompt_tokens_sum"], expected["usage_completion_tokens_sum"])
    ttft = expected["ttft_ms"]
    assert [value / MS for value in row[7]] == pytest.approx([ttft["p50"], ttft["p90"], ttft["p99"]])  # type: ignore[attr-defined]
    assert row[8] / MS == pytest.approx(ttft["mean"])  # type: ignore[operator]
    latency = expected["request_latency_ms"]
    assert [value / MS for value in row[9]] == pytest.approx([latency["p50"], latency["p99"]])  # type: ignore[attr-defined]
    assert row[10] == pytest.approx(expected["end_minus_start_minus_latency_ms_max"])


@needs_corpus
def test_chunk_gaps_of_the_real_run() -> None:
    expected = json.loads((CLIENTS / "aiperf_0.13.0" / "expected.json").read_text())
    sink, _ = load_source(corpus_file("aiperf_0.13.0", "profile_export.jsonl"))
    row = query(
        sink,
        f"""
        select count(*), count(*) filter (where gap = 0), quantile_cont(gap, [0.5, 0.9, 0.99]),
            avg(gap), max(gap)
        from {GAPS}
        """,
    )
    gaps = expected["chunk_gap_ms"]
    assert row[:2] == (expected["chunk_gaps"], expected["chunk_gaps_zero"])
    assert [value / MS for value in row[2]] == pytest.approx([gaps["p50"], gaps["p90"], gaps["p99"]])  # type: ignore[attr-defined]
    assert [row[3] / MS, row[4] / MS] == pytest.approx([gaps["mean"], gaps["max"]])  # type: ignore[operator]
    (difference,) = query(
        sink,
        """
        select max(abs(tokens.last_ns - requests.submit_src_ns - requests.latency_ns))
        from raw_client_requests as requests
        inner join (
            select request_no, max(src_ns) as last_ns from raw_client_tokens group by request_no
        ) as tokens using (request_no)
        """,
    )
    assert difference == 0, "time to first token and gaps add up to the latency"
    (in_flight,) = query(
        sink,
        """
        select max(level) from (
            select sum(step) over (order by moment, step rows unbounded preceding) as level from (
                select submit_src_ns as moment, 1 as step from raw_client_requests
                union all select done_src_ns, -1 from raw_client_requests))
        """,
    )
    assert in_flight == expected["max_in_flight"]


@needs_corpus
def test_summary_of_the_real_run_has_the_clients_own_counts() -> None:
    expected = json.loads((CLIENTS / "aiperf_0.13.0" / "expected.json").read_text())
    sink, _ = load_source(corpus_file("aiperf_0.13.0", "profile_export_aiperf.json"))
    found = totals(sink)
    assert found["total_input_tokens"] == expected["input_sequence_length_sum"]
    assert found["total_output_tokens"] == expected["output_sequence_length_sum"]
    assert found["median_tpot_ms"] == pytest.approx(expected["inter_token_latency_ms"]["p50"])
    assert found["mean_tpot_ms"] == pytest.approx(expected["inter_token_latency_ms"]["mean"])
    assert found["median_itl_ms"] == pytest.approx(expected["chunk_gap_ms"]["p50"])


@needs_corpus
def test_raw_records_of_the_real_run_agree_with_the_records() -> None:
    raw, _ = load_source(corpus_file("aiperf_0.13.0", "profile_export_raw.head5.jsonl"))
    records, _ = load_source(corpus_file("aiperf_0.13.0", "profile_export.jsonl"))
    columns = ("request_id", "submit_src_ns", "ttft_ns", "latency_ns", "prompt_tokens", "output_tokens")
    known = {row[0]: row for row in records.rows("raw_client_requests", *columns)}
    rows = raw.rows("raw_client_requests", *columns)
    assert len(rows) == 5
    assert [known[row[0]] for row in rows] == rows
    stored = str([raw.frame(table).to_dicts() for table in sorted(raw.tables())])
    assert "ANTIPHOLUS" not in stored


@needs_corpus
def test_token_times_carry_the_diagnosis_of_the_run_that_aiperf_drove() -> None:
    folder = CORPUS / "serving_runs" / "vllm_cpu" / "clients"
    (truth,) = (run for run in vllm_cpu() if run.folder == folder)
    with duckdb.connect() as con:
        stage_run(con, plan_run(folder))
        span = con.execute("""
            select count(*), min(ts_ns), max(ts_ns) from token_latency
            where origin = 'tokens' and itl_p50_ms is not null
        """).fetchone()
        points = con.execute("select at_ns, error_ns from swap_points where class = 'confirmed'").fetchall()
    assert span is not None
    assert span[0] >= 20
    assert 15 * S <= span[2] - span[1] <= 40 * S
    assert len(points) == 2
    for at_ns, error_ns in points:
        distance_ns = min(abs(at_ns - true_ns) for true_ns in truth.preemptions_ns)
        assert distance_ns <= min(error_ns, S)
