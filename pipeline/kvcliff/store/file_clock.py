"""Which clock a file keeps and how fine it is, told by its beginning."""

import io
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import polars as pl

from kvcliff.errors import DataGapError, KvcliffError
from kvcliff.readers.base import Source
from kvcliff.readers.decompression import Compression, Stream, TolerantStream
from kvcliff.store.plan import PlannedSource
from kvcliff.units import NS_PER_S

ClockKind = Literal["utc", "local", "relative", "none", "unknown"]
#: What is read of a file. Clients may state the start of their requests behind all the gaps between tokens.
_BEGINNING_BYTES: Final = 1 << 20
_CLIENT_BYTES: Final = 32 << 20
_SETTINGS: Final[dict[str, ClockKind]] = {
    "unix": "utc",
    "local": "local",
    "relative": "relative",
    "monotonic": "relative",
    "none": "none",
}
_CLOCK_NAMES: Final = ("series_clock", "device_clock", "client_clock")
_TIMES: Final = ("src_ns", "submit_src_ns", "first_token_src_ns", "done_src_ns")
#: Times of a table that are taken to tell how fine they are.
_TIMES_KEPT: Final = 5000
#: With fewer times, round ones may be chance.
_TIMES_NEEDED: Final = 4
_STEPS_NS: Final = (NS_PER_S, 100_000_000, 10_000_000, 1_000_000, 1_000, 100, 1)
_UNTIMED_ROLES: Final = ("counters", "model", "arrivals")
_SESSION_START: Final = "TARGET_INFO_SESSION_START_TIME"


@dataclass(frozen=True)
class FileClock:
    """The clock of a file.

    Attributes:
        kind: UTC, local time without a zone, relative to an origin of its own, none, or unknown.
        words: the same for people, with what else is to be known.
        resolution_ns: [ns] step of its times, ``None`` when too few were seen to tell.
    """

    kind: ClockKind
    words: str
    resolution_ns: int | None = None


@dataclass(frozen=True)
class _Beginning(Source):
    """A file of which nothing is read behind its first bytes."""

    limit_bytes: int = _BEGINNING_BYTES

    @cached_property
    def compression(self) -> Compression | None:
        """The compression of what is handed out: none."""
        return None

    @cached_property
    def text(self) -> bytes:
        """The first bytes after decompression."""
        with Source(self.path, self.relative).open() as stream:
            return stream.read(self.limit_bytes)

    @property
    def is_whole(self) -> bool:
        """Whether the file ends within these bytes."""
        return len(self.text) < self.limit_bytes

    def open(self) -> Stream:
        """Open the first bytes."""
        return Stream(TolerantStream(io.BytesIO(self.text), None))


class _Notebook:
    """A sink that keeps what a file says about its clock, and some of its times."""

    def __init__(self) -> None:
        self.facts: dict[str, str] = {}
        self.times: set[int] = set()

    def append(self, table: str, frame: pl.DataFrame) -> int:
        """Look at the rows of a table and drop them."""
        if table == "raw_settings":
            self.facts.update(frame.select("name", "value").iter_rows())
        for name in set(_TIMES) & set(frame.columns):
            self.times.update(frame.get_column(name).drop_nulls().unique().head(_TIMES_KEPT).to_list())
        return frame.height


def file_clock(planned: PlannedSource) -> FileClock:
    """Return the clock of a file of a run, as far as its beginning tells it."""
    reader = planned.reader
    if reader is None or reader.role in _UNTIMED_ROLES:
        return FileClock("none", "none")
    if reader.role == "trace":
        return _trace_clock(planned.source)
    limit = _CLIENT_BYTES if reader.role == "client" else _BEGINNING_BYTES
    beginning = _Beginning(planned.source.path, planned.source.relative, limit_bytes=limit)
    notes = _Notebook()
    try:
        reader.load(beginning, notes, planned.context)
    except DataGapError:
        return FileClock("none", "none (its interval is not stated)")
    except (KvcliffError, OSError, ValueError, pl.exceptions.PolarsError):
        return FileClock("unknown", "unknown")
    return _stated(notes, is_log=reader.role == "log", is_whole=beginning.is_whole)


def _stated(notes: _Notebook, *, is_log: bool, is_whole: bool) -> FileClock:
    """Return the clock by what the file says and shows."""
    if not notes.times:
        return FileClock("none", "none") if is_whole else FileClock("unknown", "none in its beginning")
    if is_log:
        stated = notes.facts.get("log_stamp_resolution_ns")
        kind, words = _log_kind(notes.facts)
        return FileClock(kind, words, int(stated) if stated else None)
    named = next((notes.facts[name] for name in _CLOCK_NAMES if name in notes.facts), "")
    kind = _SETTINGS.get(named, "unknown")
    words = {
        "utc": "UTC",
        "local": "local time without zone",
        "relative": "relative (monotonic)" if named == "monotonic" else "relative",
    }.get(kind, kind)
    return FileClock(kind, words, _resolution_ns(notes.times))


def _log_kind(facts: dict[str, str]) -> tuple[ClockKind, str]:
    """Return the kind of a log's clock by what its stamps carry."""
    has_year = facts.get("log_stamp_year_known") == "true"
    if facts.get("log_stamp_zone_known") == "true":
        return ("utc", "UTC") if has_year else ("local", "UTC without year")
    return "local", "local time without zone" if has_year else "local time without zone and year"


def _resolution_ns(times: set[int]) -> int | None:
    """Return the coarsest usual step that all times keep."""
    if len(times) < _TIMES_NEEDED:
        return None
    return next(step for step in _STEPS_NS if all(time % step == 0 for time in times))


def _trace_clock(source: Source) -> FileClock:
    """Return the clock of a trace, which counts nanoseconds from an origin."""
    if b'"baseTimeNanoseconds"' in source.head:
        return FileClock("utc", "UTC", 1)
    if _SESSION_START in source.sqlite_tables or any(_SESSION_START in name for name in source.listing):
        return FileClock("utc", "UTC (from the stated start of the session)", 1)
    if source.is_dir or source.sqlite_tables:
        return FileClock("relative", "relative", 1)
    # What a compressed database or a report of the profiler states is known when it is read.
    return FileClock("unknown", "unknown before it is read", 1)
