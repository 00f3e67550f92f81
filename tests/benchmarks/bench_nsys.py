"""CPU time and memory of reading a large Nsight Systems export and of its models, next to a bare table scan.

Run it with an export of about one million kernels, or let it write one with the trace generator::

    python -m tests.benchmarks.bench_nsys [EXPORT.sqlite]

Prints one JSON object: CPU seconds and peak memory of the load, of the models, and the ratios to
``select sum(...)`` over the same tables in the same process and to reading the same columns from Parquet.
"""

import argparse
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from adbc_driver_sqlite import dbapi
from tests.builders_nsys import UTC_NS, build_marts, raw_tables, read_export

from kvcliff.readers.nsight_systems_tables import TABLES

GENERATOR = Path(__file__).resolve().parents[3] / "shared" / "tools" / "make_nsys_sqlite.py"
LARGE = ("--steps", "2000", "--kernels-per-step", "500", "--runtime-rows", "1000000")
LARGE_REST = ("--nvtx-per-step", "100", "--memcpy-rows", "10000")
SCANS = (
    'select sum(start), sum("end"), sum(correlationId) from CUPTI_ACTIVITY_KIND_KERNEL',
    'select sum(start), sum("end"), sum(correlationId) from CUPTI_ACTIVITY_KIND_RUNTIME',
    'select sum(start), sum("end"), sum(eventType) from NVTX_EVENTS',
)


def cpu_s() -> float:
    """Return the CPU seconds of this process so far, all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_mib() -> int:
    """Return the highest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def scan_s(path: Path) -> float:
    """Return the CPU seconds of summing three columns of the big tables with SQLite alone."""
    begun = cpu_s()
    db = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
    tables = {name for (name,) in db.execute("select name from sqlite_master where type = 'table'")}
    for sql in SCANS:
        if sql.rsplit(" ", 1)[1] in tables:
            db.execute(sql).fetchall()
    db.close()
    return cpu_s() - begun


def write_parquet(path: Path, folder: Path) -> Path:
    """Write the tables of an export as the exporter's folder of Parquet files and return it."""
    target = folder / "export_pqtdir"
    target.mkdir()
    with closing(dbapi.connect(path.as_uri())) as db, closing(db.cursor()) as cursor:
        cursor.execute("select name from sqlite_master where type = 'table' order by 1")
        for (name,) in cursor.fetchall():
            cursor.execute(f'select * from "{name}"')
            pq.write_table(cursor.fetch_arrow_table(), target / f"{name}.parquet", compression="none")
    return target


def parquet_s(folder: Path) -> float:
    """Return the CPU seconds of reading from Parquet, into memory, the columns that the reader keeps."""
    begun = cpu_s()
    con = duckdb.connect()
    for table, columns in TABLES.items():
        path = folder / f"{table}.parquet"
        if path.is_file():
            present = con.execute("select name from parquet_schema(?)", [str(path)]).fetchall()
            names = ", ".join(f'"{name}"' for name in columns if (name,) in present) or "count(*)"
            con.execute(f'create table "{table}" as select {names} from read_parquet(?)', [str(path)])
    return cpu_s() - begun


def measure(path: Path, folder: Path) -> dict[str, float]:
    """Return the measurements for one export; ``folder`` takes its copy in Parquet."""
    bare = scan_s(path)
    con = raw_tables()
    con.execute("reset threads")
    begun = cpu_s()
    read_export(con, path)
    load = cpu_s() - begun
    load_mib = peak_mib()
    con.execute("insert into sources values (1, ?, 'nsight_systems', 'trace', null, null, null)", [path.name])
    con.execute("insert into clocks values (1, ?, 0)", [UTC_NS])
    begun = cpu_s()
    build_marts(con)
    models = cpu_s() - begun
    peak = peak_mib()
    parquet = parquet_s(write_parquet(path, folder))
    kernels = con.execute("select count(*) from kernel_phases").fetchone()
    return {
        "kernels": kernels[0] if kernels else 0,
        "scan_cpu_s": round(bare, 3),
        "load_cpu_s": round(load, 3),
        "load_peak_mib": load_mib,
        "load_to_scan": round(load / bare, 2),
        "parquet_cpu_s": round(parquet, 3),
        "load_to_parquet": round(load / parquet, 2),
        "models_cpu_s": round(models, 3),
        "models_peak_mib": peak,
        "all_to_scan": round((load + models) / bare, 2),
    }


def main() -> None:
    """Measure the export named on the command line, or a generated one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("export", nargs="?", type=Path)
    given = parser.parse_args().export
    with tempfile.TemporaryDirectory() as folder:
        path = given or Path(folder) / "large.sqlite"
        if given is None:
            command = [sys.executable, str(GENERATOR), str(path), *LARGE, *LARGE_REST]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        print(json.dumps(measure(path.resolve(), Path(folder)), sort_keys=True))


if __name__ == "__main__":
    main()
