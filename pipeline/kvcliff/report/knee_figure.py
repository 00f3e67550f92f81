"""The figure of a sweep: throughput, token latency and shares over load, with knee and saturation marked."""

from dataclasses import dataclass

import duckdb
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from kvcliff.findings.marts import read_rows
from kvcliff.findings.run_time import RunTime
from kvcliff.report.drawn import DrawnFigure
from kvcliff.report.figure_style import (
    AMBER,
    BLUE,
    GREEN,
    INK,
    ORANGE,
    SKY,
    finish_panel,
    printable,
    rendered,
)
from kvcliff.units import format_number

_MIN_LEVELS = 2
#: Labels that fit side by side below the axis; a load too close to the one before has none.
_LABEL_ROOM = 26
#: Colour and marker of each of several sweeps.
_SWEEP_STYLES = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (AMBER, "D"))
#: Ratio of the load axis from which it is logarithmic: sweeps usually double.
_LOG_RATIO = 8


@dataclass(frozen=True)
class _Level:
    """One row of ``concurrency_knee``."""

    level: str
    sweep: str | None
    load_kind: str | None
    load: float
    tokens_per_s: float
    itl_p50_ms: float | None
    itl_p99_ms: float | None
    kv_used_ratio_max: float | None
    l2_reuse: str | None
    read_hit_ratio: float | None
    dram_use_ratio: float | None
    knee_min_load: float | None
    knee_max_load: float | None
    is_saturation: bool


def knee_figure(con: duckdb.DuckDBPyConnection, run_time: RunTime, run_name: str) -> DrawnFigure | None:
    """Return throughput and token latency over load, or ``None`` when the run has no two comparable levels.

    Args:
        con: connection on which the run is exposed.
        run_time: how instants are written; a sweep has none.
        run_name: name of the run, the heading.
    """
    del run_time
    levels = read_rows(con, "concurrency_knee", _Level, where="place_no is not null", order="place_no, level")
    if len(levels) < _MIN_LEVELS:
        return None
    sweeps = _sweeps(levels)
    if len(sweeps) > 1:
        return rendered(lambda: _draw_several(sweeps, run_name), _several_words(sweeps))
    return rendered(lambda: _draw(levels, run_name), _caption(levels))


def _sweeps(levels: tuple[_Level, ...]) -> dict[str, tuple[_Level, ...]]:
    """Return the levels by sweep, in the order of names."""
    names = sorted({level.sweep or "" for level in levels})
    return {name: tuple(level for level in levels if (level.sweep or "") == name) for name in names}


def _several_words(sweeps: dict[str, tuple[_Level, ...]]) -> str:
    """Return what is drawn of several sweeps, with the marks of each."""
    kind = next(iter(sweeps.values()))[0].load_kind or "load"
    sentences = [f"Throughput and median time between tokens over {kind}, one curve per sweep."]
    for name, levels in tuple(sweeps.items())[: len(_SWEEP_STYLES)]:
        knee, saturation = _knee(levels), _saturation(levels)
        marks = [
            *([f"the knee between {format_number(knee[0])} and {format_number(knee[1])}"] if knee else []),
            *([f"the saturation at {format_number(saturation.load)}"] if saturation else []),
        ]
        sentences.append(f"{name}: {', '.join(marks) or 'neither a knee nor a saturation is claimed'}.")
    sentences.append("A shaded range is a knee, a dashed line a saturation, in the colour of the sweep.")
    if len(sweeps) > len(_SWEEP_STYLES):
        sentences.append(f"{len(sweeps) - len(_SWEEP_STYLES)} more sweeps stand in the table only.")
    return " ".join(sentences)


def _caption(levels: tuple[_Level, ...]) -> str:
    """Return what is drawn and how its marks are read."""
    kind = levels[0].load_kind or "load"
    sentences = [f"Throughput and time between tokens over {kind}, one point per level of the sweep."]
    knee = _knee(levels)
    if knee is not None:
        sentences.append(
            f"The knee lies in the shaded range, between {format_number(knee[0])} and "
            f"{format_number(knee[1])}: between levels throughput is not known."
        )
    saturation = _saturation(levels)
    if saturation is not None:
        sentences.append(f"The dashed line marks the saturation at {format_number(saturation.load)}.")
    if knee is None and saturation is None:
        sentences.append("Neither a knee nor a saturation is claimed.")
    return " ".join(sentences)


