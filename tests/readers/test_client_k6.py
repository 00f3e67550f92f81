from pathlib import Path

from builders_clients import MS, START_NS, S, k6_csv, k6_json, load, picked, totals
from builders_metrics import read, source_of

NO_TIMES = "k6 keeps no token times: only the length of each request is known"
COLUMNS = ("submit_src_ns", "done_src_ns", "latency_ns", "ttft_ns", "error_kind")


def test_duration_points_are_requests_that_end_at_their_time(tmp_path: Path) -> None:
    sink, report = load(tmp_path, "k6.csv", k6_csv())
    assert sink.rows("raw_client_requests", *COLUMNS) == [
        (START_NS - 770 * MS, START_NS, 770 * MS, None, None),
        (START_NS + 500 * MS, START_NS + S, 500 * MS, None, "k6_1050"),
    ]
    assert totals(sink) == {"max_concurrency": 8.0}
    assert sink.settings() == {("", "client_clock"): "unix"}
    assert report.notes == (NO_TIMES,)


def test_json_lines_have_finer_times(tmp_path: Path) -> None:
    sink, report = load(tmp_path, "k6.json", k6_json())
    assert sink.rows("raw_client_requests", *COLUMNS) == [
        (START_NS - 270 * MS, START_NS + 500 * MS, 770 * MS, None, None)
    ]
    assert report.skipped_count == 0


def test_broken_and_cut_lines_are_counted(tmp_path: Path) -> None:
    source = source_of(tmp_path, "k6.csv", k6_csv() + "http_req_duration,never,1\nhttp_req")
    _, report = read(picked(source), source)
    assert (report.skipped_count, report.first_skip_reason) == (2, "line is no point with a time and a value")
    assert report.damage == "the file ends inside a line"
