import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from builders_clients import lines_of, picked
from builders_metrics import CORPUS, NO_CORPUS, TableSink, read, source_of
from kvcliff.readers.base import LoadReport, Source

T0 = 1_896_134_400
T0_MS = 1000 * T0
S = 1_000_000_000
KV = {"__name__": "vllm:kv_cache_usage_perc", "engine": "0"}
WAITING = {"__name__": "vllm:num_requests_waiting", "engine": "0"}


def matrix(*series: tuple[Mapping[str, str], list[list[object]]]) -> dict[str, object]:
    """Return an answer of query_range."""
    result = [{"metric": dict(metric), "values": values} for metric, values in series]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


def load(folder: Path, text: str) -> tuple[TableSink, LoadReport]:
    source = source_of(folder, "answer.json", text)
    assert picked(source).name == "prometheus_api"
    return read(picked(source), source)


def values(sink: TableSink) -> dict[tuple[str, float], float]:
    """Return the samples by metric name and seconds since T0."""
    names = dict(sink.rows("raw_metric_series", "series_id", "name"))
    times = dict(sink.rows("raw_metric_scrapes", "scrape_no", "src_ns"))
    return {
        (names[series], (times[scrape] - T0 * S) / S): value
        for series, scrape, value in sink.rows("raw_metric_samples", "series_id", "scrape_no", "value")
    }  # type: ignore[misc]


def test_series_share_scrapes_in_order_of_time(tmp_path: Path) -> None:
    answer = matrix(
        (KV, [[T0 + 10, "0.5"], [T0 + 20, "0.75"]]), (WAITING, [[T0, "1"], [T0 + 10.5, "2"], [T0 + 20, "3"]])
    )
    sink, report = load(tmp_path, json.dumps(answer))
    assert sink.rows("raw_metric_scrapes", "scrape_no", "src_ns", "is_timed") == [
        (number, round((T0 + at) * S), True) for number, at in enumerate((0, 10, 10.5, 20))
    ]
    assert values(sink) == {
        (KV["__name__"], 10.0): 0.5,
        (KV["__name__"], 20.0): 0.75,
        (WAITING["__name__"], 0.0): 1.0,
        (WAITING["__name__"], 10.5): 2.0,
        (WAITING["__name__"], 20.0): 3.0,
    }
    assert sink.settings() == {("", "series_clock"): "unix"}
    assert (report.skipped_count, report.damage, report.notes) == (0, None, ())


def test_windows_of_one_series_join_and_repeated_points_count_once(tmp_path: Path) -> None:
    later = matrix((KV, [[T0 + 10, "0.5"], [T0 + 20, "0.75"]]))
    earlier = matrix((KV, [[T0, "0.25"], [T0 + 10, "0.5"]]))
    sink, report = load(tmp_path, f"{json.dumps(later)}\n{json.dumps(earlier, indent=2)}\n")
    assert sorted(values(sink).items()) == [
        ((KV["__name__"], 0.0), 0.25),
        ((KV["__name__"], 10.0), 0.5),
        ((KV["__name__"], 20.0), 0.75),
    ]
    assert report.notes == ("1 points repeat a time of their series and were dropped",)


def test_instant_vectors_and_what_has_no_series(tmp_path: Path) -> None:
    vector = {
        "status": "success",
        "data": {
            "resultType": "vector",
            "result": [{"metric": KV, "value": [T0, "0.5"]}, {"metric": {}, "value": [T0, "7"]}],
        },
    }
    scalar = {"status": "success", "data": {"resultType": "scalar", "result": [T0, "2"]}}
    error = {"status": "error", "errorType": "bad_data", "error": "secret"}
    sink, report = load(tmp_path, "\n".join(json.dumps(answer) for answer in (vector, scalar, error)))
    assert values(sink) == {(KV["__name__"], 0.0): 0.5}
    assert report.skipped_count == 1
    assert report.first_skip_reason == "an answer of the query API states an error"
    assert report.notes == ("1 series have no metric name (results of functions) and were passed over",)


def test_values_that_are_none_are_dropped_and_odd_points_counted(tmp_path: Path) -> None:
    answer = matrix((KV, [[T0, "NaN"], [T0 + 1, "+Inf"], [T0 + 2, "0.5"], ["later", "1"], [T0 + 3]]))
    sink, report = load(tmp_path, json.dumps(answer))
    assert values(sink) == {(KV["__name__"], 2.0): 0.5}
    assert report.skipped_count == 2
    assert report.first_skip_reason == "point of a series is no pair of a time and a value"
    assert report.notes == ('2 values say "no value" (NaN, infinity or a placeholder) and were dropped',)


