"""int_metric_values: samples with the names of their series and the times of their scrapes."""

import pytest

from builders_raw import source
from builders_serving import S, Scrape, rows_of, scrape_rows


def series(**values: object) -> dict[str, object]:
    return {"source_id": 1, "series_id": 0, "name": "vllm:num_requests_running", "engine": "0", **values}


SCRAPE = {"source_id": 1, "scrape_no": 0, "src_ns": S, "end_src_ns": S, "is_timed": True}
SAMPLE = {"source_id": 1, "scrape_no": 0, "series_id": 0, "value": 3.0}


def test_sample_with_name_and_time() -> None:
    rows = rows_of("int_metric_values", "name, value, ts_ns", **scrape_rows([Scrape(4, running=3)]))
    assert rows == [("vllm:num_requests_running", 3.0, 4 * S)]


def test_untimed_scrapes_are_left_out() -> None:
    rows = rows_of(
        "int_metric_values",
        "value",
        raw_metric_series=[series()],
        raw_metric_scrapes=[{**SCRAPE, "is_timed": False}],
        raw_metric_samples=[SAMPLE],
    )
    assert rows == []


@pytest.mark.parametrize(
    ("other", "replica_id"),
    [
        ({"instance": "host:8001"}, "a/host:8000/1"),
        # The only engine of a level is the one that its log speaks of, which knows no instance.
        ({"instance": "host:8000"}, "a/1"),
        ({"instance": "exporter:9100", "name": "process_start_time_seconds"}, "a/1"),
    ],
)
def test_replica_is_file_engine_and_the_instance_where_there_are_several(
    other: dict[str, object], replica_id: str
) -> None:
    rows = rows_of(
        "int_metric_values",
        "replica_id",
        sources=[source(1, "a/metrics.prom", "metrics", replica="a")],
        raw_metric_series=[series(instance="host:8000", engine="1"), series(series_id=1, **other)],
        raw_metric_scrapes=[SCRAPE],
        raw_metric_samples=[SAMPLE],
    )
    assert rows == [(replica_id,)]


def test_series_of_the_same_number_in_another_file_is_another_series() -> None:
    rows = rows_of(
        "int_metric_values",
        "source_id, name",
        sources=[source(1, "a.prom", "metrics"), source(4, "b.prom", "metrics")],
        raw_metric_series=[series(), series(source_id=4, name="vllm:num_requests_waiting")],
        raw_metric_scrapes=[SCRAPE, {**SCRAPE, "source_id": 4}],
        raw_metric_samples=[SAMPLE, {**SAMPLE, "source_id": 4}],
    )
    assert rows == [(1, "vllm:num_requests_running"), (4, "vllm:num_requests_waiting")]


def test_what_no_model_reads_is_left_out() -> None:
    names = (
        "vllm:request_prompt_tokens_sum",
        "vllm:kv_offload_cpu_cache_usage_perc",
        "sglang:cached_tokens_total",
    )
    rows = rows_of(
        "int_metric_values",
        "name",
        raw_metric_series=[series(series_id=number, name=name) for number, name in enumerate(names)],
        raw_metric_scrapes=[SCRAPE],
        raw_metric_samples=[{**SAMPLE, "series_id": number} for number in range(len(names))],
    )
    assert rows == [("sglang:cached_tokens_total",), ("vllm:kv_offload_cpu_cache_usage_perc",)]
