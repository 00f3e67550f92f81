import json
from pathlib import Path

from builders_clients import picked
from builders_metrics import TableSink, read, source_of
from kvcliff.readers.base import LoadReport

T0 = 1_896_134_400
NAME = "vllm:inter_token_latency_seconds"


def load(folder: Path, *points: list[object], **more: object) -> tuple[TableSink, LoadReport]:
    series = {"metric": {"__name__": NAME, "engine": "0"}, "histograms": list(points)}
    answer = {"status": "success", "data": {"resultType": "matrix", "result": [series]}, **more}
    source = source_of(folder, "answer.json", json.dumps(answer))
    return read(picked(source), source)


def point(at_s: int, count: str, *buckets: tuple[str, str, str]) -> list[object]:
    return [T0 + at_s, {"count": count, "sum": "1.5", "buckets": [[0, *bucket] for bucket in buckets]}]


def counts(sink: TableSink) -> dict[float, list[float]]:
    """Return the cumulative counts by upper bound, in order of time."""
    bounds = {
        number: le
        for number, name, le in sink.rows("raw_metric_series", "series_id", "name", "le")
        if name == f"{NAME}_bucket"
    }
    found: dict[float, list[float]] = {bound: [] for bound in bounds.values()}  # type: ignore[misc]
    for number, value in sink.rows("raw_metric_samples", "series_id", "value"):
        if number in bounds:
            found[bounds[number]].append(value)  # type: ignore[index,arg-type]
    return found


def test_filled_buckets_become_cumulative_counts(tmp_path: Path) -> None:
    sink, report = load(
        tmp_path,
        point(0, "3", ("0.01", "0.02", "3")),
        point(5, "9", ("0.005", "0.01", "1"), ("0.01", "0.02", "6"), ("0.5", "+Inf", "2")),
    )
    assert counts(sink) == {0.01: [0.0, 1.0], 0.02: [3.0, 7.0], float("inf"): [3.0, 9.0]}
    names = {row[0] for row in sink.rows("raw_metric_series", "name")}
    assert names == {f"{NAME}_bucket", f"{NAME}_count", f"{NAME}_sum"}
    assert report.skipped_count == 0
    assert report.notes == ("1 series are native histograms and were spelt out as bucket counts",)


def test_a_bound_inside_a_merged_bucket_is_given_up(tmp_path: Path) -> None:
    sink, _ = load(
        tmp_path,
        point(0, "3", ("0.01", "0.02", "2"), ("0.02", "0.04", "1")),
        point(5, "8", ("0.01", "0.04", "8")),
    )
    assert counts(sink) == {0.04: [3.0, 8.0], float("inf"): [3.0, 8.0]}


def test_points_that_are_none_are_counted(tmp_path: Path) -> None:
    bad: list[list[object]] = [
        [T0, {"count": "1"}],
        [T0, {"count": "1", "sum": "1", "buckets": [[0, "a", "b", "c"]]}],
        [T0, {"count": "1", "sum": "1", "buckets": [[0, "2", "1", "1"]]}],
        ["now", {"count": "1", "sum": "1"}],
        [T0],
    ]
    sink, report = load(tmp_path, *bad, point(5, "2", ("0", "1", "2")))
    assert report.skipped_count == len(bad)
    assert counts(sink) == {1.0: [2.0], float("inf"): [2.0]}


def test_an_empty_histogram_and_a_warning(tmp_path: Path) -> None:
    sink, report = load(tmp_path, [T0, {"count": "0", "sum": "0"}], warnings=["a store did not answer"])
    assert counts(sink) == {float("inf"): [0.0]}
    assert "1 warnings came with the answers: the server may have left something out" in report.notes
