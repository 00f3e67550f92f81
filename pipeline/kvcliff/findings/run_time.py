"""How instants of a run are written: clock time with its zone, and seconds since the run began."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.marts import read_rows
from kvcliff.units import NS_PER_S, format_instant, format_number

#: Before this instant (2000-01-01) a run clock is a relative one that started near zero.
FIRST_REAL_NS = 946_684_800 * NS_PER_S
_DAY_NS = 86_400 * NS_PER_S


@dataclass(frozen=True)
class RunTime:
    """The clock of a run.

    Attributes:
        started_at_ns: first instant of the run, or ``None`` when nothing in it has a time.
        ended_at_ns: last instant of the run.
        utc_known: whether the run clock is UTC.
        year_known: whether the year of the dates is known.
    """

    started_at_ns: int | None
    ended_at_ns: int | None
    utc_known: bool | None
    year_known: bool | None

    @property
    def is_absolute(self) -> bool:
        """Return whether instants can be written as clock time."""
        return self.started_at_ns is not None and self.started_at_ns >= FIRST_REAL_NS

    @property
    def zone(self) -> str:
        """Return the words that belong behind a clock time."""
        return "UTC" if self.utc_known else "local time, zone unknown"

    def seconds(self, ts_ns: int) -> float:
        """Return seconds since the run began."""
        return (ts_ns - (self.started_at_ns or 0)) / NS_PER_S

    def clock(self, ts_ns: int | None, *, decimals: int = 1, with_date: bool | None = None) -> str | None:
        """Return the clock time without zone, or ``None`` when the run has none.

        The date is written when the run crosses days (or ``with_date``); an unknown year is left out.
        """
        if ts_ns is None or not self.is_absolute:
            return None
        first_day, last_day = ((value or 0) // _DAY_NS for value in (self.started_at_ns, self.ended_at_ns))
        dated = first_day != last_day if with_date is None else with_date
        text = format_instant(ts_ns, with_date=dated, decimals=decimals)
        return text if self.year_known or not dated else text[5:]

    def since_start(self, ts_ns: int | None) -> str:
        """Return ``+62.4 s``, the time since the run began."""
        return "n/a" if ts_ns is None else f"{self.seconds(ts_ns):+,.1f} s"

    def at(self, ts_ns: int, error_ns: int | None = None, level_start_ns: int | None = None) -> str:
        """Return an instant for a sentence: ``10:02:11.4 UTC ± 0.5 s (62.4 s into the run)``.

        Args:
            ts_ns: the instant.
            error_ns: its error; the finer it is, the more decimals are written.
            level_start_ns: begin of its level, when seconds into the run would say little.
        """
        error = f" ± {format_error(error_ns)}" if error_ns is not None else ""
        whole = "run" if level_start_ns is None else "level"
        start_ns = (self.started_at_ns or 0) if level_start_ns is None else level_start_ns
        into = f"{(ts_ns - start_ns) / NS_PER_S:,.1f} s"
        clock = self.clock(ts_ns, decimals=clock_decimals(error_ns))
        if clock is None:
            return f"{into}{error} into the {whole}"
        zone = " UTC" if self.utc_known else ""
        return f"{clock}{zone}{error} ({into} into the {whole})"


def clock_decimals(error_ns: int | None) -> int:
    """Return with how many decimals of a second an instant of that error is written."""
    if error_ns is None or error_ns >= NS_PER_S // 10:
        return 1
    return 2 if error_ns >= NS_PER_S // 100 else 3


def format_error(error_ns: int) -> str:
    """Return an error bar in seconds, in milliseconds below 0.1 s; no bar is narrower than 1 ms."""
    seconds = error_ns / NS_PER_S
    if seconds < 0.001:
        return "1 ms"
    return f"{format_number(seconds, 2)} s" if seconds >= 0.1 else f"{format_number(seconds * 1e3, 2)} ms"


def read_run_time(con: duckdb.DuckDBPyConnection) -> RunTime:
    """Return the clock of the exposed run."""
    rows = read_rows(con, "runs", RunTime)
    return rows[0] if rows else RunTime(None, None, None, None)
