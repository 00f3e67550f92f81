"""What every reader is made of: a source to look at, a sink to write to, a report of what was read."""

import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Literal, Protocol
from urllib.parse import quote

import polars as pl

from kvcliff.errors import InputError
from kvcliff.readers.decompression import Compression, Stream, TolerantStream, compression_of

HEAD_BYTES = 64 * 1024
_SUFFIXES = {".gz", ".xz", ".zst"}


def path_text(path: str | PurePath) -> str:
    """Return a path as text that can be stored and printed, with ``/``; bytes that are no UTF-8 become hex.

    Python keeps such bytes of a file name as lone surrogates, which no database and no terminal takes.
    """
    return PurePath(path).as_posix().encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Source:
    """One file (or one export folder) of a run, as readers see it before and while loading.

    Attributes:
        path: where it is.
        relative: its path inside the run, with ``/``; what reports print.
        is_dir: whether it is a folder that one reader takes as a whole.
    """

    path: Path
    relative: str
    is_dir: bool = False

    @cached_property
    def compression(self) -> Compression | None:
        """The compression by content, or ``None``."""
        if self.is_dir:
            return None
        try:
            with self.path.open("rb") as file:
                start = file.read(8)
        except OSError as exc:
            raise InputError(
                f"cannot read {self.relative}: {exc.strerror or exc}", hint="check its permissions"
            ) from exc
        return compression_of(start)

    @cached_property
    def name(self) -> str:
        """File name in lower case without a compression suffix (``server.log.gz`` gives ``server.log``)."""
        path = Path(self.relative)
        return (path.stem if path.suffix.lower() in _SUFFIXES else path.name).lower()

    @cached_property
    def head(self) -> bytes:
        """Up to the first 64 KiB after decompression."""
        if self.is_dir:
            return b""
        with self.open() as stream:
            return stream.read(HEAD_BYTES)

    @cached_property
    def listing(self) -> tuple[str, ...]:
        """Names of the files in the folder, sorted; links that lead out of it are left out."""
        if not self.is_dir:
            return ()
        own = os.path.realpath(self.path)
        entries = (entry for entry in self.path.iterdir() if os.path.dirname(os.path.realpath(entry)) == own)
        return tuple(sorted(entry.name for entry in entries if entry.is_file()))

    @cached_property
    def sqlite_tables(self) -> Mapping[str, tuple[str, ...]]:
        """Table names and their columns when the file is a readable SQLite database, else empty."""
        if self.is_dir or not self.head.startswith(b"SQLite format 3\x00"):
            return MappingProxyType({})
        try:
            # A name need not be UTF-8, neither that of the file nor those of its tables.
            uri = f"file:{quote(os.fsencode(self.path))}?mode=ro&immutable=1"
            with closing(sqlite3.connect(uri, uri=True)) as db:
                db.text_factory = lambda raw: raw.decode("utf-8", "replace")
                names = [
                    row[0]
                    for row in db.execute("select name from sqlite_master where type = 'table' order by name")
                ]
                columns = {
                    name: tuple(row[1] for row in db.execute("select * from pragma_table_info(?)", (name,)))
                    for name in names
                }
        except (sqlite3.Error, UnicodeDecodeError):
            # The message about a damaged schema quotes it, whatever its bytes are.
            return MappingProxyType({})
        return MappingProxyType(columns)

    def open(self) -> Stream:
        """Open the decompressed content; damage ends the stream early instead of raising.

        Raises:
            InputError: the file cannot be opened at all.
        """
        try:
            file = self.path.open("rb")
        except OSError as exc:
            raise InputError(
                f"cannot read {self.relative}: {exc.strerror or exc}", hint="check its permissions"
            ) from exc
        return Stream(TolerantStream(file, self.compression))


@dataclass(frozen=True)
class Sniff:
    """How sure a reader is that a source is its own (0-100), why, and what it is in words.

    ``level`` is the level of a sweep that the file's name states, for formats with one file per level.
    """

    score: int
    reason: str
    level: str | None = None


NO_MATCH = Sniff(0, "")


class SkipCount:
    """Base of what walks a file: counts what could not be read and keeps the first reason.

    Attributes:
        skipped_count: lines, rows, records or cells that could not be read.
        first_skip_reason: why the first of them could not.
    """

    skipped_count = 0
    first_skip_reason: str | None = None

    def skip(self, reason: str) -> None:
        """Count one that could not be read; ``reason`` holds nothing of its content."""
        self.skipped_count += 1
        self.first_skip_reason = self.first_skip_reason or reason


@dataclass(frozen=True)
class LoadReport:
    """What one load brought.

    Attributes:
        row_count: rows written over all raw tables.
        skipped_count: rows or lines of interest that could not be read.
        first_skip_reason: why the first of them was skipped, without its content.
        damage: why the file counts as cut or broken (the rest was used), or ``None``.
        notes: facts the reader of a report should know (closed wording, no file content).
    """

    row_count: int
    skipped_count: int = 0
    first_skip_reason: str | None = None
    damage: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReadContext:
    """What ``run.toml`` says about one file.

    Attributes:
        time_zone_offset_s: seconds east of UTC of local stamps, or ``None`` when unknown.
        year: year of stamps that have none, or ``None``.
        options: further keys of the file's ``[[file]]`` table (strings).
    """

    time_zone_offset_s: int | None = None
    year: int | None = None
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


class Sink(Protocol):
    """Where a reader puts rows: one call per chunk, columns as in the ``sql/raw`` contract.

    Columns that the frame lacks become NULL; ``source_id`` is added by the sink; unknown columns are an
    error.
    """

    def append(self, table: str, frame: pl.DataFrame) -> int:
        """Append rows to a raw table and return how many."""
        ...


class RowCounter:
    """A sink in front of another: leaves empty frames out and counts what is written.

    Attributes:
        row_count: rows written so far.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.row_count = 0

    def append(self, table: str, frame: pl.DataFrame) -> int:
        """Append rows to a raw table unless there are none, and return how many."""
        count = self._sink.append(table, frame) if frame.height else 0
        self.row_count += count
        return count


SniffFunction = Callable[[Source], Sniff]
LoadFunction = Callable[[Source, Sink, ReadContext], LoadReport]


@dataclass(frozen=True)
class Reader:
    """One file format.

    Attributes:
        name: stable id (``vllm_bench``); stored with each source.
        title: what the format is called by its users.
        tables: raw tables that ``load`` may write.
        sniff: looks at name, head, listing and SQLite schema only.
        load: streams the source into the sink.
        tried_on_real_files: whether recordings of real tools were read with it.
        role: what the file is for (``log metrics client trace counters device model arrivals``).
    """

    name: str
    title: str
    tables: tuple[str, ...]
    sniff: SniffFunction
    load: LoadFunction
    role: Literal["log", "metrics", "client", "trace", "counters", "device", "model", "arrivals"]
    tried_on_real_files: bool
