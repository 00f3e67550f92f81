"""How every figure of a report looks and becomes files: colours, own style, curves, SVG and PNG."""

import io
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.typing import RcKeyType

from kvcliff.findings.run_time import RunTime
from kvcliff.report.drawn import DrawnFigure
from kvcliff.report.escape import plain
from kvcliff.report.series import Curve

# Okabe-Ito colours: told apart by colour-blind readers, and of different lightness in grey.
BLUE = "#0072B2"
SKY = "#56B4E9"
ORANGE = "#D55E00"
AMBER = "#E69F00"
GREEN = "#007A5A"
INK = "#222222"
GREY = "#8A8A8A"
PALE = "#C9C9C9"
_STYLE: dict[RcKeyType, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "svg.hashsalt": "kvcliff",
    "svg.fonttype": "path",
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": False,
    "text.parse_math": False,
    "path.simplify": False,
}
_PNG_DPI = 150
#: Median steps without a sample from which a curve is broken.
_HOLE_STEPS = 4


@contextmanager
def own_style() -> Iterator[None]:
    """Draw with our settings alone: a user's matplotlibrc must not change a report."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        with matplotlib.rc_context(_STYLE):
            yield


def rendered(
    draw: Callable[[], Figure], caption: str = "", level: str | None = None, replica_id: str | None = None
) -> DrawnFigure:
    """Return what ``draw`` draws in both formats; it is drawn and laid out once for both.

    Args:
        draw: makes the figure; called under our own style.
        caption: what is drawn and how to read it.
        level: level of a sweep that it shows.
        replica_id: replica that it shows.
    """
    with own_style():
        figure = draw()
        svg = svg_bytes(figure)
        # The panels keep the places they got; measuring every label again would move them by a pixel.
        figure.set_layout_engine("none")
        return DrawnFigure(svg, png_bytes(figure), caption, level, replica_id)


def svg_bytes(figure: Figure) -> bytes:
    """Return a figure as SVG without a date; call it under ``own_style``."""
    # Straight to the canvas: savefig would draw everything twice, once to no end but the layout.
    buffer = io.BytesIO()
    canvas = FigureCanvasSVG(figure)
    canvas.print_svg(buffer, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
    lines = buffer.getvalue().splitlines()
    return b"\n".join(line.rstrip() for line in lines) + b"\n"


def png_bytes(figure: Figure) -> bytes:
    """Return a figure as PNG; call it under ``own_style``."""
    buffer = io.BytesIO()
    figure.set_dpi(_PNG_DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.print_png(buffer, metadata={"Software": None})  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def curve_points(curve: Curve, run_time: RunTime, factor: float = 1.0) -> tuple[list[float], list[float]]:
    """Return the curve in seconds; where nothing was recorded for long, a NaN breaks the line."""
    steps = sorted(later[0] - earlier[0] for earlier, later in pairwise(curve))
    # Much longer than the usual step and wide enough to be seen: a hole, not a line to draw.
    hole_ns = max(_HOLE_STEPS * steps[len(steps) // 2], (curve[-1][0] - curve[0][0]) // 50) if steps else 0
    times: list[float] = []
    values: list[float] = []
    for index, (ts_ns, value) in enumerate(curve):
        if index and ts_ns - curve[index - 1][0] > hole_ns:
            times.append(run_time.seconds(curve[index - 1][0]))
            values.append(math.nan)
        times.append(run_time.seconds(ts_ns))
        values.append(value * factor)
    return times, values


def finish_panel(panel: Axes, *, is_empty: bool, words: str) -> None:
    """Write ``words`` over a panel that shows nothing, and set the legend beside one that does."""
    if is_empty:
        panel.text(0.5, 0.5, words, transform=panel.transAxes, ha="center", va="center", color=GREY)
    if panel.get_legend_handles_labels()[1]:
        panel.legend(
            loc="upper left", bbox_to_anchor=(1.005, 1.0), frameon=False, borderaxespad=0.0, fontsize=8
        )


def stacked_panels(ratios: Sequence[float], height: float) -> tuple[Figure, tuple[Axes, ...]]:
    """Return a figure of panels over one axis of time, and the panels from top to bottom.

    Args:
        ratios: heights of the panels against each other.
        height: of the figure, in inches.
    """
    figure = Figure(figsize=(10.0, height), layout="constrained")
    axes = figure.subplots(len(ratios), 1, sharex=True, height_ratios=list(ratios), squeeze=False)
    return figure, tuple(axes[:, 0])


def finish_stack(
    figure: Figure, panels: tuple[Axes, ...], title: str, label: str, *, title_pad: float | None = None
) -> Figure:
    """Return a figure of stacked panels with its grids, its heading and the heading of its time axis."""
    for panel in panels:
        panel.grid(axis="y", color="#E8E8E8", linewidth=0.6)
        panel.set_axisbelow(True)
    panels[0].set_title(printable(title), loc="left", fontweight="bold", pad=title_pad)
    panels[-1].set_xlabel(label)
    panels[-1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    figure.align_ylabels(list(panels))
    return figure


def count_axis(panel: Axes, label: str, *, most_ticks: int) -> None:
    """Let a panel count whole things from zero."""
    panel.set_ylim(bottom=0)
    panel.yaxis.set_major_locator(MaxNLocator(nbins=most_ticks, integer=True))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panel.set_ylabel(label)


def time_label(run_time: RunTime, level: str | None) -> str:
    """Return the heading of a time axis in seconds."""
    start = run_time.clock(run_time.started_at_ns, with_date=True)
    what = f"level {printable(level)}" if level is not None else "the run"
    began = f"seconds since {what} began"
    return f"{began} ({start} {run_time.zone})" if start is not None else began


@lru_cache(maxsize=1)
def _known_characters() -> frozenset[int]:
    return frozenset(get_font(findfont(FontProperties(family=["DejaVu Sans"]))).get_charmap())


def printable(text: str) -> str:
    """Return text of inputs as the font can draw it; other characters become a question mark."""
    known = _known_characters()
    return "".join(char if ord(char) in known else "?" for char in plain(text, max_chars=90))
