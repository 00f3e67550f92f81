"""Retention: raw rows go after some days, marts and verdicts stay."""

import duckdb

from kvcliff.errors import StoreError
from kvcliff.store.catalog import NS_PER_DAY
from kvcliff.store.database import stored_table, table_names
from kvcliff.store.models import raw_names


def runs_with_old_raw(
    con: duckdb.DuckDBPyConnection, *, older_than_days: float, now_ns: int
) -> tuple[str, ...]:
    """Return the runs that were ingested longer ago than this and still have their raw rows.

    Args:
        con: connection to the store.
        older_than_days: age by time of ingest.
        now_ns: the present, unix ns.
    """
    tables = table_names(con)
    if "runs" not in tables:
        return ()
    # A file of schema version 1 that is opened for reading lacks the table.
    removed = (
        f"select run_id from {stored_table(con, 'retention')}"  # noqa: S608
        if "retention" in tables
        else "select null::varchar as run_id where false"
    )
    rows = con.execute(
        f"""
        select run_id from {stored_table(con, "runs")}
        where ? - ingested_at_ns > ? and run_id not in ({removed})
        order by run_id
        """,  # noqa: S608
        [now_ns, int(older_than_days * NS_PER_DAY)],
    ).fetchall()
    return tuple(row[0] for row in rows)


def remove_raw(con: duckdb.DuckDBPyConnection, run_ids: tuple[str, ...], *, now_ns: int) -> None:
    """Delete the raw rows of runs and note that they are gone, in one transaction.

    Raises:
        StoreError: the database cannot be written; nothing is removed then.
    """
    if not run_ids:
        return
    present = table_names(con)
    try:
        con.execute("begin transaction")
        for name in raw_names():
            if name in present:
                con.execute(
                    f"delete from {stored_table(con, name)} where run_id in (select unnest(?))",  # noqa: S608
                    [list(run_ids)],
                )
        con.executemany(
            f"insert into {stored_table(con, 'retention')} values (?, ?)",  # noqa: S608
            [[run_id, now_ns] for run_id in run_ids],
        )
        con.execute("commit")
        con.execute("checkpoint")
    except duckdb.Error as exc:
        raise StoreError(
            f"the raw rows could not be removed: {str(exc).splitlines()[0]}",
            hint="check free disk space and permissions; nothing was removed",
        ) from exc
