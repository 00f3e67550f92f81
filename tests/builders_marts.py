"""Marts with given rows in temporary tables: what findings and report read, without files or models."""

import csv
from typing import Any

import duckdb
import polars as pl

from kvcliff.resources import sql_root

S = 1_000_000_000
START = 1_772_445_600 * S  # 2026-03-02 10:00:00

#: Columns of each table as "name type" pairs; the marts of a real build may have more.
COLUMNS: dict[str, str] = {
    "communication": "level varchar, source_id integer, device_id integer, phase varchar, "
    "kernel_count bigint, gpu_time_ns bigint, share_of_phase double, rank_count bigint, "
    "matched_count bigint, matched_time_ns bigint, together_ratio double, wait_ns bigint, "
    "wait_of_phase double, last_count bigint, skew_p50_ns bigint, skew_p99_ns bigint",
    "runs": "name varchar, labels varchar, status varchar, utc_known boolean, year_known boolean, "
    "started_at_ns bigint, ended_at_ns bigint, level_count bigint, file_count bigint, "
    "kvcliff_version varchar, ingested_at_ns bigint",
    "sources": "source_id integer, path varchar, reader varchar, role varchar, level varchar, "
    "level_number double, replica varchar, status varchar, reason varchar, sha256 varchar, "
    "size_bytes bigint, row_count bigint, skipped_count bigint, first_skip_reason varchar, "
    "notes varchar",
    "clocks": "source_id integer, offset_ns bigint, uncertainty_ns bigint, method varchar, "
    "reference_source_id integer, residual_ns bigint, note varchar",
    "findings": "finding_no integer, finding varchar, verdict varchar, severity varchar, confidence "
    "double, summary varchar, action varchar, capture varchar, evidence varchar, reason varchar",
    "settings": "scope varchar, name varchar, value varchar, number double, unit varchar, origin varchar, "
    "source_id integer, is_effective boolean",
    "kv_occupancy": "level varchar, replica_id varchar, tier varchar, origin varchar, semantics varchar, "
    "used_ratio double, used_tokens double, used_bytes double, capacity_tokens bigint, "
    "running_count bigint, waiting_count bigint, ts_ns bigint",
    "token_latency": "level varchar, replica_id varchar, origin varchar, token_count bigint, tokens_per_s "
    "double, itl_p50_ms double, itl_p90_ms double, itl_p99_ms double, itl_max_ms double, "
    "running_count double, waiting_count double, context_tokens bigint, ts_ns bigint, "
    "bucket_ns bigint",
    "requests": "level varchar, replica_id varchar, source_id integer, request_no bigint, request_id "
    "varchar, tag varchar, prompt_tokens bigint, output_tokens bigint, cached_tokens bigint, "
    "ttft_ms double, e2e_ms double, tpot_ms double, itl_median_ms double, longest_gap_ms "
    "double, is_error boolean, is_warmup boolean, is_slo_met boolean, arrival_ns bigint, "
    "first_token_ns bigint, end_ns bigint",
    "engine_events": "level varchar, replica_id varchar, kind varchar, proof varchar, mode varchar, "
    "request_id "
    "varchar, event_count bigint, tokens bigint, bytes bigint, is_under_pressure boolean, "
    "ts_ns bigint, error_ns bigint",
    "cache_hits": "level varchar, replica_id varchar, tier varchar, origin varchar, lookup_tokens bigint, "
    "hit_tokens bigint, hit_ratio double, ts_ns bigint, end_ns bigint",
    "latency_jumps": "level varchar, replica_id varchar, cause varchar, metric varchar, before_ms double, "
    "after_ms double, size_mads double, width_ms double, kv_used_ratio double, evidence "
    "varchar, at_ns bigint, error_ns bigint, end_ns bigint",
    "swap_points": 'swap_point_id integer, series_id integer, level varchar, replica_id varchar, "class" '
    "varchar, mechanism varchar, e_proof varchar, l_status varchar, l_reason varchar, "
    "evidence varchar, kv_used_ratio double, kv_footprint_ratio double, action_count bigint, "
    "victim_count bigint, blocked_s double, longest_gap_ms double, victim_gap_p50_ms double, "
    "recomputed_tokens bigint, tokens_per_s_before double, tokens_per_s_during double, "
    "ttft_p50_before_ms double, ttft_p50_during_ms double, itl_p99_before_ms double, "
    "itl_p99_during_ms double, stall_count bigint, repeat_count bigint, most_stalls bigint, "
    "missing_kv_tokens bigint, out_bytes bigint, in_bytes bigint, recovery varchar, lost_s double, "
    "slo_before_ratio double, slo_during_ratio double, itl_p99_others_ms double, tail_victim_ratio double, "
    "copy_hidden_ratio double, copy_bytes_per_s double, missing_kv_ratio double, kv_rise_per_s double, "
    "kv_itl_correlation double, ramp_ceiling_ns bigint, "
    "pressure_at_ns bigint, at_ns bigint, error_ns bigint, "
    "resume_at_ns bigint, counter_at_ns bigint, recovered_at_ns bigint, end_ns bigint",
    "swap_streams": "level varchar, replica_id varchar, swap_point_id bigint, source_id integer, "
    "request_no bigint, request_id varchar, stream_no bigint, tokens bigint, is_victim boolean, ts_ns bigint",
    "victims": "swap_point_id integer, level varchar, replica_id varchar, source_id integer, request_no "
    "bigint, request_id varchar, prompt_tokens bigint, output_tokens bigint, gap_count "
    "bigint, gap_ms double, gap_total_ms double, start_ns bigint, end_ns bigint",
    "concurrency_knee": "level varchar, sweep varchar, load_kind varchar, cause varchar, reason varchar, "
    "load double, level_number double, concurrency double, tokens_per_s double, itl_p50_ms double, "
    "itl_p99_ms double, ttft_p50_ms double, kv_used_ratio_max double, read_hit_ratio double, "
    "dram_use_ratio double, elasticity double, running_max bigint, waiting_max bigint, "
    "preemption_count bigint, place_no bigint, knee_min_load double, knee_max_load double, "
    "l2_reuse varchar, is_knee boolean, is_saturation boolean, is_hit_collapse boolean, "
    "is_client_late boolean",
    "counter_limits": "level varchar, phase varchar, family varchar, basis varchar, verdict varchar, "
    "cause varchar, l2_reuse varchar, kernel_count bigint, time_ns bigint, covered_time_ns bigint, "
    "verdict_time_ns bigint, read_lookup_sectors bigint, coverage_ratio double, verdict_ratio double, "
    "read_hit_ratio double, dram_use_ratio double, dram_busy_ratio double, sm_use_ratio double, "
    "l2_use_ratio double, occupancy_ratio double, fabric_use_ratio double, slice_idle_ratio double, "
    "is_off_gpu boolean",
    "l2_reuse": "level varchar, scope varchar, verdict varchar, load double, place_no bigint, "
    "profile_count bigint, group_size double, read_hit_ratio double, read_hit_min_ratio double, "
    "read_hit_max_ratio double, dram_use_ratio double, drop_ratio double, possible_hit_ratio double, "
    "prefix_hit_ratio double, kv_layer_bytes double, l2_bytes double, is_collapse boolean",
    "indicators": "indicator varchar, value double, unit varchar, threshold double, state varchar, meaning "
    "varchar, origin varchar",
    "capacity_ledger": "level varchar, replica_id varchar, tier varchar, line varchar, bytes bigint, tokens "
    "bigint, share double, meaning varchar, origin varchar, line_no integer",
    "bandwidth_ledger": "level varchar, replica_id varchar, step_class varchar, line varchar, bytes bigint, "
    "time_ms double, tokens_per_s double, ratio double, meaning varchar, origin varchar, "
    "line_no integer",
    "stress_tests": "level varchar, replica_id varchar, verdict varchar, request_count bigint, "
    "prompt_tokens bigint, output_tokens bigint, swap_count bigint, used_ratio_first double, "
    "used_ratio_peak double, kv_itl_correlation double, itl_low_ms double, itl_high_ms double, "
    "start_ns bigint, full_ns bigint",
    "phase_totals": "level varchar, device_id integer, phase varchar, kernel_count bigint, "
    "gpu_time_ns bigint, busy_ns bigint, graph_count bigint, graph_time_ns bigint, graph_busy_ns bigint, "
    "confident_time_ns bigint",
}


