"""The main figure: KV occupancy, token latency and the queue on one time axis, with swap points marked."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import duckdb
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from kvcliff.findings.marts import has_rows, query_rows
from kvcliff.findings.run_time import RunTime
from kvcliff.report.drawn import DrawnFigure
from kvcliff.report.figure_style import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    SKY,
    count_axis,
    curve_points,
    finish_panel,
    finish_stack,
    rendered,
    stacked_panels,
    time_label,
)
from kvcliff.report.focus import Focus, choose_focus
from kvcliff.report.marks import MarkGroup, grouped_marks, merged_spans, thinned_times
from kvcliff.report.series import FigureSeries, read_series
from kvcliff.units import NS_PER_S, format_number

_SWAP_LINES = {"confirmed": "solid", "probable": (0, (6, 2)), "pressure": (0, (1, 2))}
#: Swap points closer than this share of the time axis are drawn as one mark, numbered from first to last;
#: when there are many, the numbers are longer and need more room.
_GROUP_SHARE = 0.022
_CROWDED_SHARE = 0.05
_CROWD = 20
#: Ratio of the log axis from which only powers of ten are labelled.
_WIDE_RATIO = 1000
_PRESSURE_MARK = "o"
_HAS_ITL_SQL = """
select 1 as value
from token_latency
where
    (itl_p50_ms > 0 or itl_p99_ms > 0)
    and level is not distinct from ? and replica_id is not distinct from ?
