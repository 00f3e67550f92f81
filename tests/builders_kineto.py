"""A builder of PyTorch profiler traces (Kineto), and a sink that keeps what a reader writes."""

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from kvcliff.readers.base import LoadReport, ReadContext, Source
from kvcliff.readers.kineto import READER

BASE_NS = 1_790_857_026_000_000_000
PID = 1032
H100 = {
    "id": 0,
    "name": "NVIDIA H100 80GB HBM3",
    "totalGlobalMem": 84_929_347_584,
    "computeMajor": 9,
    "computeMinor": 0,
    "numSms": 132,
}


@dataclass
class KeptRows:
    """A sink that keeps the frames of each table."""

    frames: dict[str, list[pl.DataFrame]] = field(default_factory=dict)

    def append(self, table: str, frame: pl.DataFrame) -> int:
        """Keep the rows and return how many."""
        self.frames.setdefault(table, []).append(frame)
        return frame.height

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return these columns of all rows of a table."""
        frames = self.frames.get(table)
        return pl.concat(frames).select(columns).rows() if frames else []


@dataclass
class KinetoFile:
    """Events of a trace that is written at the end, in the layout of Kineto."""

    devices: tuple[dict[str, Any], ...] = (H100,)
    base_ns: int | None = BASE_NS
    events: list[dict[str, Any]] = field(default_factory=list)
    correlation: int = 0
    rank: int = 0

    def event(self, cat: str, name: str, ts: str, dur: str, **more: Any) -> None:
        """Add a span; times are decimal microseconds as text."""
        pid, tid = more.pop("pid", PID), more.pop("tid", PID)
        head = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur}
        self.events.append({**head, "args": more.pop("args", more)})

    def annotation(self, name: str, ts: str, dur: str, **more: Any) -> None:
        """Add an annotation of the host."""
        self.event("user_annotation", name, ts, dur, **more)

    def launch(self, name: str, ts: str, dur: str = "5", **more: Any) -> int:
        """Add a CUDA call and return its correlation id."""
        self.correlation += 1
        category = more.pop("cat", "cuda_runtime")
        self.event(category, name, ts, dur, args={"cbid": 211, "correlation": self.correlation}, **more)
        return self.correlation

    def gpu(self, cat: str, name: str, ts: str, dur: str, **args: Any) -> None:
        """Add GPU work on device 0, stream 7."""
        details = {"device": 0, "context": 1, "stream": 7, **args}
        self.event(cat, name, ts, dur, pid=details["device"], tid=details["stream"], args=details)

    def text(self) -> str:
        """Return the trace as JSON, one event a block as Kineto writes them."""
        head = f' {{\n    "schemaVersion": 1,\n    "deviceProperties": {json.dumps(list(self.devices))},\n'
        info = {"backend": "nccl", "rank": self.rank, "world_size": 2, "pg_config": [{"ranks": [0]}, {}]}
        head += f'    "distributedInfo": {json.dumps(info)},\n    "host_name": "secret-host",\n'
        if self.base_ns is not None:
            head += f'    "baseTimeNanoseconds": {self.base_ns},\n'
        blocks = ",".join(_block(event) for event in self.events)
        return f'{head}    "traceEvents": [\n{blocks}\n  ],"traceName": "/tmp/secret/trace.json" }}'

    def write(self, path: Path) -> Path:
        """Write the trace, gzipped when the name says so."""
        data = self.text().encode()
        path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
        return path


def _block(event: dict[str, Any]) -> str:
    lines = [
        f'    "{key}": {value if key in ("ts", "dur") else json.dumps(value)}' for key, value in event.items()
    ]
    return "\n  {\n" + ",\n".join(lines) + "\n  }"


def load_kineto(path: Path, **options: str) -> tuple[KeptRows, LoadReport]:
    """Return the rows of a trace and the reader's report."""
    kept = KeptRows()
    report = READER.load(Source(path, path.name), kept, ReadContext(options=options))
    return kept, report
