"""The one figure: KV occupancy, token latency and the queue on one time axis, with swap points marked."""

import io
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from matplotlib.typing import RcKeyType

from kvcliff.findings.run_time import RunTime
from kvcliff.report.escape import plain
from kvcliff.report.marks import MarkGroup, grouped_marks, merged_spans, thinned_times
from kvcliff.report.series import Curve, FigureSeries
from kvcliff.units import NS_PER_S, format_number

# Okabe-Ito colours: told apart by colour-blind readers, and of different lightness in grey.
_BLUE = "#0072B2"
_SKY = "#56B4E9"
_ORANGE = "#D55E00"
_AMBER = "#E69F00"
_GREEN = "#007A5A"
_INK = "#222222"
_GREY = "#8A8A8A"
_PALE = "#C9C9C9"
_STYLE: dict[RcKeyType, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "svg.hashsalt": "kvcliff",
    "svg.fonttype": "path",
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.edgecolor": _GREY,
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": False,
    "text.parse_math": False,
    "path.simplify": False,
}
_SWAP_LINES = {"confirmed": "solid", "probable": (0, (6, 2)), "pressure": (0, (1, 2))}
#: Swap points closer than this share of the time axis are drawn as one mark, numbered from first to last;
#: when there are many, the numbers are longer and need more room.
_GROUP_SHARE = 0.022
_CROWDED_SHARE = 0.05
_CROWD = 20
_PNG_DPI = 150
#: Ratio of the log axis from which only powers of ten are labelled.
_WIDE_RATIO = 1000
_PRESSURE_MARK = "o"
#: Median steps without a sample from which a curve is broken.
_HOLE_STEPS = 4


_DrawPanel = Callable[[Axes, FigureSeries, RunTime], None]