def test_labels_state_settings_and_device_counters(tmp_path: Path) -> None:
    info = {"__name__": "vllm:cache_config_info", "block_size": "16", "num_gpu_blocks": "4096"}
    busy = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0", "UUID": "secret"}
    answer = matrix((info, [[T0, "1"]]), (busy, [[T0, "87"]]), (KV, [[T0, "0.5"]]))
    sink, _ = load(tmp_path, json.dumps(answer))
    assert sink.settings()["", "num_gpu_blocks"] == "4096"
    assert sink.rows("raw_device_samples", "src_ns", "counter", "value") == [(T0 * S, "gpu_busy_pct", 87.0)]


def test_cut_answer_gives_the_series_before_the_cut(tmp_path: Path) -> None:
    text = json.dumps(matrix((KV, [[T0, "0.5"]]), (WAITING, [[T0, "1"]])))
    sink, report = load(tmp_path, text[:-12])
    assert values(sink) == {(KV["__name__"], 0.0): 0.5}
    assert report.damage == "the text ends or breaks inside a value"
    assert report.skipped_count == 1


def test_broken_answer_does_not_take_the_next_with_it(tmp_path: Path) -> None:
    good = json.dumps(matrix((KV, [[T0, "0.5"]])))
    sink, report = load(tmp_path, f"{good}\n{good[:70]}\nnoise\n{good.replace(str(T0), str(T0 + 1))}\n")
    assert set(values(sink).values()) == {0.5}
    assert len(values(sink)) == 2
    assert (report.skipped_count, report.damage) == (2, None)


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
def test_every_line_of_the_corpus() -> None:
    path = CORPUS / "serving_lines" / "prom_api_query_range.jsonl"
    expected = [
        json.loads(line)
        for line in path.with_name("prom_api_query_range.expected.jsonl").read_text().splitlines()
    ]
    source = Source(path, path.name)
    assert picked(source).name == "prometheus_api"
    sink, report = read(picked(source), source)
    found = values(sink)
    (dumped,) = (row for row in expected if row.get("kind") == "promtool_tsdb_dump")
    assert found["sglang:token_usage", 0.25] == dumped["value"]
    by_kind = {row["kind"]: row for row in expected if "kind" in row}
    exported = [at for name, at in found if name == "sglang:token_usage" and at != 0.25]
    assert len(exported) == by_kind["victoriametrics_export"]["points"]
    queried = [name for name, _ in found if name.startswith("vllm:")]
    assert len(queried) == by_kind["matrix"]["points"] - by_kind["matrix"]["non_finite"]
    assert len(set(queried)) == by_kind["matrix"]["series"]
    assert report.skipped_count == sum(row.get("kind") == "error" for row in expected)


def export_line(*points: tuple[int, float | None], **labels: str) -> dict[str, object]:
    """Return one export line of a metric."""
    return {
        "metric": {"__name__": "sglang:token_usage", "tp_rank": "0", **labels},
        "values": [value for _, value in points],
        "timestamps": [T0_MS + at for at, _ in points],
    }


def test_lines_of_one_series_join_and_null_is_no_value(tmp_path: Path) -> None:
    text = lines_of(
        export_line((5000, 0.5), (10000, None)), export_line((0, 0.25)), export_line((5000, 1.0), job="other")
    )
    source = source_of(tmp_path, "export.jsonl", text)
    assert picked(source).name == "victoriametrics"
    sink, report = read(picked(source), source)
    assert sink.rows("raw_metric_scrapes", "src_ns") == [((T0_MS + at) * 10**6,) for at in (0, 5000, 10000)]
    assert sink.rows("raw_metric_samples", "series_id", "scrape_no", "value") == [
        (0, 1, 0.5),
        (0, 0, 0.25),
        (1, 1, 1.0),
    ]
    assert report.notes == ('1 values say "no value" (NaN, infinity or a placeholder) and were dropped',)
    assert (report.skipped_count, report.damage) == (0, None)


def test_uneven_and_broken_lines_are_counted(tmp_path: Path) -> None:
    uneven = {**export_line((0, 0.5)), "timestamps": [T0_MS, T0_MS + 1]}
    text = lines_of(uneven, export_line((1000, 0.75))) + json.dumps(export_line((2000, 1.0)))[:-10]
    source = source_of(tmp_path, "export.jsonl", text)
    sink, report = read(picked(source), source)
    assert sink.frame("raw_metric_samples")["value"].to_list() == [0.5, 0.75]
    assert report.skipped_count == 2
    assert report.first_skip_reason == "values and time stamps of a series differ in number"
    assert report.damage is not None
