"""The grammar of uvicorn's own lines, through which several engines serve: ready, shutting down."""

import re
from typing import Final

from kvcliff.readers.lines.base import EventRow, Grammar, Head, Record, RepeatedEvent, Row, Rule


def parse_ready(record: Record) -> tuple[Row, ...]:
    """Return the moment from which requests are served."""
    return (RepeatedEvent(EventRow(record.line_no, record.src_ns, record.engine(), "ready"), "ready"),)


def parse_shutdown(record: Record) -> tuple[Row, ...]:
    """Return the beginning of an orderly shutdown."""
    return (RepeatedEvent(EventRow(record.line_no, record.src_ns, record.engine(), "shutdown"), "shutdown"),)


UVICORN: Final = Grammar(
    name="uvicorn",
    title="uvicorn",
    tried_on_real_files=True,
    # A colon right after the level tells it from the engines' own heads; there is no time stamp.
    heads=(Head(b"IWEDC", re.compile(rb"(INFO|WARNING|ERROR|DEBUG|CRITICAL):\s+")),),
    rules=(
        Rule("ready", "raw_log_events", parse_ready, starts=(b"Application startup complete",)),
        Rule(
            "shutdown",
            "raw_log_events",
            parse_shutdown,
            starts=(b"Shutting down", b"Application shutdown complete"),
        ),
    ),
)
