"""The zoom figure: the worst swap point from close by, with the token streams of its victims as lines."""

from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import duckdb
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kvcliff.findings.levels import read_levels
from kvcliff.findings.marts import query_rows
from kvcliff.findings.run_time import RunTime, format_error
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
    printable,
    rendered,
    stacked_panels,
    time_label,
)
from kvcliff.report.series import Curve
from kvcliff.units import NS_PER_S, format_count

#: Victims differ in colour and line style; the worst one is drawn thickest.
_VICTIM_STYLES: tuple[dict[str, Any], ...] = (
    {"color": ORANGE, "linestyle": "solid", "linewidth": 2.0},
    {"color": GREEN, "linestyle": (0, (5, 1))},
    {"color": INK, "linestyle": (0, (3, 1, 1, 1))},
    {"color": AMBER, "linestyle": "solid"},
    {"color": BLUE, "linestyle": (0, (5, 1))},
    {"color": SKY, "linestyle": "solid"},
    {"color": ORANGE, "linestyle": (0, (1, 1))},
    {"color": GREEN, "linestyle": (0, (1, 1))},
)
_NAME_CHARS = 18


@dataclass(frozen=True)
class _Arrival:
    stream_no: int
    request_id: str | None
    request_no: int
    is_victim: bool
    ts_ns: int
    tokens: int


@dataclass(frozen=True)
class _Point:
    swap_point_id: int
    level: str | None
    replica_id: str
    at_ns: int
    error_ns: int
    resume_at_ns: int | None
    victim_count: int | None


@dataclass(frozen=True)
class _Sample:
    ts_ns: int
    value: float


@dataclass(frozen=True)
class _Stream:
    name: str
    is_victim: bool
    tokens: Curve


@dataclass(frozen=True)
class _Zoom:
    point: _Point
    start_ns: int
    end_ns: int
    kv: Curve
    streams: tuple[_Stream, ...]


_STREAM_SQL = """
select stream_no, request_id, request_no, is_victim, ts_ns, tokens
from swap_streams
order by stream_no, ts_ns
"""
_POINT_SQL = """
select swap_point_id, level, replica_id, at_ns, error_ns, resume_at_ns, victim_count
from swap_points
where swap_point_id in (select swap_point_id from swap_streams)
"""
#: One sample before and after the window, so that the curve does not begin inside it.
_KV_SQL = """
select ts_ns, used_ratio
from kv_occupancy
where
    tier = 'hbm' and used_ratio is not null
    and level is not distinct from ? and replica_id = ?
    and ts_ns between ? and ?
order by ts_ns, origin
"""
_MARGIN_NS = 5 * NS_PER_S


def zoom_figure(con: duckdb.DuckDBPyConnection, run_time: RunTime, run_name: str) -> DrawnFigure | None:
    """Return the worst swap point from close by, or ``None`` when no token stream stalled in one.

    Args:
        con: connection on which the run is exposed.
        run_time: how instants are written.
        run_name: name of the run, its heading.
    """
    zoom = _read(con)
    if zoom is None:
        return None
    starts = {level.name: level.started_at_ns for level in read_levels(con)}
    level_start = starts.get(zoom.point.level or "")
    if level_start is not None:
        run_time = replace(run_time, started_at_ns=level_start)
    return rendered(
        lambda: _draw(zoom, run_time, run_name), _caption(zoom), zoom.point.level, zoom.point.replica_id
    )


def _read(con: duckdb.DuckDBPyConnection) -> _Zoom | None:
    arrivals = query_rows(con, ("swap_streams",), _Arrival, _STREAM_SQL)
    points = query_rows(con, ("swap_points", "swap_streams"), _Point, _POINT_SQL)
    if not arrivals or not points:
        return None
    point = points[0]
    start_ns = min(arrival.ts_ns for arrival in arrivals)
    end_ns = max(arrival.ts_ns for arrival in arrivals)
    samples = query_rows(
        con,
        ("kv_occupancy",),
        _Sample,
        _KV_SQL,
        (point.level, point.replica_id, start_ns - _MARGIN_NS, end_ns + _MARGIN_NS),
    )
    return _Zoom(
        point,
        start_ns,
        end_ns,
        tuple((sample.ts_ns, sample.value) for sample in samples),
        tuple(_stream(list(group)) for _, group in groupby(arrivals, key=lambda arrival: arrival.stream_no)),
    )


