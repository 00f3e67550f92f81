"""The cache_hits mart: tokens looked up and found, by tier, from counters first."""

import lzma
from collections.abc import Iterable
from pathlib import Path

import pytest

from builders_raw import Row, build, facts, has_documented_columns, is_unique, source, table
from kvcliff.readers.prometheus import READER

RECORDING = (
    Path(__file__).resolve().parents[3] / "shared/corpus/serving_runs/vllm_cpu/hit_but_slow/metrics.prom.xz"
)
S = 1_000_000_000
METRICS = source(1, "metrics.prom", "metrics")
LOG = source(2, "server.log", "log")


def scraped(series: dict[str, Iterable[float]], *, source_id: int = 1) -> dict[str, list[Row]]:
    """Return raw metric rows: one scrape a second, one value per scrape and series."""
    names = list(series)
    count = max((len(list(values)) for values in series.values()), default=0)
    return {
        "raw_metric_series": [
            {"source_id": source_id, "series_id": number, "name": name, "kind": "counter", "engine": "0"}
            for number, name in enumerate(names)
        ],
        "raw_metric_scrapes": [
            {
                "source_id": source_id,
                "scrape_no": number,
                "src_ns": number * S,
                "end_src_ns": number * S,
                "is_timed": True,
            }
            for number in range(count)
        ],
        "raw_metric_samples": [
            {"source_id": source_id, "scrape_no": scrape_no, "series_id": series_id, "value": value}
            for series_id, name in enumerate(names)
            for scrape_no, value in enumerate(series[name])
        ],
    }


def log_line(line_no: int, second: int, **values: object) -> Row:
    return {
        "source_id": 2,
        "line_no": line_no,
        "src_ns": second * S,
        "engine": "0",
        "engine_count": 1,
        **values,
    }


def cache_hits(
    series: dict[str, Iterable[float]], stats: Iterable[Row] = (), settings: Iterable[Row] = ()
) -> list[tuple[object, ...]]:
    raw = {
        "sources": [METRICS, LOG],
        **scraped(series),
        "raw_log_stats": list(stats),
        "raw_settings": list(settings),
    }
    con = build("cache_hits", raw)
    assert has_documented_columns(con, "cache_hits")
    assert is_unique(con, "cache_hits")
    return table(
        con,
        f"select tier, origin, lookup_tokens, hit_tokens, hit_ratio, ts_ns // {S}, end_ns // {S} "
        "from cache_hits order by tier, end_ns",
    )


def test_differences_between_scrapes() -> None:
    rows = cache_hits(
        {"vllm:prefix_cache_queries_total": [1000, 1000, 1400], "vllm:prefix_cache_hits_total": [10, 10, 310]}
    )
    assert rows == [("hbm", "counters", 0, 0, None, 0, 1), ("hbm", "counters", 400, 300, 0.75, 1, 2)]


def test_a_reset_counts_what_came_after_it() -> None:
    rows = cache_hits(
        {"vllm:prefix_cache_queries_total": [900, 1000, 50], "vllm:prefix_cache_hits_total": [800, 880, 20]}
    )
    assert [(row[2], row[3]) for row in rows] == [(100, 80), (50, 20)]


def test_two_spellings_of_one_fact_count_once() -> None:
    rows = cache_hits(
        {
            "vllm:gpu_prefix_cache_queries_total": [0, 100],
            "vllm:gpu_prefix_cache_hits_total": [0, 50],
            "vllm:prefix_cache_queries_total": [0, 100],
            "vllm:prefix_cache_hits_total": [0, 50],
        }
    )
    assert [(row[2], row[3]) for row in rows] == [(100, 50)]


def test_the_old_spelling_alone_is_read() -> None:
    rows = cache_hits(
        {"vllm:gpu_prefix_cache_queries_total": [0, 8], "vllm:gpu_prefix_cache_hits_total": [0, 4]}
    )
    assert rows == [("hbm", "counters", 8, 4, 0.5, 0, 1)]


@pytest.mark.parametrize(
    ("more", "settings", "tier"),
    [
        ({}, [], "remote"),
        ({"vllm:kv_offload_store_bytes_total": [0, 0]}, [], "host"),
        ({}, facts(2, host_kv_bytes=1 << 30), "host"),
    ],
)
def test_an_external_cache_is_named_by_its_place(
    more: dict[str, Iterable[float]], settings: list[Row], tier: str
) -> None:
    external: dict[str, Iterable[float]] = {
        "vllm:external_prefix_cache_queries_total": [0, 200],
        "vllm:external_prefix_cache_hits_total": [0, 50],
    }
    assert cache_hits({**external, **more}, settings=settings) == [(tier, "counters", 200, 50, 0.25, 0, 1)]


def test_an_external_cache_that_nobody_asked_is_not_there() -> None:
    rows = cache_hits(
        {"vllm:external_prefix_cache_queries_total": [0, 0], "vllm:external_prefix_cache_hits_total": [0, 0]}
    )
    assert rows == []


def test_a_ratio_above_one_is_cut_and_the_tokens_stay() -> None:
    rows = cache_hits({"vllm:prefix_cache_queries_total": [0, 100], "vllm:prefix_cache_hits_total": [0, 120]})
    assert [row[2:5] for row in rows] == [(100, 120, 1.0)]


