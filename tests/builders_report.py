"""A whole run as marts: two replicas, a confirmed and a probable swap point, a prefill jump, host hits."""

import math

import duckdb

from builders_marts import START, S, add_rows, add_run, empty_marts, kv_row, latency_row, swap_point
from kvcliff.findings.diagnosis import run_findings
from kvcliff.store.database import store_tables

_SECONDS = 120


def swap_story(**run_columns: object) -> duckdb.DuckDBPyConnection:
    """Return a connection on which that run is exposed, findings included."""
    con = empty_marts()
    add_run(con, **run_columns)
    _add_sources(con)
    _add_series(con)
    _add_events(con)
    _add_users(con)
    _add_gpu(con)
    run_findings(con)
    return con


def stored_story(run_id: str, con: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyConnection:
    """Return a store that holds that run (or the one staged on ``con``) and nothing else."""
    con = con or swap_story()
    names = [
        row[0] for row in con.execute("select table_name from duckdb_tables() where temporary").fetchall()
    ]
    store_tables(con, run_id, sorted(names))
    for name in names:
        con.execute(f"drop table temp.{name}")
    return con


def _add_sources(con: duckdb.DuckDBPyConnection) -> None:
    files = (
        (1, "client.json", "vllm_bench", "client", 400, 0, None),
        (2, "metrics.prom", "prometheus", "metrics", 9600, 1, "a sample without a value"),
        (3, "server_`odd`|name.log", "log", "log", 77, 0, None),
    )
    for source_id, path, reader, role, rows, skipped, reason in files:
        add_rows(
            con,
            "sources",
            {
                "source_id": source_id,
                "path": path,
                "reader": reader,
                "role": role,
                "status": "read",
                "sha256": f"{source_id}" * 64,
                "row_count": rows,
                "skipped_count": skipped,
                "first_skip_reason": reason,
            },
        )
        add_rows(
            con,
            "clocks",
            {
                "source_id": source_id,
                "offset_ns": 0 if source_id < 3 else -3600 * S,
                "uncertainty_ns": S // 2 if source_id == 3 else 1_000_000,
                "method": "utc_stated" if source_id < 3 else "events_utc",
            },
        )
    add_rows(
        con,
        "settings",
        {
            "scope": "",
            "name": "max_num_seqs",
            "value": "64",
            "number": 64.0,
            "origin": "server_`odd`|name.log",
            "is_effective": True,
        },
        {
            "scope": "",
            "name": "kv_cache_dtype",
            "value": "auto",
            "origin": "server_`odd`|name.log",
            "is_effective": True,
        },
    )


def _add_series(con: duckdb.DuckDBPyConnection) -> None:
    for second in range(_SECONDS):
        climb = min(0.25 + second * 0.0125, 0.985)
        wave = 0.008 * math.sin(second * 1.7)
        is_pressed = 57 <= second < 80
        used = 0.993 - (second % 3) * 0.012 if is_pressed else (climb + wave if second < 57 else 0.62 + wave)
        waiting = (second - 57) % 9 + 2 if is_pressed else 0
        add_rows(
            con,
            "kv_occupancy",
            kv_row(
                second,
                round(used, 4),
                running_count=48 - (second % 4 if is_pressed else 0),
                waiting_count=waiting,
            ),
            kv_row(second, round(0.3 + wave, 4), replica_id="1", running_count=16, waiting_count=0),
        )
        p50 = 22.0 + second * 0.05 + math.sin(second)
        p99 = 385.0 - second % 5 * 30 if is_pressed else 39.0 + 2 * math.sin(second * 2.3)
        if 30 <= second < 33:
            p99 = 160.0
        add_rows(con, "token_latency", latency_row(second, round(p50, 3), round(p99, 3)))


def _add_events(con: duckdb.DuckDBPyConnection) -> None:
    add_rows(
        con,
        "swap_points",
        swap_point(),
        swap_point(
            swap_point_id=2,
            **{"class": "probable"},
            e_proof="gauges",
            l_status="not_measurable",
            l_reason="no client token times after 95 s",
            kv_used_ratio=0.97,
            action_count=1,
            victim_count=None,
            longest_gap_ms=None,
            victim_gap_p50_ms=None,
            recomputed_tokens=None,
            blocked_s=None,
            pressure_at_ns=START + 99 * S,
            at_ns=START + 100 * S,
            error_ns=2 * S,
            resume_at_ns=None,
            counter_at_ns=None,
            recovered_at_ns=None,
            end_ns=START + 104 * S,
        ),
    )
    for number in range(12):
        add_rows(
            con,
            "victims",
            {
                "swap_point_id": 1,
                "replica_id": "0",
                "source_id": 1,
                "request_no": number,
                "request_id": f"cmpl-{number:02d}_a*b" if number else "evil|<img src=x>\x1b[31m@root",
                "prompt_tokens": 900 + number,
                "output_tokens": 200,
                "gap_count": 1 + number % 3,
                "gap_ms": 6210.0 - number * 400,
                "gap_total_ms": 7000.0 - number * 300,
                "start_ns": START + (60 + number) * S,
                "end_ns": START + (66 + number) * S,
            },
        )
    for number in range(14):
        add_rows(
            con,
            "engine_events",
            {
                "replica_id": "0",
                "kind": "preempt",
                "proof": "counter",
                "event_count": 1,
                "ts_ns": START + (60 + number) * S,
            },
        )
    add_rows(
        con,
        "latency_jumps",
        {
            "replica_id": "0",
            "cause": "prefill",
            "metric": "itl_p99_ms",
            "before_ms": 40.0,
            "after_ms": 160.0,
            "size_mads": 31.0,
            "kv_used_ratio": 0.64,
            "at_ns": START + 30 * S,
            "error_ns": S // 2,
            "end_ns": START + 33 * S,
        },
        {
            "replica_id": "0",
            "cause": "kv",
            "metric": "itl_p99_ms",
            "before_ms": 41.0,
            "after_ms": 385.0,
            "size_mads": 80.0,
            "kv_used_ratio": 0.99,
            "at_ns": START + 60 * S,
            "error_ns": S // 2,
            "end_ns": START + 80 * S,
        },
    )


def _add_users(con: duckdb.DuckDBPyConnection) -> None:
    for number in range(400):
        is_late = 200 <= number < 280
        add_rows(
            con,
            "requests",
            {
                "replica_id": "0",
                "source_id": 1,
                "request_no": number,
                "request_id": f"cmpl-{number}",
                "ttft_ms": 2950.0 + number if is_late else 170.0 + number % 40,
                "tpot_ms": 40.0 if is_late else 23.0,
                "longest_gap_ms": 6210.0 if is_late else 90.0,
                "is_error": number == 399,
                "is_warmup": number < 4,
                "is_slo_met": not is_late,
                "arrival_ns": START + number * S * 3 // 10,
            },
        )
    for tier, lookups, hits in (("hbm", 500_000, 460_000), ("host", 40_000, 16_400)):
        add_rows(
            con,
            "cache_hits",
            {
                "replica_id": "0",
                "tier": tier,
                "origin": "counters",
                "lookup_tokens": lookups,
                "hit_tokens": hits,
                "hit_ratio": hits / lookups,
                "ts_ns": START,
                "end_ns": START + 120 * S,
            },
        )


def _add_gpu(con: duckdb.DuckDBPyConnection) -> None:
    for name, value, unit, limit, state, meaning in (
        ("hbm_bandwidth", None, "ratio", 0.8, "unknown", "no counter of HBM traffic in this run"),
        ("sm_active", None, "ratio", 0.8, "unknown", "no counter of SM use in this run"),
        ("kv_occupancy", 0.993, "ratio", 0.97, "high", "highest rolling KV occupancy"),
        ("token_latency", 385.0, "ms", 100.0, "high", "worst ITL p99 of a second"),
        ("swap_count", 14.0, "events", 1.0, "high", "preemptions and swaps"),
    ):
        add_rows(
            con,
            "indicators",
            {
                "indicator": name,
                "value": value,
                "unit": unit,
                "threshold": limit,
                "state": state,
                "meaning": meaning,
                "origin": "marts",
            },
        )
    gib = 1 << 30
    for number, (line, size, tokens, meaning) in enumerate(
        (
            ("weights", 14 * gib, None, "as the engine states them"),
            ("kv_used_peak", 9 * gib, 73_728, "highest KV occupancy"),
            ("kv_free", gib // 16, 512, "KV never used"),
            ("rest", gib // 2, None, "unexplained"),
            ("total", 14 * gib + 9 * gib + gib // 16 + gib // 2, None, "memory the engine may use"),
        )
    ):
        add_rows(
            con,
            "capacity_ledger",
            {
                "replica_id": "0",
                "tier": "hbm",
                "line": line,
                "bytes": size,
                "tokens": tokens,
                "share": size / (23.5625 * gib),
                "meaning": meaning,
                "origin": "server.log",
                "line_no": number,
            },
        )
