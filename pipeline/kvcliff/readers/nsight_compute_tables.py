"""Rows of Nsight Compute CSV pages as frames: what tells kernels apart, and where columns stand."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from kvcliff.readers.nsight_compute_rows import KERNEL_SCHEMA, nvtx_path

#: Header cells of identifying columns, by their name in ``raw_counter_kernels``.
_IDENTITY: Final = {
    "profile_id": ("ID",),
    "name": ("Kernel Name", "Function Name", "Demangled Name"),
    "context_id": ("Context", "Context ID"),
    "stream_id": ("Stream", "Stream ID"),
    "device_id": ("Device", "Device Id", "Device ID"),
    "compute_capability": ("CC",),
    "block": ("Block Size",),
    "grid": ("Grid Size",),
    "launch_count": ("Invocations",),
}
_BRACKET: Final = re.compile(r"^(?P<title>.*?)\s*\[(?P<unit>[^\]]*)\]$")
_QUOTED: Final = re.compile(r'"([^"]*)"')
_NUMBERS: Final = r"\d+"


@dataclass(frozen=True)
class Titles:
    """The cells of a header, and the units that stand in brackets in it (copies out of the GUI)."""

    names: tuple[str, ...]
    units: tuple[str, ...]

    def place(self, *titles: str) -> int | None:
        """Return the place of the first title that is there, or ``None``."""
        return next((self.names.index(title) for title in titles if title in self.names), None)


def titles_of(cells: Sequence[str]) -> Titles:
    """Return the titles and bracketed units of a header."""
    parts = [_BRACKET.match(cell) for cell in cells]
    # '# SMs' and 'Memory [%]' are labels of a column's rows, never titles: only units leave the title.
    names = tuple(part["title"] if part else cell for part, cell in zip(parts, cells, strict=True))
    return Titles(names, tuple(part["unit"] if part else "" for part in parts))


def identity_places(titles: Titles) -> dict[str, int]:
    """Return where the identifying columns stand."""
    found = {name: titles.place(*spellings) for name, spellings in _IDENTITY.items()}
    return {name: place for name, place in found.items() if place is not None}


def nvtx_places(titles: Titles) -> tuple[tuple[int, int], ...]:
    """Return where NVTX columns stand, and the place of the range's name between the colons of a cell.

    Stacks of ranges come first, then ranges with start and end, whose cells begin with an id.
    """
    kinds = (("Push/Pop_Range", 1), ("Start/Stop_Range", 2))
    return tuple(
        (place, part) for word, part in kinds for place, name in enumerate(titles.names) if word in name
    )


def kernel_frame(rows: pl.DataFrame, titles: Titles, first_no: int) -> pl.DataFrame:
    """Return rows of ``raw_counter_kernels`` from one page row for each kernel.

    Args:
        rows: texts, columns named ``c0``, ``c1`` ...
        titles: the page's header.
        first_no: number of the first kernel.
    """
    places = identity_places(titles)

    def text(name: str) -> pl.Expr:
        return pl.col(f"c{places[name]}") if name in places else pl.lit(None, pl.String)

    frame = rows.select(
        (pl.int_range(pl.len(), dtype=pl.Int64) + first_no).alias("kernel_no"),
        *(
            text(name).cast(KERNEL_SCHEMA[name], strict=False).alias(name)
            for name in ("profile_id", "context_id", "stream_id", "device_id")
        ),
        text("name").fill_null("").alias("name"),
        text("compute_capability").str.slice(0, 8).alias("compute_capability"),
        _launches(text("launch_count")).alias("launch_count"),
        pl.lit("kernel").alias("scope"),
        *_sizes(text("grid"), "grid"),
        *_sizes(text("block"), "block"),
    )
    return frame.with_columns(_nvtx(rows, nvtx_places(titles)).alias("nvtx_path"))


def _launches(text: pl.Expr) -> pl.Expr:
    """Return the number of launches behind a row; 1 where the page does not say."""
    return text.str.replace_all(r"\D", "").cast(pl.Int64, strict=False).fill_null(1)


def _sizes(text: pl.Expr, name: str) -> tuple[pl.Expr, ...]:
    """Return three sizes of '(32, 4, 1)' or '256'."""
    numbers = text.str.extract_all(_NUMBERS)
    is_there = text.str.contains(_NUMBERS)
    sizes = (numbers.list.get(place, null_on_oob=True).cast(pl.Int32, strict=False) for place in range(3))
    return tuple(
        pl.when(is_there).then(size.fill_null(1)).alias(f"{name}_{axis}")
        for size, axis in zip(sizes, "xyz", strict=True)
    )


def _nvtx(rows: pl.DataFrame, places: Sequence[tuple[int, int]]) -> pl.Series:
    """Return the NVTX paths of rows."""
    if not places:
        return pl.Series([None] * rows.height, dtype=pl.String)
    known: dict[tuple[str | None, ...], str | None] = {}
    paths = []
    for row in rows.select(f"c{place}" for place, _ in places).iter_rows():
        if row not in known:
            names = [
                name
                for cell, (_, part) in zip(row, places, strict=True)
                for name in _range_names(cell or "", part)
            ]
            known[row] = nvtx_path(names)
        paths.append(known[row])
    return pl.Series(paths, dtype=pl.String)


def _range_names(cell: str, part: int) -> list[str]:
    """Return the range names of a cell like ``THREAD "domain:range:..." "domain:range:..."``."""
    parts = [text.split(":") for text in _QUOTED.findall(cell)]
    names = [texts[part] for texts in parts if len(texts) > part]
    return [name for name in names if name and name != "none"]
