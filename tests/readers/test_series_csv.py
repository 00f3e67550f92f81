from pathlib import Path

import pytest

from builders_metrics import CORPUS, GARBAGE, NO_CORPUS, TableSink, csv_text, gzip_cut, read, source_of
from kvcliff.readers.base import ReadContext, Source
from kvcliff.readers.series_csv import READER

HEADER = "time [s],scheduler_total_time,gpu_cache_usage_perc,num_requests_running,num_preemptions_total"
T = 1_896_134_400_000_000_000


def values(sink: TableSink) -> dict[str, list[tuple[int, float]]]:
    names = dict(sink.rows("raw_metric_series", "series_id", "name"))
    found: dict[str, list[tuple[int, float]]] = {}
    for number, scrape_no, value in sink.rows("raw_metric_samples", "series_id", "scrape_no", "value"):
        found.setdefault(names[number], []).append((scrape_no, value))  # type: ignore[arg-type, index]
    return found


def test_relative_clock_counts_from_zero(tmp_path: Path) -> None:
    text = csv_text(HEADER, [("0.1302993237040937", 9.0, 0.25, 12.0, 0.0), ("1.25", 9.5, 0.5, 13, 1)])
    source = source_of(tmp_path, "engine_metrics.csv", text)
    assert READER.sniff(source).score == 85
    sink, report = read(READER, source)
    assert sink.rows("raw_metric_scrapes", "scrape_no", "src_ns", "end_src_ns", "is_timed") == [
        (0, 130_299_324, None, True),
        (1, 1_250_000_000, None, True),
    ]
    assert values(sink) == {
        "vllm:gpu_cache_usage_perc": [(0, 0.25), (1, 0.5)],
        "vllm:num_requests_running": [(0, 12.0), (1, 13.0)],
        "vllm:num_preemptions_total": [(0, 0.0), (1, 1.0)],
    }
    assert dict(sink.rows("raw_metric_series", "name", "kind"))["vllm:num_preemptions_total"] == "counter"
    assert sink.settings() == {("", "series_clock"): "relative"}
    assert (report.skipped_count, report.damage, report.notes) == (0, None, ())


@pytest.mark.parametrize(
    ("title", "cells", "clock"),
    [
        ("timestamp", ("1896134400", "1896134401.5"), "unix"),
        ("time", ("1896134400000", "1896134401500"), "unix"),
        ("ts_ns", ("1896134400000000000", "1896134401500000000"), "unix"),
        ("Time", ("2030-02-01T00:00:00Z", "2030-02-01T00:00:01.5Z"), "unix"),
        ("Time", ("2030-02-01 00:00:00", "2030-02-01 00:00:01.500"), "local"),
    ],
)
def test_absolute_clocks(tmp_path: Path, title: str, cells: tuple[str, str], clock: str) -> None:
    text = csv_text(f"{title},vllm:kv_cache_usage_perc", [(cells[0], 0.5), (cells[1], 0.6)])
    sink, _ = read(READER, source_of(tmp_path, "s.csv", text))
    assert sink.rows("raw_metric_scrapes", "src_ns") == [(T,), (T + 1_500_000_000,)]
    assert sink.settings() == {("", "series_clock"): clock}


def test_relative_milliseconds_and_given_zone(tmp_path: Path) -> None:
    sink, _ = read(READER, source_of(tmp_path, "s.csv", csv_text("elapsed (ms),running", [("250.5", 1)])))
    assert sink.rows("raw_metric_scrapes", "src_ns") == [(250_500_000,)]
    source = source_of(tmp_path, "z.csv", csv_text("time,running", [("2030-02-01 09:00:00", 1)]))
    sink, report = read(READER, source, ReadContext(time_zone_offset_s=9 * 3600))
    assert sink.rows("raw_metric_scrapes", "src_ns") == [(T,)]
    assert report.notes == ()


def test_column_names_with_prefix_labels_and_units(tmp_path: Path) -> None:
    titles = (
        "Time",
        '"vllm:num_requests_running{engine=""1"",model_name=""m""}"',
        "kv_cache_usage_perc [0-1]",
        "token_usage",
        "trtllm_num_paused_requests",
        "free text",
    )
    text = csv_text(",".join(titles), [(1896134400, 1, 0.5, 0.6, 2, "x")])
    sink, _ = read(READER, source_of(tmp_path, "s.csv", "sep=,\n" + text))
    assert sink.rows("raw_metric_series", "name", "engine", "model") == [
        ("vllm:num_requests_running", "1", "m"),
        ("vllm:kv_cache_usage_perc", "0", None),
        ("sglang:token_usage", "0", None),
        ("trtllm_num_paused_requests", "0", None),
    ]
    sink, _ = read(READER, source_of(tmp_path, "bom.csv", "\ufeff" + text))
    assert sink.frame("raw_metric_samples").height == 4