def _knee(levels: tuple[_Level, ...]) -> tuple[float, float] | None:
    """Return the loads between which the knee lies."""
    return next(
        (
            (level.knee_min_load, level.knee_max_load)
            for level in levels
            if level.knee_min_load is not None and level.knee_max_load is not None
        ),
        None,
    )


def _saturation(levels: tuple[_Level, ...]) -> _Level | None:
    return next((level for level in levels if level.is_saturation), None)


def _draw(levels: tuple[_Level, ...], title: str) -> Figure:
    """Return the figure; call it under the style of reports."""
    has_latency = any(level.itl_p50_ms or level.itl_p99_ms for level in levels)
    has_shares = any(value is not None for _, _, values, _ in _shares(levels) for value in values)
    heights = [3.0, *([3.0] if has_latency else []), *([2.0] if has_shares else [])]
    figure = Figure(figsize=(10.0, 0.6 + sum(heights) * 0.75), layout="constrained")
    axes = list(figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0])
    _scale_load(axes[-1], levels)
    _draw_throughput(axes[0], levels)
    if has_latency:
        _draw_latency(axes[1], levels)
    if has_shares:
        _draw_shares(axes[-1], levels)
    for panel in axes:
        _draw_marks(panel, levels)
        panel.grid(axis="y", color="#E8E8E8", linewidth=0.6)
        panel.set_axisbelow(True)
        finish_panel(panel, is_empty=False, words="")
    axes[0].set_title(printable(title), loc="left", fontweight="bold")
    axes[-1].set_xlabel(_load_words(levels[0]))
    figure.align_ylabels(axes)
    return figure


def _draw_several(sweeps: dict[str, tuple[_Level, ...]], title: str) -> Figure:
    """Return the figure of several sweeps over one axis of load; call it under the style of reports."""
    every = tuple(sorted((level for levels in sweeps.values() for level in levels), key=lambda at: at.load))
    has_latency = any(level.itl_p50_ms for level in every)
    figure = Figure(figsize=(10.0, 5.1 if has_latency else 2.9), layout="constrained")
    axes = list(figure.subplots(2 if has_latency else 1, 1, sharex=True, squeeze=False)[:, 0])
    _scale_load(axes[-1], every)
    for (name, levels), (color, marker) in zip(sweeps.items(), _SWEEP_STYLES, strict=False):
        throughput = [(level.load, level.tokens_per_s) for level in levels]
        latency = [(level.load, level.itl_p50_ms) for level in levels if level.itl_p50_ms]
        for panel, known in zip(axes, (throughput, latency), strict=False):
            panel.plot(
                [load for load, _ in known],
                [value for _, value in known],
                color=color,
                linewidth=1.4,
                marker=marker,
                markersize=4,
                label=printable(name),
            )
            _draw_marks(panel, levels, color)
    axes[0].set(ylim=(0, None), ylabel="tokens/s")
    if has_latency:
        _scale_latency(axes[1])
        axes[1].set_ylabel("ITL p50 (ms, log)")
    for panel in axes:
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_number(value)))
        panel.grid(axis="y", color="#E8E8E8", linewidth=0.6)
        panel.set_axisbelow(True)
        finish_panel(panel, is_empty=False, words="")
    axes[0].set_title(printable(title), loc="left", fontweight="bold")
    axes[-1].set_xlabel(_load_words(every[0]))
    figure.align_ylabels(axes)
    return figure


def _load_words(level: _Level) -> str:
    return "requests per second asked for" if level.load_kind == "request rate" else "requests at once"


