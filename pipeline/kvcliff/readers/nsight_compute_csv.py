"""Reader of CSV pages of Nsight Compute: details, raw, summary and session, alone or amid other output."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.csv_text import is_text, split_row
from kvcliff.readers.decompression import Stream
from kvcliff.readers.nsight_compute_long import LongPage
from kvcliff.readers.nsight_compute_rows import TABLES, CounterRows
from kvcliff.readers.nsight_compute_session import CounterSession, with_command_line, with_versions
from kvcliff.readers.nsight_compute_wide import WidePage, is_metric

_BOM: Final = b"\xef\xbb\xbf"
_READ_BYTES: Final = 1 << 20
_FLUSH_BYTES: Final = 8 << 20
_LINE_LIMIT_BYTES: Final = 8 << 20
_HEADER_START: Final = (
    b'"ID",',
    b"ID,",
    b'"Process ID",',
    b"Process ID,",
    b'"Domain",',
    b'"Device',
    b"Domain,",
)
_KERNEL_TITLES: Final = ("Kernel Name", "Function Name", "Demangled Name")
_QUOTED_ROW: Final = re.compile(rb'"\d*",')
_BARE_ROW: Final = re.compile(rb"\d*,")
_SESSION_MARKS: Final = (b'"Launch Attribute","Value"', b'"Session Attribute","Value"')
_NO_METRIC: Final = b',"","","",'
_COMMAND_LINE: Final = "Profiler Command Line"
_REFUSALS: Final = (b"ERR_NVGPUCTRPERM", b"driver resource was unavailable")

_Page = WidePage | LongPage


def _header(line: bytes) -> list[str] | None:
    """Return the cells of a line that is the header of a page with kernels, else ``None``."""
    if not line.startswith(_HEADER_START):
        return None
    cells = split_row(line)
    if not any(title in cells for title in _KERNEL_TITLES):
        return None
    is_long = "Metric Name" in cells and ("Metric Value" in cells or "Average" in cells)
    is_wide = "ID" in cells and any(is_metric(cell.partition(" [")[0]) for cell in cells)
    return cells if is_long or is_wide else None


def _sniff(source: Source) -> Sniff:
    """Return how much the start looks like a page of Nsight Compute, behind other output or not."""
    head = source.head.removeprefix(_BOM)
    if not is_text(head):
        return NO_MATCH
    if head.lstrip().startswith((b"Launch Settings", b"Session Info")) and any(
        mark in head for mark in _SESSION_MARKS
    ):
        return Sniff(95, "session page of Nsight Compute")
    for line in head.split(b"\n"):
        cells = _header(line.rstrip(b"\r"))
        if cells is not None:
            page = "details" if "Metric Name" in cells else "raw"
            return Sniff(95, f"{page} page of Nsight Compute with {len(cells)} columns")
        if _is_refusal(line):
            return Sniff(90, "output of Nsight Compute that was refused access to the counters")
    return NO_MATCH


def _is_refusal(line: bytes) -> bool:
    """Return whether a line says that the counters are not allowed, or held by another tool (DCGM)."""
    return line.startswith(b"==ERROR==") and any(mark in line for mark in _REFUSALS)


def _lines(stream: Stream) -> Iterator[tuple[bytes, bool]]:
    """Yield each line without its end, and whether it had one; lines that are far too long are cut."""
    rest = stream.read(len(_BOM)).removeprefix(_BOM)
    while block := stream.read(_READ_BYTES):
        lines = (rest + block).split(b"\n")
        rest = lines.pop()[:_LINE_LIMIT_BYTES]
        for line in lines:
            yield line.removesuffix(b"\r"), True
    if rest:
        yield rest.removesuffix(b"\r"), False


class _Loader:
    """State of one load: the page in force and its rows that are not yet taken."""

    def __init__(self, rows: CounterRows) -> None:
        self._rows = rows
        self._lines: list[bytes] = []
        self._size = 0
        self._row_start = _QUOTED_ROW
        self.page: _Page | None = None
        self.page_name: str | None = None
        self.page_count = self.unreadable_count = 0
        self.is_ambiguous = False
        self.is_without_units = False
        self.is_refused = False

    def line(self, line: bytes) -> None:
        """Take one line: a header, a row, or something else that the terminal showed."""
        header = _header(line) if line[:1] in b'"IPD' else None
        if header is not None:
            self._begin(header, is_quoted=line.startswith(b'"'))
        elif self.page is not None and self._row_start.match(line):
            self._lines.append(line)
            self._size += len(line)
            if self._size >= _FLUSH_BYTES:
                self.flush()
        elif _is_refusal(line):
            self.is_refused = True

    def is_cut(self, line: bytes) -> bool:
        """Return whether the last line of the file, which has no end, is an unfinished row."""
        if self.page is None or not self._row_start.match(line):
            return False
        return line.count(b'"') % 2 == 1 or len(split_row(line)) < self.page.min_width

    def _begin(self, header: list[str], *, is_quoted: bool) -> None:
        """Begin a page; runs that were appended bring their own header."""
        self.end()
        self._row_start = _QUOTED_ROW if is_quoted else _BARE_ROW
        self.page = LongPage(header, self._rows) if "Metric Name" in header else WidePage(header, self._rows)
        self.page_name = self.page_name or self.page.page
        self.page_count += 1

    def flush(self) -> None:
        """Hand the rows that were collected to the page."""
        # A row whose quotes do not close goes on in the next lines: rules print such texts, whose rows have
        # no metric, unit and value.
        lines = [line for line in self._lines if line.count(b'"') % 2 == 0]
        if len(lines) < len(self._lines):
            self.unreadable_count += sum(
                line.count(b'"') % 2 == 1 and _NO_METRIC not in line for line in self._lines
            )
        self._lines.clear()
        self._size = 0
        if self.page is None or not lines:
            return
        frame = _frame(lines, self.page.width)
        self.unreadable_count += len(lines) - frame.height
        rows = frame.filter(self.page.is_row())
        self.unreadable_count += frame.height - rows.height
        if rows.height:
            self.page.add(rows)

    def end(self) -> None:
        """End the page in force."""
        self.flush()
        if self.page is not None:
            self.page.finish()
            self.unreadable_count += self.page.unreadable_count
            self.is_ambiguous |= self.page.is_ambiguous
            self.is_without_units |= self.page.is_without_units
        self.page = None


def _frame(lines: Sequence[bytes], width: int) -> pl.DataFrame:
    """Return rows as texts in columns ``c0``, ``c1`` ...; short ones end in nulls, broken ones are absent."""
    names = [f"c{place}" for place in range(width)]
    text = b"\n".join((",".join(names).encode(), *lines))
    try:
        frame = pl.read_csv(
            io.BytesIO(text), infer_schema=False, truncate_ragged_lines=True, encoding="utf8-lossy"
        )
    except pl.exceptions.ComputeError:
        # One broken line would lose all others.
        rows = [row for line in lines if (row := _strict_row(line, width)) is not None]
        return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
    return frame


def _strict_row(line: bytes, width: int) -> list[str | None] | None:
    """Return the cells of one line, ``None`` for those that it lacks; ``None`` when its quotes are broken."""
    try:
        (cells,) = csv.reader([line.decode("utf-8", "replace")], strict=True)
    except (csv.Error, ValueError):
        return None
    return [*cells[:width], *[None] * (width - len(cells))]


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Stream the rows into the counter tables."""
    if source.head.removeprefix(_BOM).lstrip().startswith((b"Launch Settings", b"Session Info")):
        return _load_session(source, sink)
    rows = CounterRows(sink)
    loader = _Loader(rows)
    damage: str | None = None
    with source.open() as stream:
        for line, is_ended in _lines(stream):
            if not is_ended and (stream.damage or loader.is_cut(line)):
                damage = "the file ends inside a row"
            else:
                loader.line(line)
        damage = stream.damage or damage
    loader.end()
    return _report(rows, loader, damage)


