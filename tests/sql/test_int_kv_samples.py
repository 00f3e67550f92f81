"""int_kv_samples: KV occupancy and queue from scrapes, statistics lines and iteration lines."""

import pytest

from builders_raw import Row, table
from builders_serving import (
    METRICS,
    MS,
    NO_TRANSFERS,
    S,
    Scrape,
    every,
    limit_row,
    log_row,
    merge,
    model,
    ns,
    rows_of,
    scrape_rows,
)

COUNTS = {"context_requests": 1, "context_tokens": 9, "generation_requests": 3, "generation_tokens": 3}


def metric_series(series_id: int, name: str, **values: object) -> Row:
    return {"source_id": 1, "series_id": series_id, "name": name, "engine": "0", **values}


def samples(columns: str, **raw: list[Row]) -> list[tuple[object, ...]]:
    return rows_of("int_kv_samples", columns, order="origin, ts_ns, sample_no", **raw)


def test_scrape_becomes_one_sample() -> None:
    scrapes = scrape_rows([Scrape(1, kv=0.5, running=3, waiting=2, preemptions=7, finished=1)])
    columns = (
        "origin, semantics, kv_used_ratio, running_count, waiting_count, preemption_total, finished_total"
    )
    assert samples(columns, **scrapes) == [("metrics", "referenced_blocks", 0.5, 3.0, 2.0, 7.0, 1.0)]


def test_gauge_that_is_not_exposed_is_unknown_not_zero() -> None:
    rows = samples("waiting_count, preemption_total, swapped_count", **scrape_rows([Scrape(1, kv=0.5)]))
    assert rows == [(None, None, None)]


def test_counters_of_several_labels_are_added_and_gauges_are_not() -> None:
    rows = samples(
        "running_count, finished_total",
        raw_metric_series=[
            metric_series(0, "vllm:request_success_total", label="finished_reason=stop"),
            metric_series(1, "vllm:request_success_total", label="finished_reason=length"),
            metric_series(2, "vllm:num_requests_running"),
        ],
        raw_metric_scrapes=[{"source_id": 1, "scrape_no": 0, "src_ns": S, "is_timed": True}],
        raw_metric_samples=[
            {"source_id": 1, "scrape_no": 0, "series_id": number, "value": value}
            for number, value in enumerate([4.0, 6.0, 2.0])
        ],
    )
    assert rows == [(2.0, 10.0)]


def test_two_names_of_the_occupancy_are_one() -> None:
    rows = samples(
        "kv_used_ratio",
        raw_metric_series=[
            metric_series(0, "vllm:gpu_cache_usage_perc"),
            metric_series(1, "vllm:kv_cache_usage_perc"),
        ],
        raw_metric_scrapes=[{"source_id": 1, "scrape_no": 0, "src_ns": S, "is_timed": True}],
        raw_metric_samples=[
            {"source_id": 1, "scrape_no": 0, "series_id": number, "value": 0.4} for number in (0, 1)
        ],
    )
    assert rows == [(0.4,)]


@pytest.mark.parametrize(
    ("gauges", "expected"),
    [
        (
            (
                ("nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type=used", 30.0),
                ("nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type=max", 40.0),
                ("nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type=free", 10.0),
                ("nv_trt_llm_request_metrics", "request_type=scheduled", 5.0),
                ("nv_trt_llm_request_metrics", "request_type=active", 9.0),
            ),
            ("used_blocks", 0.75, 5.0, None),
        ),
        (
            (
                ("tgi_batch_current_max_tokens", None, 9000.0),
                ("tgi_batch_max_total_tokens", None, 10000.0),
                ("tgi_batch_current_size", None, 7.0),
                ("tgi_queue_size", None, 2.0),
            ),
            ("reserved_tokens", 0.9, 7.0, 2.0),
        ),
        (
            (
                ("trtllm_kv_cache_utilization", None, 0.5),
                ("trtllm_num_requests_running", None, 3.0),
                ("trtllm_num_requests_waiting", None, 1.0),
            ),
            ("used_blocks", 0.5, 3.0, 1.0),
        ),
    ],
)
def test_other_engines(
    gauges: tuple[tuple[str, str | None, float], ...], expected: tuple[object, ...]
) -> None:
    rows = samples(
        "semantics, kv_used_ratio, running_count, waiting_count",
        raw_metric_series=[
            metric_series(number, name, label=label) for number, (name, label, _) in enumerate(gauges)
        ],
        raw_metric_scrapes=[{"source_id": 1, "scrape_no": 0, "src_ns": S, "is_timed": True}],
        raw_metric_samples=[
            {"source_id": 1, "scrape_no": 0, "series_id": number, "value": value}
            for number, (_, _, value) in enumerate(gauges)
        ],
    )
    assert rows == [expected]


