"""Reading stored marts of one run; a mart or column that the store lacks reads as no data."""

from collections.abc import Sequence
from typing import Any

import duckdb

from kvcliff.store.database import quote, stored_table

_COLUMNS_SQL = """
select table_name, column_name from duckdb_columns()
where database_name = current_database() and schema_name = 'main' and not internal
"""


class StoredMarts:
    """The stored marts of a store, read run by run.

    Args:
        con: connection to the store; nothing is created on it.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con
        self._names: dict[str, str] = {}
        self._columns: dict[str, set[str]] = {}
        for table, column in con.execute(_COLUMNS_SQL).fetchall():
            self._columns.setdefault(table, set()).add(column)

    def rows(
        self,
        mart: str,
        columns: Sequence[str],
        run_id: str,
        *,
        where: str = "true",
        order: str = "",
        needs: Sequence[str] = (),
    ) -> list[tuple[Any, ...]]:
        """Return columns of a run's rows in a mart; absent columns are ``None``, an absent mart has no rows.

        Args:
            mart: table.
            columns: plain column names.
            run_id: the run.
            where: constant SQL condition over columns in ``needs``.
            order: constant ``order by`` list over columns in ``needs``.
            needs: columns without which there is nothing to read.
        """
        present = self._columns.get(mart, set())
        if not present or not present.issuperset(needs):
            return []
        if mart not in self._names:
            self._names[mart] = stored_table(self._con, mart)
        wanted = ", ".join(quote(name) if name in present else f"null as {quote(name)}" for name in columns)
        tail = f" order by {order}" if order else ""
        sql = f"select {wanted} from {self._names[mart]} where run_id = ? and ({where}){tail}"  # noqa: S608
        return self._con.execute(sql, [run_id]).fetchall()
