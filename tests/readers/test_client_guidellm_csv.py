from pathlib import Path

import pytest

from builders_clients import guidellm_csv, load, load_source, needs_corpus, totals
from builders_metrics import CORPUS, source_of
from kvcliff.readers.base import Source
from kvcliff.readers.client_guidellm_csv import READER


def test_statistics_get_canonical_names_and_the_cell_of_percentiles_begins_with_the_least(
    tmp_path: Path,
) -> None:
    sink, report = load(tmp_path, "b.csv", guidellm_csv({}))
    assert totals(sink) == {
        "completed": 8.0,
        "duration_s": 1.5,
        "max_concurrency": 4.0,
        "mean_e2el_ms": 250.0,
        "mean_ttft_ms": 90.5,
        "median_ttft_ms": 73.5,
        "min_ttft_ms": 0.0,
        "p0.1_ttft_ms": 1.0,
        "p1_ttft_ms": 2.0,
        "p5_ttft_ms": 3.0,
        "p10_ttft_ms": 4.0,
        "p25_ttft_ms": 5.0,
        "p75_ttft_ms": 6.0,
        "p90_ttft_ms": 7.0,
        "p95_ttft_ms": 8.0,
        "p99_ttft_ms": 9.0,
        "max_ttft_ms": 10.0,
    }
    assert sink.settings() == {("", "model_name"): "llm-8b"}
    assert (report.skipped_count, report.damage) == (0, None)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("constant@2.50", {"request_rate": 2.5}),
        ("throughput@16", {"max_concurrency": 16.0}),
        ("synchronous", {}),
    ],
)
def test_each_row_is_a_load_of_its_own_level(
    strategy: str, expected: dict[str, float], tmp_path: Path
) -> None:
    sink, _ = load(tmp_path, "b.csv", guidellm_csv({}, {"Strategy": strategy}))
    levels = {
        name: value for name, value in totals(sink, 1).items() if name in ("max_concurrency", "request_rate")
    }
    assert levels == expected


def test_ragged_rows_are_counted_and_a_cut_one_is_damage(tmp_path: Path) -> None:
    whole = guidellm_csv({})
    sink, report = load(tmp_path, "b.csv", whole + "a,b\n" + whole.splitlines()[3][:40])
    assert totals(sink)["duration_s"] == 1.5
    assert report.first_skip_reason == "row has more or fewer cells than the header"
    assert report.damage == "the file ends inside a row"


def test_cut_header_and_garbage(tmp_path: Path) -> None:
    _, report = load_source(source_of(tmp_path, "b.csv", guidellm_csv()[: guidellm_csv().index("Backend")]))
    assert report.damage == "the file ends inside its header"
    assert (
        READER.sniff(source_of(tmp_path, "x.csv", "Run Info\x00Request Counts,Time to First Token")).score
        == 0
    )
    assert (
        READER.sniff(source_of(tmp_path, "y.csv", "time,Run Info,Request Counts,Time to First Token\n")).score
        == 0
    )


@needs_corpus
@pytest.mark.parametrize(
    ("table_file", "report_file"),
    [
        ("load_clients/guidellm_0.8.1/benchmarks.csv", "load_clients/guidellm_0.8.1/benchmarks.json"),
        ("serving_runs/vllm_cpu/clients/guidellm.csv", "serving_runs/vllm_cpu/clients/guidellm.json"),
    ],
)
def test_real_tables_state_what_the_report_beside_them_states(table_file: str, report_file: str) -> None:
    tables, _ = load_source(Source(CORPUS / table_file, "b.csv"))
    reports, _ = load_source(Source(CORPUS / report_file, "b.json"))
    loads = {load_no for (load_no,) in tables.rows("raw_client_summary", "load_no")}
    assert loads
    for load_no in loads:
        stated, expected = totals(tables, load_no), totals(reports, load_no)
        assert {name: expected[name] for name in stated} == pytest.approx(stated)
        assert len(stated) >= 55