def test_other_metrics_make_no_sample() -> None:
    rows = samples(
        "1",
        raw_metric_series=[metric_series(0, "process_open_fds")],
        raw_metric_scrapes=[{"source_id": 1, "scrape_no": 0, "src_ns": S, "is_timed": True}],
        raw_metric_samples=[{"source_id": 1, "scrape_no": 0, "series_id": 0, "value": 4.0}],
    )
    assert rows == []


def test_statistics_line_lies_in_the_middle_of_its_second() -> None:
    line = log_row(1, 7, kv_used_ratio=0.9, running_count=4, waiting_count=3, kv_semantics="live_tokens")
    rows = samples("origin, semantics, waiting_count, ts_ns, uncertainty_ns", raw_log_stats=[line])
    assert rows == [("log", "live_tokens", 3.0, ns(7.5), ns(0.5))]


def test_finer_log_stamps_are_taken_as_they_are() -> None:
    assert samples("ts_ns", raw_log_stats=[log_row(1, 7.25, kv_used_ratio=0.9)]) == [(ns(7.25),)]


def test_deferred_requests_do_not_wait_for_capacity() -> None:
    line = log_row(1, 7, kv_used_ratio=0.9, waiting_count=5, deferred_count=3)
    assert samples("waiting_count", raw_log_stats=[line]) == [(2.0,)]


def test_iteration_line_tells_what_ran() -> None:
    line = log_row(1, 7, elapsed_ms=10.0, kv_used_ratio=0.8, **COUNTS)
    rows = samples("origin, kv_used_ratio, running_count, waiting_count", raw_log_iterations=[line])
    assert rows == [("iterations", 0.8, 4.0, None)]


def test_occupancy_that_is_zero_all_along_under_load_is_unknown() -> None:
    scrapes = scrape_rows([Scrape(1, kv=0, running=0), Scrape(2, kv=0, running=5)])
    assert samples("kv_used_ratio", **scrapes) == [(None,), (None,)]


def test_occupancy_that_is_zero_without_load_is_zero() -> None:
    assert samples("kv_used_ratio", **scrape_rows([Scrape(1, kv=0, running=0)])) == [(0.0,)]


def test_interval_is_the_median_distance() -> None:
    rows = samples("interval_ns", **scrape_rows([Scrape(second, kv=0.1) for second in (0, 1, 2, 3, 13)]))
    assert rows == [(S,)] * 5


def test_catch_up_burst_does_not_date_a_sample() -> None:
    # The scraper hung for six seconds, then four answers came at once.
    times = [0, 1, 2, 8, 8.01, 8.02, 8.03, 9]
    rows = samples("previous_ts_ns", **scrape_rows([Scrape(second, kv=0.1) for second in times]))
    assert [row[0] for row in rows] == [None, 0, S, 2 * S, 2 * S, 2 * S, 2 * S, ns(8.03)]


def test_long_catch_up_burst_does_not_date_its_own_samples() -> None:
    # Twenty answers in 0.2 s, with a scrape every 0.2 s: only the last one is fresh.
    times = [*every(0.2, 0, 8), *every(0.01, 12, 12.2), *every(0.2, 12.4, 16)]
    con = model("int_kv_samples", scrape_rows([Scrape(second, kv=0.1) for second in times]))
    query = "select previous_ts_ns from int_kv_samples where ts_ns in (?, ?) order by ts_ns"
    rows = con.execute(query, [ns(12.2), ns(12.4)]).fetchall()
    assert rows == [(ns(8),), (ns(12.2),)]