def test_printed_ratios_stand_in_when_no_counter_exists() -> None:
    stats = [
        log_line(1, 10, prefix_hit_ratio=0.4),
        log_line(2, 20, prefix_hit_ratio=0.5, external_hit_ratio=0.1),
    ]
    assert cache_hits({}, stats) == [
        ("hbm", "log", None, None, 0.4, 10, 10),
        ("hbm", "log", None, None, 0.5, 10, 20),
        ("remote", "log", None, None, 0.1, 20, 20),
    ]


def test_printed_ratios_are_left_out_beside_counters() -> None:
    series: dict[str, Iterable[float]] = {
        "vllm:prefix_cache_queries_total": [0, 4],
        "vllm:prefix_cache_hits_total": [0, 1],
    }
    assert [row[1] for row in cache_hits(series, [log_line(1, 10, prefix_hit_ratio=0.4)])] == ["counters"]


def test_exposed_ratios_of_old_engines() -> None:
    rows = cache_hits(
        {"vllm:gpu_prefix_cache_hit_rate": [-1, 0.2], "vllm:cpu_prefix_cache_hit_rate": [-1, 0.1]}
    )
    assert [(row[0], row[1], row[4]) for row in rows] == [("hbm", "metrics", 0.2), ("host", "metrics", 0.1)]


def test_zeros_that_sglang_writes_on_decode_reports_are_no_hit_rate() -> None:
    assert [row[4] for row in cache_hits({"sglang:cache_hit_rate": [0, 0.7, 0]})] == [0.7]


def test_no_data_gives_no_row() -> None:
    assert cache_hits({"vllm:num_requests_running": [1, 2]}) == []


@pytest.mark.skipif(not RECORDING.exists(), reason="the recordings are not beside the repository")
def test_hit_rate_of_the_run_that_hits_and_is_slow(tmp_path: Path) -> None:
    scrapes = tmp_path / "metrics.prom"
    scrapes.write_bytes(lzma.decompress(RECORDING.read_bytes()))
    con = build("cache_hits", {"sources": [METRICS]}, files={1: (READER, scrapes)})
    rows = table(
        con,
        "select tier, sum(hit_tokens), sum(lookup_tokens) from cache_hits group by tier",
    )
    assert rows == [("hbm", 41_984, 44_352)]
    assert round(41_984 / 44_352, 2) == 0.95


@pytest.mark.parametrize("model", ["int_cache_steps", "int_cache_printed"])
def test_private_models_keep_their_headers(model: str) -> None:
    series: dict[str, Iterable[float]] = {
        "vllm:prefix_cache_queries_total": [0, 4],
        "sglang:cache_hit_rate": [0.1, 0.2],
    }
    raw = {
        "sources": [METRICS, LOG],
        **scraped(series),
        "raw_log_stats": [log_line(1, 10, prefix_hit_ratio=0.4)],
    }
    con = build(model, raw)
    assert has_documented_columns(con, model)
    assert is_unique(con, model)


def lookups(
    *rows: Row, stats: Iterable[Row] = (), series: dict[str, Iterable[float]] | None = None
) -> list[Row]:
    """Return tier, origin, tokens looked up and found of a log with lookups."""
    raw = {
        "sources": [METRICS, LOG],
        **scraped(series or {}),
        "raw_log_stats": list(stats),
        "raw_settings": [],
        "raw_cache_lookups": [
            {"source_id": 2, "engine": "0", "is_load_skipped": False, **row} for row in rows
        ],
    }
    con = build("cache_hits", raw)
    assert is_unique(con, "cache_hits")
    return table(con, "select tier, origin, lookup_tokens, hit_tokens from cache_hits order by tier, end_ns")


def prefill(line_no: int, found: int) -> Row:
    return {
        "line_no": line_no,
        "src_ns": line_no * S,
        "tier": "hbm",
        "lookup_tokens": 100,
        "hit_tokens": found,
    }


def test_logged_lookups_beat_printed_ratios() -> None:
    stats = [log_line(1, 1, prefix_hit_ratio=0.9)]
    assert lookups(prefill(1, 25), prefill(2, 75), stats=stats) == [
        ("hbm", "log", 100, 25),
        ("hbm", "log", 100, 75),
    ]


def test_counters_beat_logged_lookups() -> None:
    series = {"vllm:prefix_cache_queries_total": [0.0, 8.0], "vllm:prefix_cache_hits_total": [0.0, 4.0]}
    assert lookups(prefill(1, 25), series=series) == [("hbm", "counters", 8, 4)]


def test_a_request_looked_up_again_counts_once_and_without_what_the_engine_has() -> None:
    row = {
        "tier": "lmcache",
        "request_id": "a",
        "lookup_tokens": 900,
        "engine_tokens": 100,
        "hit_tokens": 500,
    }
    rows = [{**row, "line_no": number, "src_ns": number * S} for number in (1, 2, 3)]
    pending = {**row, "request_id": "b", "line_no": 4, "src_ns": 4 * S, "hit_tokens": None}
    assert lookups(*rows, pending) == [("remote", "log", 800, 400)]
