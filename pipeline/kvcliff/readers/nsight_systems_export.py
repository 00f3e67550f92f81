"""An opened Nsight Systems SQLite export: which tables it has, and their rows as tuples or frames."""

import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import adbc_driver_manager
import adbc_driver_sqlite
import polars as pl

from kvcliff.errors import InputError
from kvcliff.readers.base import Source
from kvcliff.readers.nsight_systems_files import TableFile
from kvcliff.readers.nsight_systems_forms import REFUSALS, SQLITE_MAGIC, TITLES, Form, form_of
from kvcliff.readers.nsight_systems_report import export_command, export_report
from kvcliff.readers.nsight_systems_tables import arrows_to_sqlite, folder_to_sqlite

#: Rows of one batch, which is what memory has to hold.
BATCH_ROWS = 1 << 17
_BEFORE_FIRST_ROW = -(1 << 63)
EXPORT_HINT = (
    "export it with the nsys that recorded it: nsys export -t sqlite -f true -o run.sqlite run.nsys-rep"
)
_AGAIN_HINT = "copy the file again, or " + EXPORT_HINT
_ADBC_ERRORS = (adbc_driver_manager.Error, pl.exceptions.PolarsError, OverflowError, UnicodeDecodeError)


@dataclass(frozen=True)
class Bits:
    """The part of an integer that is read.

    Attributes:
        shift: low bits that are left out.
        mask: the bits kept after that.
    """

    shift: int
    mask: int

    def sql(self, value: str) -> str:
        """Return the part of an SQL value; the shift of a negative number fills with ones."""
        return f"({value} >> {self.shift}) & {self.mask}"

    def of(self, value: pl.Expr) -> pl.Expr:
        """Return the part of a column of integers."""
        return value.cast(pl.Int64).floordiv(1 << self.shift) & self.mask


@dataclass(frozen=True)
class Only:
    """Which rows of a table are read: those with one of some integers in one column and any in another.

    Attributes:
        column: column whose values are chosen.
        values: the values.
        known: column that must not be NULL.
    """

    column: str
    values: tuple[int, ...]
    known: str

    def sql(self) -> tuple[str, str]:
        """Return the condition and the value of its one parameter."""
        condition = f'"{self.column}" in (select value from json_each(?)) and "{self.known}" is not null'  # noqa: S608
        return condition, "[" + ",".join(map(str, self.values)) + "]"

    def rows_of(self) -> pl.Expr:
        """Return the condition for a frame with the export's columns."""
        chosen = pl.col(self.column).cast(pl.Int64).is_in(list(self.values))
        return chosen & pl.col(self.known).is_not_null()


@dataclass(frozen=True)
class Column:
    """One column to read: the name it gets, the export's column, and its type.

    Attributes:
        name: name in the frame.
        export: column of the export; NULL when the export's version has none.
        dtype: type in the frame.
        bits: the part of the integer that is read, all of it when left out.
        is_bits: an unsigned 64-bit id, which SQLite stores as a signed number.
    """

    name: str
    export: str
    dtype: pl.DataType | type[pl.DataType]
    bits: Bits | None = None
    is_bits: bool = False

    def cast(self) -> pl.Expr:
        """Return the value of a frame in its own type."""
        if self.is_bits:
            return pl.col(self.name).cast(pl.Int64).reinterpret(signed=False)
        return pl.col(self.name).cast(self.dtype)

    def over(self, present: Collection[str]) -> str:
        """Return the SQL of the value, given the columns that the table has."""
        if self.export not in present:
            return "null"
        return self.bits.sql(f'"{self.export}"') if self.bits is not None else f'"{self.export}"'

    def of(self, present: Collection[str]) -> pl.Expr:
        """Return the same value in a frame with the export's columns."""
        if self.export not in present:
            return pl.lit(None, pl.Int64).alias(self.name)
        value = pl.col(self.export)
        return (self.bits.of(value) if self.bits is not None else value).alias(self.name)


#: A name or message that is longer would only fill the memory.
_LONGEST_VALUE_BYTES = 64 << 20


