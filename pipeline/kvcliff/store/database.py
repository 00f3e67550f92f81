"""One DuckDB file: opening it safely and copying a staged run into it in one transaction."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from kvcliff import __version__
from kvcliff.errors import StoreError, StoreLockedError, StoreVersionError
from kvcliff.store.migrations import STATE_DDL, migrate, path_from

#: Raised when a stored table changes; ``migrations.py`` says how older databases get there.
SCHEMA_VERSION = 2
#: What the engine may use when nobody says, enough for a million kernels; more spills to disk.
_MEMORY_LIMIT_BYTES = 2 << 30
#: Session variable that says that this limit is ours to lift.
_LIFTABLE = "is_memory_limit_ours"
#: Whom DuckDB names as the holder of a lock.
_HOLDER = re.compile(r"PID (\d+)")
_SIZE = re.compile(r"\d+(?:\.\d+)?\s*(?:%|[KMGT]?i?B?)", re.IGNORECASE)


def open_store(
    path: Path, *, read_only: bool = False, memory_limit: str | None = None
) -> duckdb.DuckDBPyConnection:
    """Return a connection to the store, created when absent (unless ``read_only``).

    Extension loading and access to other files are switched off in read-only mode, where SQL of
    users runs.

    Raises:
        StoreLockedError: another process has it open for writing.
        StoreVersionError: it is no kvcliff store, or one of another schema version.
        StoreError: it cannot be opened or created.
    """
    if read_only and not path.exists():
        raise StoreError(
            f"there is no database at {path}", hint="ingest a run first: kvcliff ingest RUN --db PATH"
        )
    if not read_only and not path.parent.is_dir():
        raise StoreError(
            f"the folder of the database {path} does not exist", hint="create it, or choose another --db"
        )
    if not read_only and not path.exists():
        _create(path)
    con = _connect(path, read_only=read_only)
    try:
        _configure(con, read_only=read_only, memory_limit=memory_limit)
        _check_version(con, path, read_only=read_only)
        _check_functions(con, path)
    except duckdb.Error as exc:
        con.close()
        raise StoreError(
            f"the database {path} cannot be prepared: {str(exc).splitlines()[0]}",
            hint="check free disk space and permissions",
        ) from exc
    except BaseException:
        con.close()
        raise
    return con


def _create(path: Path) -> None:
    """Create an empty store beside its place and move it there whole.

    A crash or a full disk would otherwise leave a file that is neither absent nor a database, and every later
    command would stop at it.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with _connect(part, read_only=False) as con:
            _create_schema(con)
        _move_unless_there(part, path)
    except StoreError as exc:
        raise StoreError(exc.message.replace(part.name, path.name), hint=exc.hint) from exc
    except (duckdb.Error, OSError) as exc:
        raise StoreError(
            f"the database {path} cannot be created: {(str(exc).splitlines() or [type(exc).__name__])[0]}",
            hint="check free disk space and permissions, or choose another --db",
        ) from exc
    finally:
        for leftover in (part, part.with_name(part.name + ".wal")):
            leftover.unlink(missing_ok=True)


def _move_unless_there(part: Path, path: Path) -> None:
    """Give the new file its name, unless another process was faster: then its file is the database."""
    try:
        os.link(part, path)
    except FileExistsError:
        return
    except OSError:
        # No hard links on this file system; a plain move could replace the file of a faster process.
        if not path.exists():
            os.rename(part, path)


