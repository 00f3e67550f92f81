import json
from pathlib import Path

from builders_clients import picked
from builders_metrics import TableSink, read, source_of
from kvcliff.readers.base import LoadReport

T0 = 1_896_134_400_000_000_000
S = 1_000_000_000


def record(second: int, **more: object) -> str:
    metrics = {
        "vllm:num_requests_running": [{"labels": {"engine": "0"}, "value": 3.0 + second}],
        "vllm:generation_tokens": [{"labels": {"engine": "0"}, "value": 100.0 * second}],
        "vllm:inter_token_latency_seconds": [
            {"labels": {"engine": "0"}, "sum": 1.5, "count": 9, "buckets": {"0.01": 4, "+Inf": 9}}
        ],
        "vllm:cache_config_info": [{"labels": {"num_gpu_blocks": "1024", "block_size": "16"}, "value": 1.0}],
        "python_gc_objects_collected": [{"labels": {}, "value": 7.0}],
    }
    entry = {
        "endpoint_url": "http://gpu7:8000/metrics",
        "timestamp_ns": T0 + second * S,
        "endpoint_latency_ns": 4_000_000,
        "metrics": metrics,
        **more,
    }
    return json.dumps(entry) + "\n"


def load(folder: Path, text: str) -> tuple[TableSink, LoadReport]:
    source = source_of(folder, "server_metrics_export.jsonl", text)
    assert picked(source).name == "aiperf_server_metrics"
    return read(picked(source), source)


def test_each_record_is_a_scrape(tmp_path: Path) -> None:
    sink, report = load(tmp_path, record(0) + record(1))
    assert sink.rows("raw_metric_scrapes", "scrape_no", "src_ns") == [(0, T0), (1, T0 + S)]
    names = {
        number: (name, le, instance)
        for number, name, le, instance in sink.rows(
            "raw_metric_series", "series_id", "name", "le", "instance"
        )
    }
    second = {
        names[number][:2]: value
        for scrape, number, value in sink.rows("raw_metric_samples", "scrape_no", "series_id", "value")
        if scrape == 1
    }
    assert second == {
        ("vllm:num_requests_running", None): 4.0,
        ("vllm:generation_tokens_total", None): 100.0,
        ("vllm:inter_token_latency_seconds_sum", None): 1.5,
        ("vllm:inter_token_latency_seconds_count", None): 9.0,
        ("vllm:inter_token_latency_seconds_bucket", 0.01): 4.0,
        ("vllm:inter_token_latency_seconds_bucket", float("inf")): 9.0,
    }
    assert {instance for _, _, instance in names.values()} == {"gpu7:8000/metrics"}
    assert sink.settings()[("", "num_gpu_blocks")] == "1024"
    assert (report.skipped_count, report.damage) == (0, None)


def test_damaged_records_are_counted(tmp_path: Path) -> None:
    text = record(0) + "{not json\n" + record(1, timestamp_ns=None) + record(2)[:200]
    sink, report = load(tmp_path, text)
    assert len(sink.rows("raw_metric_scrapes", "src_ns")) == 1
    assert (report.skipped_count, report.first_skip_reason) == (3, "line is no JSON object")
