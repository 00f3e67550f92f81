"""Builders for SQL tests: raw tables with given rows or files, and the models that a test needs on top."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby, islice
from pathlib import Path

import duckdb
import polars as pl

from kvcliff.readers.base import ReadContext, Reader, Source
from kvcliff.store.models import Model, build_models, load_macros, load_models, load_seeds

Row = Mapping[str, object]
Rows = Sequence[Row]

#: Tables that the store writes; only the columns that models read.
_STORE_TABLES = {
    "sources": (
        "source_id integer, path varchar, reader varchar, role varchar, level varchar, "
        "level_number double, replica varchar, status varchar"
    ),
    "clocks": "source_id integer, offset_ns bigint, uncertainty_ns bigint, method varchar",
}


@cache
def _models() -> dict[str, Model]:
    return {model.name: model for model in load_models()}


class _TableSink:
    """Puts a reader's frames into the raw tables of one source."""

    def __init__(self, con: duckdb.DuckDBPyConnection, source_id: int) -> None:
        self._con = con
        self._source_id = source_id

    def append(self, table: str, frame: pl.DataFrame) -> int:
        if frame.height == 0:
            return 0
        columns = ", ".join(f'"{name}"' for name in frame.columns)
        self._con.register("frame", frame.to_arrow())
        self._con.execute(
            f"insert into temp.{table} (source_id, {columns}) select {self._source_id}, {columns} from frame"
        )
        self._con.unregister("frame")
        return frame.height


@cache
def _seeds() -> dict[str, pl.DataFrame]:
    with duckdb.connect() as con:
        load_seeds(con)
        names = [str(row[0]) for row in con.execute("select table_name from duckdb_tables()").fetchall()]
        return {name: con.sql(f"select * from temp.{name}").pl() for name in names}


def _load_seeds(con: duckdb.DuckDBPyConnection) -> None:
    """Create the seed tables; a thousand tests need not read the files a thousand times."""
    for name, frame in _seeds().items():
        con.register("frame", frame)
        con.execute(f"create temp table {name} as select * from frame")
        con.unregister("frame")


def _create_raw_tables(con: duckdb.DuckDBPyConnection) -> None:
    """Create the raw tables from the columns of their headers, in half the time that the SELECTs take.

    That both are the same is tested (``test_header_tells_the_truth``).
    """
    for model in _models().values():
        if model.layer == "raw":
            columns = ", ".join(f"{column.name} {column.type}" for column in model.columns)
            con.execute(f"create temp table {model.name} ({columns})")


def build(
    target: str,
    rows: Mapping[str, Rows],
    stubs: Mapping[str, Rows] | None = None,
    files: Mapping[int, tuple[Reader, Path]] | None = None,
) -> duckdb.DuckDBPyConnection:
    """Return a connection with ``target`` and all that it reads, built on given rows and files.

    Args:
        target: model to build.
        rows: rows of raw tables and of ``sources`` and ``clocks``; columns left out are NULL.
        stubs: models that stand as tables with these rows instead of being built.
        files: files to load, by source id, each with its reader.
    """
    con = duckdb.connect()
    # One thread: tests share a small machine.
    con.execute("set threads = 1")
    _create_raw_tables(con)
    _load_seeds(con)
    load_macros(con)
    for name, columns in _STORE_TABLES.items():
        con.execute(f"create temp table {name} ({columns})")
    for name, given in (stubs or {}).items():
        columns = ", ".join(f"{column.name} {column.type}" for column in _models()[name].columns)
        con.execute(f"create temp table {name} ({columns})")
        insert(con, name, given)
    for name, given in rows.items():
        insert(con, name, given)
    for source_id, (reader, path) in (files or {}).items():
        reader.load(Source(path, path.name), _TableSink(con, source_id), ReadContext())
    build_models(con, needed(target, frozenset(stubs or {})))
    return con


def needed(target: str, stubbed: frozenset[str]) -> tuple[Model, ...]:
    """Return the models that ``target`` reads, itself last, in build order; stubs end the search."""
    models = _models()
    wanted: set[str] = set()
    open_names = [target]
    while open_names:
        name = open_names.pop()
        if name not in wanted and name not in stubbed and name in models:
            wanted.add(name)
            open_names.extend(models[name].depends)
    return tuple(model for model in load_models() if model.name in wanted and model.layer != "raw")


def insert(con: duckdb.DuckDBPyConnection, table: str, rows: Iterable[Row]) -> None:
    """Insert rows by column name, neighbours with the same columns in one statement."""
    for names, alike in groupby(rows, key=tuple):
        columns = ", ".join(f'"{name}"' for name in names)
        marks = f"({', '.join('?' for _ in names)})"
        for some in _batched(alike, 100):
            con.execute(
                f"insert into temp.{table} ({columns}) values {', '.join([marks] * len(some))}",
                [value for row in some for value in row.values()],
            )


def _batched(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    """Yield lists of up to ``size`` rows."""
    rest = iter(rows)
    while some := list(islice(rest, size)):
        yield some


def table(con: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[object, ...]]:
    """Return the rows of a query."""
    return con.execute(sql).fetchall()


def one(con: duckdb.DuckDBPyConnection, sql: str) -> tuple[object, ...]:
    """Return the only row of a query."""
    rows = table(con, sql)
    assert len(rows) == 1, rows
    return rows[0]


def source(source_id: int, path: str, role: str, **more: object) -> Row:
    """Return a row of ``sources``."""
    return {"source_id": source_id, "path": path, "reader": role, "role": role, "status": "read", **more}


def facts(source_id: int, scope: str = "", line_no: int = 1, **values: object) -> list[Row]:
    """Return rows of ``raw_settings``, one per keyword."""
    return [
        {"source_id": source_id, "line_no": line_no, "scope": scope, "name": name, "value": str(value)}
        for name, value in values.items()
    ]


def is_unique(con: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Return whether the key that a model's header states is unique in its rows."""
    keys = ", ".join(_models()[name].key)
    return not table(con, f"select {keys} from {name} group by {keys} having count(*) > 1")


def has_documented_columns(con: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Return whether a built model has the columns that its header states, with their types, in order."""
    stated = [(column.name, column.type) for column in _models()[name].columns]
    actual = [(row[0], row[1]) for row in table(con, f"describe {name}")]
    assert actual == stated, (actual, stated)
    return actual == stated