def _connect(path: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(str(path), read_only=read_only)
    except duckdb.Error as exc:
        text = str(exc)
        if "set lock" in text or "Conflicting lock" in text:
            holder = _HOLDER.search(text)
            who = f"process {holder[1]}" if holder else "it"
            raise StoreLockedError(
                f"the database {path} is in use by another process",
                hint=f"wait for {who} to finish, or use another file with --db",
            ) from exc
        if "Corrupt database" in text:
            raise StoreError(
                f"the database {path} is damaged: {text.splitlines()[0]}",
                hint="restore a copy of it, or ingest the runs again into a new --db",
            ) from exc
        if path.exists() and path.stat().st_size > 0 and ("not a valid" in text or "magic" in text.lower()):
            raise StoreVersionError(f"{path} is not a DuckDB database", hint="choose another --db") from exc
        if "version" in text.lower() and path.exists():
            raise StoreVersionError(
                f"the database {path} was written by another DuckDB version",
                hint="upgrade kvcliff, or use another --db",
            ) from exc
        if path.exists() and not os.access(path, os.W_OK):
            raise StoreError(
                f"the database {path} is not writable", hint="change its permissions, or choose another --db"
            ) from exc
        raise StoreError(
            f"the database {path} cannot be opened: {text.splitlines()[0]}",
            hint="check free disk space and permissions, or choose another --db",
        ) from exc


def _configure(con: duckdb.DuckDBPyConnection, *, read_only: bool, memory_limit: str | None) -> None:
    if memory_limit is not None:
        try:
            con.execute(f"set memory_limit = '{_safe_size(memory_limit)}'")
        except duckdb.Error as exc:
            raise StoreError(
                f"--memory-limit {memory_limit} is not a size", hint="for example --memory-limit 2GB"
            ) from exc
    if read_only:
        con.execute("set enable_external_access = false")
        con.execute("set lock_configuration = true")
    else:
        if memory_limit is None:
            _limit_memory(con)
        con.execute("set autoinstall_known_extensions = false")
        con.execute("set autoload_known_extensions = false")
        # Checkpoints are ours (store_tables): the automatic ones would rewrite the staged tables of a large
        # run over and over while they grow.
        con.execute("set checkpoint_threshold = '1TB'")


def _limit_memory(con: duckdb.DuckDBPyConnection) -> None:
    """Keep the engine below our own limit where its own, a share of the machine's memory, is higher."""
    row = con.execute("select parse_formatted_bytes(current_setting('memory_limit'))").fetchone()
    if row is not None and row[0] is not None and row[0] > _MEMORY_LIMIT_BYTES:
        con.execute(f"set memory_limit = '{_MEMORY_LIMIT_BYTES}B'")
        con.execute(f"set variable {_LIFTABLE} = true")


def lift_memory_limit(con: duckdb.DuckDBPyConnection) -> bool:
    """Return whether there was a limit of our own; it is lifted, as not everything can spill.

    A limit that the user gave stays.
    """
    row = con.execute(f"select getvariable('{_LIFTABLE}')").fetchone()
    if row is None or not row[0]:
        return False
    con.execute("reset memory_limit")
    con.execute(f"reset variable {_LIFTABLE}")
    return True


def _safe_size(text: str) -> str:
    """Return ``text`` when it is a plain size such as ``2GB`` or ``80%``; settings cannot be bound."""
    stripped = text.strip()
    if _SIZE.fullmatch(stripped) is None:
        raise StoreError(f"--memory-limit {text} is not a size", hint="for example --memory-limit 2GB")
    return stripped


def _check_version(con: duckdb.DuckDBPyConnection, path: Path, *, read_only: bool) -> None:
    tables = table_names(con)
    if "kvcliff_meta" not in tables:
        if tables or read_only:
            raise StoreVersionError(
                f"{path} is a DuckDB database, but not a kvcliff store", hint="choose another --db"
            )
        _create_schema(con)
        return
    row = con.execute("select schema_version, written_by from kvcliff_meta").fetchone()
    version, writer = row if row is not None else (None, "an unknown version")
    if version == SCHEMA_VERSION:
        return
    steps = path_from(version, SCHEMA_VERSION) if isinstance(version, int) else None
    if steps is None or (read_only and not all(step.is_additive for step in steps)):
        newer = isinstance(version, int) and version > SCHEMA_VERSION
        older = "ingest the runs again into a new --db" if steps is None else "any writing command updates it"
        raise StoreVersionError(
            f"the database {path} has schema version {version} (written by kvcliff {writer}); "
            f"this kvcliff reads {SCHEMA_VERSION}",
            hint="upgrade kvcliff" if newer else older,
        )
    if not read_only:
        migrate(con, steps)


def _check_functions(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Refuse a file that brings its own ``sum`` or ``round``: the engine takes those of the file first."""
    rows = con.execute(
        "select function_name from duckdb_functions() "
        "where internal or database_name = current_database() "
        "group by function_name having bool_or(internal) and not bool_and(internal) order by all"
    ).fetchall()
    if rows:
        raise StoreError(
            f"the database {path} is not as kvcliff wrote it: it holds a function of its own, {rows[0][0]}",
            hint="ingest the runs again into a new --db",
        )


def _create_schema(con: duckdb.DuckDBPyConnection) -> None:
    """Create what every store has in one transaction: a crash leaves an empty file, which is no store yet."""
    con.execute("begin transaction")
    con.execute("create table kvcliff_meta (schema_version integer, written_by varchar)")
    con.execute("insert into kvcliff_meta values (?, ?)", [SCHEMA_VERSION, __version__])
    for statement in STATE_DDL:
        con.execute(statement)
    con.execute("commit")


def table_names(con: duckdb.DuckDBPyConnection, *, schema: str = "main") -> frozenset[str]:
    """Return the names of the stored tables (not the temporary ones)."""
    rows = con.execute(
        "select table_name from duckdb_tables() where schema_name = ? and not temporary", [schema]
    ).fetchall()
    return frozenset(row[0] for row in rows)


def _columns(con: duckdb.DuckDBPyConnection, *, temporary: bool) -> dict[str, dict[str, str]]:
    """Return type by column of every stored or every temporary table; one look at the catalogue for all."""
    rows = con.execute(
        """
        select table_name, column_name, data_type from duckdb_columns()
        where
            not internal and schema_name = 'main'
            and database_name = case when ? then 'temp' else current_database() end
        order by table_name, column_index
        """,
        [temporary],
    ).fetchall()
    found: dict[str, dict[str, str]] = {}
    for table, column, kind in rows:
        found.setdefault(table, {})[column] = kind
    return found


def quote(identifier: str) -> str:
    """Return an identifier quoted for SQL."""
    return '"' + identifier.replace('"', '""') + '"'


def stored_table(con: duckdb.DuckDBPyConnection, name: str) -> str:
    """Return the full, quoted name of a stored table.

    The database is named too: ``main.name`` alone would find a temporary table of the same name first.
    """
    row = con.execute("select current_database()").fetchone()
    return f"{quote(row[0] if row is not None else 'main')}.main.{quote(name)}"


def store_tables(
    con: duckdb.DuckDBPyConnection, run_id: str, tables: Iterable[str], *, replaces: Iterable[str] = ()
) -> None:
    """Copy temporary tables of one run into the stored ones in one transaction.

    The stored table has ``run_id`` as its first column; columns that are new are added. A crash or a
    full disk leaves everything as it was.

    Args:
        con: connection with the temporary tables.
        run_id: run the rows belong to; its earlier rows are deleted first.
        tables: names of temporary tables to copy.
        replaces: further run ids to delete in the same transaction (same name, other content).

    Raises:
        StoreError: the database cannot take the rows (disk full, read-only).
    """
    with _one_thread(con):
        try:
            con.execute("begin transaction")
            _copy_run(con, [run_id, *replaces], tables)
            con.execute("commit")
            con.execute("checkpoint")
        except duckdb.Error as exc:
            roll_back(con)
            raise StoreError(
                f"the database could not take the run: {str(exc).splitlines()[0]}",
                hint="check free disk space and permissions; nothing of the run was stored",
            ) from exc
        except BaseException:
            roll_back(con)
            raise


@contextmanager
def _one_thread(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Let the engine copy with one thread: several leave half-filled row groups behind.

    Those are compressed twice, at the copy and at the checkpoint, and make the file a third larger.
    """
    row = con.execute("select current_setting('threads')").fetchone()
    con.execute("set threads = 1")
    try:
        yield
    finally:
        con.execute(f"set threads = {int(row[0]) if row is not None else 1}")


def _copy_run(con: duckdb.DuckDBPyConnection, doomed: list[str], tables: Iterable[str]) -> None:
    """Delete the rows of the doomed runs and insert those of the first of them anew."""
    stored, staged = _columns(con, temporary=False), _columns(con, temporary=True)
    # Looking for rows of a run that was never stored would cost more with every run that is.
    has_rows = "runs" not in stored or _is_any_stored(con, doomed)
    for name in sorted(table_names(con)) if has_rows else ():
        if "run_id" in stored.get(name, {}):
            con.execute(f"delete from {stored_table(con, name)} where run_id in (select unnest(?))", [doomed])  # noqa: S608
    for name in tables:
        _store_table(con, doomed[0], name, staged.get(name, {}), stored.get(name, {}))


def _is_any_stored(con: duckdb.DuckDBPyConnection, run_ids: list[str]) -> bool:
    """Return whether the store holds one of the runs; ``runs`` is written with all other rows of a run."""
    table = stored_table(con, "runs")
    return bool(
        con.execute(f"select 1 from {table} where run_id in (select unnest(?)) limit 1", [run_ids]).fetchall()  # noqa: S608
    )


def roll_back(con: duckdb.DuckDBPyConnection) -> None:
    """Undo the open transaction, if there still is one."""
    try:
        con.execute("rollback")
    except duckdb.Error:
        # The transaction is already gone (fatal storage error); there is nothing left to undo.
        return


def _store_table(
    con: duckdb.DuckDBPyConnection, run_id: str, name: str, columns: dict[str, str], stored: dict[str, str]
) -> None:
    table = stored_table(con, name)
    rows = f"select cast(? as varchar) as run_id, * from temp.{quote(name)}"  # noqa: S608
    if not stored:
        con.execute(f"create table {table} as {rows}", [run_id])
        return
    for column, kind in columns.items():
        if column not in stored:
            con.execute(f"alter table {table} add column {quote(column)} {kind}")
    con.execute(f"insert into {table} by name {rows}", [run_id])


def expose_run(con: duckdb.DuckDBPyConnection, run_id: str, tables: Iterable[str]) -> None:
    """Create temporary views that show one run's rows under the plain table names, without ``run_id``.

    Findings and report read these, so they see a stored run and a freshly staged one alike.
    """
    literal = "'" + run_id.replace("'", "''") + "'"
    present = table_names(con)
    for name in tables:
        if name in present:
            con.execute(
                f"create or replace temp view {quote(name)} as "  # noqa: S608
                f"select * exclude (run_id) from {stored_table(con, name)} where run_id = {literal}"
            )
