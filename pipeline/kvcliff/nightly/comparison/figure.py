"""The figure of a comparison: each gating metric's change with its interval."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kvcliff.nightly.comparison.model import MetricVerdict
from kvcliff.nightly.comparison.report import titled
from kvcliff.report.figure_style import BLUE, GREEN, GREY, INK, ORANGE, PALE, own_style, printable, svg_bytes

_COLOURS = {"worse": ORANGE, "better": GREEN, "same": BLUE, "inconclusive": GREY}
_MARKERS = {"worse": "s", "better": "D", "same": "o", "inconclusive": "x"}
_MAX_ROWS = 24
_ROW_INCHES = 0.34
_WIDTH_INCHES = 7.2


def comparison_figure(metrics: Sequence[MetricVerdict]) -> bytes | None:
    """Return the changes of gating metrics as SVG; ``None`` when none has a change.

    The axis is logarithmic: half as much and twice as much are equally far from no change.

    Args:
        metrics: metrics of a comparison in their order.
    """
    shown = [metric for metric in metrics if metric.is_gating and _has_change(metric)][:_MAX_ROWS]
    if not shown:
        return None
    with own_style():
        figure = Figure(figsize=(_WIDTH_INCHES, 1.1 + _ROW_INCHES * len(shown)), layout="constrained")
        panel = figure.add_subplot()
        for row, metric in enumerate(reversed(shown)):
            _draw(panel, row, metric)
        panel.axvline(0, color=INK, linewidth=0.8)
        panel.set_yticks(range(len(shown)), [printable(titled(metric)) for metric in reversed(shown)])
        panel.set_ylim(-0.6, len(shown) - 0.4)
        ticks = _ticks(shown)
        panel.set_xticks(
            [math.log1p(tick) for tick in ticks],
            [f"{tick * 100:+.0f} %" if tick else "0 %" for tick in ticks],
        )
        panel.set_xlabel("run against baseline; grey band: changes that are not relevant")
        return svg_bytes(figure)


def _has_change(metric: MetricVerdict) -> bool:
    return metric.change_ratio is not None and metric.change_ratio > -1


def _draw(panel: Axes, row: int, metric: MetricVerdict) -> None:
    colour, marker = _COLOURS[metric.verdict], _MARKERS[metric.verdict]
    size = math.log1p(metric.change_ratio or 0.0)
    band = math.log1p(metric.minimum_change_ratio)
    panel.fill_betweenx([row - 0.4, row + 0.4], -band, band, color=PALE, alpha=0.5, linewidth=0)
    if metric.interval_low is not None and metric.interval_high is not None:
        ends = [math.log1p(metric.interval_low), math.log1p(metric.interval_high)]
        panel.plot(ends, [row, row], color=colour, linewidth=1.6, solid_capstyle="butt")
    panel.plot([size], [row], color=colour, marker=marker, markersize=6, linestyle="none")
    panel.annotate(
        metric.verdict, (1.01, row), xycoords=("axes fraction", "data"), va="center", color=colour, fontsize=8
    )


def _ticks(metrics: Sequence[MetricVerdict]) -> list[float]:
    """Return changes to mark on the axis, so that at most nine of them lie in its range."""
    reach = max(
        abs(math.log1p(value))
        for metric in metrics
        for value in (metric.change_ratio, metric.interval_low, metric.interval_high)
        if value is not None and value > -1
    )
    for ladder in (
        (-0.1, -0.05, 0.0, 0.05, 0.1),
        (-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.4),
        (-0.5, -0.25, 0.0, 0.5, 1.0),
        (-0.8, -0.5, 0.0, 1.0, 4.0),
    ):
        if math.log1p(ladder[-1]) >= reach:
            return list(ladder)
    return [-0.9, 0.0, 9.0]
