"""CPU time and memory of ``kvcliff ingest`` on large serving files: log, scrapes, token times of clients.

``make bench`` runs it and prints one row per input. Each figure is of a child process of its own, database
write included; next to it stands a plain loop over the lines of the same file.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.benchmarks.bench_diagnose import COMMAND, run_child
from tests.benchmarks.serving_inputs import (
    write_kvcliff_client,
    write_scrapes,
    write_sglang_bench,
    write_vllm_bench,
    write_vllm_log,
)

_REFERENCE = """
import sys
with open(sys.argv[1], "rb") as file:
    print(sum(line.startswith(b"#") for line in file))
"""
#: The reader of a log alone: what it costs without the rows being stored.
_READER = """
import sys
from pathlib import Path
from kvcliff.readers import log
from kvcliff.readers.base import ReadContext, Source

class Sink:
    def append(self, table, frame):
        return frame.height

print(log.load(Source(Path(sys.argv[1]), "server.log"), Sink(), ReadContext()).row_count)
"""
MEGABYTE = 1_000_000
#: 300 MB; CPU seconds depend on what else the machine does and are only printed.
READER_BUDGET_MIB = 286
REQUEST_COUNT, TOKEN_COUNT = 100_000, 500


@dataclass(frozen=True)
class Input:
    """One large file: its name, who writes it, and how much memory reading it may take."""

    name: str
    write: Callable[[Path], object]
    memory_budget_mib: int


INPUTS = (
    # The database engine's own buffers come on top of what the reader holds.
    Input("server.log", lambda path: write_vllm_log(path, 1000 * MEGABYTE), 2500),
    Input("metrics.prom", lambda path: write_scrapes(path, 200 * MEGABYTE), 1000),
    Input("bench.json", lambda path: write_vllm_bench(path, REQUEST_COUNT, TOKEN_COUNT), 3000),
    Input("sglang.jsonl", lambda path: write_sglang_bench(path, REQUEST_COUNT, TOKEN_COUNT), 3000),
    Input("requests.jsonl", lambda path: write_kvcliff_client(path, REQUEST_COUNT, TOKEN_COUNT), 3000),
)


@pytest.mark.benchmark
@pytest.mark.parametrize("lines_per_second", [100, 4])
def test_log_reader(lines_per_second: int, tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    write_vllm_log(path, 1000 * MEGABYTE, lines_per_second)
    used = run_child([sys.executable, "-c", _READER, path], tmp_path)
    size_mb = path.stat().st_size / MEGABYTE
    print(
        f"\nreader, {lines_per_second} lines a second: {used.cpu_s:.1f} s CPU "
        f"({size_mb / used.cpu_s:.0f} MB/s), {used.peak_mib} MiB"
    )
    assert used.peak_mib < READER_BUDGET_MIB


@pytest.mark.benchmark
@pytest.mark.parametrize("large", INPUTS, ids=lambda large: large.name)
def test_ingest(large: Input, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    path = run / large.name
    large.write(path)
    plain = run_child([sys.executable, "-c", _REFERENCE, path], tmp_path)
    used = run_child([COMMAND, "ingest", run, "--db", tmp_path / "bench.duckdb"], tmp_path)
    size_mb = path.stat().st_size / MEGABYTE
    print(
        f"\n{large.name}: {size_mb:.0f} MB, {used.cpu_s:.1f} s CPU ({size_mb / used.cpu_s:.0f} MB/s), "
        f"{used.cpu_s / plain.cpu_s:.1f} x a loop over its lines, {used.peak_mib} MiB"
    )
    assert used.peak_mib < large.memory_budget_mib
