"""Tables with engine metrics as columns and one row per point of time: layout and loading."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kvcliff.readers.base import LoadReport, ReadContext, Sink, SkipCount, Source
from kvcliff.readers.csv_text import split_row, text_lines
from kvcliff.readers.metric_families import canonical_name, known_kind
from kvcliff.readers.metric_writer import FLUSH_SAMPLES, MetricWriter
from kvcliff.readers.prometheus_text import parse_series
from kvcliff.readers.time_column import TimeColumn, is_time_title

_UNIT: Final = re.compile(r"\s*[\[(][^\])]{0,20}[\])]\s*$")
#: Bare column names are looked for under these prefixes.
_PREFIXES: Final = ("vllm:", "sglang:", "trtllm_")
#: Short titles that people give such columns.
_ALIASES: Final = {
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
    "swapped": "vllm:num_requests_swapped",
    "kv_cache_usage": "vllm:kv_cache_usage_perc",
    "gpu_cache_usage": "vllm:gpu_cache_usage_perc",
    "cpu_cache_usage": "vllm:cpu_cache_usage_perc",
    "num_preemptions": "vllm:num_preemptions_total",
    "prompt_tokens": "vllm:prompt_tokens_total",
    "generation_tokens": "vllm:generation_tokens_total",
    "request_success": "vllm:request_success_total",
}


CellReader = Callable[[str], str | None]


@dataclass(frozen=True)
class TableColumn:
    """A column that holds a metric: its place, and the series it is."""

    place: int
    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True)
class TableLayout:
    """Where the time and the metrics stand in a row."""

    width: int
    time_place: int
    time_title: str
    columns: tuple[TableColumn, ...]


def _metric_of(title: str, prefixes: Sequence[str]) -> tuple[str, Mapping[str, str]] | None:
    """Return the metric name and labels that a column title stands for, or ``None`` when it is none."""
    bare = _UNIT.sub("", title).strip()
    series = parse_series(bare) if "{" in bare else (bare, MappingProxyType({}))
    if series is None:
        return None
    name, labels = series
    candidates = [
        canonical_name(name),
        *(prefix + name for prefix in prefixes),
        _ALIASES.get(name.lower(), ""),
    ]
    known = next((candidate for candidate in candidates if known_kind(candidate) is not None), None)
    return None if known is None or known == "process_start_time_seconds" else (known, labels)


def _prefixes_by_use(titles: Sequence[str]) -> list[str]:
    """Return the prefixes, first the one under which most titles are metrics: a table is about one engine."""
    used = {prefix: sum(_metric_of(title, (prefix,)) is not None for title in titles) for prefix in _PREFIXES}
    return sorted(_PREFIXES, key=lambda prefix: -used[prefix])


def table_layout(header: list[str]) -> TableLayout | None:
    """Return the layout of a table, or ``None`` when it lacks a time or a metric."""
    time_place = next((place for place, title in enumerate(header) if is_time_title(title)), None)
    if time_place is None:
        return None
    prefixes = _prefixes_by_use(header)
    found = [
        (place, _metric_of(title, prefixes)) for place, title in enumerate(header) if place != time_place
    ]
    columns = tuple(TableColumn(place, *metric) for place, metric in found if metric is not None)
    return TableLayout(len(header), time_place, header[time_place], columns) if columns else None


class _Loader(SkipCount):
    """State of one load."""

    def __init__(
        self, writer: MetricWriter, layout: TableLayout, zone_offset_s: int | None, read_cell: CellReader
    ) -> None:
        self._read_cell = read_cell
        self._writer = writer
        self._layout = layout
        self._series = [writer.series.series_id(column.name, column.labels) for column in layout.columns]
        self.time = TimeColumn(layout.time_title, zone_offset_s)
        self.width = layout.width

    def row(self, cells: list[str]) -> None:
        """Take one row: its time, and each metric that has a value in it."""
        if len(cells) != self.width:
            self.skip("row has more or fewer cells than the header")
            return
        time_ns = self.time.read(cells[self._layout.time_place])
        if time_ns is None:
            self.skip("cell of the time column is no time")
            return
        taken: set[int] = set()
        for column, series_id in zip(self._layout.columns, self._series, strict=True):
            cell = cells[column.place]
            if series_id is None or series_id in taken or not cell:
                continue
            value = self._read_cell(cell)
            if value is not None:
                taken.add(series_id)
                self._writer.ids.append(series_id)
                self._writer.values.append(value.encode())
            else:
                self.skip("cell of a metric is no plain number (export the values unformatted)")
        self._writer.assign(self._writer.add_scrape(time_ns, None))
        if len(self._writer.ids) >= FLUSH_SAMPLES:
            self._writer.flush()


def plain_cell(cell: str) -> str | None:
    """Return a cell that is a number, or says "no value" in a number's way; ``None`` for any other."""
    try:
        float(cell)
    except ValueError:
        return None
    return cell


def load_table(
    source: Source, sink: Sink, context: ReadContext, read_cell: CellReader = plain_cell
) -> LoadReport:
    """Stream the rows of a table into the metric tables.

    Args:
        source: the file.
        sink: where the rows go.
        context: what is known about the file.
        read_cell: returns a cell's value as plain number text, ``None`` when it has none.

    Raises:
        InputError: the file cannot be opened.
    """
    writer = MetricWriter(sink)
    loader: _Loader | None = None
    damage: str | None = None
    with source.open() as stream:
        for line, is_ended in text_lines(stream):
            cells = split_row(line)
            if loader is None:
                layout = table_layout(cells)
                if layout is None:
                    break
                loader = _Loader(writer, layout, context.time_zone_offset_s, read_cell)
            elif not is_ended and (stream.damage or len(cells) != loader.width):
                damage = "the file ends inside a row"
            elif line.strip():
                loader.row(cells)
        damage = stream.damage or damage
    if loader is None:
        return LoadReport(
            0, damage=damage, notes=("the file holds no header with a time and engine metrics",)
        )
    return _report(writer, loader, damage)


def _report(writer: MetricWriter, loader: _Loader, damage: str | None) -> LoadReport:
    """Write what is left and return what the load brought."""
    row_count = writer.scrape_count
    writer.finish(loader.time.clock, ())
    notes = [] if row_count else ["the file has a header but no rows"]
    if writer.blank_count:
        notes.append(f'{writer.blank_count} values say "no value" (NaN or infinity) and were dropped')
    if loader.time.clock == "local":
        notes.append("times are local, their zone is unknown")
    return LoadReport(writer.row_count, loader.skipped_count, loader.first_skip_reason, damage, tuple(notes))
