from pathlib import Path

import pytest

from builders_clients import aiperf_summary_csv, load, load_source, needs_corpus, totals
from builders_metrics import CORPUS, source_of
from kvcliff.readers.base import Source
from kvcliff.readers.client_aiperf_csv import READER

SUMMARY = aiperf_summary_csv()


def test_both_blocks_about_requests_are_read_and_the_one_about_gpus_is_not(tmp_path: Path) -> None:
    sink, report = load(tmp_path, "summary.csv", SUMMARY)
    assert totals(sink) == {
        "completed": 40.0,
        "duration_s": 2.85,
        "max_itl_ms": 36.62,
        "max_ttft_ms": 98.05,
        "mean_itl_ms": 6.79,
        "mean_ttft_ms": 68.03,
        "median_itl_ms": 6.52,
        "min_itl_ms": 0.0,
        "min_ttft_ms": 43.61,
        "p99_itl_ms": 20.26,
        "p99_ttft_ms": 96.25,
        "request_throughput_per_s": 14.0,
        "std_itl_ms": 4.14,
        "std_ttft_ms": 12.2,
    }
    assert (report.skipped_count, report.damage) == (0, None)


def test_bad_cells_are_counted_and_a_cut_row_is_damage(tmp_path: Path) -> None:
    sink, report = load(tmp_path, "summary.csv", SUMMARY.replace("36.62", "many"))
    assert "max_itl_ms" not in totals(sink)
    assert report.first_skip_reason == "cell of a statistic is no number"
    sink, report = load(tmp_path, "cut.csv", SUMMARY[: SUMMARY.index("2721.23")])
    assert report.damage == "the file ends inside a row"
    assert "mean_itl_ms" in totals(sink)
    assert "mean_ttft_ms" not in totals(sink)


def test_other_tables_are_left_alone(tmp_path: Path) -> None:
    for text in ("Metric,avg,min\nNodes,1,2\n", "Time to First Token (ms),1\n", "", "\x00\x01"):
        assert READER.sniff(source_of(tmp_path, "x.csv", text)).score == 0


@needs_corpus
@pytest.mark.parametrize("folder", ["load_clients/aiperf_0.13.0", "serving_runs/vllm_cpu/clients/aiperf"])
def test_real_summaries_state_what_the_json_beside_them_states(folder: str) -> None:
    stated, _ = load_source(Source(CORPUS / folder / "profile_export_aiperf.csv", "a.csv"))
    exact, _ = load_source(Source(CORPUS / folder / "profile_export_aiperf.json", "a.json"))
    assert len(totals(stated)) > 55
    assert totals(stated) == pytest.approx(
        {name: totals(exact)[name] for name in totals(stated)}, abs=0.00501
    )
