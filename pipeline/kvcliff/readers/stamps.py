"""Time stamps of files as integer nanoseconds: epochs in any unit, written dates, the output of ``date``."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final

from kvcliff.units import NS_PER_S

#: Below this many seconds an epoch is no date (1973) but a clock that started with the recording.
RELATIVE_CLOCK_LIMIT_S: Final = 100_000_000
_INT64_LIMIT: Final = 1 << 63
_NUMBER = re.compile(r"[0-9]{1,19}(?:\.[0-9]{0,20})?(?:[eE][+-]?[0-9]{1,2})?")
#: An epoch's magnitude tells its unit: exclusive upper limit, nanoseconds per unit (s, ms, us, ns).
_EPOCH_UNITS: Final = ((Decimal(10) ** 11, 10**9), (Decimal(10) ** 14, 10**6), (Decimal(10) ** 17, 10**3))
_CLOCK = r"(?P<h>\d{2}):(?P<mi>\d{2}):(?P<s>\d{2})(?:[.,](?P<f>\d{1,9})\d*)?"
_ZONE = r"(?P<z>Z|UTC|GMT|[+-]\d{2}:?\d{2}|[A-Z]{3,5})"
_CALENDAR = re.compile(rf"(?P<y>\d{{4}})[-/](?P<m>\d{{2}})[-/](?P<d>\d{{2}})[T ]{_CLOCK} ?{_ZONE}?")
_COMPACT = re.compile(r"(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})[ -](?P<h>\d{2}):?(?P<mi>\d{2}):?(?P<s>\d{2})")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(?P<mon>[A-Z][a-z]{2})"
_DATE_COMMAND = (
    re.compile(
        rf"[A-Z][a-z]{{2}} {_MONTH} +(?P<d>\d{{1,2}}) {_CLOCK}(?: (?P<half>[AP]M))? {_ZONE} (?P<y>\d{{4}})"
    ),
    re.compile(
        rf"[A-Z][a-z]{{2}} (?P<d>\d{{1,2}}) {_MONTH} (?P<y>\d{{4}}) {_CLOCK}(?: (?P<half>[AP]M))? {_ZONE}"
    ),
)


@dataclass(frozen=True)
class Stamp:
    """One instant.

    Attributes:
        ns: nanoseconds since 1970; local time counted as if it were UTC when ``is_utc`` is false.
        is_utc: whether the zone is known (stated by the stamp, or given for the file).
    """

    ns: int
    is_utc: bool


def scaled_to_ns(text: str, ns_per_unit: int) -> int | None:
    """Return a non-negative decimal number times ``ns_per_unit``, rounded once, else ``None``."""
    if not _NUMBER.fullmatch(text):
        return None
    value = (Decimal(text) * ns_per_unit).to_integral_value(ROUND_HALF_EVEN)
    return int(value) if value < _INT64_LIMIT else None


def epoch_to_ns(text: str) -> int | None:
    """Return an epoch in s, ms, us or ns (told apart by magnitude) as ns, else ``None``."""
    if not _NUMBER.fullmatch(text):
        return None
    number = Decimal(text)
    return scaled_to_ns(text, next((ns for limit, ns in _EPOCH_UNITS if number < limit), 1))


def parse_stamp(text: str, zone_offset_s: int | None = None) -> Stamp | None:
    """Return the instant that ``text`` states, or ``None`` when it is no known form.

    Args:
        text: an ISO, slash or compact date with a time, or a line as ``date`` prints it.
        zone_offset_s: seconds east of UTC of stamps that name no numeric zone, when known.
    """
    text = text.strip()
    match = _CALENDAR.fullmatch(text) or _COMPACT.fullmatch(text)
    if match is None:
        match = next((found for form in _DATE_COMMAND if (found := form.fullmatch(text))), None)
    if match is None:
        return None
    parts = match.groupdict()
    ns = _calendar_ns(parts.get)
    if ns is None:
        return None
    stated = _stated_zone_s(parts.get("z"))
    offset_s = stated if stated is not None else zone_offset_s
    return Stamp(ns - (offset_s or 0) * NS_PER_S, offset_s is not None)


def _calendar_ns(part: Callable[[str], str | None]) -> int | None:
    """Return the named parts of a stamp as if they were UTC, or ``None`` for an impossible date."""
    name = part("mon")
    month = str(_MONTHS.index(name.lower()) + 1) if name and name.lower() in _MONTHS else part("m")
    hour = int(part("h") or 0)
    if part("half"):
        hour = hour % 12 + (12 if part("half") == "PM" else 0)
    try:
        day = datetime(
            int(part("y") or 0),
            int(month or 0),
            int(part("d") or 0),
            hour,
            int(part("mi") or 0),
            int(part("s") or 0),
            tzinfo=UTC,
        )
    except ValueError:
        return None
    since = day - datetime(1970, 1, 1, tzinfo=UTC)
    ns = (since.days * 86_400 + since.seconds) * NS_PER_S + int((part("f") or "0").ljust(9, "0"))
    return ns if -_INT64_LIMIT < ns < _INT64_LIMIT else None


def _stated_zone_s(zone: str | None) -> int | None:
    """Return the offset that a zone states; a name other than UTC or GMT states none (CST has several)."""
    if zone in {"Z", "UTC", "GMT"}:
        return 0
    if zone is None or zone[0] not in "+-":
        return None
    digits = zone[1:].replace(":", "")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -seconds if zone[0] == "-" else seconds
