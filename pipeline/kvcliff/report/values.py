"""Writing one table value as text, by its kind."""

from kvcliff.findings.run_time import FIRST_REAL_NS, RunTime, clock_decimals, format_error
from kvcliff.report.document import Kind, Value
from kvcliff.report.escape import code_span, markdown_text
from kvcliff.units import (
    NS_PER_S,
    format_bytes,
    format_count,
    format_duration_ns,
    format_ms,
    format_number,
    format_pct,
)

#: Kinds whose columns read best flush left.
TEXT_KINDS = ("name", "word", "instant")
EMPTY = "–"
_DAY_NS = 86_400 * NS_PER_S
#: Offsets from here on come from stamps without a year, not from a clock that is off.
_WHOLE_DAYS = 300


def markdown_cell(
    kind: Kind, value: Value, run_time: RunTime, unit: Value = None, error_ns: Value = None
) -> str:
    """Return a value as the text of a Markdown table cell; an absent one is a dash.

    Args:
        kind: kind of its column.
        value: the value.
        run_time: how instants are written.
        unit: unit of the row, for values of kind ``by_unit``.
        error_ns: error of the row's instant, which decides how many decimals are written.
    """
    if value is None:
        return EMPTY
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return (code_span(value, in_table=True) or EMPTY) if kind == "name" else markdown_text(value)
    if kind == "by_unit":
        return _unbroken(_with_unit(value, str(unit or "")))
    if kind == "instant":
        decimals = clock_decimals(int(error_ns) if isinstance(error_ns, int) else None)
        return _unbroken(run_time.clock(int(value), decimals=decimals) or run_time.since_start(int(value)))
    return _unbroken(_number(kind, value, run_time))


def _unbroken(text: str) -> str:
    """Return text whose blanks do not break, so that a narrow column keeps a number with its unit."""
    return text.replace(" ", "\u00a0")


def _with_unit(value: int | float, unit: str) -> str:
    if unit == "ratio":
        return format_pct(value)
    if unit == "ms":
        return format_ms(value)
    words = _singular(unit) if value == 1 else unit
    return f"{format_number(value)} {markdown_text(words)}".rstrip()


def counted(count: int, words: str) -> str:
    """Return ``2 more jumps``; the plural ``words`` lose it when there is one."""
    return f"{format_count(count)} {_singular(words) if count == 1 else words}"


def _singular(words: str) -> str:
    return f"{words.removesuffix('ies')}y" if words.endswith("ies") else words.removesuffix("s")


def _clock_offset(offset_ns: int, run_time: RunTime) -> str:
    """Return an offset in seconds; for a relative series, whose offset is the time of its zero, that time."""
    if run_time.is_absolute and offset_ns >= FIRST_REAL_NS:
        return f"zero is at {run_time.clock(offset_ns, decimals=3, with_date=True)}"
    days, rest_ns = divmod(offset_ns + _DAY_NS // 2, _DAY_NS)
    if abs(days) < _WHOLE_DAYS:
        return f"{offset_ns / NS_PER_S:+,.3f} s"
    # A log without year: whole days say which one, the rest is what the clock was off.
    return f"{days:+,} d {(rest_ns - _DAY_NS // 2) / NS_PER_S:+,.3f} s"


def _number(kind: Kind, value: int | float, run_time: RunTime) -> str:
    match kind:
        case "count":
            return format_count(value)
        case "ms":
            return format_ms(value)
        case "seconds":
            return format_duration_ns(value * NS_PER_S) if value else "0 s"
        case "bytes":
            return format_bytes(value)
        case "pct":
            return format_pct(value)
        case "share":
            return format_pct(value, 0)
        case "clock_offset":
            return _clock_offset(int(value), run_time)
        case "since_start":
            return run_time.since_start(int(value))
        case "duration_ns":
            return format_duration_ns(value)
        case "offset_ns":
            return f"{round(value / NS_PER_S, 1) + 0.0:+,.1f} s"
        case "error_ns":
            return f"± {format_error(int(value))}"
        case _:
            return format_number(value)
