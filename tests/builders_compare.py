"""Stored runs for tests of the comparison: marts filled by hand in a database in memory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby

import duckdb

from kvcliff.store.dictionary import STORE_TABLES
from kvcliff.store.models import Column, load_models

Row = Mapping[str, object]
S = 1_000_000_000
START_NS = 1_790_000_000 * S
#: Small differences between requests and windows, the same in every run.
_RIPPLE = (0.0, 0.01, -0.01, 0.02, -0.02, 0.005, -0.005)


@dataclass(frozen=True)
class FakeRun:
    """A stored run at a steady load.

    Attributes:
        run_id: its id.
        start_s: begin after ``START_NS``.
        itl_ms: median time between tokens.
        itl_p99_ms: tail of it.
        ttft_ms: time to the first token.
        failed: how many of its 40 requests failed.
        kv: KV occupancy.
        preemptions: counted preemptions.
        swap_points: confirmed swap points.
        waiting: requests in the queue.
        settings: effective settings.
        rows: further rows by mart.
        tokens: prompt and output tokens of a request.
        is_dated: whether its times are dates.
        level: level of a sweep.
    """

    run_id: str
    start_s: float = 0.0
    itl_ms: float = 10.0
    itl_p99_ms: float = 30.0
    ttft_ms: float = 100.0
    failed: int = 0
    kv: float = 0.3
    preemptions: int = 0
    swap_points: int = 0
    waiting: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    tokens: tuple[int, int] = (128, 101)
    is_dated: bool = True
    level: str | None = None

    @property
    def start_ns(self) -> int:
        """First time of the run."""
        return START_NS + round(self.start_s * S) if self.is_dated else round(self.start_s * S)


def store(*runs: FakeRun, without: Iterable[str] = ()) -> duckdb.DuckDBPyConnection:
    """Return a database with these runs.

    Args:
        runs: the runs.
        without: stored tables that an older store lacks.
    """
    con = duckdb.connect()
    con.execute(";".join(text for name, text in _tables() if name not in without))
    for run in runs:
        put(con, run)
    return con


@lru_cache
def _tables() -> tuple[tuple[str, str], ...]:
    """Return the statement that creates each stored table, by its name."""
    stored = [(model.name, model.columns) for model in load_models() if model.layer == "marts"]
    found = {name: (Column("run_id", "varchar", ""), *columns) for name, columns in stored}
    found |= {table.name: table.columns for table in STORE_TABLES}
    return tuple(
        (name, f"create table {name} ({', '.join(f'{chr(34)}{c.name}{chr(34)} {c.type}' for c in columns)})")
        for name, columns in found.items()
    )


def put(con: duckdb.DuckDBPyConnection, run: FakeRun) -> None:
    """Insert a run."""
    end_ns = run.start_ns + 40 * S
    rows: dict[str, list[Row]] = {
        "runs": [
            {
                "name": run.run_id, "status": "ok", "utc_known": run.is_dated, "year_known": run.is_dated,
                "started_at_ns": run.start_ns, "ended_at_ns": end_ns,
            }
        ],
        "settings": [
            {"scope": "", "name": name, "value": value, "is_effective": True}
            for name, value in run.settings.items()
        ],
        "findings": [{"finding_no": 1, "finding": "swap_point", "verdict": "not_found"}],
        "requests": _requests(run),
        "token_latency": _buckets(run),
        "kv_occupancy": [
            {
                "level": run.level, "replica_id": "0", "tier": "hbm", "used_ratio": run.kv,
                "running_count": 4, "waiting_count": run.waiting, "ts_ns": run.start_ns + second * S,
            }
            for second in range(40)
        ],
        "swap_points": [{"level": run.level, "class": "confirmed"}] * run.swap_points,
        "engine_events": [
            {"level": run.level, "kind": "preempt", "proof": "counter", "event_count": run.preemptions}
        ],
    }  # fmt: skip
    for mart, more in run.rows.items():
        rows.setdefault(mart, []).extend(more)
    present = {row[0] for row in con.execute("select table_name from duckdb_tables()").fetchall()}
    for mart, found in rows.items():
        for names, alike in groupby(found if mart in present else (), key=tuple):
            some = list(alike)
            columns = ", ".join(f'"{name}"' for name in ("run_id", *names))
            marks = ", ".join(f"({', '.join('?' * (len(names) + 1))})" for _ in some)
            values = [value for row in some for value in (run.run_id, *row.values())]
            con.execute(f"insert into {mart} ({columns}) values {marks}", values)


def _requests(run: FakeRun) -> list[Row]:
    prompt, output = run.tokens
    rows: list[Row] = []
    for number in range(40):
        ripple = 1 + _RIPPLE[number % len(_RIPPLE)]
        tpot_ms, ttft_ms = run.itl_ms * ripple, run.ttft_ms * ripple
        e2e_ms = ttft_ms + tpot_ms * (output - 1)
        arrival_ns = run.start_ns + number * S
        rows.append(
            {
                "level": run.level, "replica_id": "0", "source_id": 1, "request_no": number,
                "prompt_tokens": prompt, "output_tokens": output, "ttft_ms": ttft_ms, "e2e_ms": e2e_ms,
                "tpot_ms": tpot_ms, "longest_gap_ms": run.itl_p99_ms, "is_error": number < run.failed,
                "is_warmup": False, "arrival_ns": arrival_ns, "end_ns": arrival_ns + round(e2e_ms * 1e6),
            }
        )  # fmt: skip
    return rows


def _buckets(run: FakeRun) -> list[Row]:
    rows: list[Row] = []
    for second in range(40):
        ripple = 1 + _RIPPLE[second % len(_RIPPLE)]
        rows.append(
            {
                "level": run.level, "replica_id": "0", "origin": "tokens", "token_count": 100,
                "tokens_per_s": 1000 / run.itl_ms, "itl_p50_ms": run.itl_ms * ripple,
                "itl_p90_ms": run.itl_ms * 1.2, "itl_p99_ms": run.itl_p99_ms * ripple,
                "itl_max_ms": run.itl_p99_ms * 1.1, "running_count": 4.0, "waiting_count": float(run.waiting),
                "ts_ns": run.start_ns + second * S, "bucket_ns": S,
            }
        )  # fmt: skip
    return rows


def decode_steps(
    *quantiles: float, batch: float = 4.0, level: str | None = None
) -> dict[str, tuple[Row, ...]]:
    """Return a ``step_times`` row of decode steps with their 10, 25, 50, 75 and 90 % quantiles."""
    names = ("elapsed_p10_ms", "elapsed_p25_ms", "elapsed_p50_ms", "elapsed_p75_ms", "elapsed_p90_ms")
    row = {
        "level": level, "replica_id": "0", "origin": "iterations", "step_class": "decode", "step_count": 1000,
        "sequence_count": batch, **dict(zip(names, quantiles, strict=True)),
    }  # fmt: skip
    return {"step_times": (row,)}


def gpu_rows(
    attention_ms: float, gemm_ms: float, *, steps: int = 100, bubble_ms: float = 0.1
) -> dict[str, tuple[Row, ...]]:
    """Return rows of a GPU trace: decode steps with two kernel families, times a step."""
    place = {"level": None, "device_id": 0, "phase": "decode"}
    families = (("attention_decode", attention_ms), ("gemm", gemm_ms))
    return {
        "step_times": (
            {
                "replica_id": "0", "origin": "trace", "step_class": "decode", "step_count": steps,
                "elapsed_p50_ms": attention_ms + gemm_ms, "bubble_ms": bubble_ms,
            },
        ),
        "phase_totals": ({**place, "gpu_time_ns": round((attention_ms + gemm_ms) * steps * 1e6)},),
        "kernel_families": tuple(
            {**place, "family": family, "gpu_time_ns": round(time_ms * steps * 1e6)}
            for family, time_ms in families
        ),
    }  # fmt: skip
