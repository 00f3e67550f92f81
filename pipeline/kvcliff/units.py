"""Numbers to text, in one place: bytes, durations, ratios, counts and times."""

import math
from datetime import UTC, datetime

GIB = 1 << 30
MIB = 1 << 20
NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


def _trim(value: float, digits: int) -> str:
    """Return ``value`` with ``digits`` significant digits, no exponent and no trailing zeros."""
    if value == 0:
        return "0"
    decimals = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_count(value: float | None) -> str:
    """Return an integer with thousands separators, or ``n/a``."""
    return "n/a" if value is None else f"{round(value):,}"


def format_number(value: float | None, digits: int = 3) -> str:
    """Return a number with ``digits`` significant digits, or ``n/a``."""
    return "n/a" if value is None else _trim(value, digits)


def format_pct(ratio: float | None, digits: int = 1) -> str:
    """Return a 0-1 ratio as per cent, or ``n/a``."""
    return "n/a" if ratio is None else f"{ratio * 100:.{digits}f} %"


def format_bytes(value: float | None) -> str:
    """Return bytes in binary units (B, KiB, MiB, GiB, TiB), or ``n/a``."""
    if value is None:
        return "n/a"
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024:
            return f"{_trim(amount, 4)} {unit}"
        amount /= 1024
    return f"{_trim(amount, 4)} TiB"


def format_duration_ns(value: float | None) -> str:
    """Return a duration in the unit that reads best (ns, µs, ms, s, min), or ``n/a``."""
    if value is None:
        return "n/a"
    for limit, divisor, unit in ((1e3, 1, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms"), (120e9, 1e9, "s")):
        if abs(value) < limit:
            return f"{_trim(value / divisor, 3)} {unit}"
    return f"{_trim(value / 60e9, 3)} min"


def format_ms(value: float | None) -> str:
    """Return milliseconds as a duration, or ``n/a``."""
    return "n/a" if value is None else format_duration_ns(value * NS_PER_MS)


def format_instant(value_ns: int | None, *, with_date: bool = True, decimals: int = 3) -> str:
    """Return a run-clock instant as ``YYYY-MM-DD HH:MM:SS.mmm`` (UTC arithmetic, no zone printed)."""
    if value_ns is None:
        return "n/a"
    seconds, rest = divmod(int(value_ns), NS_PER_S)
    stamp = datetime.fromtimestamp(seconds, UTC)
    text = stamp.strftime("%Y-%m-%d %H:%M:%S" if with_date else "%H:%M:%S")
    return f"{text}.{rest // 10 ** (9 - decimals):0{decimals}d}" if decimals else text
