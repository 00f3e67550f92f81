"""Numbered events with the earliest and latest time of each: what two clocks can be compared by."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import duckdb
import polars as pl

EventKind = Literal["scrape", "step", "first_token", "finish", "token", "preemption", "request", "load"]
COLUMNS: Final = ("ordinal", "lo_ns", "hi_ns")
#: The columns of a stream as 64-bit integers, whatever the database made of them.
INTEGERS: Final = pl.col(COLUMNS).cast(pl.Int64)
_SCHEMA: Final = pl.Schema({"ordinal": pl.Int64, "lo_ns": pl.Int64, "hi_ns": pl.Int64})
#: A counter step larger than this is not spelled out event by event.
_MAX_SPELLED_EVENTS: Final = 100_000


@dataclass(frozen=True)
class EventStream:
    """The events of one kind that one source saw.

    Attributes:
        source_id: the source.
        kind: what happened.
        frame: ``ordinal``, ``lo_ns``, ``hi_ns``; numbered in order of time, on the source's own clock. Of the
            load: samples of it instead (shape.py).
        work: of engine steps, also the requests and tokens of both phases.
    """

    source_id: int
    kind: EventKind
    frame: pl.DataFrame
    work: pl.DataFrame | None = None


@dataclass(frozen=True)
class LateEventStream:
    """Events that are many, rarely needed, and therefore read when a tie asks for them first.

    Attributes:
        source_id: the source.
        kind: what happened.
        read: reads the frame.
        work: as in :class:`EventStream`; never known.
    """

    source_id: int
    kind: EventKind
    read: Callable[[], pl.DataFrame]
    work: None = None

    @cached_property
    def frame(self) -> pl.DataFrame:
        """``ordinal``, ``lo_ns``, ``hi_ns``; may have no row."""
        return self.read()


AnyEventStream = EventStream | LateEventStream


def no_events() -> pl.DataFrame:
    """Return a stream's frame without a row."""
    return pl.DataFrame(schema=_SCHEMA)


def query_frame(con: duckdb.DuckDBPyConnection, sql: str, parameters: list[object]) -> pl.DataFrame:
    """Return the rows of a query."""
    return pl.DataFrame(con.sql(sql, params=parameters))


def ends_of_changes(changes: pl.DataFrame) -> pl.DataFrame:
    """Return the first and the last event of each change: they carry all that a sample says about time."""
    ends = [
        changes.select(pl.col(end).alias("ordinal"), "lo_ns", "hi_ns")
        for end in ("first_ordinal", "last_ordinal")
    ]
    return (
        pl.concat(ends)
        .unique("ordinal", keep="first", maintain_order=True)
        .sort("ordinal")
        .with_columns(INTEGERS)
    )


def spelled_changes(changes: pl.DataFrame) -> pl.DataFrame:
    """Return every event of every change, or only the ends where that would be too many."""
    if changes.height == 0:
        return no_events()
    count = changes.select((pl.col("last_ordinal") - pl.col("first_ordinal") + 1).sum()).item()
    if count > _MAX_SPELLED_EVENTS:
        return ends_of_changes(changes)
    ordinals = pl.int_ranges(pl.col("first_ordinal"), pl.col("last_ordinal") + 1)
    return (
        changes.select(ordinals.alias("ordinal"), "lo_ns", "hi_ns").explode("ordinal").with_columns(INTEGERS)
    )
