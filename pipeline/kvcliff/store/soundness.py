"""Whether a database still is as kvcliff wrote it: tables, columns, types, and the values that it needs."""

import json
from collections.abc import Iterator

import duckdb

from kvcliff.errors import StoreError
from kvcliff.store.database import SCHEMA_VERSION, stored_table, table_names
from kvcliff.store.dictionary import STATE_TABLES, STORE_TABLES, Table, stored_tables

#: What must hold for each row of a table; false and null are both wrong.
_RULES: tuple[tuple[str, str, str], ...] = (
    ("runs", "a run without id or name", "run_id <> '' and name <> ''"),
    ("runs", "a run of an unknown status", "status in ('ok', 'partial')"),
    ("runs", "a run that leaves open whether its times are known", "utc_known in (true, false)"),
    ("runs", "a run without counts", "level_count >= 0 and file_count >= 0"),
    ("runs", "a run that nothing read", "kvcliff_version <> '' and ingested_at_ns between 0 and 4e18"),
    ("runs", "a run that began before all clocks", "coalesce(started_at_ns, 0) between -4e18 and 4e18"),
    ("runs", "a run that ended after all clocks", "coalesce(ended_at_ns, 0) between -4e18 and 4e18"),
    (
        "findings",
        "an answer without number, name or summary",
        "finding_no > 0 and finding <> '' and summary <> ''",
    ),
    ("findings", "an unknown verdict", "verdict in ('found', 'not_found', 'cannot_tell')"),
    ("findings", "an unknown severity", "severity in ('critical', 'warning', 'info')"),
    ("findings", "a confidence outside of 0 to 1", "coalesce(confidence, 0) between 0 and 1"),
    ("sources", "a file without number, path or status", "source_id >= 0 and path <> '' and status <> ''"),
)
#: Columns that hold a JSON list, and how long one may be.
_LISTS = (("findings", "evidence"), ("nightly_verdicts", "base_run_ids"))
_LONGEST_LIST = 1 << 22


def check_soundness(con: duckdb.DuckDBPyConnection) -> None:
    """Compare a store with what this kvcliff writes; looking at all rows of the small tables takes a moment.

    Raises:
        StoreError: it was changed by something else, or stored by another version.
    """
    try:
        problem = next(_problems(con), None)
    except duckdb.Error as exc:
        problem = str(exc).splitlines()[0]
    if problem is not None:
        raise StoreError(
            f"the database is not as kvcliff wrote it: {problem}",
            hint="ingest the runs again into a new --db",
        )


def _problems(con: duckdb.DuckDBPyConnection) -> Iterator[str]:
    yield from _function_problems(con)
    yield from _table_problems(con)
    for table, what, rule in _RULES:
        if table in table_names(con):
            sql = f"select count(*) from {stored_table(con, table)} where ({rule}) is not true"  # noqa: S608
            row = con.execute(sql).fetchone()
            if row is not None and row[0]:
                yield f"its table {table} holds {what}"
    for table, column in _LISTS:
        if table in table_names(con) and not all(map(_is_list, _texts(con, table, column))):
            yield f"its table {table} holds {column} that is no JSON list"


def _texts(con: duckdb.DuckDBPyConnection, table: str, column: str) -> list[str]:
    sql = f"select distinct {column} from {stored_table(con, table)} where {column} is not null"  # noqa: S608
    return [row[0] for row in con.execute(sql).fetchall()]


def _is_list(text: str) -> bool:
    if len(text) > _LONGEST_LIST:
        return False
    try:
        return isinstance(json.loads(text), list)
    except (ValueError, RecursionError):
        return False


def _function_problems(con: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Yield functions that the file brings along: they stand before those of the engine."""
    rows = con.execute(
        "select distinct function_name from duckdb_functions() "
        "where not internal and database_name = current_database() order by 1"
    ).fetchall()
    for (name,) in rows:
        yield f"it holds a function of its own, {name}"


def _table_problems(con: duckdb.DuckDBPyConnection) -> Iterator[str]:
    present = table_names(con)
    types = _column_types(con)
    stated = con.execute("select schema_version from kvcliff_meta").fetchall()
    needed = {
        table.name
        for table in (
            *(STATE_TABLES if stated == [(SCHEMA_VERSION,)] else ()),
            *(STORE_TABLES if "runs" in present else ()),
        )
    }
    for table in stored_tables():
        if table.name in present:
            yield from _column_problems(table, types[table.name])
        elif table.name in types:
            yield f"{table.name} is a view"
        elif table.name in needed:
            yield f"its table {table.name} is missing"


def _column_types(con: duckdb.DuckDBPyConnection) -> dict[str, dict[str, str]]:
    rows = con.execute(
        "select table_name, column_name, data_type from duckdb_columns() "
        "where not internal and schema_name = 'main' and database_name = current_database()"
    ).fetchall()
    found: dict[str, dict[str, str]] = {}
    for table, column, kind in rows:
        found.setdefault(table, {})[column] = kind
    return found


def _column_problems(table: Table, types: dict[str, str]) -> Iterator[str]:
    for column in table.columns:
        stored = types.get(column.name)
        if stored is None and table.layer != "store":
            # Marts and raw tables gain columns with versions of kvcliff; who reads them knows.
            continue
        if stored is None:
            yield f"its table {table.name} lacks the column {column.name}"
        elif stored != column.type:
            yield f"{table.name}.{column.name} is {stored}, not {column.type}"