def test_bare_names_that_two_engines_share_follow_the_others_of_the_table(tmp_path: Path) -> None:
    header = "time,generation_tokens_total,num_running_reqs,token_usage"
    sink, _ = read(READER, source_of(tmp_path, "s.csv", csv_text(header, [(0.5, 10, 2, 0.5)])))
    assert [name for (name,) in sink.rows("raw_metric_series", "name")] == [
        "sglang:generation_tokens_total",
        "sglang:num_running_reqs",
        "sglang:token_usage",
    ]


def test_ragged_rows_bad_cells_and_blanks(tmp_path: Path) -> None:
    rows = [
        (0.5, 1, 0.5, 1, 0),
        (1.5, 1, 0.5),
        ("soon", 1, 0.5, 1, 0),
        (2.5, 1, "87%", "", "NaN"),
        (3.5, 1, 0.7, 4, 2),
    ]
    sink, report = read(READER, source_of(tmp_path, "s.csv", csv_text(HEADER, rows)))
    assert report.skipped_count == 3
    assert report.first_skip_reason == "row has more or fewer cells than the header"
    assert report.notes == ('1 values say "no value" (NaN or infinity) and were dropped',)
    assert values(sink)["vllm:gpu_cache_usage_perc"] == [(0, 0.5), (2, 0.7)]
    assert sink.rows("raw_metric_scrapes", "src_ns") == [(500_000_000,), (2_500_000_000,), (3_500_000_000,)]


def test_header_alone_and_empty_file(tmp_path: Path) -> None:
    sink, report = read(READER, source_of(tmp_path, "h.csv", HEADER + "\n"))
    assert sink.frame("raw_metric_samples").height == 0
    assert report.notes == ("the file has a header but no rows",)
    assert report.damage is None
    empty = source_of(tmp_path, "e.csv", b"")
    assert READER.sniff(empty).score == 0
    _, report = read(READER, empty)
    assert report.row_count == 0


def test_last_row_without_line_end(tmp_path: Path) -> None:
    text = csv_text(HEADER, [(0.5, 1, 0.5, 1, 0), (1.5, 1, 0.6, 2, 0)]).rstrip("\n")
    sink, report = read(READER, source_of(tmp_path, "s.csv", text))
    assert (sink.frame("raw_metric_scrapes").height, report.damage) == (2, None)
    sink, report = read(READER, source_of(tmp_path, "c.csv", text[:-3]))
    assert sink.frame("raw_metric_scrapes").height == 1
    assert report.damage == "the file ends inside a row"
    assert report.skipped_count == 0


def test_cut_compressed_file(tmp_path: Path) -> None:
    text = csv_text(HEADER, [(step + 0.5, step, step / 5000, step % 9, step // 7) for step in range(5000)])
    sink, report = read(READER, source_of(tmp_path, "s.csv.gz", gzip_cut(text.encode(), 0.5)))
    assert report.damage is not None
    assert 1000 < sink.frame("raw_metric_scrapes").height < 5000
    assert report.skipped_count == 0


@pytest.mark.parametrize(
    "content",
    [
        GARBAGE,
        "timestamp, index, utilization.gpu [%]\n2030/02/01 00:00:00.613, 0, 60 %\n",
        "time,gpu,pwr,gtemp,mtemp,sm,mem\ns,Idx,W,C,C,%,%\n0.1,0,109,42,57,0,0\n",
        "Start (ns),Duration (ns),Kernel,num_requests_running\n1,2,3,4\n",
        "Endpoint,Type,Metric,Unit,avg\n127.0.0.1,gauge,vllm:num_requests_running,,1\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n",
        "num_requests_running,num_requests_waiting\n1,2\n",
    ],
)
def test_foreign_tables_are_refused(tmp_path: Path, content: bytes | str) -> None:
    source = source_of(tmp_path, "x.csv", content)
    assert READER.sniff(source).score == 0
    _, report = read(READER, source)
    assert report.row_count == 0


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
def test_real_run_reads_completely() -> None:
    path = CORPUS / "serving_runs" / "memory_gap" / "background__llama-2-13b" / "96" / "engine_metrics.csv"
    lines = path.read_text().splitlines()[1:]
    sink, report = read(READER, Source(path, path.name))
    assert (report.skipped_count, report.damage) == (0, None)
    assert sink.frame("raw_metric_scrapes").height == len(lines)
    kv = [value for _, value in values(sink)["vllm:gpu_cache_usage_perc"]]
    assert kv == [float(line.split(",")[3]) for line in lines]


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
def test_no_other_table_of_the_corpus_is_claimed() -> None:
    paths = [path for path in sorted(CORPUS.rglob("*.csv")) if path.name != "engine_metrics.csv"]
    assert [path.name for path in paths if READER.sniff(Source(path, path.name)).score] == []
    assert len(paths) > 50
