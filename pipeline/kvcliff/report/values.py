"""Writing one table value as text, by its kind."""

from dataclasses import dataclass
from typing import Literal

from kvcliff.findings.run_time import FIRST_REAL_NS, RunTime, clock_decimals, format_error
from kvcliff.report.document import Column, Kind, Table, Value
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


@dataclass(frozen=True)
class Cell:
    """A table value as text that is not escaped yet.

    Attributes:
        text: what stands in the cell.
        style: ``name`` is text from inputs, ``word`` our own words, ``number`` (with its unit, which is ours
            too) stands as it is.
    """

    text: str
    style: Literal["name", "word", "number"]


def table_cell(
    kind: Kind, value: Value, run_time: RunTime, unit: Value = None, error_ns: Value = None
) -> Cell:
    """Return a value as the text of a table cell; an absent one is a dash.

    Args:
        kind: kind of its column.
        value: the value.
        run_time: how instants are written.
        unit: unit of the row, for values of kind ``by_unit``.
        error_ns: error of the row's instant, which decides how many decimals are written.
    """
    if value is None:
        return Cell(EMPTY, "number")
    if isinstance(value, bool):
        return Cell("yes" if value else "no", "number")
    if isinstance(value, str):
        return Cell(value, "name" if kind == "name" else "word")
    if kind == "by_unit":
        return Cell(_unbroken(_with_unit(value, str(unit or ""))), "number")
    if kind == "instant":
        decimals = clock_decimals(int(error_ns) if isinstance(error_ns, int) else None)
        text = run_time.clock(int(value), decimals=decimals) or run_time.since_start(int(value))
        return Cell(_unbroken(text), "number")
    return Cell(_unbroken(_number(kind, value, run_time)), "number")


def table_cells(table: Table, run_time: RunTime) -> tuple[tuple[Column, ...], tuple[tuple[Cell, ...], ...]]:
    """Return the columns of a table that are shown, and its rows as text."""
    shown = [index for index, column in enumerate(table.columns) if column.kind != "hidden"]
    named = {column.name: index for index, column in enumerate(table.columns)}
    rows = []
    for row in table.rows:
        unit = row[named["unit"]] if "unit" in named else None
        error_ns = row[named["error_ns"]] if "error_ns" in named else None
        rows.append(
            tuple(
                table_cell(table.columns[index].kind, row[index], run_time, unit, error_ns) for index in shown
            )
        )
    return tuple(table.columns[index] for index in shown), tuple(rows)


def markdown_cell(cell: Cell) -> str:
    """Return a cell as it stands in a Markdown table."""
    if cell.style == "name":
        return code_span(cell.text, in_table=True) or EMPTY
    return markdown_text(cell.text) if cell.style == "word" else cell.text


def _unbroken(text: str) -> str:
    """Return text whose blanks do not break, so that a narrow column keeps a number with its unit."""
    return text.replace(" ", "\u00a0")


def _with_unit(value: int | float, unit: str) -> str:
    if unit == "ratio":
        return format_pct(value)
    if unit == "ms":
        return format_ms(value)
    words = _singular(unit) if value == 1 else unit
    return f"{format_number(value)} {words}".rstrip()


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
