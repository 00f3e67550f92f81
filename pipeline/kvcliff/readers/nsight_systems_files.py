"""One table of an Nsight Systems export that lies in a Parquet or Arrow file of its own, read as frames."""

import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import polars as pl

from kvcliff.errors import InputError
from kvcliff.readers.arrow_streams import ArrowDamage, read_batches

_BATCH_ROWS = 1 << 17
AGAIN_HINT: Final = (
    "copy it again, or export the report anew: nsys export -t sqlite -f true -o run.sqlite run.nsys-rep"
)


class TooMuchText(ValueError):
    """A few bytes of a file stand for more text than any recording has."""


#: What reading a damaged file can raise.
DAMAGE: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException, ArrowDamage, OSError, ValueError)


def damaged(name: str, exc: BaseException) -> InputError:
    """Return the error that names a damaged file."""
    why = str(exc) if isinstance(exc, ArrowDamage | TooMuchText) else type(exc).__name__
    return InputError(f"{name} is damaged: {why}", hint=AGAIN_HINT)


def parquet_frames(path: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Yield those of ``columns`` that a Parquet file has; first without a row."""
    lazy = pl.scan_parquet(path, glob=False)
    present = lazy.collect_schema().names()
    chosen = lazy.select([name for name in columns if name in present])
    yield chosen.head(0).collect()
    yield from chosen.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=True)


def arrow_frames(path: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Yield those of ``columns`` that a file of Arrow streams has, batch by batch."""
    with mapped(path) as data:
        for batch in read_batches(data):
            yield batch.frame(columns)


@contextmanager
def mapped(path: Path) -> Iterator[memoryview]:
    """Show a file as memory."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        view = memoryview(content)
        try:
            yield view
        finally:
            view.release()


FrameReader = Callable[[Path, Sequence[str]], Iterator[pl.DataFrame]]
#: How the files of a folder are read, by suffix; Parquet wins where both are there.
READERS: Final[Mapping[str, FrameReader]] = {".parquet": parquet_frames, ".arrow": arrow_frames}


@dataclass(frozen=True)
class TableFile:
    """A table in a file of its own.

    Attributes:
        name: how errors call the file.
        path: where it lies.
        allowed: columns that may be read.
        read: reads frames of it.
    """

    name: str
    path: Path
    allowed: tuple[str, ...]
    read: FrameReader

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The allowed columns that the file has.

        Raises:
            InputError: the file is damaged.
        """
        first = next(self.frames(self.allowed), None)
        return tuple(first.columns) if first is not None else ()

    def frames(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Yield those of the columns that the file has, in row order; 64-bit ids signed, as in SQLite.

        Raises:
            InputError: the file is damaged.
        """
        try:
            for frame in self.read(self.path, columns):
                unsigned = [name for name, dtype in frame.schema.items() if dtype == pl.UInt64]
                yield frame.with_columns(pl.col(name).reinterpret(signed=True) for name in unsigned)
        except DAMAGE as exc:
            raise damaged(self.name, exc) from exc

    def row_count(self) -> int:
        """Return the rows of the table."""
        return sum(frame.height for frame in self.frames(self.columns[:1]))

    def latest(self, column: str) -> int | None:
        """Return the highest value of a column, ``None`` without any."""
        found = [frame[column].max() for frame in self.frames((column,))]
        return max((value for value in found if isinstance(value, int)), default=None)

    def value_count(self, column: str, values: Sequence[int]) -> int:
        """Return how many rows have one of the values in a column."""
        return sum(
            int(frame[column].cast(pl.Int64).is_in(list(values)).sum()) for frame in self.frames((column,))
        )


def as_texts(column: pl.Series) -> pl.Series:
    """Return bytes as texts; bytes that are no UTF-8 must not stop the reading."""
    texts = [None if value is None else value.decode("utf-8", "replace") for value in column.to_list()]
    return pl.Series(column.name, texts, dtype=pl.String)
