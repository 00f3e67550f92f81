"""The kv_occupancy mart: one occupancy curve for each replica and tier."""

import pytest

from builders_raw import Row, Rows, table
from builders_serving import S, model, ns


def sample(
    second: float, kv: float | None = 0.5, origin: str = "metrics", interval_s: float = 1, **values: object
) -> Row:
    return {
        "replica_id": "0",
        "source_id": {"metrics": 1, "log": 2, "iterations": 2}[origin],
        "origin": origin,
        "semantics": "referenced_blocks",
        "kv_used_ratio": kv,
        "running_count": 3.0,
        "waiting_count": 1.0,
        "sample_no": round(second * 10),
        "ts_ns": ns(second),
        "interval_ns": ns(interval_s),
        **values,
    }


def curve(
    columns: str, *samples: Row, stats: Rows = (), sizes: Rows = (), values: Rows = ()
) -> list[tuple[object, ...]]:
    stubs = {
        "int_kv_samples": samples,
        "stg_log__stats": stats,
        "int_model_sizes": sizes,
        "int_metric_values": values,
    }
    con = model("kv_occupancy", {}, stubs)
    return table(con, f"select {columns} from kv_occupancy order by level, replica_id, tier, ts_ns")


def test_sample_with_its_queue() -> None:
    rows = curve("tier, origin, used_ratio, running_count, waiting_count, ts_ns", sample(5))
    assert rows == [("hbm", "metrics", 0.5, 3, 1, 5 * S)]


@pytest.mark.parametrize(("interval_s", "expected"), [(1.5, "metrics"), (1.6, "iterations")])
def test_iteration_log_is_finer_than_coarse_scrapes(interval_s: float, expected: str) -> None:
    rows = curve(
        "distinct origin", sample(5, interval_s=interval_s), sample(6, origin="iterations", interval_s=0.02)
    )
    assert rows == [(expected,)]


def test_coarse_scrapes_are_better_than_statistics_lines() -> None:
    assert curve("origin", sample(5, interval_s=15), sample(6, origin="log", interval_s=10)) == [("metrics",)]


def test_statistics_lines_when_nothing_else_states_occupancy() -> None:
    assert curve("origin", sample(5, None), sample(6, origin="log", interval_s=10)) == [("log",)]


def test_samples_without_occupancy_are_left_out() -> None:
    assert curve("ts_ns // 1000000000", sample(5), sample(6, None)) == [(5,)]


def test_choice_is_made_for_each_replica_and_level() -> None:
    rows = curve(
        "level, replica_id, origin",
        sample(5),
        sample(5, origin="log", interval_s=10, replica_id="1"),
        sample(5, origin="log", interval_s=10, level="c8"),
    )
    assert sorted(rows, key=str) == [("c8", "0", "log"), (None, "0", "metrics"), (None, "1", "log")]


def test_tokens_and_bytes_when_the_size_is_known() -> None:
    size = {"kv_capacity_tokens": 4096, "kv_pool_bytes": 8192 * 4096}
    rows = curve("used_tokens, used_bytes, capacity_tokens", sample(5), sizes=[size])
    assert rows == [(2048.0, 2048.0 * 8192, 4096)]


def test_without_a_size_only_the_ratio_is_known() -> None:
    assert curve("used_ratio, used_tokens, used_bytes, capacity_tokens", sample(5)) == [
        (0.5, None, None, None)
    ]


def test_host_tier_of_statistics_lines() -> None:
    line = {
        "replica_id": "0",
        "source_id": 2,
        "line_no": 1,
        "semantics": "used_blocks",
        "host_kv_used_ratio": 0.25,
        "running_count": 4,
        "ts_ns": 5 * S,
    }
    size = {"kv_capacity_tokens": 4096, "kv_pool_bytes": 4096}
    rows = curve("tier, origin, used_ratio, used_tokens", sample(5), stats=[line], sizes=[size])
    assert rows == [("hbm", "metrics", 0.5, 2048.0), ("host", "log", 0.25, None)]


def test_two_samples_of_one_moment_are_one_row() -> None:
    assert curve("used_ratio", sample(5, 0.4), sample(5, 0.6, sample_no=99)) == [(0.6,)]


def host_gauge(second: float, name: str, value: float) -> Row:
    return {"replica_id": "0", "source_id": 1, "name": name, "value": value, "ts_ns": ns(second)}


def test_host_tier_of_scrapes_is_taken_before_that_of_the_log() -> None:
    line: Row = {"replica_id": "0", "host_kv_used_ratio": 0.4, "ts_ns": ns(9)}
    gauges = [
        host_gauge(5, "sglang:hicache_host_used_tokens", 300.0),
        host_gauge(5, "sglang:hicache_host_total_tokens", 400.0),
    ]
    columns = "tier, origin, semantics, used_ratio, ts_ns // 1000000000"
    assert curve(columns, values=gauges, stats=[line]) == [("host", "metrics", "used_blocks", 0.75, 5)]
    assert curve(columns, stats=[line]) == [("host", "log", None, 0.4, 9)]


def test_host_gauge_that_stays_zero_is_no_host_tier() -> None:
    gauges = [host_gauge(second, "vllm:cpu_cache_usage_perc", 0.0) for second in (5, 6)]
    assert curve("tier", values=gauges) == []
