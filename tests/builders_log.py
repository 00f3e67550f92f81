"""Small inputs for the log reader: lines as engines and wrappers write them, and a sink to look into."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from kvcliff.readers.base import LoadReport, ReadContext, Source
from kvcliff.readers.log import READER

SHARED = Path(__file__).resolve().parents[2] / "shared"


class ListSink:
    """Keeps every frame, by table."""

    def __init__(self) -> None:
        self.frames: dict[str, list[pl.DataFrame]] = {}

    def append(self, table: str, frame: pl.DataFrame) -> int:
        self.frames.setdefault(table, []).append(frame)
        return frame.height

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Rows of a table as dicts, without the columns that are null."""
        frames = self.frames.get(table, [])
        return [
            {name: value for name, value in row.items() if value is not None}
            for frame in frames
            for row in frame.iter_rows(named=True)
        ]


class Loaded:
    """What came out of one log."""

    def __init__(self, report: LoadReport, sink: ListSink) -> None:
        self.report = report
        self.stats = sink.rows("raw_log_stats")
        self.iterations = sink.rows("raw_log_iterations")
        self.events = sink.rows("raw_log_events")
        self.settings = sink.rows("raw_settings")
        self.access = sink.rows("raw_log_access")
        self.requests = sink.rows("raw_log_requests")
        self.lookups = sink.rows("raw_cache_lookups")
        self.transfers = sink.rows("raw_tier_transfers")
        self.samples = sink.rows("raw_tier_samples")
        self.frames = sink.frames

    def facts(self) -> dict[tuple[str, str], str]:
        """Value by scope and name, the last one of each; facts about the file's own clock left out."""
        return {
            (r["scope"], r["name"]): r["value"]
            for r in self.settings
            if not r["name"].startswith("log_stamp_")
        }

    def stamp_facts(self) -> dict[str, str]:
        """What the file says about its clock."""
        return {r["name"]: r["value"] for r in self.settings if r["name"].startswith("log_stamp_")}


def load_path(path: Path, context: ReadContext | None = None) -> Loaded:
    """Load a file with the log reader."""
    sink = ListSink()
    report = READER.load(Source(path, path.name), sink, context or ReadContext())
    return Loaded(report, sink)


def load_bytes(folder: Path, data: bytes, context: ReadContext | None = None) -> Loaded:
    """Load content as ``server.log``."""
    path = folder / "server.log"
    path.write_bytes(data)
    return load_path(path, context)


def load_lines(folder: Path, lines: Iterable[str], context: ReadContext | None = None) -> Loaded:
    """Load lines, each with its line end."""
    return load_bytes(folder, "".join(f"{line}\n" for line in lines).encode(), context)


def headed(message: str, stamp: str = "03-04 10:00:00", level: str = "INFO", process: str = "") -> str:
    """A line with the head of vLLM 0.8 and later."""
    prefix = f"({process}) " if process else ""
    return f"{prefix}{level} {stamp} [module.py:12] {message}"


def stats(
    running: int = 4,
    waiting: int = 0,
    kv_pct: float | str = 50.0,
    extra: str = "",
    engine: str = "Engine 000: ",
) -> str:
    """The message of a V1 statistics line; ``extra`` stands before the KV usage, with its comma."""
    return (
        f"{engine}Avg prompt throughput: 100.5 tokens/s, Avg generation throughput: 200.0 tokens/s, "
        f"Running: {running} reqs, Waiting: {waiting} reqs, {extra}GPU KV cache usage: {kv_pct}%, "
        "Prefix cache hit rate: 12.5%"
    )


def stats_v0(
    running: int = 4, pending: int = 0, kv_pct: float = 50.0, swapped: int = 0, host_pct: float = 0.0
) -> str:
    """The message of a V0 statistics line."""
    return (
        "Avg prompt throughput: 100.5 tokens/s, Avg generation throughput: 200.0 tokens/s, "
        f"Running: {running} reqs, Swapped: {swapped} reqs, Pending: {pending} reqs, "
        f"GPU KV cache usage: {kv_pct}%, CPU KV cache usage: {host_pct}%."
    )


def iteration(
    number: int, generation: int = 5, tokens: int = 5, elapsed_ms: float = 11.5, tail: str = ""
) -> str:
    """The message of an iteration line without context requests."""
    return (
        f"Iteration({number}): 0 context requests, 0 context tokens, {generation} generation requests, "
        f"{tokens} generation tokens, iteration elapsed time: {elapsed_ms} ms{tail}"
    )


def access(path: str = "/metrics", status: int = 200, method: str = "GET", port: int = 40001) -> str:
    """An access line of uvicorn."""
    return f'INFO:     127.0.0.1:{port} - "{method} {path} HTTP/1.1" {status} OK'


def json_record(message: str, asctime: str | None = "2031-05-06 07:08:09,250", **fields: object) -> str:
    """A line of a JSON log."""
    record: dict[str, object] = {"asctime": asctime} if asctime else {}
    return json.dumps({**record, **fields, "message": message})