def _without_bytes(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class Export:
    """Read-only access to the tables of one export.

    Small questions are answered as tuples (:meth:`rows`), event tables as frames (:meth:`frames`).
    """

    def __init__(self, path: Path, relative: str, in_place: Mapping[str, TableFile] | None = None) -> None:
        self.relative = relative
        self._in_place = in_place or {}
        self._uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        self._db = sqlite3.connect(self._uri, uri=True)
        self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE_BYTES)
        # Texts of unknown origin may hold bytes that are no UTF-8; they must not stop the reading.
        self._db.text_factory = lambda raw: raw.decode("utf-8", "replace")
        try:
            self.tables: Mapping[str, tuple[str, ...]] = self._read_schema()
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def has(self, table: str, *columns: str) -> bool:
        """Return whether the export has this table and all these columns."""
        return table in self.tables and set(columns) <= set(self.tables[table])

    def in_place(self, table: str) -> TableFile | None:
        """Return the file of a table that SQL does not reach, ``None`` for the others."""
        return self._in_place.get(table)

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a small query.

        Raises:
            InputError: the database is damaged.
        """
        try:
            rows = self._db.execute(sql, parameters).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as exc:
            raise self._damaged(exc) from exc
        # SQLite keeps bytes in any column; where damage put some, they are a text like the others.
        return [tuple(map(_without_bytes, row)) if bytes in map(type, row) else row for row in rows]

    def number(self, sql: str, parameters: Sequence[object] = ()) -> int | None:
        """Return the single integer of a query, or ``None`` when it is NULL or no integer."""
        rows = self.rows(sql, parameters)
        value = rows[0][0] if rows else None
        return value if isinstance(value, int) else None

    def row_count(self, table: str) -> int:
        """Return the rows of a table; 0 when the export has no such table."""
        if table in self._in_place:
            return self._in_place[table].row_count()
        return self.number(f'select count(*) from "{table}"') or 0 if self.has(table) else 0  # noqa: S608

    def latest(self, table: str, column: str) -> int | None:
        """Return the highest value of a column; ``None`` when it has none, or does not exist."""
        if not self.has(table, column):
            return None
        if table in self._in_place:
            return self._in_place[table].latest(column)
        return self.number(f'select max("{column}") from "{table}"')  # noqa: S608

    def value_count(self, table: str, column: str, values: Sequence[int]) -> int:
        """Return how many rows have one of the values in a column; 0 when it does not exist."""
        if not self.has(table, column):
            return 0
        if table in self._in_place:
            return self._in_place[table].value_count(column, values)
        ids = "[" + ",".join(map(str, values)) + "]"
        sql = f'select count(*) from "{table}" where "{column}" in (select value from json_each(?))'  # noqa: S608
        return self.number(sql, (ids,)) or 0

    def event_frames(
        self, table: str, columns: Sequence[Column], only: Only | None = None
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows of one event table in row order, a batch at a time, from wherever it lies.

        Args:
            table: table of the export; nothing is yielded when it is absent.
            columns: what to read.
            only: which rows.

        Raises:
            InputError: the file is damaged or a value has an impossible type.
        """
        if table not in self._in_place:
            where, ids = only.sql() if only is not None else ("", "")
            yield from self.frames(table, columns, where, (ids,) if only is not None else ())
            return
        present = self.tables[table]
        values = [column.of(present) for column in columns]
        casts = [column.cast() for column in columns]
        wanted = {column.export for column in columns} | ({only.column, only.known} if only else set())
        frames = self._in_place[table].frames([name for name in present if name in wanted])
        for frame in frames if only is None else _joined(frame.filter(only.rows_of()) for frame in frames):
            if frame.height:
                yield frame.select(values).select(casts)

    def frames(
        self, table: str, columns: Sequence[Column], where: str = "", parameters: Sequence[object] = ()
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows of one event table in row order, a batch at a time.

        Args:
            table: table of the export; nothing is yielded when it is absent.
            columns: what to read.
            where: condition with ``?`` for each parameter.
            parameters: bound values.

        Raises:
            InputError: the database is damaged or a value has an impossible type.
        """
        if not self.has(table):
            return
        present = self.tables[table]
        chosen = ", ".join(f"{column.over(present)} as {column.name}" for column in columns)
        kept = f"({where}) and " if where else ""
        sql = (
            f'select {chosen}, rowid as row_id from "{table}" where {kept}rowid > ? '  # noqa: S608
            f"order by rowid limit {BATCH_ROWS}"
        )
        casts = [column.cast() for column in columns]
        try:
            yield from self._batches(sql, parameters, casts)
        except _ADBC_ERRORS as exc:
            raise self._damaged(exc) from exc

    def _batches(
        self, sql: str, parameters: Sequence[object], casts: Sequence[pl.Expr]
    ) -> Iterator[pl.DataFrame]:
        """Yield a batch for each range of row ids.

        Each batch goes from the driver into Polars as one Arrow stream; the driver's cursor would hand the
        same rows over through pyarrow.
        """
        last_row_id = _BEFORE_FIRST_ROW
        with (
            adbc_driver_sqlite.connect(self._uri) as database,
            adbc_driver_manager.AdbcConnection(database) as connection,
        ):
            while True:
                frame = _query(connection, sql, (*parameters, last_row_id))
                if frame.height:
                    last_row_id = frame["row_id"][-1]
                    yield frame.select(casts)
                if frame.height < BATCH_ROWS:
                    return

    def _read_schema(self) -> dict[str, tuple[str, ...]]:
        names = self.rows("select name from sqlite_master where type = 'table' order by name")
        schema = {
            name: tuple(row[0] for row in self.rows("select name from pragma_table_info(?)", (name,)))
            for (name,) in names
        }
        return schema | {table: file.columns for table, file in self._in_place.items()}

    def _damaged(self, exc: Exception) -> InputError:
        where = f"{type(exc).__name__} while reading it"
        if isinstance(exc, sqlite3.DataError):
            where = f"it holds a text of more than {_LONGEST_VALUE_BYTES >> 20} MiB"
        return InputError(f"{self.relative} is a damaged SQLite export: {where}", hint=_AGAIN_HINT)


def _joined(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield frames of few rows as frames of many.

    The database takes up to ten times as long for the same rows in small frames.
    """
    waiting: list[pl.DataFrame] = []
    for frame in frames:
        waiting.append(frame)
        if sum(part.height for part in waiting) >= BATCH_ROWS:
            yield pl.concat(waiting)
            waiting = []
    if waiting:
        yield pl.concat(waiting)


def _query(
    connection: adbc_driver_manager.AdbcConnection, sql: str, parameters: Sequence[object]
) -> pl.DataFrame:
    with adbc_driver_manager.AdbcStatement(connection) as statement:
        statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
        statement.set_sql_query(sql)
        statement.prepare()
        statement.bind_stream(pl.DataFrame({str(no): [value] for no, value in enumerate(parameters)}))
        stream, _ = statement.execute_query()
        return pl.DataFrame(stream)


@contextmanager
def open_export(source: Source) -> Iterator[Export]:
    """Open a source as an export; what is no plain SQLite file is brought into one in a temporary folder.

    Raises:
        InputError: it is no export, it is cut or damaged, or its form cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="kvcliff-") as folder:
        path, in_place = _sqlite_file(source, Path(folder))
        try:
            export = Export(path, source.relative, in_place)
        except (sqlite3.Error, UnicodeDecodeError) as exc:
            raise InputError(f"{source.relative} cannot be opened as SQLite", hint=_AGAIN_HINT) from exc
        try:
            yield export
        finally:
            export.close()


def _sqlite_file(source: Source, folder: Path) -> tuple[Path, dict[str, TableFile]]:
    """Return the SQLite file to read, the source itself or one made in ``folder``, and what is not in it."""
    if source.head.startswith(SQLITE_MAGIC):
        path = _unpacked(source, folder) if source.compression else source.path
        _check_size(source, path)
        return path, {}
    form = form_of(source)
    if form is None:
        raise InputError(f"{source.relative} is not an SQLite file", hint=EXPORT_HINT)
    if form == "report":
        return export_report(source, folder), {}
    if form in ("parquetdir", "arrowdir", "arrows"):
        target = folder / "tables.sqlite"
        if form == "arrows":
            arrows_to_sqlite(source, _unpacked(source, folder) if source.compression else source.path, target)
            return target, {}
        return target, folder_to_sqlite(source, target)
    raise _refused(source, form)


def _refused(source: Source, form: Form) -> InputError:
    if form == "unfinished":
        report = source.relative.removesuffix(".qdstrm") + ".nsys-rep"
        return InputError(
            f"{source.relative} is {TITLES[form]}: the profiled process was killed before nsys was done",
            hint=f"finish it with the QdstrmImporter of the same nsys, then: {export_command(report)}",
        )
    return InputError(
        f"{source.relative} is {TITLES[form]} {REFUSALS[form]}; it is not read", hint=EXPORT_HINT
    )


def _unpacked(source: Source, folder: Path) -> Path:
    target = folder / "export.sqlite"
    with source.open() as stream, target.open("wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)
        if stream.damage is not None:
            raise InputError(f"{source.relative} is cut: {stream.damage}", hint=_AGAIN_HINT)
    return target


def _check_size(source: Source, path: Path) -> None:
    """Refuse a file that is shorter than its own header says: a cut database loses whole tables silently."""
    header = source.head[:100]
    if len(header) < 100:
        raise InputError(f"{source.relative} is cut: it ends inside the SQLite header", hint=_AGAIN_HINT)
    page_bytes = struct.unpack(">H", header[16:18])[0]
    page_count, valid_for, changes = (struct.unpack(">I", header[at : at + 4])[0] for at in (28, 92, 24))
    expected = page_count * (65536 if page_bytes == 1 else page_bytes)
    # The page count is only kept up to date when both counters agree (SQLite file format, header offset 28).
    if valid_for == changes and path.stat().st_size < expected:
        raise InputError(
            f"{source.relative} is cut: {path.stat().st_size} of {expected} bytes are there", hint=_AGAIN_HINT
        )
