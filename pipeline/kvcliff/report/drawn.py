"""A drawn figure as bytes, apart from what draws it: reports without a figure never import that."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DrawnFigure:
    """The same figure as SVG (the same input gives the same bytes) and as PNG, on a white ground of its own.

    Attributes:
        svg: the figure as SVG.
        png: the figure as PNG.
        caption: what is drawn and how to read it, in plain sentences.
        level: level of a sweep that it shows, or ``None``.
        replica_id: replica that it shows, or ``None``.
    """

    svg: bytes
    png: bytes
    caption: str = ""
    level: str | None = None
    replica_id: str | None = None
