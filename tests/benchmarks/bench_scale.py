"""CPU time and memory where inputs are large: ten million kernels, eight GPUs, hours of serving, Parquet.

``make bench`` runs it. Each figure is of a child process of its own. The traces come from the generator
beside the checkout; without it only the serving files are measured. The reference wants pandas, which kvcliff
does not: name a Python that has it in ``KVCLIFF_BENCH_PANDAS``, or its row is left out.
"""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.benchmarks.bench_diagnose import COMMAND, GENERATOR, ROOT, Usage, run_child, write_export
from tests.benchmarks.bench_nsys import write_parquet
from tests.benchmarks.multiply_export import multiply
from tests.benchmarks.serving_inputs import write_kvcliff_client, write_scrapes, write_vllm_log

needs_generator = pytest.mark.skipif(not GENERATOR.is_file(), reason="the trace generator is not there")
MEGABYTE = 1_000_000
#: Budgets.
LOAD_CPU_S, LOAD_MIB = 2.5, 450
ALL_CPU_S, ALL_MIB = 5.0, 1000
AGAIN_CPU_S = 1.0
TEN_MIB, TEN_RATIO = 4000, 11.0
#: Reading a folder of Parquet tables, to reading the same as SQLite.
PARQUET_RATIO = 0.5
GPUS_CPU_S = 60.0
SERVING_CPU_S, SERVING_MIB = 60.0, 3000
MEMORY_LIMIT = "2GB"
_LOAD = """
import sys
from pathlib import Path
from tests.builders_nsys import raw_tables
from kvcliff.readers.base import ReadContext, Source
from kvcliff.readers.nsight_systems import READER
from kvcliff.store.ingest import FrameSink
path = Path(sys.argv[1])
READER.load(Source(path, path.name, is_dir=path.is_dir()), FrameSink(raw_tables(), 1), ReadContext())
"""
_READ = """
import sys
from pathlib import Path
import tests.builders_nsys
from kvcliff.readers.base import ReadContext, Source
from kvcliff.readers.nsight_systems import READER
path = Path(sys.argv[1])
class Nowhere:
    def append(self, table, frame):
        return frame.height
READER.load(Source(path, path.name, is_dir=path.is_dir()), Nowhere(), ReadContext())
"""
#: What both scripts do before there is a file to read: imports, and empty tables for the first.
_TABLES_ONLY = """
import kvcliff.store.ingest
from tests.builders_nsys import raw_tables
raw_tables()
"""
_IMPORTS_ONLY = "import tests.builders_nsys"


