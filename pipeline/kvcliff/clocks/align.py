"""The clocks of a run: every source tied to one run clock, with its uncertainty and how it is known."""

from dataclasses import replace
from typing import Final

import duckdb
import polars as pl

from kvcliff.arrow import ArrowStream
from kvcliff.clocks.scrape_order import place_scrapes
from kvcliff.clocks.sources import read_clock_sources
from kvcliff.clocks.ties import find_ties
from kvcliff.clocks.tree import PlacedClock, place_clocks
from kvcliff.readers.run_config import RunConfig

_NOTE_ORDER: Final = "the file states no times: they were told by the order of its requests in the log"
_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "source_id": pl.Int32,
    "offset_ns": pl.Int64,
    "uncertainty_ns": pl.Int64,
    "method": pl.String,
    "reference_source_id": pl.Int32,
    "residual_ns": pl.Int64,
    "note": pl.String,
}


def align_clocks(con: duckdb.DuckDBPyConnection, config: RunConfig) -> None:
    """Fill the temporary table ``clocks`` with one row per source that has times.

    Args:
        con: connection with the temporary raw tables, ``sources`` and an empty ``clocks``.
        config: run.toml; a clock offset that it gives wins over every computed one.
    """
    by_order = place_scrapes(con)
    sources = read_clock_sources(con, config)
    by_order_ids = frozenset(tie.left_id for tie in by_order)
    places = place_clocks(sources, (*find_ties(con, sources, by_order_ids), *by_order))
    _write(
        con,
        tuple(
            replace(place, note=_NOTE_ORDER) if place.source_id in by_order_ids else place for place in places
        ),
    )


def _write(con: duckdb.DuckDBPyConnection, places: tuple[PlacedClock, ...]) -> None:
    frame = pl.DataFrame(
        [[getattr(place, name) for name in _SCHEMA] for place in places], schema=_SCHEMA, orient="row"
    )
    con.register("clock_frame", ArrowStream(frame))
    try:
        con.execute("insert into temp.clocks by name select * from clock_frame")
    finally:
        con.unregister("clock_frame")
