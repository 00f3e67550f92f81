"""Small SVG figures: the last values of one metric, with the runs that failed marked."""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH_PX = 160
HEIGHT_PX = 32
_MARGIN_PX = 4.0
_LINE_COLOUR = "#2f6f9f"
_BAD_COLOUR = "#c0392b"


@dataclass(frozen=True)
class Point:
    """One run in a trend: its value (``None`` when not recorded), and whether its verdict was failed."""

    value: float | None
    is_bad: bool = False


def sparkline(points: Sequence[Point], title: str) -> str:
    """Return an SVG of a trend, oldest run left; holes stay holes, bad runs are squares.

    Args:
        points: the runs in order.
        title: what a screen reader says; letters, digits and plain marks only.
    """
    places = _places(points)
    shapes = [f"<title>{_escape(title)}</title>"]
    shapes += [_line(run) for run in _unbroken(places)]
    shapes += [_square(*place) for point, place in zip(points, places, strict=True) if point.is_bad and place]
    last = next((place for place in reversed(places) if place is not None), None)
    if last is not None:
        shapes.append(f'<circle cx="{last[0]:.1f}" cy="{last[1]:.1f}" r="2.2" fill="{_LINE_COLOUR}"/>')
    body = "\n".join(shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH_PX}" height="{HEIGHT_PX}" '
        f'viewBox="0 0 {WIDTH_PX} {HEIGHT_PX}" role="img">\n{body}\n</svg>\n'
    )


def _places(points: Sequence[Point]) -> list[tuple[float, float] | None]:
    """Return where each point lies, ``None`` for those without a value."""
    values = [point.value for point in points if point.value is not None]
    if not values:
        return [None for _ in points]
    low, high = min(values), max(values)
    # A trend that hardly moves must not look like a mountain: the scale spans a tenth of the value at least.
    span = max(high - low, 0.1 * max(abs(high), abs(low)), 1e-12)
    base = (high + low - span) / 2
    step = (WIDTH_PX - 2 * _MARGIN_PX) / max(len(points) - 1, 1)
    height = HEIGHT_PX - 2 * _MARGIN_PX
    return [
        None
        if point.value is None
        else (_MARGIN_PX + number * step, HEIGHT_PX - _MARGIN_PX - (point.value - base) / span * height)
        for number, point in enumerate(points)
    ]


def _unbroken(places: Sequence[tuple[float, float] | None]) -> list[list[tuple[float, float]]]:
    runs: list[list[tuple[float, float]]] = [[]]
    for place in places:
        if place is None:
            runs.append([])
        else:
            runs[-1].append(place)
    return [run for run in runs if len(run) > 1]


def _line(run: Sequence[tuple[float, float]]) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in run)
    return f'<polyline points="{path}" fill="none" stroke="{_LINE_COLOUR}" stroke-width="1.5"/>'


def _square(x: float, y: float) -> str:
    return f'<rect x="{x - 2.5:.1f}" y="{y - 2.5:.1f}" width="5" height="5" fill="{_BAD_COLOUR}"/>'


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
