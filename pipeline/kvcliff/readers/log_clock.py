"""The time of a log line: local stamps without year and zone, completed by what is known around them."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, NamedTuple

from kvcliff.readers.base import ReadContext
from kvcliff.readers.envelope import Envelope, calendar_ns
from kvcliff.readers.lines.base import SettingRow
from kvcliff.units import NS_PER_S

#: Year of stamps that have none, when nobody knows it; a leap year, so that every date exists in it.
NOMINAL_YEAR: Final = 2000
#: A step back in time of more than this is another recording appended to the file, not a late line.
SEGMENT_STEP_NS: Final = 12 * 3600 * NS_PER_S
_DAY_NS: Final = 86_400 * NS_PER_S
_LAST_SECOND: Final = 59
_QUARTER_HOUR_NS: Final = 900 * NS_PER_S
_ZONE_LIMIT_NS: Final = 15 * 3600 * NS_PER_S
#: Names under which a file says in ``raw_settings`` what its stamps carry.
YEAR_KNOWN, ZONE_KNOWN, RESOLUTION = "log_stamp_year_known", "log_stamp_zone_known", "log_stamp_resolution_ns"


class Instant(NamedTuple):
    """A point of time on the file's own clock, and what is known about that clock.

    Attributes:
        src_ns: [ns] UTC when year and zone are known, else local time taken as if it were UTC.
        resolution_ns: [ns] step of the stamp; the instant lies in ``[src_ns, src_ns + resolution_ns)``.
        is_year_known: whether the year is real (stated or given).
        is_zone_known: whether the zone is known (stated or given).
    """

    src_ns: int
    resolution_ns: int
    is_year_known: bool
    is_zone_known: bool


@dataclass
class StreamClock:
    """Resolves the stamps of one stream of lines (a file, or one replica in it) in their order.

    ``context.year`` is the year of the first stamp; December to January adds one.

    Attributes:
        context: what is known about the file.
        segment_count: recordings in the stream: one more after each step back of more than 12 hours.
    """

    context: ReadContext
    segment_count: int = 1
    _year: int | None = None
    _month: int = 0
    _latest_ns: int | None = None
    _zone_offset_ns: int | None = None
    _local: tuple[bytes, int | None] = (b"", None)
    _day_no: int = 0
    _last_day_ns: int | None = None
    _hint_ns: int | None = None
    _is_year_nominal: bool = False

    def resolve(self, envelope: Envelope, stamp: bytes | None) -> Instant | None:
        """Return the time of a line, or ``None`` when it has none.

        Args:
            envelope: the layers of the line; an outer stamp that states its zone wins.
            stamp: ``MM-DD HH:MM:SS`` of the line's own head.
        """
        outer = envelope.outer_ns
        if outer is not None:
            if stamp is not None and stamp != self._local[0]:
                self._learn_zone(outer, stamp)
            return Instant(outer, envelope.outer_resolution_ns, True, True)
        if stamp is None and envelope.outer_local_ns is not None:
            return self._dated_by_itself(envelope.outer_local_ns, envelope.outer_resolution_ns)
        short = stamp if stamp is not None else envelope.outer_month_day
        if short is None:
            return self._undated(envelope)
        hint_ns = envelope.outer_local_ns
        local = self._local_ns(short, hint_ns if hint_ns is not None else self._hint_ns)
        if local is None:
            return None
        known = (
            envelope.outer_local_ns is not None
            or self.context.year is not None
            or self._zone_offset_ns is not None
            or self._hint_ns is not None
        )
        if stamp is not None:
            return self._placed(local, NS_PER_S, is_year_known=known)
        local += envelope.month_day_fraction_ns
        return self._placed(local, envelope.outer_resolution_ns, is_year_known=known)

    def resolve_plain(self, stamp: bytes) -> int | None:
        """Return the time that :meth:`resolve` gives a stamp with no other layer around it, in ns."""
        local = self._local_ns(stamp, self._hint_ns)
        offset_s = self.context.time_zone_offset_s
        offset_ns = self._zone_offset_ns if offset_s is None else offset_s * NS_PER_S
        return None if local is None else local - (offset_ns or 0)

    def _dated_by_itself(self, local_ns: int, resolution_ns: int) -> Instant:
        """Return the time of a stamp with a year; it lends its year to those of the stream that have none.

        Where such lines came first they are in the nominal year already, and the stamp follows them there:
        one file has one clock.
        """
        if not self._is_year_nominal or self._year is None:
            self._hint_ns = local_ns
            return self._placed(local_ns, resolution_ns, is_year_known=True)
        moment = datetime.fromtimestamp(local_ns // NS_PER_S, UTC)
        nominal_ns = _in_year(self._year, moment.strftime("%m-%d %H:%M:%S").encode())
        if nominal_ns is None:
            return self._placed(local_ns, resolution_ns, is_year_known=False)
        return self._placed(nominal_ns + local_ns % NS_PER_S, resolution_ns, is_year_known=False)

    def _undated(self, envelope: Envelope) -> Instant | None:
        """Return the time of a stamp without a date, counted from 1 January; midnight adds a day."""
        year_ns = _in_year(self.context.year or NOMINAL_YEAR, b"01-01 00:00:00") or 0
        step_ns = envelope.outer_resolution_ns
        if envelope.day_ns is None:
            elapsed_ns = envelope.elapsed_ns
            return None if elapsed_ns is None else Instant(year_ns + elapsed_ns, step_ns, False, False)
        day_no = self._day_no
        if self._last_day_ns is not None and envelope.day_ns < self._last_day_ns - SEGMENT_STEP_NS:
            day_no = self._day_no = self._day_no + 1
        elif (
            self._last_day_ns is not None and envelope.day_ns > self._last_day_ns + SEGMENT_STEP_NS and day_no
        ):
            # A late line from before midnight.
            return self._placed(
                year_ns + (day_no - 1) * _DAY_NS + envelope.day_ns, step_ns, is_year_known=False
            )
        self._last_day_ns = envelope.day_ns
        return self._placed(year_ns + day_no * _DAY_NS + envelope.day_ns, step_ns, is_year_known=False)

    def _placed(self, local_ns: int, resolution_ns: int, *, is_year_known: bool) -> Instant:
        """Return a local time as an instant, in UTC when the zone is given or learned from outer stamps."""
        offset_ns = self._zone_offset_ns
        if self.context.time_zone_offset_s is not None:
            offset_ns = self.context.time_zone_offset_s * NS_PER_S
        return Instant(local_ns - (offset_ns or 0), resolution_ns, is_year_known, offset_ns is not None)

    def _learn_zone(self, outer_ns: int, stamp: bytes) -> None:
        """Remember how far the engine's clock is from UTC, for lines that lack the outer stamp."""
        local = self._local_ns(stamp, outer_ns)
        if local is not None and abs(local - outer_ns) <= _ZONE_LIMIT_NS:
            self._zone_offset_ns = round((local - outer_ns) / _QUARTER_HOUR_NS) * _QUARTER_HOUR_NS

    def _local_ns(self, stamp: bytes, hint_ns: int | None) -> int | None:
        if stamp != self._local[0]:
            ns = self._dated(stamp, hint_ns)
            self._local = (stamp, ns)
        return self._local[1]

    def _dated(self, stamp: bytes, hint_ns: int | None) -> int | None:
        """Return the stamp with the year that fits: next to the hint, else next to the stamp before it."""
        month = int(stamp[:2])
        if hint_ns is not None:
            year = 1970 + hint_ns // (31_556_952 * NS_PER_S)
            near = [ns for y in (year - 1, year, year + 1) if (ns := _in_year(y, stamp)) is not None]
            ns = min(near, key=lambda value: abs(value - hint_ns), default=None)
            if ns is not None:
                self._year = year_of_ns(ns)
        else:
            if self._year is None:
                self._year = self.context.year or NOMINAL_YEAR
                self._is_year_nominal = self.context.year is None
            if month == 12 and self._month == 1 and self._is_late(stamp):
                return _in_year(self._year - 1, stamp)
            if month == 1 and self._month == 12:
                self._year += 1
            ns = _in_year(self._year, stamp)
        self._advance(month, ns)
        return ns

    def _is_late(self, stamp: bytes) -> bool:
        """Say whether a December stamp after January is a line that came late, not eleven months on."""
        last_year = _in_year((self._year or NOMINAL_YEAR) - 1, stamp)
        return (
            last_year is not None
            and self._latest_ns is not None
            and self._latest_ns - last_year <= SEGMENT_STEP_NS
        )

    def _advance(self, month: int, ns: int | None) -> None:
        if ns is None:
            return
        if self._latest_ns is not None and ns < self._latest_ns - SEGMENT_STEP_NS:
            self.segment_count += 1
        elif self._latest_ns is not None and ns < self._latest_ns:
            return
        self._latest_ns = ns
        self._month = month


