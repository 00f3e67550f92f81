"""Readers of series with their points in JSON: answers of the Prometheus query API, VictoriaMetrics exports.

Both are walked by the same code, which takes answers and export lines in any order; what differs is how each
is recognised.
"""

import re
from typing import Final

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.metric_points import load_points
from kvcliff.readers.metric_writer import TABLES

_ANSWER: Final = re.compile(rb'\s*\{\s*"(?:status|data)"\s*:')
_EXPORT: Final = re.compile(rb'\s*\{\s*"(?:metric|values|timestamps)"\s*:')


def _sniff(source: Source) -> Sniff:
    """Return how much the head looks like an answer of the query API."""
    head = source.head
    if _ANSWER.match(head) and b'"resultType"' in head and b'"result"' in head:
        return Sniff(92, "answers of the Prometheus query API")
    return NO_MATCH


def _sniff_export(source: Source) -> Sniff:
    """Return how much the head looks like an export line (a long series may hide its time stamps)."""
    head = source.head
    if _EXPORT.match(head) and b'"__name__"' in head and b'"values"' in head:
        return Sniff(92, "VictoriaMetrics export lines")
    return NO_MATCH


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Read every answer or line; values are on unix time."""
    del context
    return load_points(source, sink)


READER = Reader(
    name="prometheus_api",
    title="Prometheus query API answers (JSON)",
    tables=TABLES,
    sniff=_sniff,
    load=_load,
    role="metrics",
    tried_on_real_files=False,
)
EXPORT_READER = Reader(
    name="victoriametrics",
    title="VictoriaMetrics export (JSON lines)",
    tables=TABLES,
    sniff=_sniff_export,
    load=_load,
    role="metrics",
    tried_on_real_files=False,
)