@contextmanager
def _own_style() -> Iterator[None]:
    """Draw with our settings alone: a user's matplotlibrc must not change a report."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        with matplotlib.rc_context(_STYLE):
            yield


@dataclass(frozen=True)
class DrawnFigure:
    """The same figure as SVG (the same input gives the same bytes) and as PNG."""

    svg: bytes
    png: bytes


def draw_figure(series: FigureSeries, run_time: RunTime, title: str) -> DrawnFigure:
    """Return the figure in both formats; it is drawn and laid out once for both."""
    with _own_style():
        figure = _draw(series, run_time, title)
        svg = _svg(figure)
        # The panels keep the places they got; measuring every label again would move them by a pixel.
        figure.set_layout_engine("none")
        return DrawnFigure(svg, _png(figure))


def figure_svg(series: FigureSeries, run_time: RunTime, title: str) -> bytes:
    """Return the figure as SVG; the same input gives the same bytes."""
    with _own_style():
        return _svg(_draw(series, run_time, title))


def figure_png(series: FigureSeries, run_time: RunTime, title: str) -> bytes:
    """Return the figure as PNG."""
    with _own_style():
        return _png(_draw(series, run_time, title))


def _svg(figure: Figure) -> bytes:
    # Straight to the canvas: savefig would draw everything twice, once to no end but the layout.
    buffer = io.BytesIO()
    canvas = FigureCanvasSVG(figure)
    canvas.print_svg(buffer, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
    lines = buffer.getvalue().splitlines()
    return b"\n".join(line.rstrip() for line in lines) + b"\n"


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.set_dpi(_PNG_DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.print_png(buffer, metadata={"Software": None})  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def _draw(series: FigureSeries, run_time: RunTime, title: str) -> Figure:
    if series.level_start_ns is not None:
        run_time = replace(run_time, started_at_ns=series.level_start_ns)
    panels = _panels(series)
    height = 0.6 + sum(ratio for _, ratio in panels) * 0.75
    figure = Figure(figsize=(10.0, height), layout="constrained")
    axes = figure.subplots(
        len(panels), 1, sharex=True, height_ratios=[ratio for _, ratio in panels], squeeze=False
    )[:, 0]
    _limit_time(axes[-1], series, run_time)
    for panel, (draw, _) in zip(axes, panels, strict=True):
        draw(panel, series, run_time)
        _draw_marks(panel, series, run_time, is_top=panel is axes[0])
        panel.grid(axis="y", color="#E8E8E8", linewidth=0.6)
        panel.set_axisbelow(True)
    axes[0].set_title(_printable(title), loc="left", fontweight="bold", pad=30 if series.swap_marks else 18)
    axes[-1].set_xlabel(_time_label(run_time, series.level))
    axes[-1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    figure.align_ylabels(list(axes))
    return figure


def _panels(series: FigureSeries) -> list[tuple[_DrawPanel, float]]:
    """Return what is drawn from top to bottom, with relative heights; without latency, throughput."""
    panels: list[tuple[_DrawPanel, float]] = [(_draw_kv, 3.0)]
    if series.itl_p50 or series.itl_p99:
        panels.append((_draw_latency, 3.0))
    elif series.tokens_per_s:
        panels.append((_draw_throughput, 2.2))
    if series.waiting or series.running:
        panels.append((_draw_queue, 1.4))
    return panels


def _draw_kv(panel: Axes, series: FigureSeries, run_time: RunTime) -> None:
    for number, curve in enumerate(series.kv_others):
        panel.plot(
            *_points(curve, run_time, 100),
            color=_PALE,
            linewidth=0.9,
            label="" if number else "other replicas",
        )
    # A host tier that was never used is no curve to look at.
    has_host = any(value > 0 for _, value in series.kv_host)
    if series.kv:
        label = "KV occupancy (HBM)" if has_host else "KV occupancy"
        panel.plot(*_points(series.kv, run_time, 100), color=_BLUE, linewidth=1.4, label=label)
    if has_host:
        panel.plot(
            *_points(series.kv_host, run_time, 100),
            color=_SKY,
            linewidth=1.2,
            linestyle=(0, (4, 1)),
            label="host tier",
        )
    panel.axhline(100, color=_GREY, linewidth=0.8)
    panel.set_ylim(0, 108)
    panel.set_yticks([0, 25, 50, 75, 100])
    panel.set_ylabel("KV occupancy (%)")
    _draw_events(panel, series, run_time)
    _draw_mark_legend(panel, series)
    _finish(panel, is_empty=not series.kv, words="no KV occupancy recorded")


def _draw_events(panel: Axes, series: FigureSeries, run_time: RunTime) -> None:
    low, high = panel.get_xlim()
    times = [at_s for ts_ns in series.event_times_ns if low <= (at_s := run_time.seconds(ts_ns)) <= high]
    if times:
        panel.plot(
            times,
            [3.0] * len(times),
            linestyle="none",
            marker="|",
            markersize=7,
            color=_INK,
            label="engine action",
        )


def _draw_mark_legend(panel: Axes, series: FigureSeries) -> None:
    """Name the marks above the panel in its legend."""
    style: dict[str, Any] = {"linestyle": "none", "marker": "v", "color": _INK, "markersize": 6}
    classes = {group.class_name for group in _groups(panel, series)}
    if "confirmed" in classes:
        panel.plot([], [], label="swap point, confirmed", **style)
    if "probable" in classes:
        panel.plot([], [], label="swap point, probable", markerfacecolor="white", **style)
    if "pressure" in classes:
        panel.plot(
            [],
            [],
            label="KV pressure only",
            **{**style, "marker": _PRESSURE_MARK, "markerfacecolor": "white"},
        )
    if series.jump_marks:
        style |= {"marker": "D", "color": _GREY, "markersize": 4.5, "markerfacecolor": "white"}
        panel.plot([], [], label="jump that is not KV", **style)


def _draw_latency(panel: Axes, series: FigureSeries, run_time: RunTime) -> None:
    if series.itl_p99:
        panel.plot(
            *_points(series.itl_p99, run_time),
            color=_ORANGE,
            linewidth=1.2,
            marker=".",
            markersize=2.5,
            label="ITL p99",
        )
    if series.itl_p50:
        panel.plot(
            *_points(series.itl_p50, run_time),
            color=_GREEN,
            linewidth=1.2,
            linestyle=(0, (3, 1)),
            label="ITL p50",
        )
    values = [value for curve in (series.itl_p50, series.itl_p99) for _, value in curve]
    if values:
        panel.set_yscale("log")
        # At least a decade, so that noise does not look like a cliff; the lowest values are chunks that
        # a client received together and must not stretch the axis.
        low, high = sorted(values)[len(values) // 20], max(values)
        panel.set_ylim(low / 1.6, max(high * 1.8, low * 10))
        is_wide = panel.get_ylim()[1] > panel.get_ylim()[0] * _WIDE_RATIO
        panel.yaxis.set_major_locator(LogLocator(subs=(1.0,) if is_wide else (1.0, 2.0, 5.0)))
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_number(value)))
        panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_ylabel("ITL (ms, log)")
    _finish(panel, is_empty=False, words="")


def _draw_throughput(panel: Axes, series: FigureSeries, run_time: RunTime) -> None:
    """Draw tokens per second in place of a latency that nobody recorded."""
    panel.plot(
        *_points(series.tokens_per_s, run_time),
        color=_GREEN,
        linewidth=1.2,
        label="tokens/s\n(no ITL recorded)",
    )
    panel.set_ylim(bottom=0)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_number(value)))
    panel.set_ylabel("tokens/s")
    _finish(panel, is_empty=False, words="")


def _draw_queue(panel: Axes, series: FigureSeries, run_time: RunTime) -> None:
    if series.running:
        panel.plot(
            *_points(series.running, run_time),
            color=_GREY,
            linewidth=1.0,
            label="running",
            drawstyle="steps-post",
        )
    if series.waiting:
        times, values = _points(series.waiting, run_time)
        panel.fill_between(times, values, step="post", color=_AMBER, alpha=0.55, linewidth=0)
        panel.plot(times, values, color="#9A6700", linewidth=1.0, label="waiting", drawstyle="steps-post")
    panel.set_ylim(bottom=0)
    panel.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panel.set_ylabel("requests")
    _finish(panel, is_empty=False, words="")


def _draw_marks(panel: Axes, series: FigureSeries, run_time: RunTime, *, is_top: bool) -> None:
    low, high = panel.get_xlim()
    for start_ns, end_ns in merged_spans(series.swap_marks):
        panel.axvspan(
            run_time.seconds(start_ns), run_time.seconds(end_ns), color=_INK, alpha=0.05, linewidth=0
        )
    groups = _groups(panel, series)
    for group in groups:
        style = _SWAP_LINES.get(group.class_name, "solid")
        panel.axvline(run_time.seconds(group.at_ns), color=_INK, linewidth=1.1, linestyle=style)
    jumps = thinned_times(
        tuple(jump.at_ns for jump in series.jump_marks), round((high - low) * _GROUP_SHARE / 2 * NS_PER_S)
    )
    for at_ns in jumps if len(jumps) <= _CROWD else ():
        panel.axvline(run_time.seconds(at_ns), color=_GREY, linewidth=0.8, linestyle=(0, (1, 3)))
    if is_top:
        _draw_mark_heads(panel, groups, [run_time.seconds(at_ns) for at_ns in jumps], run_time)


def _groups(panel: Axes, series: FigureSeries) -> tuple[MarkGroup, ...]:
    low, high = panel.get_xlim()
    share = _CROWDED_SHARE if len(series.swap_marks) > _CROWD else _GROUP_SHARE
    return grouped_marks(series.swap_marks, round((high - low) * share * NS_PER_S))


def _draw_mark_heads(
    panel: Axes, groups: tuple[MarkGroup, ...], jump_times: list[float], run_time: RunTime
) -> None:
    """Draw numbers and error bars of swap points, and diamonds of other jumps, above the top panel."""
    transform = panel.get_xaxis_transform()
    for mark in groups:
        at_s = run_time.seconds(mark.at_ns)
        error_s = mark.error_ns / NS_PER_S
        panel.errorbar(
            [at_s],
            [1.04],
            xerr=[[error_s], [error_s]],
            fmt=_PRESSURE_MARK if mark.class_name == "pressure" else "v",
            color=_INK,
            markersize=6,
            markerfacecolor=_INK if mark.class_name == "confirmed" else "white",
            capsize=3,
            linewidth=1.1,
            transform=transform,
            clip_on=False,
        )
        panel.text(
            at_s,
            1.075,
            mark.label,
            transform=transform,
            ha="center",
            va="bottom",
            fontsize=8,
            clip_on=False,
        )
    if jump_times:
        panel.plot(
            jump_times, [1.04] * len(jump_times), linestyle="none", marker="D", markersize=4.5,
            markerfacecolor="white", color=_GREY, transform=transform, clip_on=False,
        )  # fmt: skip


def _points(curve: Curve, run_time: RunTime, factor: float = 1.0) -> tuple[list[float], list[float]]:
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


def _finish(panel: Axes, *, is_empty: bool, words: str) -> None:
    if is_empty:
        panel.text(0.5, 0.5, words, transform=panel.transAxes, ha="center", va="center", color=_GREY)
    if panel.get_legend_handles_labels()[1]:
        panel.legend(
            loc="upper left", bbox_to_anchor=(1.005, 1.0), frameon=False, borderaxespad=0.0, fontsize=8
        )


def _limit_time(panel: Axes, series: FigureSeries, run_time: RunTime) -> None:
    """Set the time axis to what the curves cover, swap points included."""
    curves = (
        series.kv,
        series.itl_p50,
        series.itl_p99,
        series.tokens_per_s,
        series.waiting,
        series.running,
        *series.kv_others,
    )
    ends = [run_time.seconds(curve[index][0]) for curve in curves if curve for index in (0, -1)]
    for mark in series.swap_marks:
        ends.extend(run_time.seconds(mark.at_ns + sign * (mark.error_ns or 0)) for sign in (-1, 1))
    if ends:
        margin = max((max(ends) - min(ends)) * 0.01, 0.05)
        panel.set_xlim(min(ends) - margin, max(ends) + margin)


def _time_label(run_time: RunTime, level: str | None) -> str:
    start = run_time.clock(run_time.started_at_ns, with_date=True)
    what = f"level {_printable(level)}" if level is not None else "the run"
    began = f"seconds since {what} began"
    return f"{began} ({start} {run_time.zone})" if start is not None else began


@lru_cache(maxsize=1)
def _known_characters() -> frozenset[int]:
    return frozenset(get_font(findfont(FontProperties(family=["DejaVu Sans"]))).get_charmap())


def _printable(text: str) -> str:
    """Return text of inputs as the font can draw it; other characters become a question mark."""
    known = _known_characters()
    return "".join(char if ord(char) in known else "?" for char in plain(text, max_chars=90))