limit 1
"""
_DrawPanel = Callable[[Axes, FigureSeries, RunTime], None]


@dataclass(frozen=True)
class _Found:
    value: int


def kv_figure(con: duckdb.DuckDBPyConnection, run_time: RunTime, run_name: str) -> DrawnFigure | None:
    """Return the figure of the level and replica that is worst off, or ``None`` without KV or latency series.

    Args:
        con: connection on which the run is exposed.
        run_time: how instants are written.
        run_name: name of the run, its heading.
    """
    focus = choose_focus(con)
    if focus is None:
        return None
    series = read_series(con, focus)
    return rendered(
        lambda: draw_series(series, run_time, run_name), kv_caption(con, focus), focus.level, focus.replica_id
    )


def kv_caption(con: duckdb.DuckDBPyConnection, focus: Focus) -> str:
    """Return what the figure shows, which part of the run, and how its marks are read."""
    has_itl = query_rows(con, ("token_latency",), _Found, _HAS_ITL_SQL, (focus.level, focus.replica_id))
    pace = "ITL (inter-token latency)" if has_itl else "throughput (no token latency was recorded)"
    sentences = [f"KV occupancy, {pace} and queue on one time axis."]
    if focus.other_count:
        names = [f"level {focus.level}"] if focus.level is not None else []
        if focus.replica_id is not None and not (names and focus.replica_id == "0"):
            names.append(f"replica {focus.replica_id}")
        more = "1 more is" if focus.other_count == 1 else f"{focus.other_count} more are"
        sentences.append(f"Shown is {', '.join(names)}, because {focus.reason} ({more} in the marts).")
    if has_rows(con, "swap_points"):
        sentences.append("The bar at a marked time is its error, the shaded part lasts until recovery.")
    return " ".join(sentences)


def draw_series(series: FigureSeries, run_time: RunTime, title: str) -> Figure:
    """Return the figure of given curves and marks; call it under ``own_style``."""
    if series.level_start_ns is not None:
        run_time = replace(run_time, started_at_ns=series.level_start_ns)
    panels = _panels(series)
    ratios = [ratio for _, ratio in panels]
    figure, axes = stacked_panels(ratios, 0.6 + sum(ratios) * 0.75)
    _limit_time(axes[-1], series, run_time)
    for panel, (draw, _) in zip(axes, panels, strict=True):
        draw(panel, series, run_time)
        _draw_marks(panel, series, run_time, is_top=panel is axes[0])
    label = time_label(run_time, series.level)
    return finish_stack(figure, axes, title, label, title_pad=30 if series.swap_marks else 18)


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
            *curve_points(curve, run_time, 100),
            color=PALE,
            linewidth=0.9,
            label="" if number else "other replicas",
        )
    # A host tier that was never used is no curve to look at.
    has_host = any(value > 0 for _, value in series.kv_host)
    if series.kv:
        label = "KV occupancy (HBM)" if has_host else "KV occupancy"
        panel.plot(*curve_points(series.kv, run_time, 100), color=BLUE, linewidth=1.4, label=label)
    if has_host:
        panel.plot(
            *curve_points(series.kv_host, run_time, 100),
            color=SKY,
            linewidth=1.2,
            linestyle=(0, (4, 1)),
            label="host tier",
        )
    panel.axhline(100, color=GREY, linewidth=0.8)
    panel.set_ylim(0, 108)
    panel.set_yticks([0, 25, 50, 75, 100])
    panel.set_ylabel("KV occupancy (%)")
    _draw_events(panel, series, run_time)
    _draw_mark_legend(panel, series)
    finish_panel(panel, is_empty=not series.kv, words="no KV occupancy recorded")


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
            color=INK,
            label="engine action",
        )


def _draw_mark_legend(panel: Axes, series: FigureSeries) -> None:
    """Name the marks above the panel in its legend."""
    style: dict[str, Any] = {"linestyle": "none", "marker": "v", "color": INK, "markersize": 6}
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
        style |= {"marker": "D", "color": GREY, "markersize": 4.5, "markerfacecolor": "white"}
        panel.plot([], [], label="jump that is not KV", **style)


def _draw_latency(panel: Axes, series: FigureSeries, run_time: RunTime) -> None:
    if series.itl_p99:
        panel.plot(
            *curve_points(series.itl_p99, run_time),
            color=ORANGE,
            linewidth=1.2,
            marker=".",
            markersize=2.5,
            label="ITL p99",
        )
    if series.itl_p50:
        panel.plot(
            *curve_points(series.itl_p50, run_time),
            color=GREEN,
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
    finish_panel(panel, is_empty=False, words="")


def _draw_throughput(panel: Axes, series: FigureSeries, run_time: RunTime) -> None:
    """Draw tokens per second in place of a latency that nobody recorded."""
    panel.plot(
        *curve_points(series.tokens_per_s, run_time),
        color=GREEN,
        linewidth=1.2,
        label="tokens/s\n(no ITL recorded)",
    )
    panel.set_ylim(bottom=0)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_number(value)))
    panel.set_ylabel("tokens/s")
    finish_panel(panel, is_empty=False, words="")


def _draw_queue(panel: Axes, series: FigureSeries, run_time: RunTime) -> None:
    if series.running:
        panel.plot(
            *curve_points(series.running, run_time),
            color=GREY,
            linewidth=1.0,
            label="running",
            drawstyle="steps-post",
        )
    if series.waiting:
        times, values = curve_points(series.waiting, run_time)
        # The legend shows the area, which grey print keeps apart from the line of running requests.
        panel.fill_between(times, values, step="post", color=AMBER, alpha=0.55, linewidth=0, label="waiting")
        panel.plot(times, values, color="#9A6700", linewidth=1.0, drawstyle="steps-post")
    count_axis(panel, "requests", most_ticks=4)
    finish_panel(panel, is_empty=False, words="")


def _draw_marks(panel: Axes, series: FigureSeries, run_time: RunTime, *, is_top: bool) -> None:
    low, high = panel.get_xlim()
    for start_ns, end_ns in merged_spans(series.swap_marks):
        panel.axvspan(
            run_time.seconds(start_ns), run_time.seconds(end_ns), color=INK, alpha=0.05, linewidth=0
        )
    groups = _groups(panel, series)
    for group in groups:
        style = _SWAP_LINES.get(group.class_name, "solid")
        panel.axvline(run_time.seconds(group.at_ns), color=INK, linewidth=1.1, linestyle=style)
    jumps = thinned_times(
        tuple(jump.at_ns for jump in series.jump_marks), round((high - low) * _GROUP_SHARE / 2 * NS_PER_S)
    )
    for at_ns in jumps if len(jumps) <= _CROWD else ():
        panel.axvline(run_time.seconds(at_ns), color=GREY, linewidth=0.8, linestyle=(0, (1, 3)))
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
            color=INK,
            markersize=6,
            markerfacecolor=INK if mark.class_name == "confirmed" else "white",
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
            markerfacecolor="white", color=GREY, transform=transform, clip_on=False,
        )  # fmt: skip


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
