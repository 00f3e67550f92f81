"""Reader of Grafana's CSV (Inspect, Data) with formatted values: units are resolved, their rounding stays."""

import re
from typing import Final

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.csv_text import header_of, is_text, split_row
from kvcliff.readers.metric_writer import TABLES
from kvcliff.readers.series_table import load_table, plain_cell, table_layout

_SNIFF_ROWS: Final = 50
_CELL: Final = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([A-Za-z%µ/]{1,10})")
#: What Grafana writes where there is no value.
_ABSENT: Final = {"-", "null", "undefined", "No data"}
#: Units as Grafana writes them and what to multiply with to get the metric's own unit: ratios, plain
#: numbers, bytes, seconds.
_FACTORS: Final = {
    "%": 1e-2,
    "K": 1e3,
    "k": 1e3,
    "Mil": 1e6,
    "M": 1e6,
    "Bil": 1e9,
    "G": 1e9,
    "Tri": 1e12,
    "T": 1e12,
    "B": 1.0,
    "kB": 1e3,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
    "ns": 1e-9,
    "µs": 1e-6,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "mins": 60.0,
    "hour": 3600.0,
    "hours": 3600.0,
}
_ROUNDED: Final = "values carry units and were rounded by Grafana: export them unformatted for exact figures"


def _formatted(cell: str) -> float | None:
    """Return the number behind a cell with a unit, ``None`` when it has no known unit."""
    match = _CELL.fullmatch(cell)
    factor = _FACTORS.get(match[2]) if match else None
    return None if match is None or factor is None else float(match[1]) * factor


def _cell(cell: str) -> str | None:
    """Return a cell as plain number text."""
    if cell in _ABSENT:
        return "NaN"
    value = _formatted(cell)
    return plain_cell(cell) if value is None else repr(value)


def _sniff(source: Source) -> Sniff:
    """Return how much the head looks like a table of metrics whose cells carry units."""
    head = source.head
    layout = table_layout(header_of(head)) if is_text(head) and b"," in head else None
    if layout is None or layout.time_title.strip().lower() != "time":
        return NO_MATCH
    rows = [split_row(line) for line in head.split(b"\n")[1:_SNIFF_ROWS]]
    places = [column.place for column in layout.columns]
    cells = (row[place] for row in rows if len(row) == layout.width for place in places)
    if any(_formatted(cell) is not None for cell in cells):
        return Sniff(87, f"Grafana CSV with formatted values of {len(places)} engine metrics")
    return NO_MATCH


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Stream the rows into the metric tables."""
    report = load_table(source, sink, context, _cell)
    notes = (*report.notes, _ROUNDED) if report.row_count else report.notes
    return LoadReport(report.row_count, report.skipped_count, report.first_skip_reason, report.damage, notes)


READER = Reader(
    name="grafana_csv",
    title="Grafana CSV with formatted values",
    tables=TABLES,
    sniff=_sniff,
    load=_load,
    role="metrics",
    tried_on_real_files=False,
)