@pytest.mark.parametrize(("distance_ms", "previous_s"), [(500, 1.0), (499, 0.0)])
def test_previous_sample_is_at_least_half_an_interval_earlier(distance_ms: int, previous_s: float) -> None:
    times = [0, 1, round(1 + distance_ms / 1000, 3), 3, 4, 5]
    con = model("int_kv_samples", scrape_rows([Scrape(second, kv=0.1) for second in times]))
    rows = table(con, f"select previous_ts_ns from int_kv_samples where ts_ns = {ns(times[2])}")
    assert rows == [(ns(previous_s),)]


def test_scrape_time_counts_as_uncertainty() -> None:
    scrapes = scrape_rows([Scrape(2, kv=0.1)])
    scrapes["raw_metric_scrapes"] = [{**scrapes["raw_metric_scrapes"][0], "src_ns": 2 * S - 30 * MS}]
    clocks = [{"source_id": 1, "offset_ns": 0, "uncertainty_ns": 5 * MS, "method": "stated"}]
    assert samples("uncertainty_ns", clocks=clocks, **scrapes) == [(35 * MS,)]


def test_two_engines_of_one_file_are_two_replicas() -> None:
    both = merge(scrape_rows([Scrape(1, kv=0.1)]), scrape_rows([Scrape(1, kv=0.9)], engine="1"))
    assert sorted(samples("replica_id, kv_used_ratio", **both)) == [("0", 0.1), ("1", 0.9)]


SGLANG = {
    "vllm:kv_cache_usage_perc": "sglang:token_usage",
    "vllm:num_requests_running": "sglang:num_running_reqs",
    "vllm:num_requests_waiting": "sglang:num_queue_reqs",
    "vllm:num_preemptions_total": "sglang:num_retracted_requests_total",
    "vllm:generation_tokens_total": "sglang:generation_tokens_total",
}


def standing(last: int, *, running: float = 8.0, names: dict[str, str] | None = None) -> dict[str, list[Row]]:
    """Return a second of scrapes that move, and then the same values again up to the second ``last``."""
    scrapes = [
        Scrape(n, kv=0.9 + min(n, 2) / 100, running=running, waiting=3.0, generated=min(n, 2) * 50.0)
        for n in range(last)
    ]
    raw = scrape_rows(scrapes)
    for series in raw["raw_metric_series"]:
        series["name"] = (names if names is not None else SGLANG).get(str(series["name"]), series["name"])
    return raw


def test_of_gauges_left_over_when_the_scheduler_idles_one_sample_counts() -> None:
    assert samples("ts_ns", **standing(60)) == [(0,), (S,), (2 * S,)]
    # What may be the pause between two batches is kept.
    assert len(samples("ts_ns", **standing(20))) == 20


def test_an_idle_engine_and_gauges_read_at_every_scrape_may_stand_still() -> None:
    assert len(samples("ts_ns", **standing(60, running=0.0))) == 60
    assert len(samples("ts_ns", **standing(60, names={}))) == 60


def test_left_over_gauges_neither_prolong_pressure_nor_end_it_with_a_flip() -> None:
    scrapes = [
        Scrape(
            n,
            kv=min(0.5 + 0.008 * min(n, 59), 0.97) if n < 250 else 0.1,
            running=12.0 if n < 250 else 1.0,
            waiting=0.0 if n < 50 else 5.0 if n < 250 else 6.0,
            preemptions=0.0,
            generated=min(n, 59) * 500.0 + max(n - 249, 0) * 40.0,
        )
        for n in range(300)
    ]
    raw = scrape_rows(scrapes)
    for series in raw["raw_metric_series"]:
        series["name"] = SGLANG.get(str(series["name"]), series["name"])
    raw = merge(raw, {"raw_settings": [limit_row(16)]})
    con = model("swap_points", {**raw, "sources": [METRICS]}, NO_TRANSFERS)
    rows = table(con, f"select class, e_proof, end_ns <= {ns(62)} from swap_points")
    assert rows == [("pressure", None, True)]
