"""Times for scrapes that state none: each left a line in the engine's log, in the same order."""

from dataclasses import dataclass
from itertools import groupby
from typing import Final

import duckdb
import polars as pl

from kvcliff.arrow import ArrowStream
from kvcliff.clocks.anchors import Tie, exact_tie
from kvcliff.units import NS_PER_S

#: Further lines than scrapes come from probes or a cut file: so many, or this share of the scrapes, widen the
#: error of every time; with more of them order says nothing.
_EXTRA_LINES: Final = 4
_EXTRA_SHARE: Final = 0.03
#: The least number of scrapes whose order says something.
_LEAST_SCRAPES: Final = 3
#: A scrape whose line may be this much earlier or later is not placed.
_WINDOW_LIMIT_NS: Final = 25 * NS_PER_S
#: Nor is one whose error is so many times the usual one.
_UNUSUAL: Final = 2
#: This share of the scrapes has to be placed, else the log is no witness.
_PLACED_SHARE: Final = 0.5
#: The answer is written within this time of its access line.
_ANSWER_NS: Final = NS_PER_S // 10

_PAIRS: Final = """
    with
    scrapes as (
        select source_id, count(*) as scrape_count from temp.raw_metric_scrapes
        group by source_id having count(src_ns) = 0
    ),
    witnesses as (
        select scrapes.source_id, scrapes.scrape_count, logs.source_id as log_id
        from scrapes
        inner join temp.sources as mine on scrapes.source_id = mine.source_id
        inner join temp.sources as logs
            on mine.level is not distinct from logs.level
            and coalesce(mine.replica = logs.replica, true)
        where logs.source_id in (
            select source_id from temp.raw_log_access
            where path_class = 'metrics' and status between 200 and 299
        )
    )
    select source_id, any_value(scrape_count), any_value(log_id) from witnesses
    where source_id in (select source_id from witnesses group by source_id having count(*) = 1)
    group by source_id
    order by source_id
"""
_LINES: Final = """
    select access_count, after_src_ns, before_src_ns from temp.raw_log_access
    where source_id = ? and path_class = 'metrics' and status between 200 and 299
    order by line_no
"""


@dataclass(frozen=True)
class _Window:
    """Where an access line may lie, and the likeliest place in it, on the log's clock."""

    low_ns: int | None
    high_ns: int | None
    middle_ns: int


def place_scrapes(con: duckdb.DuckDBPyConnection) -> tuple[Tie, ...]:
    """Give untimed scrapes the times of their access lines and return how exactly that holds for each file.

    A file gets times only if one log can have seen its scrapes and counts them, but for a few lines; the
    error of a time is the distance to the stamps around its line, and more when a few lines are no scrapes'.

    Args:
        con: connection with the raw tables and ``sources``; the times are written to ``raw_metric_scrapes``.
    """
    found = con.execute(_PAIRS).fetchall()
    log_ids = [log_id for _, _, log_id in found]
    ties = []
    for source_id, scrape_count, log_id in found:
        # Two files of one log were two scrapers: whose line is whose, nobody knows.
        if log_ids.count(log_id) > 1 or scrape_count < _LEAST_SCRAPES:
            continue
        windows = _windows(con, log_id, scrape_count)
        if windows is None:
            continue
        extra_count = len(windows) - scrape_count
        places = [_place(windows[number : number + extra_count + 1]) for number in range(scrape_count)]
        known = [(number, *place) for number, place in enumerate(places) if place is not None]
        known = _usual_ones(known)
        if len(known) >= max(_LEAST_SCRAPES, _PLACED_SHARE * scrape_count):
            _write(con, source_id, known)
            error_ns = max(error_ns for _, _, error_ns in known)
            ties.append(exact_tie(source_id, log_id, 0, error_ns, "access_order"))
    return tuple(ties)


def _windows(con: duckdb.DuckDBPyConnection, log_id: int, scrape_count: int) -> list[_Window] | None:
    """Return one window per access line in order; ``None`` when their number does not fit."""
    rows = con.execute(_LINES, [log_id]).fetchall()
    line_count = sum(count for count, _, _ in rows)
    if not 0 <= line_count - scrape_count <= max(_EXTRA_LINES, _EXTRA_SHARE * scrape_count):
        return None
    windows: list[_Window] = []
    for (low_ns, high_ns), group in groupby(rows, key=lambda row: (row[1], row[2])):
        count = sum(row[0] for row in group)
        for number in range(count):
            if low_ns is None or high_ns is None:
                windows.append(_Window(low_ns, high_ns, 0))
                continue
            # A scraper keeps its pace: between two stamps its lines are spread evenly.
            middle_ns = low_ns + (high_ns - low_ns) * (2 * number + 1) // (2 * count)
            windows.append(_Window(low_ns, high_ns, middle_ns))
    return windows


def _place(lines: list[_Window]) -> tuple[int, int] | None:
    """Return time and error of the scrape that one of these lines is of, ``None`` when both are unknown."""
    low_ns, high_ns = lines[0].low_ns, lines[-1].high_ns
    if low_ns is None or high_ns is None or not 0 <= high_ns - low_ns <= _WINDOW_LIMIT_NS:
        return None
    # Stamps are floors of whole seconds, so the upper bound is up to one later.
    high_ns += NS_PER_S
    at_ns = (lines[0].middle_ns + lines[-1].middle_ns) // 2
    return at_ns, max(at_ns - low_ns, high_ns - at_ns) + _ANSWER_NS


def _usual_ones(known: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Return the places without those of idle stretches, whose error would be that of the whole file."""
    if not known:
        return known
    usual_ns = sorted(error_ns for _, _, error_ns in known)[len(known) // 2]
    return [place for place in known if place[2] <= _UNUSUAL * usual_ns]


def _write(con: duckdb.DuckDBPyConnection, source_id: int, known: list[tuple[int, int, int]]) -> None:
    frame = pl.DataFrame(
        {"place_no": [number for number, _, _ in known], "src_ns": [at_ns for _, at_ns, _ in known]},
        schema={"place_no": pl.Int64, "src_ns": pl.Int64},
    )
    con.register("scrape_times", ArrowStream(frame))
    try:
        con.execute(
            """
            update temp.raw_metric_scrapes as scrapes
            set src_ns = times.src_ns, is_timed = true
            from (
                select numbered.scrape_no, scrape_times.src_ns
                from (
                    select scrape_no, row_number() over (order by scrape_no) - 1 as place_no
                    from temp.raw_metric_scrapes where source_id = $source_id
                ) as numbered
                inner join scrape_times on numbered.place_no = scrape_times.place_no
            ) as times
            where scrapes.source_id = $source_id and scrapes.scrape_no = times.scrape_no
            """,
            {"source_id": source_id},
        )
    finally:
        con.unregister("scrape_times")
