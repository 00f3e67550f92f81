"""The one reader of text logs: streams a file line by line through the scan of its envelopes and grammars."""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import polars as pl

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.lines import GRAMMARS
from kvcliff.readers.log_bulk import BulkLines
from kvcliff.readers.log_messages import ScanCounts
from kvcliff.readers.log_rows import (
    ACCESS,
    EVENTS,
    ITERATIONS,
    LOOKUPS,
    REQUESTS,
    SETTINGS,
    STATS,
    TIER_SAMPLES,
    TIER_TRANSFERS,
    LogRows,
)
from kvcliff.readers.log_scan import LINE_LIMIT, LogScan

NOTE_LONG_LINES: Final = "very long lines were read only at their beginning and end"
_DAMAGE_CUT_LINE: Final = "the last line is cut"
_BLOCK_BYTES: Final = 1 << 22
_SNIFF_LINES: Final = 2000
#: Rules whose lines only an engine writes, as against a client that shares its logger or its web server.
_UVICORN_RULES: Final = frozenset({"ready", "shutdown"})
_ENGINE_PROCESS = re.compile(rb"\((?:EngineCore|APIServer|Worker|VllmWorker)[\w =-]{0,60} pid=\d+\) ")


class _NoSink:
    """Takes rows and forgets them: for a look at the head of a file."""

    def append(self, table: str, frame: pl.DataFrame) -> int:
        """Return how many rows were given."""
        return frame.height


class _Lines:
    """Splits blocks into lines, which end at a line feed only, in bounded memory.

    Attributes:
        is_clipped: whether a line was too long to be kept whole.
        rest: what stands behind the last line end.
    """

    def __init__(self) -> None:
        self.is_clipped = False
        self.rest = b""

    def complete(self, block: bytes) -> bytes | None:
        """Return the lines that ``block`` completes, without the last line end, or ``None``."""
        text = self.rest + block
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n")
        whole, end, rest = text.rpartition(b"\n")
        self.rest = self.clip(rest)
        return whole if end else None

    def split(self, text: bytes) -> list[bytes]:
        """Return the lines of a text."""
        lines = text.split(b"\n")
        if max(map(len, lines), default=0) > LINE_LIMIT:
            lines = [self.clip(line) for line in lines]
        return lines

    def clip(self, line: bytes) -> bytes:
        """Return the line, of a very long one its beginning and its end."""
        if len(line) > LINE_LIMIT:
            self.is_clipped = True
            line = line[: LINE_LIMIT // 2] + line[-(LINE_LIMIT // 2) :]
        return line


def _read_all(blocks: Iterator[bytes], lines: _Lines, scan: LogScan) -> bool:
    """Feed every line to the scan; return whether the last one has no line end and could not be read."""
    line_no, bulk = 0, BulkLines(scan, lines.clip, LINE_LIMIT)
    for block in blocks:
        text = lines.complete(block)
        if text is None:
            continue
        read = bulk.read(line_no, text)
        line_no = scan.read(line_no, lines.split(text)) if read is None else read
    last = lines.rest
    skipped_count = scan.counts.skipped
    if last:
        scan.read(line_no, [last])
    return scan.counts.skipped > skipped_count


def _judge(counts: ScanCounts, head: bytes) -> Sniff:
    serving = sum(number for rule, number in counts.rows.items() if rule not in _UVICORN_RULES)
    if serving:
        return Sniff(95, f"{serving} log lines of a serving engine in its beginning")
    if counts.access:
        return Sniff(80, f"{counts.access} HTTP access lines in its beginning")
    if counts.heads and _ENGINE_PROCESS.search(head):
        return Sniff(60, "log lines with the process names of a serving engine")
    if counts.rows:
        return Sniff(50, "start and stop lines of a web server")
    if counts.skipped:
        return Sniff(30, "log lines of a serving engine, none readable in its beginning")
    return NO_MATCH


def sniff(source: Source) -> Sniff:
    """Return how many lines of a serving engine the beginning of the source holds, as a score."""
    if source.is_dir or b"\x00" in source.head[:1024]:
        return NO_MATCH
    lines = source.head.split(b"\n", _SNIFF_LINES)
    if len(lines) > _SNIFF_LINES:
        lines.pop()
    scan = LogScan(LogRows(_NoSink()), ReadContext())
    scan.read(0, (line.rstrip(b"\r") for line in lines))
    return _judge(scan.counts, source.head)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Keep the garbage collector from walking the rows; reading makes no cycles that it could free."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Stream the log into the raw tables and return what was read.

    Raises:
        InputError: the file cannot be opened.
    """
    rows, lines = LogRows(sink), _Lines()
    scan = LogScan(rows, context)
    with source.open() as stream, _without_collection():
        is_cut = _read_all(iter(lambda: stream.read(_BLOCK_BYTES), b""), lines, scan)
        damage = stream.damage or (_DAMAGE_CUT_LINE if is_cut else None)
    scan.finish()
    notes = scan.notes()
    return LoadReport(
        row_count=rows.row_count,
        skipped_count=scan.counts.skipped,
        first_skip_reason=scan.counts.first_skip_reason,
        damage=damage,
        notes=(*notes, NOTE_LONG_LINES) if lines.is_clipped else notes,
    )


def _title() -> str:
    """Return which producers are read, those that no recording was seen of apart."""
    tried, untried = (
        ", ".join(grammar.title for grammar in GRAMMARS if grammar.tried_on_real_files is is_tried)
        for is_tried in (True, False)
    )
    return f"serving log ({tried}; not yet tried on real files: {untried})"


READER: Final = Reader(
    name="log",
    title=_title(),
    tables=(
        STATS,
        ITERATIONS,
        EVENTS,
        REQUESTS,
        LOOKUPS,
        TIER_TRANSFERS,
        TIER_SAMPLES,
        SETTINGS,
        ACCESS,
    ),
    sniff=sniff,
    load=load,
    role="log",
    tried_on_real_files=True,
)
