"""Reader of GPU telemetry tables: ``nvidia-smi --query-gpu`` CSV, ``nvidia-smi dmon``, ``dcgmi dmon``."""

from collections.abc import Sequence
from typing import Final

import polars as pl

from kvcliff.errors import DataGapError
from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, SkipCount, Sniff, Source
from kvcliff.readers.csv_text import is_text, text_lines
from kvcliff.readers.device_columns import THROTTLE_COUNTERS, cell_value, is_blank
from kvcliff.readers.device_layout import (
    DeviceTable,
    cells_of,
    header_table,
    is_blank_separated,
    is_unit_line,
    table_of,
)
from kvcliff.readers.settings import Setting, settings_frame
from kvcliff.readers.stamps import scaled_to_ns
from kvcliff.readers.time_column import TimeColumn

_FLUSH_SAMPLES: Final = 200_000
_SNIFF_LINES: Final = 20
_DEVICE_LIMIT: Final = 4096
#: Python refuses to read a number of thousands of digits.
_DEVICE_DIGITS: Final = 9
_TEXT_LIMIT: Final = 80


def _sniff(source: Source) -> Sniff:
    """Return how much the first lines look like GPU telemetry."""
    if not is_text(source.head):
        return NO_MATCH
    for line in source.head.split(b"\n")[:_SNIFF_LINES]:
        if not line.strip():
            continue
        layout = header_table(line)
        if layout is not None and (layout.kind == "query" or len(layout.columns) > 1):
            tool = "nvidia-smi query" if layout.kind == "query" else "GPU monitor (nvidia-smi or dcgmi dmon)"
            return Sniff(90, f"{tool} table with {len(layout.columns)} known counters")
    return NO_MATCH


