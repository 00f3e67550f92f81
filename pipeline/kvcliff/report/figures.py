"""The figures of a report, in their order; each decides itself whether this run has anything to draw."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import duckdb

from kvcliff.findings.marts import has_rows
from kvcliff.findings.run_time import RunTime
from kvcliff.report.document import FigureText
from kvcliff.report.drawn import DrawnFigure

FOLDER = "figures"

DrawFunction = Callable[[duckdb.DuckDBPyConnection, RunTime, str], DrawnFigure | None]


@dataclass(frozen=True)
class ReportFigure:
    """One figure that a report may show.

    Attributes:
        name: stem of its files.
        title: what it shows in a few words, the text for those who cannot see it.
        section: key of the section that it opens; ``None`` puts it under the verdict.
        marts: without a row in one of these there is nothing to draw.
        function: module of this package and function in it that draws. It is imported when there is something
            to draw: matplotlib takes a quarter of a second, a third of a small run.
    """

    name: str
    title: str
    section: str | None
    marts: tuple[str, ...]
    function: tuple[str, str]

    def draw(self, con: duckdb.DuckDBPyConnection, run_time: RunTime, run_name: str) -> DrawnFigure | None:
        """Return the figure, or ``None`` when this run has nothing to draw."""
        if not any(has_rows(con, mart) for mart in self.marts):
            return None
        module, name = self.function
        function: DrawFunction = getattr(import_module(f"kvcliff.report.{module}"), name)
        return function(con, run_time, run_name)

    @property
    def svg_name(self) -> str:
        """Path of the SVG below the report's folder."""
        return f"{FOLDER}/{self.name}.svg"

    @property
    def png_name(self) -> str:
        """Path of the PNG below the report's folder."""
        return f"{FOLDER}/{self.name}.png"


FIGURES: tuple[ReportFigure, ...] = (
    ReportFigure(
        "kv_and_latency",
        "KV occupancy and token latency over time",
        None,
        ("kv_occupancy", "token_latency"),
        ("kv_figure", "kv_figure"),
    ),
    ReportFigure(
        "swap_zoom",
        "The worst swap point from close by",
        "swap_points",
        ("swap_streams",),
        ("zoom_figure", "zoom_figure"),
    ),
    ReportFigure(
        "load_knee",
        "Throughput and token latency over load",
        "levels",
        ("concurrency_knee",),
        ("knee_figure", "knee_figure"),
    ),
)


@dataclass(frozen=True)
class ShownFigure:
    """A figure that this run has, in words and as files.

    Attributes:
        text: what stands in the report.
        drawn: the images.
    """

    text: FigureText
    drawn: DrawnFigure


def draw_figures(con: duckdb.DuckDBPyConnection, run_time: RunTime, run_name: str) -> tuple[ShownFigure, ...]:
    """Return the figures of an exposed run, in the order of ``FIGURES``."""
    drawn = ((figure, figure.draw(con, run_time, run_name)) for figure in FIGURES)
    return tuple(ShownFigure(_text(figure, images), images) for figure, images in drawn if images is not None)


def _text(figure: ReportFigure, drawn: DrawnFigure) -> FigureText:
    return FigureText(
        name=figure.name,
        title=figure.title,
        section=figure.section,
        caption=drawn.caption,
        level=drawn.level,
        replica_id=drawn.replica_id,
        svg=figure.svg_name,
        png=figure.png_name,
    )