def _scale_load(panel: Axes, levels: tuple[_Level, ...]) -> None:
    """Set the axis of load, shared by all panels: a label at each level that has room for one."""
    loads = [level.load for level in levels]
    is_log = loads[-1] >= _LOG_RATIO * loads[0]
    if is_log:
        panel.set_xscale("log", base=2)
    shown: list[float] = []
    room = (loads[-1] / loads[0]) ** (1 / _LABEL_ROOM) if is_log else 0.0
    step = 0.0 if is_log else (loads[-1] - loads[0]) / _LABEL_ROOM
    for load in loads:
        if not shown or (load >= shown[-1] * room and load - shown[-1] >= step):
            shown.append(load)
    panel.xaxis.set_major_locator(FixedLocator(shown))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_number(value)))


def _draw_throughput(panel: Axes, levels: tuple[_Level, ...]) -> None:
    panel.plot(
        [level.load for level in levels],
        [level.tokens_per_s for level in levels],
        color=BLUE,
        linewidth=1.4,
        marker="o",
        markersize=4,
        label="tokens/s",
    )
    panel.set_ylim(bottom=0)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_number(value)))
    panel.set_ylabel("tokens/s")


def _draw_latency(panel: Axes, levels: tuple[_Level, ...]) -> None:
    curves = (
        ("ITL p99", ORANGE, "solid", "s", [(level.load, level.itl_p99_ms) for level in levels]),
        ("ITL p50", GREEN, (0, (3, 1)), "^", [(level.load, level.itl_p50_ms) for level in levels]),
    )
    for label, color, line, marker, points in curves:
        known = [(load, value) for load, value in points if value]
        if known:
            panel.plot(
                [load for load, _ in known],
                [value for _, value in known],
                color=color,
                linewidth=1.3,
                linestyle=line,
                marker=marker,
                markersize=4,
                label=label,
            )
    _scale_latency(panel)
    panel.set_ylabel("ITL (ms, log)")


def _scale_latency(panel: Axes) -> None:
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_number(value)))
    panel.yaxis.set_minor_formatter(NullFormatter())
    low, high = panel.get_ylim()
    # At least a decade, so that noise does not look like a cliff.
    panel.set_ylim(low, max(high, low * 10))


def _shares(levels: tuple[_Level, ...]) -> tuple[tuple[str, str, list[float | None], str], ...]:
    """Return label, colour, values by level and marker of what is drawn in per cent."""
    return (
        ("KV occupancy (max)", SKY, [level.kv_used_ratio_max for level in levels], "o"),
        ("L2 hits of SM reads", ORANGE, [_comparable_hits(level) for level in levels], "D"),
        ("DRAM use", AMBER, [level.dram_use_ratio for level in levels], "v"),
    )


def _comparable_hits(level: _Level) -> float | None:
    """Return the hit rate where it shows the cache as the engine left it."""
    return level.read_hit_ratio if level.l2_reuse in ("present", "none") else None


def _draw_shares(panel: Axes, levels: tuple[_Level, ...]) -> None:
    for label, color, values, marker in _shares(levels):
        known = [
            (level.load, value) for level, value in zip(levels, values, strict=True) if value is not None
        ]
        if known:
            panel.plot(
                [load for load, _ in known],
                [value * 100 for _, value in known],
                color=color,
                linewidth=1.2,
                marker=marker,
                markersize=4,
                label=label,
            )
    panel.set_ylim(0, 105)
    panel.set_yticks([0, 25, 50, 75, 100])
    panel.set_ylabel("%")


def _draw_marks(panel: Axes, levels: tuple[_Level, ...], color: str = INK) -> None:
    """Shade the range in which the knee lies and mark the saturation."""
    is_first = panel.get_subplotspec().is_first_row() and color == INK  # type: ignore[union-attr]
    knee = _knee(levels)
    if knee is not None:
        panel.axvspan(
            knee[0], knee[1], color=color, alpha=0.1, linewidth=0, label="knee" if is_first else None
        )
    saturation = _saturation(levels)
    if saturation is not None:
        panel.axvline(
            saturation.load,
            color=color,
            linewidth=1.1,
            linestyle=(0, (6, 2)),
            label="saturation" if is_first else None,
        )
