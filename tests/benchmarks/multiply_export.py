"""Makes a long Nsight Systems export of a short one: the same events again and again, each time later.

python -m tests.benchmarks.multiply_export SHORT.sqlite LONG.sqlite COPIES

The rows never leave SQLite, so that memory does not grow with the number of copies.
"""

import argparse
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
_EVENT_TABLES = (
    _KERNELS,
    _CALLS,
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "NVTX_EVENTS",
)
_TIMES = ("start", "end")


def multiply(short: Path, long: Path, copy_count: int) -> None:
    """Write an export with ``copy_count`` times the events of another, one copy behind the other."""
    shutil.copyfile(short, long)
    with closing(sqlite3.connect(long)) as db:
        db.execute("pragma journal_mode = off")
        db.execute("pragma synchronous = off")
        names = {name for (name,) in db.execute("select name from sqlite_master where type = 'table'")}
        tables = [name for name in _EVENT_TABLES if name in names]
        step_ns = max(_number(db, f'select max("end") from "{table}"') for table in tables) + 1_000_000
        step_id = _number(db, f"select max(correlationId) from {_CALLS}") + 1
        for table in tables:
            columns = [row[1] for row in db.execute("select * from pragma_table_info(?)", (table,))]
            last = _number(db, f'select max(rowid) from "{table}"')
            rows = f'select {_moved(columns)} from "{table}" where rowid <= :last order by rowid'
            for number in range(1, copy_count):
                db.execute(
                    f'insert into "{table}" {rows}',
                    {"last": last, "ns": number * step_ns, "id": number * step_id},
                )
        db.commit()


def _number(db: sqlite3.Connection, sql: str) -> int:
    return int(db.execute(sql).fetchone()[0] or 0)


def _moved(columns: Sequence[str]) -> str:
    changes = {**dict.fromkeys(_TIMES, " + :ns"), "correlationId": " + :id"}
    return ", ".join(f'"{name}"{changes.get(name, "")}' for name in columns)


def main() -> None:
    """Multiply the export named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("short", type=Path)
    parser.add_argument("long", type=Path)
    parser.add_argument("copies", type=int)
    given = parser.parse_args()
    multiply(given.short, given.long, given.copies)


if __name__ == "__main__":
    main()
