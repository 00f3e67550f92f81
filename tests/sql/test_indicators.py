"""The five indicators: always five rows, high at the threshold, unknown without data."""

import csv
import re

import pytest

from builders_raw import Row, build, facts, has_documented_columns, is_unique, source, table
from kvcliff.resources import sql_root

NAMES = ["hbm_bandwidth", "kv_occupancy", "sm_active", "swap_count", "token_latency"]
LOG = source(1, "server.log", "log")


def sample(counter: str, value: float, ts_ns: int = 0, device_id: int = 0) -> Row:
    return {"device_id": device_id, "counter": counter, "value": value, "ts_ns": ts_ns}


def kv(used_ratio: float, tier: str = "hbm") -> Row:
    return {"replica_id": "0", "tier": tier, "origin": "metrics", "used_ratio": used_ratio, "ts_ns": 0}


def bucket(
    itl_p99_ms: float | None, *, origin: str = "tokens", itl_p50_ms: float | None = None, **more: object
) -> Row:
    return {
        "replica_id": "0",
        "origin": origin,
        "itl_p50_ms": itl_p50_ms,
        "itl_p99_ms": itl_p99_ms,
        "ts_ns": 0,
        **more,
    }


def indicators(settings: list[Row] | None = None, **stubs: list[Row]) -> dict[object, tuple[object, ...]]:
    empty: dict[str, list[Row]] = {
        "gpu_samples": [],
        "kv_occupancy": [],
        "token_latency": [],
        "swap_points": [],
        "engine_events": [],
    }
    con = build("indicators", {"sources": [LOG], "raw_settings": settings or []}, {**empty, **stubs})
    assert has_documented_columns(con, "indicators")
    assert is_unique(con, "indicators")
    rows = table(
        con, "select indicator, state, value, threshold, meaning, origin from indicators order by indicator"
    )
    assert [row[0] for row in rows] == NAMES
    return {row[0]: row[1:] for row in rows}


def test_without_data_all_five_are_unknown_and_say_why() -> None:
    found = indicators()
    assert {row[0] for row in found.values()} == {"unknown"}
    assert all(row[1] is None and row[3] and row[4] is None for row in found.values())


@pytest.mark.parametrize(("pct", "state"), [(79.9, "ok"), (80.0, "high")])
def test_bandwidth_from_dcgm(pct: float, state: str) -> None:
    assert indicators(gpu_samples=[sample("dram_active_pct", pct)])["hbm_bandwidth"][0] == state


@pytest.mark.parametrize(("write_pct", "state"), [(9.9, "ok"), (10.0, "high")])
def test_bandwidth_from_trace_counters_adds_reads_and_writes(write_pct: float, state: str) -> None:
    row = indicators(gpu_samples=[sample("dram_read_pct", 70), sample("dram_write_pct", write_pct)])[
        "hbm_bandwidth"
    ]
    assert (row[0], row[1]) == (state, pytest.approx(0.7 + write_pct / 100))
    assert row[4] == "gpu_samples: dram_read_pct + dram_write_pct"


def test_memory_utilisation_is_no_bandwidth() -> None:
    found = indicators(gpu_samples=[sample("mem_busy_pct", 99), sample("gpu_busy_pct", 99)])
    assert found["hbm_bandwidth"][0] == "unknown"
    assert found["sm_active"][0] == "unknown"


def test_reads_without_writes_are_not_the_bandwidth() -> None:
    assert indicators(gpu_samples=[sample("dram_read_pct", 99)])["hbm_bandwidth"][0] == "unknown"


def test_the_busiest_device_counts_by_its_mean() -> None:
    samples = [
        sample("dram_active_pct", 100, 0, 0),
        sample("dram_active_pct", 0, 1, 0),
        sample("dram_active_pct", 60, 0, 1),
        sample("dram_active_pct", 70, 1, 1),
    ]
    assert indicators(gpu_samples=samples)["hbm_bandwidth"][1] == pytest.approx(0.65)


@pytest.mark.parametrize(("pct", "state"), [(79.9, "ok"), (80.0, "high")])
def test_busy_multiprocessors(pct: float, state: str) -> None:
    assert indicators(gpu_samples=[sample("sm_active_pct", pct)])["sm_active"][0] == state


@pytest.mark.parametrize(("ratio", "state"), [(0.799, "ok"), (0.8, "high")])
def test_kv_occupancy_is_the_highest_of_the_device(ratio: float, state: str) -> None:
    row = indicators(kv_occupancy=[kv(0.1), kv(ratio), kv(1.0, "host")])["kv_occupancy"]
    assert row[:2] == (state, ratio)
    assert row[4] == "kv_occupancy: metrics"


@pytest.mark.parametrize(("ms", "state"), [(199.9, "ok"), (200.0, "high")])
def test_token_latency_against_the_default(ms: float, state: str) -> None:
    assert indicators(token_latency=[bucket(ms)])["token_latency"][:2] == (state, ms)


@pytest.mark.parametrize(("ms", "state"), [(39.9, "ok"), (40.0, "high")])
def test_token_latency_against_the_promised_one(ms: float, state: str) -> None:
    row = indicators(facts(0, slo_itl_ms=40), token_latency=[bucket(ms)])["token_latency"]
    assert (row[0], row[2]) == (state, 40.0)


def test_one_slow_bucket_of_many_is_not_the_run() -> None:
    row = indicators(token_latency=[bucket(20.0)] * 99 + [bucket(900.0)])["token_latency"]
    assert row[:2] == ("ok", 20.0)


def rate(tokens_per_s: float, origin: str = "counters") -> Row:
    return bucket(None, origin=origin, tokens_per_s=tokens_per_s, running_count=5.0)


def test_token_times_are_better_than_rates() -> None:
    rows = [rate(10.0), bucket(30.0)]
    assert indicators(token_latency=rows)["token_latency"][1] == 30.0
    assert indicators(token_latency=rows[:1])["token_latency"][1] == 500.0


def test_rates_count_by_their_median_because_single_ones_are_off() -> None:
    row = indicators(token_latency=[rate(100.0), rate(100.0), rate(0.01), rate(0.01, "log")])["token_latency"]
    assert row[:2] == ("ok", 50.0)
    assert row[4] == "token_latency: counters (median of rates)"


def test_swaps_count_confirmed_and_probable_episodes() -> None:
    points: list[Row] = [{"class": "confirmed"}, {"class": "probable"}, {"class": "pressure"}]
    assert indicators(kv_occupancy=[kv(0.5)], swap_points=points)["swap_count"][:2] == ("high", 2.0)


@pytest.mark.parametrize("points", [[], [{"class": "pressure"}]])
def test_no_swap_is_ok_only_when_somebody_looked(points: list[Row]) -> None:
    assert indicators(kv_occupancy=[kv(0.5)], swap_points=points)["swap_count"][:2] == ("ok", 0.0)
    assert indicators(engine_events=[{"kind": "jit"}])["swap_count"][:2] == ("ok", 0.0)


def test_every_threshold_that_sql_reads_is_in_the_seed() -> None:
    with (sql_root() / "seeds" / "thresholds.csv").open(encoding="utf-8", newline="") as file:
        names = [row["name"] for row in csv.DictReader(file)]
    assert len(names) == len(set(names))
    read = {
        name
        for path in sql_root().glob("*/*.sql")
        for name in re.findall(r"\bthreshold\('(\w+)'\)", path.read_text(encoding="utf-8"))
    }
    assert read - set(names) == set()
