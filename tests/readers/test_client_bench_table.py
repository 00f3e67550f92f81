from pathlib import Path

import pytest

from builders_clients import picked
from builders_metrics import CORPUS, NO_CORPUS, TableSink, read, source_of
from kvcliff.readers import pick_reader
from kvcliff.readers.base import LoadReport, Source

TABLE = """\
Starting main benchmark run...
\r 50%|#####     | 8/16 [00:01<00:01]\r100%|##########| 16/16 [00:02<00:00]
============ Serving Benchmark Result ============
Successful requests:                     16
Failed requests:                         1
Maximum request concurrency:             8
Request rate configured (RPS):           4.00
Benchmark duration (s):                  13.76
Total input tokens:                      6090
Total generated tokens:                  279
Request throughput (req/s):              0.80
Output token throughput (tok/s):         20.28
Total Token throughput (tok/s):          463.10
---------------Time to First Token----------------
Mean TTFT (ms):                          236.32
P99 TTFT (ms):                           286.84
---------------Inter-token Latency----------------
Median ITL (ms):                         38.50
Max ITL (ms):                            99.00
----------------End-to-end Latency----------------
Mean E2E Latency (ms):                   1200.5
==================================================
"""
TOTALS = {
    "completed": 16.0,
    "failed": 1.0,
    "max_concurrency": 8.0,
    "request_rate": 4.0,
    "duration_s": 13.76,
    "total_input_tokens": 6090.0,
    "total_output_tokens": 279.0,
    "request_throughput_per_s": 0.8,
    "output_tokens_per_s": 20.28,
    "total_tokens_per_s": 463.1,
    "mean_ttft_ms": 236.32,
    "p99_ttft_ms": 286.84,
    "median_itl_ms": 38.5,
    "mean_e2el_ms": 1200.5,
}


def load(folder: Path, text: str | bytes) -> tuple[TableSink, LoadReport]:
    source = source_of(folder, "stdout.txt", text)
    assert picked(source).name == "bench_table"
    return read(picked(source), source)


def totals(sink: TableSink, load_no: int = 0) -> dict[object, object]:
    rows = sink.rows("raw_client_summary", "load_no", "name", "value")
    return {name: value for number, name, value in rows if number == load_no}


def test_rows_of_the_table(tmp_path: Path) -> None:
    sink, report = load(tmp_path, TABLE)
    assert totals(sink) == TOTALS
    assert (report.skipped_count, report.damage) == (0, None)


def test_every_table_of_a_sweep_is_a_load(tmp_path: Path) -> None:
    sink, _ = load(tmp_path, TABLE + TABLE.replace(": " + " " * 39 + "8", ":  16").replace("20.28", "35.00"))
    assert totals(sink) == TOTALS
    assert totals(sink, 1)["output_tokens_per_s"] == 35.0


def test_a_cut_table_gives_the_rows_before_the_cut(tmp_path: Path) -> None:
    sink, report = load(tmp_path, TABLE[: TABLE.index("P99 TTFT")])
    assert "p99_ttft_ms" not in totals(sink)
    assert totals(sink)["mean_ttft_ms"] == 236.32
    assert report.damage == "the last table has no end"


def test_garbage_in_the_table(tmp_path: Path) -> None:
    text = TABLE.replace(
        "Failed requests:                         1",
        "Failed requests: \x00\xff nan\nFailed requests: 2\nFailed requests: 3",
    )
    sink, report = load(tmp_path, text.encode("latin-1"))
    assert totals(sink)["failed"] == 2.0
    assert (report.skipped_count, report.first_skip_reason) == (1, "a row of the table comes twice")


def test_text_without_the_title_is_none(tmp_path: Path) -> None:
    source = source_of(tmp_path, "stdout.txt", TABLE.replace("Serving Benchmark", "Serving"))
    assert pick_reader(source)[0] is None


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
def test_corpus(tmp_path: Path) -> None:
    path = CORPUS / "load_clients" / "generated" / "vllm_bench_serve_table.txt"
    sink, report = read(picked(Source(path, path.name)), Source(path, path.name))
    assert totals(sink) == {
        "completed": 11.0,
        "failed": 1.0,
        "duration_s": 13.76,
        "total_input_tokens": 6090.0,
        "total_output_tokens": 279.0,
        "request_throughput_per_s": 0.8,
        "output_tokens_per_s": 20.28,
        "mean_ttft_ms": 236.32,
        "median_ttft_ms": 258.53,
        "p99_ttft_ms": 286.84,
    }
    assert report.damage is None
