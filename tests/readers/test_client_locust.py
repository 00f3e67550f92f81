from pathlib import Path

from builders_clients import UNIX, load, locust_history, picked, totals
from builders_metrics import read, source_of

STATS = (
    "Type,Name,Request Count,Failure Count,Median Response Time,Average Response Time,Min Response Time,"
    "Max Response Time,Average Content Size,Requests/s,Failures/s,50%,99%,99.9%,100%\n"
    "POST,/v1/secret,60,1,700,710.5,500,900,10,2.0,0.1,700,890,900,900\n"
    ",Aggregated,60,1,700,710.5,500,900,10,2.0,0.1,700,890,900,900\n"
)


def test_history_is_a_load_per_second(tmp_path: Path) -> None:
    sink, report = load(tmp_path, "run_stats_history.csv", locust_history())
    assert totals(sink) == {
        "at_unix_s": float(UNIX),
        "failed": 0.0,
        "failures_per_s": 0.0,
        "median_e2el_ms": 700.0,
        "p99_e2el_ms": 900.0,
        "request_throughput_per_s": 2.0,
        "requests": 2.0,
        "users": 4.0,
    }
    second = totals(sink, 1)
    assert (second["users"], second["requests"], second["median_e2el_ms"]) == (8.0, 6.0, 800.0)
    assert "p99_e2el_ms" not in second
    assert (report.skipped_count, report.damage) == (0, None)


def test_statistics_are_those_of_all_requests(tmp_path: Path) -> None:
    sink, _ = load(tmp_path, "run_stats.csv", STATS)
    assert totals(sink) == {
        "failed": 1.0,
        "failures_per_s": 0.1,
        "max_e2el_ms": 900.0,
        "mean_e2el_ms": 710.5,
        "median_e2el_ms": 700.0,
        "min_e2el_ms": 500.0,
        "p99.9_e2el_ms": 900.0,
        "p99_e2el_ms": 890.0,
        "request_throughput_per_s": 2.0,
        "requests": 60.0,
    }


def test_ragged_and_cut_rows_are_told(tmp_path: Path) -> None:
    source = source_of(tmp_path, "h.csv", locust_history() + "1,2\n" + f"{UNIX + 2},8,,Agg")
    _, report = read(picked(source), source)
    assert (report.skipped_count, report.first_skip_reason) == (
        1,
        "row has more or fewer cells than the header",
    )
    assert report.damage == "the file ends inside a row"
