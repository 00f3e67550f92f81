"""Other forms of an Nsight Systems SQLite export, written as its own exporter writes them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

#: Columns that the exporter writes as UINT64 outside SQLite.
UNSIGNED = frozenset(
    {
        "globalTid",
        "globalPid",
        "endGlobalTid",
        "rangeId",
        "category",
        "domainId",
        "uint64Value",
        "graphNodeId",
    }
)
_ARROW = {int: pa.int64(), float: pa.float64(), str: pa.string(), bytes: pa.binary()}


def arrow_tables(path: Path, *, as_bytes: bool = False) -> Iterator[tuple[str, pa.Table]]:
    """Yield the tables of an SQLite export in the types of the other forms.

    Args:
        path: the export.
        as_bytes: write texts as bytes, as nsys 2022 does.
    """
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as db:
        db.text_factory = lambda raw: raw.decode("utf-8", "replace")
        names = [
            row[0] for row in db.execute("select name from sqlite_master where type = 'table' order by 1")
        ]
        for name in names:
            columns = [row[1] for row in db.execute("select * from pragma_table_info(?)", (name,))]
            rows = db.execute(f'select * from "{name}" order by rowid').fetchall()
            arrays = [
                _array(column, [row[at] for row in rows], as_bytes) for at, column in enumerate(columns)
            ]
            table = pa.Table.from_arrays(arrays, names=columns)
            yield name, table.replace_schema_metadata({"table_name": name})


def _array(column: str, values: list[object], as_bytes: bool) -> pa.Array:
    if column in UNSIGNED:
        return pa.array([None if value is None else int(value) % 2**64 for value in values], pa.uint64())
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    kind = kinds.pop() if len(kinds) == 1 else str
    if kind is str and as_bytes:
        return pa.array([None if value is None else str(value).encode() for value in values], pa.binary())
    texts = values if kind is not str else [None if value is None else str(value) for value in values]
    return pa.array(texts, _ARROW[kind])


def to_parquetdir(path: Path, folder: Path) -> Path:
    """Write an SQLite export as a folder of Parquet files and return the folder."""
    folder.mkdir()
    for name, table in arrow_tables(path):
        pq.write_table(table, folder / f"{name}.parquet", compression="none")
    return folder


def to_arrowdir(path: Path, folder: Path) -> Path:
    """Write an SQLite export as a folder of Arrow streams and return the folder."""
    folder.mkdir()
    for name, table in arrow_tables(path):
        with (folder / f"{name}.arrow").open("wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            # More than one batch for all but the smallest tables.
            writer.write_table(table, max_chunksize=1000)
    return folder


def to_arrows(path: Path, target: Path, *, as_bytes: bool = False) -> Path:
    """Write an SQLite export as one file of concatenated Arrow streams and return the file."""
    with target.open("wb") as file:
        for _, table in arrow_tables(path, as_bytes=as_bytes):
            with pa.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(table, max_chunksize=1000)
    return target