def _report(rows: CounterRows, loader: _Loader, damage: str | None) -> LoadReport:
    """Write the session and return what the load brought."""
    notes = []
    if rows.kernel_count or loader.is_refused:
        session = CounterSession(loader.page_name or "details", read_kernel_count=rows.kernel_count)
        rows.finish(replace(session, is_refused=loader.is_refused, is_cut=damage is not None))
    if loader.is_refused:
        notes.append(
            "the driver refused access to the counters (ERR_NVGPUCTRPERM, or another tool held them)"
        )
    elif not rows.kernel_count:
        notes.append("the file has a header but no rows")
    if loader.page_count > 1:
        notes.append(f"{loader.page_count} runs of the profiler are appended to each other")
    if loader.is_ambiguous:
        notes.append(
            "numbers like 1,234 were read with the comma between thousands; export with LC_ALL=C to be sure"
        )
    if loader.is_without_units:
        notes.append("the page has no row of units: its values were taken to be in base units (ns, byte)")
    reason = "row without a kernel, or cell that is no number in the file's format"
    skipped = loader.unreadable_count
    return LoadReport(rows.row_count, skipped, reason if skipped else None, damage, tuple(notes))


def _load_session(source: Source, sink: Sink) -> LoadReport:
    """Read a session page: versions and the profiler's options, nothing else."""
    pairs: dict[str, str] = {}
    with source.open() as stream:
        for line, _ in _lines(stream):
            cells = split_row(line)
            if len(cells) == 2:
                pairs.setdefault(cells[0], cells[1])
        damage = stream.damage
    session = with_versions(CounterSession("session"), pairs)
    if _COMMAND_LINE in pairs:
        session = with_command_line(session, pairs[_COMMAND_LINE])
    rows = CounterRows(sink)
    rows.finish(replace(session, read_kernel_count=0))
    return LoadReport(rows.row_count, damage=damage)


READER = Reader(
    name="nsight_compute_csv",
    title="Nsight Compute CSV (details, raw, summary and session pages)",
    tables=TABLES,
    sniff=_sniff,
    load=_load,
    role="counters",
    tried_on_real_files=True,
)
