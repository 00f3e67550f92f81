"""Details and summary pages of Nsight Compute: one row per kernel and metric."""

from collections.abc import Sequence
from typing import Final

import polars as pl

from kvcliff.readers.nsight_compute_labels import metric_name
from kvcliff.readers.nsight_compute_numbers import POINT_STYLE, NumberStyle, parse_numbers, style_of
from kvcliff.readers.nsight_compute_rows import DEVICE_PREFIX, CounterRows
from kvcliff.readers.nsight_compute_tables import Titles, identity_places, kernel_frame, titles_of
from kvcliff.readers.nsight_compute_units import base_unit

#: A rule's remark on a small grid is the only place where pages without launch statistics tell the waves.
_WAVES: Final = r"resulting in only ([0-9.,]+) full waves"
_WAVES_METRIC: Final = "launch__waves_per_multiprocessor"


class LongPage:
    """One details or summary page."""

    def __init__(self, header: Sequence[str], rows: CounterRows) -> None:
        self._titles: Titles = titles_of(header)
        self._rows = rows
        self._is_summary = "Average" in header
        self._metric = self._place("Metric Name")
        self._unit = self._place("Metric Unit")
        self._value = self._place("Average" if self._is_summary else "Metric Value")
        self._section = self._titles.place("Section Name")
        self._body = self._titles.place("Body Item Label")
        self._rule = self._titles.place("Rule Description")
        self._style: NumberStyle = POINT_STYLE
        self._has_style = False
        self._held: list[pl.DataFrame] = []
        self.page = "summary" if self._is_summary else "details"
        self.width = len(header)
        self.min_width = self._value + 1
        self.is_ambiguous = False
        self.is_without_units = False
        self.unreadable_count = 0

    def _place(self, title: str) -> int:
        """Return where a title stands that every such page has."""
        return self._titles.place(title) or 0

    def is_row(self) -> pl.Expr:
        """Return whether a line is a row of this page: it has a kernel and something behind it."""
        name = identity_places(self._titles)["name"]
        return pl.col(f"c{name}").is_not_null() & pl.col(f"c{self._metric}").is_not_null()

    def add(self, frame: pl.DataFrame) -> None:
        """Take rows: texts, columns named ``c0``, ``c1`` ...; the last kernel waits for its other rows."""
        if not self._has_style:
            cells = frame[f"c{self._value}"].drop_nulls().to_list()
            self._style = style_of(cells, is_raw_page=False)
            self.is_ambiguous = self._style.is_ambiguous
            self._has_style = bool(cells)
        self._held.append(frame)
        together = pl.concat(self._held).with_columns(self._run_of_rows())
        is_last = together["kernel"] == together["kernel"].max()
        self._held = [together.filter(is_last).drop("kernel")]
        self._write(together.filter(~is_last))

    def finish(self) -> None:
        """Write the kernel that was held back."""
        if self._held:
            self._write(pl.concat(self._held).with_columns(self._run_of_rows()))
            self._held = []

    def _run_of_rows(self) -> pl.Expr:
        """Return a number that changes with the kernel: rows of one kernel follow each other."""
        wanted = ("profile_id",) if not self._is_summary else ("name", "grid", "block", "device_id")
        places = identity_places(self._titles)
        process = self._titles.place("Process ID")
        columns = [places[name] for name in wanted if name in places]
        columns += [process] if process is not None else []
        return pl.struct(f"c{place}" for place in columns).rle_id().alias("kernel")

    def _write(self, rows: pl.DataFrame) -> None:
        """Write whole kernels."""
        if rows.height == 0:
            return
        first_no = self._rows.kernel_count
        # Rules print another stream than the metrics of the same kernel in old versions.
        is_metric = pl.col(f"c{self._metric}").fill_null("") != ""
        firsts = rows.sort(is_metric, descending=True, maintain_order=True).unique(
            "kernel", keep="first", maintain_order=True
        )
        firsts = firsts.sort("kernel")
        numbers = firsts.select(
            "kernel", (pl.int_range(pl.len(), dtype=pl.Int64) + first_no).alias("kernel_no")
        )
        self._rows.add_kernels(kernel_frame(firsts, self._titles, first_no))
        placed = rows.join(numbers, on="kernel", how="left", maintain_order="left")
        measured = self._values(placed.filter(is_metric), firsts.height)
        stated = self._stated_waves(placed.filter(~is_metric), measured)
        self._rows.add_named_values(pl.concat([measured, stated]))

    def _values(self, rows: pl.DataFrame, kernel_count: int) -> pl.DataFrame:
        """Return values with the name of their metric; a metric that several parts print counts once."""
        cells = rows[f"c{self._value}"]
        values, quality = parse_numbers(cells, self._style)
        frame = rows.select(
            "kernel_no",
            self._text(self._section).alias("section"),
            self._text(self._body).alias("body"),
            self._text(self._metric).alias("label"),
            self._text(self._unit).alias("printed_unit"),
        ).with_columns(
            values.alias("value"),
            (quality if quality is not None else pl.Series([None] * rows.height, dtype=pl.String)).alias(
                "quality"
            ),
        )
        named = frame.join(self._names(frame), on=("section", "body", "label", "printed_unit"), how="left")
        self.unreadable_count += int((named["quality"] == "unreadable").sum())
        mean = pl.when(pl.col("value").is_not_null() & self._is_summary).then(pl.lit("mean"))
        return (
            named.with_columns(
                (pl.col("value") * pl.col("factor")).alias("value"),
                pl.coalesce("quality", mean).alias("quality"),
            )
            .sort("kernel_no", pl.col("value").is_null(), maintain_order=True)
            .unique(("kernel_no", "metric"), keep="first", maintain_order=True)
            .filter(~pl.col("metric").str.starts_with(DEVICE_PREFIX))
            .select("kernel_no", "metric", "unit", "value", "quality")
        )

    def _text(self, place: int | None) -> pl.Expr:
        """Return a column's texts, '' where there is none."""
        return pl.col(f"c{place}").fill_null("") if place is not None else pl.lit("")

    def _names(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return metric, base unit and factor for each section, part, label and printed unit."""
        keys = ("section", "body", "label", "printed_unit")
        found = []
        for section, body, label, printed in frame.select(keys).unique(maintain_order=True).iter_rows():
            metric, unit = metric_name(section, label, body), base_unit(printed)
            found.append((section, body, label, printed, metric, unit.base, unit.factor))
        schema = dict.fromkeys((*keys, "metric", "unit"), pl.String) | {"factor": pl.Float64}
        return pl.DataFrame(found, schema=schema, orient="row")

    def _stated_waves(self, rows: pl.DataFrame, measured: pl.DataFrame) -> pl.DataFrame:
        """Return the waves that a rule states, for kernels without launch statistics."""
        if self._rule is None:
            return measured.clear()
        known = measured.filter(pl.col("metric") == _WAVES_METRIC).select("kernel_no")
        stated = rows.select(
            "kernel_no",
            pl.lit(_WAVES_METRIC).alias("metric"),
            pl.lit("").alias("unit"),
            pl.col(f"c{self._rule}")
            .str.extract(_WAVES)
            .str.replace(",", ".", literal=True)
            .cast(pl.Float64, strict=False)
            .alias("value"),
            pl.lit("rule").alias("quality"),
        )
        return (
            stated.drop_nulls("value")
            .join(known, on="kernel_no", how="anti")
            .unique("kernel_no", keep="first", maintain_order=True)
        )