def year_of_ns(ns: int) -> int:
    """Return the calendar year of a UTC time."""
    year = 1970 + ns // (31_556_952 * NS_PER_S)
    # The mean year is off by up to a day at either end: look at the real first days.
    starts = [(y, calendar_ns(b"%04d-01-01T00:00:00" % y)) for y in (year + 1, year)]
    return next((y for y, start in starts if start is not None and start <= ns), year - 1)


@lru_cache(maxsize=2048)
def _minute_in_year(year: int, minute: bytes) -> int | None:
    return calendar_ns(b"%04d-%s:00" % (year, minute)) if 1970 <= year <= 2200 else None


def _in_year(year: int, stamp: bytes) -> int | None:
    """Return ``MM-DD HH:MM:SS`` in a year; the calendar is asked once a minute only."""
    minute_ns, second = _minute_in_year(year, stamp[:11]), int(stamp[12:14])
    return None if minute_ns is None or second > _LAST_SECOND else minute_ns + second * NS_PER_S


@dataclass
class ClockFacts:
    """What the stamps of the file have in common: the weakest of each."""

    line_no: int = 0
    is_year_known: bool = True
    is_zone_known: bool = True
    _steps_ns: dict[bool, int] = field(default_factory=dict)

    def note(self, instant: Instant, line_no: int, *, is_outer: bool) -> None:
        """Take note of what one stamp carries."""
        self.line_no = self.line_no or line_no
        self.is_year_known &= instant.is_year_known
        self.is_zone_known &= instant.is_zone_known
        # Writers trim zeros off their fractions, so the finest step of a kind of stamp is its step.
        known = self._steps_ns.get(is_outer)
        if known is None or instant.resolution_ns < known:
            self._steps_ns[is_outer] = instant.resolution_ns

    def rows(self) -> tuple[SettingRow, ...]:
        """Return the facts as settings; without any stamp, year and zone are not known."""
        is_stamped = self.line_no > 0
        known = (
            (YEAR_KNOWN, is_stamped and self.is_year_known),
            (ZONE_KNOWN, is_stamped and self.is_zone_known),
        )
        line_no = max(self.line_no, 1)
        rows = tuple(
            SettingRow(line_no, "", name, "true" if value else "false", None) for name, value in known
        )
        # A file with two kinds of stamps is as coarse as the coarser kind.
        step_ns = max(self._steps_ns.values(), default=None)
        return (
            (*rows, SettingRow(line_no, "", RESOLUTION, str(step_ns), None)) if step_ns is not None else rows
        )
