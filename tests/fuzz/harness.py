"""One damaged input given to its reader: what must hold whatever it contains."""

import resource
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import duckdb
import polars as pl

from kvcliff.errors import InputError
from kvcliff.readers import READERS, pick_reader
from kvcliff.readers.base import LoadReport, ReadContext, Reader, Source
from kvcliff.store.ingest import FrameSink
from kvcliff.store.models import create_raw_tables

#: CPU time that a small input may take; a stuck one is stopped after some more of wall time.
MAX_CPU_S = 5.0
_MAX_WALL_S = 60
#: What a small input may add to the memory of the process.
MAX_GROWTH_BYTES = 512 << 20
_CONTEXT = ReadContext(time_zone_offset_s=0, year=2030, options={"interval_ms": "1000"})


class _Counting:
    """A sink that writes into the raw tables, as an ingest does, and counts."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._sink = FrameSink(con, 1)
        self.rows: dict[str, int] = {}

    def append(self, table: str, frame: pl.DataFrame) -> int:
        """Append rows; a table, column or value that the contract does not know fails."""
        self.rows[table] = self.rows.get(table, 0) + frame.height
        return self._sink.append(table, frame)


class Bench:
    """A scratch folder and empty raw tables, to try inputs on.

    Args:
        folder: the scratch folder.
        is_alone: ask the reader of the format only, not all of them; faster.
    """

    def __init__(self, folder: Path, *, is_alone: bool = False) -> None:
        self._folder = folder
        self._is_alone = is_alone
        self._con = duckdb.connect(":memory:", config={"threads": 1})
        create_raw_tables(self._con)
        self.case_count = 0

    def close(self) -> None:
        """Close the database."""
        self._con.close()

    def try_input(self, reader_name: str, name: str, files: Mapping[str, bytes]) -> bool:
        """Let the reader of a format, and whoever is surest of it, read an input; return whether it was read.

        Raises:
            AssertionError: something does not hold.
            BaseException: the reader let another error out than :class:`InputError`.
        """
        self.case_count += 1
        source = self.write(name, files)
        before_bytes = _peak_bytes()
        started_s = time.process_time()
        with _stopped_after(_MAX_WALL_S):
            is_read = self._try_source(reader_name, source)
        assert time.process_time() - started_s < MAX_CPU_S, "it takes too long"
        assert _peak_bytes() - before_bytes < MAX_GROWTH_BYTES, "it takes too much memory"
        return is_read

    def _try_source(self, reader_name: str, source: Source) -> bool:
        own = next(reader for reader in READERS if reader.name == reader_name)
        surest, sniff = (own, own.sniff(source)) if self._is_alone else pick_reader(source)
        assert 0 <= sniff.score <= 100
        is_read = False
        for reader in {own.name: own, **({surest.name: surest} if surest is not None else {})}.values():
            is_read = self._load(reader, source) or is_read
        return is_read

    def _load(self, reader: Reader, source: Source) -> bool:
        self._con.execute("begin")
        sink = _Counting(self._con)
        try:
            report = reader.load(source, sink, _CONTEXT)
        except InputError as problem:
            _check_refusal(problem)
            return False
        finally:
            self._con.execute("rollback")
        _check(reader, report, sink)
        return report.row_count > 0

    def write(self, name: str, files: Mapping[str, bytes]) -> Source:
        """Write an input into the scratch folder and return it."""
        path = self._folder / name
        shutil.rmtree(path, ignore_errors=True)
        if "" in files:
            path.write_bytes(files[""])
            return Source(path, name)
        path.mkdir()
        for part, content in files.items():
            (path / part).write_bytes(content)
        return Source(path, name, is_dir=True)


def _check(reader: Reader, report: LoadReport, sink: _Counting) -> None:
    assert set(sink.rows) <= set(reader.tables), set(sink.rows) - set(reader.tables)
    assert report.row_count == sum(sink.rows.values())
    assert (report.skipped_count > 0) is (report.first_skip_reason is not None)
    for text in (report.first_skip_reason, report.damage, *report.notes):
        assert text is None or (text and text.isprintable()), text


def _check_refusal(problem: InputError) -> None:
    assert problem.message
    assert problem.hint, problem.message


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextmanager
def _stopped_after(seconds: int) -> Iterator[None]:
    def stop(_: int, __: FrameType | None) -> None:
        raise AssertionError("it hangs")

    earlier = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, earlier)
