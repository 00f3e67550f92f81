"""Tables of a report straight from a SELECT over marts."""

from dataclasses import replace
from typing import Any

import duckdb

from kvcliff.errors import StoreError
from kvcliff.findings.levels import read_levels
from kvcliff.findings.marts import mart_columns
from kvcliff.report.document import Column, Table

#: Rows that a report shows of a long table.
SHOWN_ROWS = 10
#: Heading of times since ``START_SQL``.
SINCE_START = "Into the run"
#: Begin of the level that a row with ``level`` belongs to; of the run, when it is no sweep.
START_SQL = """
coalesce(
    (
        select min(samples.ts_ns)
        from (
            select level, ts_ns from kv_occupancy
            union all
            select level, ts_ns from token_latency
        ) as samples
        where samples.level = {table}.level
    ),
    (select started_at_ns from runs)
)
"""


def read_table(
    con: duckdb.DuckDBPyConnection,
    mart: str,
    columns: tuple[Column, ...],
    sql: str,
    parameters: tuple[Any, ...] = (),
    *,
    also_needs: tuple[str, ...] = (),
    more_words: str = "rows",
    total_sql: str | None = None,
) -> Table | None:
    """Return the rows of a SELECT as a table without empty columns; ``None`` when there is nothing to show.

    Args:
        con: connection on which the run is exposed.
        mart: the mart its numbers come from; absent means no data.
        columns: one per selected column.
        sql: the SELECT, fully ordered.
        parameters: bound values.
        also_needs: further marts that the SELECT reads.
        more_words: what rows are called that do not fit.
        total_sql: SELECT of the number of rows there are in all.

    Raises:
        StoreError: the run was stored by a version whose marts lack a column.
    """
    if not all(mart_columns(con, name) for name in (mart, *also_needs)):
        return None
    rows = tuple(tuple(row) for row in fetch_rows(con, mart, sql, parameters))
    if not rows:
        return None
    total = con.execute(total_sql).fetchall() if total_sql is not None else []
    more = max(int(total[0][0]) - len(rows), 0) if total else 0
    return Table(mart, columns, rows, more, more_words).without_empty_columns()


def fetch_rows(
    con: duckdb.DuckDBPyConnection, mart: str, sql: str, parameters: tuple[Any, ...] = ()
) -> list[tuple[Any, ...]]:
    """Return the rows of a SELECT over marts of this version.

    Raises:
        StoreError: the run was stored by a version whose marts lack a column.
    """
    try:
        return con.execute(sql, list(parameters)).fetchall()
    except duckdb.BinderException as exc:
        raise StoreError(
            f"the run was stored by another version of kvcliff: its {mart} lacks a column",
            hint="read the run again: kvcliff diagnose RUN",
        ) from exc


def since_level(con: duckdb.DuckDBPyConnection, table: Table) -> Table:
    """Return the table; in a sweep its times since the start are headed as times into the level."""
    if len(read_levels(con)) < 2:
        return table
    columns = tuple(
        replace(column, title="Into the level") if column.title == SINCE_START else column
        for column in table.columns
    )
    return replace(table, columns=columns)
