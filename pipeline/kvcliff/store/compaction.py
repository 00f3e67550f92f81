"""Making the database file small again: a copy without the free blocks takes the place of the file."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import duckdb

from kvcliff.errors import StoreError, StoreLockedError
from kvcliff.store.database import open_store

_PART_SUFFIX = ".compact"
_MIN_FREE_BYTES = 64 << 20


@dataclass(frozen=True)
class Compacted:
    """What a compaction gained."""

    before_bytes: int
    after_bytes: int


@dataclass(frozen=True)
class FileUse:
    """How much of a database file is in use.

    Attributes:
        file_bytes: blocks of the file.
        free_bytes: blocks that hold nothing; new runs fill them first.
    """

    file_bytes: int
    free_bytes: int

    @property
    def free_ratio(self) -> float:
        """Free blocks over all blocks."""
        return self.free_bytes / self.file_bytes if self.file_bytes else 0.0


def file_use(con: duckdb.DuckDBPyConnection) -> FileUse:
    """Return how much of the database file holds something."""
    row = con.execute(
        "select block_size, total_blocks, free_blocks from pragma_database_size() "
        "where database_name = current_database()"
    ).fetchone()
    if row is None:
        return FileUse(0, 0)
    block_bytes, total, free = (int(value) for value in row)
    return FileUse(block_bytes * total, block_bytes * free)


def compact(path: Path) -> Compacted:
    """Rewrite the database without its free blocks and return the sizes.

    DuckDB's VACUUM gives no space back to the file system, so everything is copied into a new file, which
    then takes the name of the old one in one step. A crash at any moment leaves the old file or the new one.

    Raises:
        StoreError: the database is in use, or there is no room for the copy.
    """
    with open_store(path) as con:
        con.execute("checkpoint")
        before = path.stat().st_size
        part = path.with_name(path.name + _PART_SUFFIX)
        _check_room(path, file_use(con))
        try:
            _copy(con, part)
            # The old file stays open, and so locked, until its name belongs to the new one: no other process
            # can write into a file that is about to go.
            os.replace(part, path)
            _sync_folder(path.parent)
        except (duckdb.Error, OSError) as exc:
            _remove(part)
            raise StoreError(
                f"the database {path} could not be compacted: {str(exc).splitlines()[0]}",
                hint="check free disk space and permissions; the database is as it was",
            ) from exc
        return Compacted(before, path.stat().st_size)


def _check_room(path: Path, use: FileUse) -> None:
    needed = use.file_bytes - use.free_bytes
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        raise StoreError(
            f"no room to compact {path}: the copy may need {needed:,} bytes, {free:,} are free",
            hint="free some space, or move the database to another disk",
        )


def _copy(con: duckdb.DuckDBPyConnection, part: Path) -> None:
    """Copy every table into a new database file and put it on disk."""
    _remove(part)
    row = con.execute("select current_database()").fetchone()
    source = str(row[0]) if row is not None else "memory"
    target = str(part).replace("'", "''")
    con.execute(f"attach '{target}' as compacted")
    try:
        quoted = source.replace('"', '""')
        con.execute(f'copy from database "{quoted}" to compacted')
        con.execute("checkpoint compacted")
    finally:
        con.execute("detach compacted")
    with part.open("rb+") as file:
        os.fsync(file.fileno())


def _remove(part: Path) -> None:
    """Remove what an earlier attempt left behind."""
    for leftover in (part, part.with_name(part.name + ".wal")):
        leftover.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Put the new name on disk too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def compact_when_loose(path: Path, free_ratio: float | None) -> Compacted | None:
    """Compact a database of which more than a share is free, and return what that gained.

    Nothing is done below 64 MiB of free blocks, while another process uses the file, or without a share.

    Args:
        path: the database.
        free_ratio: largest share of free blocks that stays as it is.

    Raises:
        StoreError: the compaction failed; the database is as it was.
    """
    if free_ratio is None:
        return None
    try:
        with open_store(path) as con:
            use = file_use(con)
        if use.free_bytes < _MIN_FREE_BYTES or use.free_ratio <= free_ratio:
            return None
        return compact(path)
    except StoreLockedError:
        # Somebody else works on it already; the next pass finds it as loose as it is now.
        return None
