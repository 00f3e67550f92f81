from pathlib import Path

import pytest

from builders_clients import picked
from builders_metrics import read, source_of

S = 1_000_000_000
T0_NS = 1_896_134_400 * S
TITLES = (
    '"Time","vllm:kv_cache_usage_perc{engine=""0""}","vllm:num_requests_running",'
    '"{__name__=""vllm:generation_tokens_total"", instance=""x""}"'
)
ROUNDED = "values carry units and were rounded by Grafana: export them unformatted for exact figures"


def table(*rows: str) -> str:
    return "\n".join([TITLES, *rows]) + "\n"


def test_units_are_resolved_and_rounding_is_told(tmp_path: Path) -> None:
    text = "\ufeffsep=,\n" + table(
        "2030-02-01 00:00:00,87%,12,1.20 K",
        "2030-02-01 00:00:15,87.5 %,-,2.5 Mil",
        "2030-02-01 00:00:30,1 parsec,undefined,3000",
    )
    source = source_of(tmp_path, "panel.csv", text)
    assert picked(source).name == "grafana_csv"
    sink, report = read(picked(source), source)
    assert sink.rows("raw_metric_scrapes", "src_ns") == [(T0_NS + at * S,) for at in (0, 15, 30)]
    names = dict(sink.rows("raw_metric_series", "series_id", "name"))
    rows = sink.rows("raw_metric_samples", "series_id", "scrape_no", "value")
    found = {(names[series].removeprefix("vllm:"), scrape): value for series, scrape, value in rows}
    assert found == {
        ("kv_cache_usage_perc", 0): pytest.approx(0.87),
        ("num_requests_running", 0): 12.0,
        ("generation_tokens_total", 0): 1200.0,
        ("kv_cache_usage_perc", 1): pytest.approx(0.875),
        ("generation_tokens_total", 1): 2.5e6,
        ("generation_tokens_total", 2): 3000.0,
    }
    assert report.skipped_count == 1
    assert sink.settings()["", "series_clock"] == "local"
    assert report.notes[-1] == ROUNDED


def test_unformatted_values_are_left_to_the_plain_table(tmp_path: Path) -> None:
    source = source_of(tmp_path, "panel.csv", table("1896134400000,0.87,12,1200"))
    assert picked(source).name == "series_csv"
    sink, report = read(picked(source), source)
    assert sink.rows("raw_metric_scrapes", "src_ns") == [(T0_NS,)]
    assert sink.settings()["", "series_clock"] == "unix"
    assert report.notes == ()


def test_cut_table_is_told(tmp_path: Path) -> None:
    text = table("2030-02-01 00:00:00,87%,12,1.20 K", "2030-02-01 00:00:15,88%,13,1.30 K")
    source = source_of(tmp_path, "panel.csv", text[:-16])
    sink, report = read(picked(source), source)
    assert sink.frame("raw_metric_samples").height == 3
    assert report.damage == "the file ends inside a row"
