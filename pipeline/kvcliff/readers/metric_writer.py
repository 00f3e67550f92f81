"""Columns of metric samples on their way to the raw tables, for text scrapes and time-series files alike."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import polars as pl

from kvcliff.readers.base import RowCounter, Sink
from kvcliff.readers.metric_families import is_dcgm_blank
from kvcliff.readers.metric_series import SeriesTable
from kvcliff.readers.settings import Setting, settings_frame

FLUSH_SAMPLES: Final = 500_000
TABLES: Final = (
    "raw_metric_scrapes",
    "raw_metric_series",
    "raw_metric_samples",
    "raw_device_samples",
    "raw_settings",
)
_DEVICE_COLUMNS: Final = ("src_ns", "device_id", "counter", "value")
SeriesClock = Literal["unix", "local", "relative", "none"]


class MetricWriter:
    """Collects samples in columns and writes them in chunks.

    Attributes:
        series: the distinct series.
        ids: series of each collected sample.
        values: text of each collected sample's value.
        blank_count: values that say "no value" (NaN, infinity, DCGM's placeholders).
        unplaced_count: device samples that were dropped because nothing tells their time.
    """

    def __init__(self, sink: Sink) -> None:
        self._rows = RowCounter(sink)
        self._scrapes: list[tuple[int | None, int | None]] = []
        self._scrape_nos: list[int] = []
        self._flushed_count = 0
        self.series = SeriesTable()
        self.ids: list[int] = []
        self.values: list[bytes] = []
        self.blank_count = 0
        self.unplaced_count = 0

    @property
    def row_count(self) -> int:
        """Rows written so far."""
        return self._rows.row_count

    @property
    def sample_count(self) -> int:
        """Samples taken so far."""
        return self._flushed_count + len(self.ids)

    @property
    def scrape_count(self) -> int:
        """Scrapes so far."""
        return len(self._scrapes)

    def add_scrape(self, start_ns: int | None, end_ns: int | None) -> int:
        """Return the number of a new scrape."""
        self._scrapes.append((start_ns, end_ns))
        return len(self._scrapes) - 1

    def drop_last_scrape(self) -> None:
        """Forget the last scrape, which must have no samples."""
        self._scrapes.pop()

    def assign(self, scrape_no: int) -> None:
        """Give all samples since the last call to one scrape."""
        self._scrape_nos.extend([scrape_no] * (len(self.ids) - len(self._scrape_nos)))

    def extend(self, series_id: int, scrape_nos: Sequence[int], values: Sequence[bytes]) -> None:
        """Take many samples of one series, each with its scrape."""
        self.ids.extend([series_id] * len(scrape_nos))
        self.values.extend(values)
        self._scrape_nos.extend(scrape_nos)

    def discard(self) -> None:
        """Drop all samples since the last :meth:`assign`."""
        del self.ids[len(self._scrape_nos) :]
        del self.values[len(self._scrape_nos) :]

    def flush(self) -> None:
        """Write the samples, all of which are assigned; the lists stay the same objects."""
        frame = pl.DataFrame(
            {
                "scrape_no": pl.Series(self._scrape_nos, dtype=pl.Int64),
                "series_id": pl.Series(self.ids, dtype=pl.Int32),
                "value": pl.Series(_numbers(self.values), dtype=pl.Float64),
            }
        )
        self._flushed_count += len(self.ids)
        for column in (self.ids, self.values, self._scrape_nos):
            column.clear()
        finite = frame.filter(pl.col("value").is_finite())
        self.blank_count += frame.height - finite.height
        self._rows.append("raw_metric_series", self.series.take_new_frame())
        devices = self.series.device_frame()
        if devices.height:
            self._write_device_samples(
                finite.join(devices, on="series_id", how="inner", maintain_order="left")
            )
            finite = finite.join(devices, on="series_id", how="anti", maintain_order="left")
        self._rows.append("raw_metric_samples", finite)

    def _write_device_samples(self, samples: pl.DataFrame) -> None:
        """Write device samples; of scrapes without a time only the first, since nothing tells them apart."""
        is_blank = pl.Series(
            [is_dcgm_blank(value) for value in samples.get_column("value").to_list()], dtype=pl.Boolean
        )
        self.blank_count += int(is_blank.sum())
        used = samples.filter(~is_blank)
        starts = pl.Series("src_ns", [start for start, _ in self._scrapes], dtype=pl.Int64)
        timed = used.with_columns(starts.gather(used.get_column("scrape_no")))
        is_placed = pl.col("src_ns").is_not_null() | (pl.col("scrape_no") == 0)
        kept = timed.filter(is_placed).unique(
            ["src_ns", "device_id", "counter"], keep="first", maintain_order=True
        )
        self.unplaced_count += timed.height - kept.height
        # A series that ever exceeds 1 is no series of ratios.
        is_pct = pl.col("is_ratio_or_pct") & (pl.col("value").max().over("series_id") > 1)
        value = pl.col("value") * pl.when(is_pct).then(1.0).otherwise(pl.col("factor"))
        self._rows.append("raw_device_samples", kept.with_columns(value).select(_DEVICE_COLUMNS))

    def finish(self, clock: SeriesClock, settings: Iterable[Setting]) -> None:
        """Write what is left: samples, scrapes, and the settings with the clock of the series."""
        self.flush()
        starts = [start for start, _ in self._scrapes]
        scrapes = pl.DataFrame(
            {
                "scrape_no": pl.Series(range(len(starts)), dtype=pl.Int64),
                "src_ns": pl.Series(starts, dtype=pl.Int64),
                "end_src_ns": pl.Series([end for _, end in self._scrapes], dtype=pl.Int64),
                "is_timed": pl.Series([start is not None for start in starts], dtype=pl.Boolean),
            }
        )
        self._rows.append("raw_metric_scrapes", scrapes)
        stated = [Setting(1, "", "series_clock", clock)] if starts else []
        self._rows.append("raw_settings", settings_frame([*settings, *stated]))

    def untimed_count(self) -> int:
        """Return how many scrapes state no time."""
        return sum(start is None for start, _ in self._scrapes)


def _numbers(values: Sequence[bytes]) -> list[float]:
    """Return values as numbers, NaN for what is none."""
    try:
        return list(map(float, values))
    except ValueError:
        return [_number(value) for value in values]


def _number(value: bytes) -> float:
    """Return one value, NaN when it is no number."""
    try:
        return float(value)
    except ValueError:
        return float("nan")
