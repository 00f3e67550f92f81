"""Reader of VictoriaMetrics exports: one JSON object per line with a series, its values and time stamps."""

import re
from typing import Final

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.metric_points import load_points
from kvcliff.readers.metric_writer import TABLES

_LINE: Final = re.compile(rb'\s*\{\s*"(?:metric|values|timestamps)"\s*:')


def _sniff(source: Source) -> Sniff:
    """Return how much the head looks like an export line (a long series may hide its time stamps)."""
    head = source.head
    if _LINE.match(head) and b'"__name__"' in head and b'"values"' in head:
        return Sniff(92, "VictoriaMetrics export lines")
    return NO_MATCH


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Read every line; values are on unix time."""
    del context
    return load_points(source, sink)


READER = Reader(
    name="victoriametrics",
    title="VictoriaMetrics export (JSON lines)",
    tables=TABLES,
    sniff=_sniff,
    load=_load,
    role="metrics",
    tried_on_real_files=False,
)
