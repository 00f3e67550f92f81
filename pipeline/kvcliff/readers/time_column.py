"""The time column of a table: relative seconds, an epoch in any unit, or written dates."""

import re
from typing import Final

from kvcliff.readers.metric_writer import SeriesClock
from kvcliff.readers.stamps import RELATIVE_CLOCK_LIMIT_S, epoch_to_ns, parse_stamp, scaled_to_ns

_NAMES: Final = ("time", "timestamp", "ts", "datetime", "date", "epoch", "elapsed", "elapsed_time")
_UNITS_NS: Final = {
    "s": 10**9,
    "sec": 10**9,
    "seconds": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "µs": 10**3,
    "ns": 1,
}
_TITLE: Final = re.compile(r"(?P<name>[a-z_ ]+?)\s*(?:[\[(](?P<bracket>[a-zµ]+)[\])])?", re.IGNORECASE)
_SUFFIX: Final = re.compile(r"_(s|ms|us|ns)$")


class TimeColumn:
    """Reads the cells of one time column; the first cell decides what kind of clock it is.

    Attributes:
        clock: ``unix``, ``local`` (zone unknown), ``relative``, or ``none`` before the first cell.
    """

    def __init__(self, title: str, zone_offset_s: int | None) -> None:
        self._unit_ns = _stated_unit_ns(title)
        self._zone_offset_s = zone_offset_s
        self.clock: SeriesClock = "none"

    def read(self, cell: str) -> int | None:
        """Return the time of a row in nanoseconds on the column's own clock, else ``None``."""
        if self.clock in {"none", "relative"}:
            relative = scaled_to_ns(cell, self._unit_ns or 10**9)
            if relative is not None and relative < RELATIVE_CLOCK_LIMIT_S * 10**9:
                self.clock = "relative"
                return relative
            if self.clock == "relative":
                return None
        ns = (
            scaled_to_ns(cell, self._unit_ns)
            if self._unit_ns and self._unit_ns != 10**9
            else epoch_to_ns(cell)
        )
        if ns is not None:
            self.clock = "unix" if self.clock == "none" else self.clock
            return ns
        stamp = parse_stamp(cell, self._zone_offset_s)
        if stamp is None:
            return None
        self.clock = "unix" if stamp.is_utc and self.clock != "local" else "local"
        return stamp.ns


def is_time_title(title: str) -> bool:
    """Return whether a column title names a time."""
    match = _TITLE.fullmatch(title.strip())
    return bool(match) and _SUFFIX.sub("", match["name"].strip().lower()) in _NAMES  # type: ignore[index]


def _stated_unit_ns(title: str) -> int | None:
    """Return the unit that a title states in brackets or as a suffix."""
    match = _TITLE.fullmatch(title.strip())
    if match is None:
        return None
    suffix = _SUFFIX.search(match["name"].strip().lower())
    return _UNITS_NS.get((match["bracket"] or (suffix[1] if suffix else "")).lower())
