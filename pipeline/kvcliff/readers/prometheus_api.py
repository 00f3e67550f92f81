"""Reader of answers of the Prometheus query API (``query`` and ``query_range``), one or many in a file."""

import re
from typing import Final

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.metric_points import load_points
from kvcliff.readers.metric_writer import TABLES

_ANSWER: Final = re.compile(rb'\s*\{\s*"(?:status|data)"\s*:')


def _sniff(source: Source) -> Sniff:
    """Return how much the head looks like an answer of the query API."""
    head = source.head
    if _ANSWER.match(head) and b'"resultType"' in head and b'"result"' in head:
        return Sniff(92, "answers of the Prometheus query API")
    return NO_MATCH


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Read every answer; values are on unix time."""
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