def _stream(arrivals: list[_Arrival]) -> _Stream:
    first = arrivals[0]
    name = first.request_id or f"request {first.request_no}"
    curve = tuple((arrival.ts_ns, float(arrival.tokens)) for arrival in arrivals)
    return _Stream(name, first.is_victim, curve)


def _caption(zoom: _Zoom) -> str:
    point = zoom.point
    shown = sum(stream.is_victim for stream in zoom.streams)
    who = f"{format_count(shown)} of {format_count(point.victim_count or shown)} victims"
    return (
        f"Swap point {point.swap_point_id} from close by: KV occupancy above, below it the tokens that each "
        f"stream got since the left edge. A flat line is a stream that stands still ({who} in colour, others "
        f"grey). The black line is the first engine action, the band its error "
        f"(± {format_error(point.error_ns)}), the dotted line the first victim's next token."
    )


def _draw(zoom: _Zoom, run_time: RunTime, run_name: str) -> Figure:
    figure, panels = stacked_panels([1.2, 3.0], 5.2)
    top, bottom = panels
    _draw_kv(top, zoom, run_time)
    _draw_streams(bottom, zoom, run_time)
    for panel in panels:
        _draw_marks(panel, zoom, run_time)
    margin_s = (zoom.end_ns - zoom.start_ns) / NS_PER_S * 0.01
    bottom.set_xlim(run_time.seconds(zoom.start_ns) - margin_s, run_time.seconds(zoom.end_ns) + margin_s)
    title = f"{run_name}: swap point {zoom.point.swap_point_id}"
    return finish_stack(figure, panels, title, time_label(run_time, zoom.point.level))


def _draw_kv(panel: Axes, zoom: _Zoom, run_time: RunTime) -> None:
    if zoom.kv:
        panel.plot(
            *curve_points(zoom.kv, run_time, 100),
            color=BLUE,
            linewidth=1.4,
            marker=".",
            markersize=3,
            label="KV occupancy",
        )
    panel.axhline(100, color=GREY, linewidth=0.8)
    inside = [value * 100 for ts_ns, value in zoom.kv if zoom.start_ns <= ts_ns <= zoom.end_ns]
    panel.set_ylim(min([90.0, *inside]) - 3, 103)
    panel.set_ylabel("KV (%)")
    finish_panel(panel, is_empty=not zoom.kv, words="no KV occupancy recorded")


def _draw_streams(panel: Axes, zoom: _Zoom, run_time: RunTime) -> None:
    others = [stream for stream in zoom.streams if not stream.is_victim]
    victims = [stream for stream in zoom.streams if stream.is_victim]
    for number, stream in enumerate(others):
        times, tokens = _steps(stream, run_time)
        label = "" if number else "other streams"
        panel.plot(times, tokens, color=PALE, linewidth=0.9, drawstyle="steps-post", label=label)
    for stream, style in zip(victims, _VICTIM_STYLES, strict=False):
        times, tokens = _steps(stream, run_time)
        name = printable(stream.name)
        name = name if len(name) <= _NAME_CHARS else f"{name[: _NAME_CHARS - 3]}..."
        panel.plot(times, tokens, drawstyle="steps-post", label=name, **{"linewidth": 1.5, **style})
    count_axis(panel, "tokens since the left edge", most_ticks=6)
    finish_panel(panel, is_empty=False, words="")


def _steps(stream: _Stream, run_time: RunTime) -> tuple[list[float], list[float]]:
    """Return a stream in seconds; a silence is a flat line, so no hole may break it."""
    times = [run_time.seconds(ts_ns) for ts_ns, _ in stream.tokens]
    return times, [value for _, value in stream.tokens]


def _draw_marks(panel: Axes, zoom: _Zoom, run_time: RunTime) -> None:
    point = zoom.point
    at_s, error_s = run_time.seconds(point.at_ns), point.error_ns / NS_PER_S
    panel.axvspan(at_s - error_s, at_s + error_s, color=INK, alpha=0.07, linewidth=0)
    panel.axvline(at_s, color=INK, linewidth=1.1)
    if point.resume_at_ns is not None:
        panel.axvline(run_time.seconds(point.resume_at_ns), color=GREY, linewidth=1.0, linestyle=(0, (1, 2)))