def empty_marts(*names: str, without: tuple[str, ...] = ()) -> duckdb.DuckDBPyConnection:
    """Return a connection with empty temporary tables (all of them unless named) and the thresholds."""
    con = duckdb.connect()
    for name in names or tuple(COLUMNS):
        if name not in without:
            con.execute(f"create temp table {name} ({COLUMNS[name]})")
    con.execute(
        "create temp table thresholds "
        "(name varchar, value double, unit varchar, meaning varchar, source varchar)"
    )
    with (sql_root() / "seeds" / "thresholds.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            con.execute("insert into thresholds values (?, ?, ?, ?, ?)", list(row.values()))
    return con


def add_rows(con: duckdb.DuckDBPyConnection, mart: str, *rows: dict[str, Any]) -> None:
    """Insert rows given as dicts; columns that a row lacks are null."""
    frame = pl.DataFrame(list(rows), infer_schema_length=None)
    con.register("given_rows", frame)
    con.execute(f"insert into {mart} by name select * from given_rows")
    con.unregister("given_rows")


def add_run(con: duckdb.DuckDBPyConnection, **columns: Any) -> None:
    """Insert the row of ``runs``: two minutes that are tied to UTC, unless stated otherwise."""
    row = {
        "name": "night_load",
        "status": "ok",
        "utc_known": True,
        "year_known": True,
        "started_at_ns": START,
        "ended_at_ns": START + 120 * S,
        "level_count": 0,
        "file_count": 3,
        "kvcliff_version": "0.1.0",
        "ingested_at_ns": 1,
    }
    add_rows(con, "runs", {**row, **columns})


def swap_point(**columns: Any) -> dict[str, Any]:
    """Return a confirmed swap point 60 s into the run."""
    row = {
        "swap_point_id": 1,
        "series_id": 1,
        "replica_id": "0",
        "class": "confirmed",
        "mechanism": "recompute",
        "e_proof": "counter",
        "l_status": "worse",
        "l_reason": "victims' token gaps",
        "evidence": "pressure,flip,counter,stall",
        "kv_used_ratio": 0.993,
        "kv_footprint_ratio": 0.03,
        "action_count": 14,
        "victim_count": 6,
        "blocked_s": 12.5,
        "longest_gap_ms": 6210.0,
        "victim_gap_p50_ms": 2400.0,
        "recomputed_tokens": 18_400,
        "tokens_per_s_before": 812.0,
        "tokens_per_s_during": 540.0,
        "ttft_p50_before_ms": 180.0,
        "ttft_p50_during_ms": 2950.0,
        "itl_p99_before_ms": 41.0,
        "itl_p99_during_ms": 385.0,
        "pressure_at_ns": START + 57 * S,
        "at_ns": START + 60 * S,
        "error_ns": S // 2,
        "resume_at_ns": START + 62 * S,
        "counter_at_ns": START + 63 * S,
        "recovered_at_ns": START + 80 * S,
        "end_ns": START + 78 * S,
    }
    return {**row, **columns}


def kv_row(at_s: float, used_ratio: float, **columns: Any) -> dict[str, Any]:
    """Return one HBM occupancy sample, ``at_s`` seconds into the run."""
    row = {
        "replica_id": "0",
        "tier": "hbm",
        "origin": "metrics",
        "used_ratio": used_ratio,
        "running_count": 8,
        "waiting_count": 0,
        "ts_ns": START + round(at_s * S),
    }
    return {**row, **columns}


def latency_row(at_s: float, p50_ms: float, p99_ms: float, **columns: Any) -> dict[str, Any]:
    """Return one second of token latency, ``at_s`` seconds into the run."""
    row = {
        "replica_id": "0",
        "origin": "tokens",
        "token_count": 800,
        "tokens_per_s": 800.0,
        "itl_p50_ms": p50_ms,
        "itl_p99_ms": p99_ms,
        "ts_ns": START + round(at_s * S),
        "bucket_ns": S,
    }
    return {**row, **columns}
