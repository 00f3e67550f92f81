"""Raw pages of Nsight Compute: one row per kernel, one column per metric."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import polars as pl

from kvcliff.readers.nsight_compute_numbers import POINT_STYLE, NumberStyle, parse_numbers, style_of
from kvcliff.readers.nsight_compute_rows import DEVICE_PREFIX, CounterRows
from kvcliff.readers.nsight_compute_tables import Titles, identity_places, kernel_frame, titles_of
from kvcliff.readers.nsight_compute_units import base_unit, unit_of_metric

_METRIC: Final = re.compile(r"[A-Za-z0-9_]+__[A-Za-z0-9_.]+")
_STYLE_ROWS: Final = 200


@dataclass(frozen=True)
class _Column:
    """One metric of the page: its place, name and base unit, and the factor to it."""

    place: int
    metric: str
    unit: str
    factor: float


def is_metric(title: str) -> bool:
    """Return whether a header cell is the name of a metric that has a number."""
    return _METRIC.fullmatch(title) is not None


class WidePage:
    """One raw page: header, row of units, rows of kernels."""

    page = "raw"

    def __init__(self, header: Sequence[str], rows: CounterRows) -> None:
        self._titles: Titles = titles_of(header)
        self._rows = rows
        self._units: Sequence[str] = self._titles.units
        self._columns: tuple[_Column, ...] | None = None
        self._style: NumberStyle = POINT_STYLE
        self._has_style = False
        self.width = len(header)
        self.min_width = self.width
        self.is_ambiguous = False
        self.is_without_units = False
        self.unreadable_count = 0

    def is_row(self) -> pl.Expr:
        """Return whether a line is a row of this page: it has a kernel, or no ID as the row of units."""
        places = identity_places(self._titles)
        id_cell = pl.col(f"c{places.get('profile_id', 0)}").fill_null("")
        return (id_cell == "") | pl.col(f"c{places['name']}").is_not_null()

    def add(self, frame: pl.DataFrame) -> None:
        """Take rows: texts, columns named ``c0``, ``c1`` ..."""
        if self._columns is None:
            frame = self._take_units(frame)
        if frame.height == 0:
            return
        if not self._has_style:
            self._find_style(frame)
        first_no = self._rows.kernel_count
        kernels = kernel_frame(frame, self._titles, first_no)
        devices = self._device_ids(frame, kernels["device_id"])
        self._rows.add_kernels(kernels.with_columns(devices.alias("device_id")))
        self._add_devices(frame, devices)
        self._add_values(frame, kernels["kernel_no"])

    def _take_units(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows without the row of units, which has no ID; remember the columns."""
        id_place = identity_places(self._titles).get("profile_id", 0)
        if frame.height and not frame.item(0, f"c{id_place}"):
            self._units = [cell or "" for cell in frame.row(0)]
            frame = frame.slice(1)
        self.is_without_units = not any(self._units)
        columns = []
        seen: set[str] = set()
        for place, title in enumerate(self._titles.names):
            if is_metric(title) and title not in seen:
                seen.add(title)
                unit = base_unit(self._units[place])
                base = unit.base if any(self._units) else unit_of_metric(title)
                columns.append(_Column(place, title, base, unit.factor))
        self._columns = tuple(columns)
        return frame

    def _find_style(self, frame: pl.DataFrame) -> None:
        """Find out how numbers are printed, from the first rows."""
        cells = (
            series.drop_nulls().to_list()
            for series in frame.head(_STYLE_ROWS).select(f"c{column.place}" for column in self._columns or ())
        )
        self._style = style_of(chain.from_iterable(cells), is_raw_page=True)
        self.is_ambiguous = self._style.is_ambiguous
        self._has_style = True

    def _device_ids(self, frame: pl.DataFrame, printed: pl.Series) -> pl.Series:
        """Return the device of each row: the printed one, else that of the launch statistics."""
        place = self._titles.place("launch__device_id")
        if printed.null_count() == 0 or place is None:
            return printed
        return printed.fill_null(frame[f"c{place}"].cast(pl.Int32, strict=False))

    def _add_devices(self, frame: pl.DataFrame, devices: pl.Series) -> None:
        """Write the attributes of devices from the first row of each."""
        firsts = frame.with_columns(devices.fill_null(0).alias("device")).unique(
            "device", keep="first", maintain_order=True
        )
        for column in self._columns or ():
            if column.metric.startswith(DEVICE_PREFIX):
                cells = firsts[f"c{column.place}"].fill_null("")
                values, _ = parse_numbers(cells, self._style)
                for device, cell, value in zip(firsts["device"], cells, values, strict=True):
                    self._rows.add_device(device, column.metric, value, cell)

    def _add_values(self, frame: pl.DataFrame, numbers: pl.Series) -> None:
        """Write all metrics but the device's attributes; an empty cell was not collected for its kernel."""
        columns = [item for item in self._columns or () if not item.metric.startswith(DEVICE_PREFIX)]
        values: list[pl.Series] = []
        qualities: list[pl.Series | None] = []
        for column in columns:
            value, quality = parse_numbers(frame[f"c{column.place}"], self._style)
            values.append(value * column.factor if column.factor != 1.0 else value)
            qualities.append(quality)
        clean = [place for place, quality in enumerate(qualities) if quality is None]
        self._write_clean(numbers, [columns[place] for place in clean], [values[place] for place in clean])
        for column, value, quality in zip(columns, values, qualities, strict=True):
            if quality is not None:
                self._write_with_gaps(numbers, column, value, quality)

    def _write_clean(
        self, numbers: pl.Series, columns: Sequence[_Column], values: Sequence[pl.Series]
    ) -> None:
        """Write metrics that every row has, in one frame."""
        if not columns:
            return
        codes = [self._rows.metric_no(column.metric, column.unit) for column in columns]
        frame = pl.DataFrame(
            {
                "kernel_no": pl.concat([numbers] * len(columns)),
                "metric_no": pl.Series(codes, dtype=pl.Int32).repeat_by(numbers.len()).explode(),
                "value": pl.concat(values),
            }
        )
        self._rows.add_values(frame)

    def _write_with_gaps(
        self, numbers: pl.Series, column: _Column, values: pl.Series, quality: pl.Series
    ) -> None:
        """Write a metric that some rows lack."""
        frame = pl.DataFrame({"kernel_no": numbers, "value": values, "quality": quality})
        frame = frame.filter(pl.col("quality").is_null() | (pl.col("quality") != "empty"))
        self.unreadable_count += int((frame["quality"] == "unreadable").sum())
        named = frame.select(
            "kernel_no",
            pl.lit(self._rows.metric_no(column.metric, column.unit), pl.Int32).alias("metric_no"),
            "value",
            pl.col("quality").cast(pl.String),
        )
        if named.height:
            self._rows.add_values(named)

    def finish(self) -> None:
        """Nothing is held back."""