@pytest.fixture(scope="module")
def million(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("million") / "million.sqlite"
    write_export(path)
    return path


def ingest(run: Path, scratch: Path, *more: str) -> Usage:
    """Return what reading, judging and storing a run used."""
    return run_child([COMMAND, "ingest", run, "--db", scratch / "runs.duckdb", *more], scratch)


def diagnose(run: Path, scratch: Path) -> Usage:
    """Return what a whole diagnosis used."""
    return run_child(
        [COMMAND, "diagnose", run, "--db", scratch / "runs.duckdb", "-o", scratch / "report"], scratch
    )


def load(path: Path, scratch: Path, script: str = _LOAD, before: str = _TABLES_ONLY) -> tuple[float, int]:
    """Return CPU seconds and memory of the reader; what comes before reading is taken off the seconds.

    Args:
        path: the export.
        scratch: folder for the output.
        script: what is done with the rows.
        before: what of that has nothing to do with the file.
    """
    bare = run_child([sys.executable, "-c", before], scratch)
    used = run_child([sys.executable, "-c", script, path], scratch)
    return used.cpu_s - bare.cpu_s, used.peak_mib


def show(title: str, usage: Usage, note: str = "") -> None:
    """Print one row."""
    print(f"\n{title}: {usage.cpu_s:.2f} s CPU, {usage.peak_mib} MiB{note}")


@pytest.mark.benchmark
@needs_generator
def test_a_million_kernels(million: Path, tmp_path: Path) -> None:
    load_s, load_mib = load(million, tmp_path)
    print(f"\nreading a million kernels: {load_s:.2f} s CPU, {load_mib} MiB")
    first = diagnose(million, tmp_path)
    again = run_child(
        [COMMAND, "report", "million", "--db", tmp_path / "runs.duckdb", "-o", tmp_path / "again"], tmp_path
    )
    python = os.environ.get("KVCLIFF_BENCH_PANDAS")
    note = ""
    if python:
        script = ROOT / "tests" / "benchmarks" / "reference_split.py"
        reference = run_child([python, script, million], tmp_path)
        show("pandas and sqlite3, kernel sums and split", reference)
        note = f", {first.cpu_s / reference.cpu_s:.2f} x pandas"
    show("a million kernels, diagnosed", first, note)
    show("reported again from the database", again)
    assert load_s < LOAD_CPU_S
    assert load_mib < LOAD_MIB
    assert first.cpu_s < ALL_CPU_S
    assert first.peak_mib < ALL_MIB
    assert again.cpu_s < AGAIN_CPU_S


@pytest.mark.benchmark
@needs_generator
def test_parquet_is_cheaper_than_sqlite(million: Path, tmp_path: Path) -> None:
    folder = write_parquet(million, tmp_path)
    loaded = [load(path, tmp_path)[0] for path in (million, folder)]
    print(f"\nraw tables from SQLite {loaded[0]:.2f} s, from Parquet {loaded[1]:.2f} s CPU")
    sqlite_s, parquet_s = (load(path, tmp_path, _READ, _IMPORTS_ONLY)[0] for path in (million, folder))
    print(f"reading alone: SQLite {sqlite_s:.2f} s, Parquet {parquet_s:.2f} s CPU")
    assert loaded[1] < PARQUET_RATIO * loaded[0]
    assert parquet_s < PARQUET_RATIO * sqlite_s


@pytest.mark.benchmark
@needs_generator
def test_ten_million_kernels(million: Path, tmp_path: Path) -> None:
    one = diagnose(million, tmp_path)
    path = tmp_path / "ten.sqlite"
    multiply(million, path, 10)
    (tmp_path / "ten").mkdir()
    ten = diagnose(path, tmp_path / "ten")
    path.unlink()
    show("ten million kernels", ten, f", {ten.cpu_s / one.cpu_s:.1f} x one million")
    assert ten.peak_mib < TEN_MIB
    assert ten.cpu_s < TEN_RATIO * one.cpu_s


@pytest.mark.benchmark
@needs_generator
def test_eight_gpus(million: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for number in range(8):
        path = run / f"rank{number}.sqlite"
        path.write_bytes(million.read_bytes())
        with closing(sqlite3.connect(path)) as db:
            for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"):
                db.execute(f"update {table} set deviceId = ?", [number])
            db.commit()
    used = ingest(run, tmp_path, "--memory-limit", MEMORY_LIMIT)
    show("eight exports of a million kernels", used)
    assert used.cpu_s < GPUS_CPU_S
    assert used.peak_mib < 3000


@pytest.mark.benchmark
def test_a_day_of_serving(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    write_vllm_log(run / "server.log", 1000 * MEGABYTE)
    write_scrapes(run / "metrics.prom", 200 * MEGABYTE)
    write_kvcliff_client(run / "requests.jsonl", 100_000, 500)
    used = ingest(run, tmp_path)
    show("log of 1 GB, scrapes of 200 MB, 50 million token times", used)
    assert used.cpu_s < SERVING_CPU_S
    assert used.peak_mib < SERVING_MIB


def test_copies_follow_each_other(tmp_path: Path) -> None:
    """The copies of an export lie behind each other and share no launch."""
    if not GENERATOR.is_file():
        pytest.skip("the trace generator is not there")
    short, long = tmp_path / "short.sqlite", tmp_path / "long.sqlite"
    command = [sys.executable, str(GENERATOR), str(short), "--steps", "5", "--kernels-per-step", "20"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    multiply(short, long, 3)
    counts = "count(*), count(distinct correlationId), max(start) - min(start)"
    sql = f"select {counts} from CUPTI_ACTIVITY_KIND_KERNEL"
    with closing(sqlite3.connect(short)) as one, closing(sqlite3.connect(long)) as three:
        kernels, ids, span = one.execute(sql).fetchone()
        assert three.execute(sql).fetchone()[:2] == (3 * kernels, 3 * ids)
        assert three.execute(sql).fetchone()[2] > 3 * span
