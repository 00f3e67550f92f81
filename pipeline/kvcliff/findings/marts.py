"""Reading marts of the one exposed run as typed rows; a mart or column that is absent reads as no data."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from kvcliff.errors import StoreError
from kvcliff.store.database import quote

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

RowT = TypeVar("RowT", bound="DataclassInstance")


def mart_columns(con: duckdb.DuckDBPyConnection, mart: str) -> frozenset[str]:
    """Return the columns of a temporary table or view; empty when it does not exist."""
    # Asked some 150 times for one report: planning a SELECT takes half as long as scanning the catalogue.
    try:
        result = con.execute(f"select * from temp.{quote(mart)} limit 0")  # noqa: S608
    except duckdb.CatalogException:
        return frozenset()
    names = frozenset(column[0] for column in result.description or ())
    result.fetchall()
    return names


def has_rows(con: duckdb.DuckDBPyConnection, mart: str) -> bool:
    """Return whether the mart exists and holds at least one row."""
    if not mart_columns(con, mart):
        return False
    return bool(con.execute(f"select 1 from {quote(mart)} limit 1").fetchall())  # noqa: S608


def read_rows(
    con: duckdb.DuckDBPyConnection, mart: str, row_type: type[RowT], *, where: str = "true", order: str = ""
) -> tuple[RowT, ...]:
    """Return the rows of a mart as dataclasses, one column per field.

    A field whose column is absent is ``None``: runs that an older version stored lack new columns.

    Args:
        con: connection on which the run is exposed.
        mart: table name.
        row_type: dataclass whose field names are column names.
        where: constant SQL condition.
        order: constant ``order by`` list; name enough columns that ties cannot occur.
    """
    present = mart_columns(con, mart)
    if not present:
        return ()
    names = [field.name for field in fields(row_type)]
    columns = ", ".join(quote(name) if name in present else f"null as {quote(name)}" for name in names)
    tail = f" order by {order}" if order else ""
    sql = f"select {columns} from {quote(mart)} where {where}{tail}"  # noqa: S608
    return tuple(row_type(*row) for row in con.execute(sql).fetchall())


def query_rows(
    con: duckdb.DuckDBPyConnection,
    needs: tuple[str, ...],
    row_type: type[RowT],
    sql: str,
    parameters: tuple[Any, ...] = (),
) -> tuple[RowT, ...]:
    """Return the rows of a SELECT as dataclasses, fields in column order; none when a mart is absent."""
    if not all(mart_columns(con, mart) for mart in needs):
        return ()
    return tuple(row_type(*row) for row in con.execute(sql, list(parameters)).fetchall())


def threshold(con: duckdb.DuckDBPyConnection, name: str) -> float:
    """Return a threshold of this run.

    Raises:
        StoreError: the run has no such threshold (it was stored by another version).
    """
    # A result that is not fetched to its end blocks the next use of the connection.
    found = con.execute("select value from thresholds where name = ?", [name]).fetchall()
    if not found:
        raise StoreError(
            f"the run has no threshold named {name}", hint="ingest the run again with this version"
        )
    return float(found[0][0])
