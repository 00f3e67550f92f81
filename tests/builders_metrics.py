"""Builders for metric, client, device and configuration inputs, and a sink that keeps what readers write."""

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import duckdb
import polars as pl

from kvcliff.readers.base import LoadReport, ReadContext, Reader, Source
from kvcliff.resources import sql_root

CORPUS = Path(__file__).resolve().parent.parent.parent / "shared" / "corpus"
NO_CORPUS = "the shared corpus is not beside the checkout"


class TableSink:
    """A sink that checks frames against the ``sql/raw`` contracts and keeps them in memory."""

    def __init__(self) -> None:
        self._frames: dict[str, list[pl.DataFrame]] = {}
        self._contracts: dict[str, dict[str, str]] = {}

    def append(self, table: str, frame: pl.DataFrame) -> int:
        contract = self._contract(table)
        with duckdb.connect() as db:
            db.register("frame", frame.to_arrow())
            written = {row[0]: row[1] for row in db.execute("describe select * from frame").fetchall()}
        assert set(written) <= set(contract), f"{table}: unknown columns {set(written) - set(contract)}"
        wrong = {name: (kind, contract[name]) for name, kind in written.items() if kind != contract[name]}
        assert not wrong, f"{table}: {wrong}"
        self._frames.setdefault(table, []).append(frame)
        return frame.height

    def _contract(self, table: str) -> dict[str, str]:
        if table not in self._contracts:
            sql = (sql_root() / "raw" / f"{table}.sql").read_text()
            with duckdb.connect() as db:
                rows = db.execute(f"describe {sql}").fetchall()
            self._contracts[table] = {row[0]: row[1] for row in rows}
        return self._contracts[table]

    def frame(self, table: str) -> pl.DataFrame:
        frames = self._frames.get(table)
        return pl.concat(frames, how="diagonal") if frames else pl.DataFrame()

    def rows(self, table: str, *columns: str) -> list[tuple[object, ...]]:
        frame = self.frame(table)
        return frame.select(columns).rows() if frame.height else []

    def settings(self) -> dict[tuple[str, str], str]:
        return {
            (scope, name): value for scope, name, value in self.rows("raw_settings", "scope", "name", "value")
        }  # type: ignore[misc]

    def tables(self) -> set[str]:
        return set(self._frames)


class CountingSink:
    """A sink that only counts; for speed measurements."""

    def append(self, table: str, frame: pl.DataFrame) -> int:
        return frame.height


KV_SERIES = {"__name__": "vllm:kv_cache_usage_perc", "engine": "0"}
MATRIX_ANSWER = {
    "status": "success",
    "data": {
        "resultType": "matrix",
        "result": [{"metric": KV_SERIES, "values": [[1896134400, "0.5"], [1896134401, "1"]]}],
    },
}
VICTORIA_LINE = {"metric": KV_SERIES, "values": [0.5, None], "timestamps": [1896134400000, 1896134401000]}


def source_of(folder: Path, name: str, content: bytes | str) -> Source:
    """Write a file and return it as a source."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Source(path, name)


def read(reader: Reader, source: Source, context: ReadContext | None = None) -> tuple[TableSink, LoadReport]:
    """Load a source and check what every load owes: known tables, an honest row count."""
    sink = TableSink()
    report = reader.load(source, sink, context or ReadContext())
    assert sink.tables() <= set(reader.tables)
    assert report.row_count == sum(sink.frame(table).height for table in sink.tables())
    return sink, report


def scrape(values: Mapping[str, float | str], marker: str | None = None) -> str:
    """Return one exposition, each key a series as it is written, with an optional marker line."""
    lines = [] if marker is None else [marker]
    lines += [f"{series} {value}" for series, value in values.items()]
    return "\n".join(lines) + "\n"


def client_line(number: int, **changes: object) -> str:
    """Return one line of a client's request file; three tokens 20 ms apart unless changed."""
    submit_ns = 1_800_000_000_000_000_000 + number * 1_000_000_000
    request: dict[str, object] = {
        "id": f"r{number:05d}",
        "user": None,
        "tag": "steady",
        "submit_ns": submit_ns,
        "prompt_tokens": 64,
        "max_tokens": 3,
        "headers_ns": submit_ns + 5_000_000,
        "token_ns": [submit_ns + 100_000_000 + step * 20_000_000 for step in range(3)],
        "chunk_tokens": None,
        "done_ns": submit_ns + 141_000_000,
        "finish_reason": "length",
        "usage": {"prompt_tokens": 64, "completion_tokens": 3, "prompt_tokens_details": None},
        "error": None,
        "inflight_at_submit": 1,
        "status": 200,
    }
    return json.dumps({**request, **changes})


def bench_result(**changes: object) -> dict[str, object]:
    """Return a ``vllm bench serve`` result with details: two requests, the second failed."""
    result: dict[str, object] = {
        "date": "20300201-000030",
        "backend": "openai",
        "model_id": "acme/llm-8b",
        "tokenizer_id": "./model-small",
        "num_prompts": 2,
        "request_rate": "inf",
        "max_concurrency": 8,
        "duration": 2.5,
        "completed": 1,
        "failed": 1,
        "total_input_tokens": 500,
        "total_output_tokens": 4,
        "request_throughput": 0.4,
        "output_throughput": 1.6,
        "total_token_throughput": 201.6,
        "input_lens": [500, 510],
        "output_lens": [4, 0],
        "ttfts": [0.25, 0.0],
        "itls": [[0.02, 0.5, 0.03], []],
        "start_times": [1901.066200275, 1901.566200275],
        "generated_texts": ["private words", ""],
        "errors": ["", "Traceback (most recent call last):\n  ...\nTimeoutError: secret url\n"],
        "mean_ttft_ms": 250.0,
        "p99_itl_ms": 495.0,
    }
    return {**result, **changes}


def gzip_cut(content: bytes, keep_ratio: float) -> bytes:
    """Return gzip data of which the end is missing."""
    packed = gzip.compress(content, mtime=0)
    return packed[: int(len(packed) * keep_ratio)]


def csv_text(header: str, rows: Iterable[Sequence[object]]) -> str:
    """Return a CSV text with the given header line."""
    return "\n".join([header, *(",".join(str(cell) for cell in row) for row in rows)]) + "\n"


GARBAGE = bytes((index * 131 + 17) % 256 for index in range(20_000))