class _Loader(SkipCount):
    """State of one load: the layout in force, the devices met, and the columns not yet written."""

    def __init__(self, source: Source, sink: Sink, context: ReadContext) -> None:
        self._source = source
        self._sink = sink
        self._context = context
        self._devices: dict[str, int] = {}
        self._last_ns: dict[int, int] = {}
        self._rounds: dict[int, int] = {}
        self._is_blank_separated = True
        self._times: list[int] = []
        self._device_ids: list[int] = []
        self._counters: list[str] = []
        self._values: list[float] = []
        self._settings: dict[tuple[str, str], Setting] = {}
        self._interval_ns: int | None = None
        self.layout: DeviceTable | None = None
        self.time: TimeColumn | None = None
        self.row_count = self.repeated_count = self.line_no = 0

    def line(self, line: bytes) -> None:
        """Take one line: a header, a line of units, or a row."""
        self.line_no += 1
        if not line.strip():
            return
        if self.layout is None or line.lstrip().startswith(b"#"):
            self._header(line)
            return
        cells = cells_of(line, self._is_blank_separated)
        if is_unit_line(cells) or (self.layout.kind == "query" and table_of(cells) is not None):
            return
        self._row(cells)

    def is_full_row(self, line: bytes) -> bool:
        """Return whether a line has as many cells as the header."""
        return self.layout is None or len(cells_of(line, self._is_blank_separated)) == self.layout.width

    def _header(self, line: bytes) -> None:
        """Take a header, which may come again and may name other columns then."""
        layout = header_table(line)
        if layout is None:
            if not line.lstrip().startswith(b"#"):
                self.skip("line before the header")
            return
        self.layout = layout
        self._is_blank_separated = is_blank_separated(line)
        if self.time is None:
            self.time = TimeColumn(layout.time_title, self._context.time_zone_offset_s)
        if not layout.time_places and self._interval_ns is None:
            self._interval_ns = self._stated_interval_ns()

    def _stated_interval_ns(self) -> int:
        """Return the sampling interval that run.toml states for a file without times."""
        interval_ns = scaled_to_ns(self._context.options.get("interval_ms", ""), 10**6)
        if not interval_ns:
            raise DataGapError(
                f"{self._source.relative} has no time column and its sampling interval is not stated",
                hint="record with 'nvidia-smi dmon -o DT', or state in run.toml: "
                f'[[file]] path = "{self._source.relative}", interval_ms = 1000',
            )
        return interval_ns

    def _row(self, cells: list[str]) -> None:
        """Take one row."""
        layout = self.layout
        if layout is None or len(cells) != layout.width:
            self.skip("row has more or fewer cells than the header")
            return
        device_id = self._device_id(cells, layout)
        time_ns = self._time_ns(cells, layout, device_id)
        if time_ns is None:
            self.skip("row has no readable time")
            return
        if self._last_ns.get(device_id) == time_ns:
            self.repeated_count += 1
            return
        self._last_ns[device_id] = time_ns
        self._facts(cells, layout, device_id)
        self._values_of(cells, layout, time_ns, device_id)

    def _device_id(self, cells: Sequence[str], layout: DeviceTable) -> int:
        """Return the GPU index: the printed one, else the order in which GPUs appear."""
        if layout.device_place is None:
            return 0
        cell = cells[layout.device_place]
        if cell.isdecimal() and len(cell) <= _DEVICE_DIGITS and int(cell) < _DEVICE_LIMIT:
            return int(cell)
        return self._devices.setdefault(cell, len(self._devices))

    def _time_ns(self, cells: Sequence[str], layout: DeviceTable, device_id: int) -> int | None:
        """Return the time of a row; of a table without times, its number times the stated interval."""
        if layout.time_places and self.time is not None:
            return self.time.read(" ".join(cells[place] for place in layout.time_places))
        number = self._rounds.get(device_id, 0)
        self._rounds[device_id] = number + 1
        return number * (self._interval_ns or 0)

    def _facts(self, cells: Sequence[str], layout: DeviceTable, device_id: int) -> None:
        """Remember what a row states about the GPU itself."""
        for place, name in ((layout.name_place, "gpu_name"), (layout.driver_place, "driver_version")):
            if place is not None and not is_blank(cells[place]):
                self._fact(device_id, name, cells[place][:_TEXT_LIMIT])

    def _fact(self, device_id: int, name: str, value: str) -> None:
        """Remember the first statement of a fact about a GPU."""
        scope = f"device:{device_id}"
        self._settings.setdefault((scope, name), Setting(self.line_no, scope, name, value))

    def _values_of(self, cells: Sequence[str], layout: DeviceTable, time_ns: int, device_id: int) -> None:
        """Collect the counters of a row."""
        held_back: float | None = None
        for place, column in layout.columns:
            cell = cells[place]
            if is_blank(cell):
                continue
            value = cell_value(cell)
            if value is None:
                self.skip("cell of a counter is no number")
                continue
            self._keep(time_ns, device_id, column.counter, value * column.factor)
            if column.counter in THROTTLE_COUNTERS:
                held_back = max(held_back or 0.0, float(value > 0))
            if column.counter == "memory_total_bytes":
                self._fact(device_id, "gpu_memory_bytes", str(round(value * column.factor)))
        if held_back is not None:
            self._keep(time_ns, device_id, "throttle_flag", held_back)
        if len(self._times) >= _FLUSH_SAMPLES:
            self.flush()

    def _keep(self, time_ns: int, device_id: int, counter: str, value: float) -> None:
        """Collect one sample."""
        self._times.append(time_ns)
        self._device_ids.append(device_id)
        self._counters.append(counter)
        self._values.append(value)

    def flush(self) -> None:
        """Write the samples that were collected."""
        if not self._times:
            return
        frame = pl.DataFrame(
            {
                "src_ns": pl.Series(self._times, dtype=pl.Int64),
                "device_id": pl.Series(self._device_ids, dtype=pl.Int32),
                "counter": pl.Series(self._counters, dtype=pl.String),
                "value": pl.Series(self._values, dtype=pl.Float64),
            }
        )
        self.row_count += self._sink.append("raw_device_samples", frame)
        for column in (self._times, self._device_ids, self._counters, self._values):
            column.clear()

    def finish(self) -> str:
        """Write what is left and return the kind of clock."""
        self.flush()
        clock = "relative" if self._interval_ns is not None else self.time.clock if self.time else "none"
        if self.row_count:
            settings = [*self._settings.values(), Setting(1, "", "device_clock", clock)]
            self.row_count += self._sink.append("raw_settings", settings_frame(settings))
        return clock


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Stream the rows into the device tables."""
    loader = _Loader(source, sink, context)
    damage: str | None = None
    with source.open() as stream:
        for line, is_ended in text_lines(stream):
            if not is_ended and (stream.damage or not loader.is_full_row(line)):
                damage = "the file ends inside a row"
            else:
                loader.line(line)
        damage = stream.damage or damage
    clock = loader.finish()
    notes = [] if loader.row_count else ["the file holds no rows"]
    if loader.repeated_count:
        notes.append(f"{loader.repeated_count} rows repeat the time of the row before and were dropped")
    if clock == "local":
        notes.append("times are local, their zone is unknown")
    return LoadReport(loader.row_count, loader.skipped_count, loader.first_skip_reason, damage, tuple(notes))


READER = Reader(
    name="device_metrics",
    title="nvidia-smi query and dmon, dcgmi dmon",
    tables=("raw_device_samples", "raw_settings"),
    sniff=_sniff,
    load=_load,
    role="device",
    tried_on_real_files=True,
)
