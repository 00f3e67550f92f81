"""Reader of ``nsys stats`` tables: kernel sums are read, the other reports are recognised and refused."""

import csv
import io
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation, Overflow
from typing import Final

import polars as pl

from kvcliff.errors import InputError
from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.csv_text import split_row

_HINT = "export the report itself: nsys export -t sqlite -f true -o run.sqlite run.nsys-rep"
_SUMS = "cuda_gpu_kern_sum"
#: Reports by a column that only they have, with their name since 2023; the first that fits decides.
_REPORTS: Final[tuple[tuple[frozenset[str], str], ...]] = (
    (frozenset({"Start", "CorrId", "Strm"}), "cuda_gpu_trace"),
    (frozenset({"API Start", "Kernel Start"}), "cuda_kern_exec_trace"),
    (frozenset({"QCount", "KAvg"}), "cuda_kern_exec_sum"),
    (frozenset({"Projected Start"}), "nvtx_gpu_proj_trace"),
    (frozenset({"Total Proj Time"}), "nvtx_gpu_proj_sum"),
    (frozenset({"NVTX Range", "Kern Inst"}), "nvtx_kern_sum"),
    (frozenset({"DurChild", "RangeStack"}), "nvtx_pushpop_trace"),
    (frozenset({"Time", "Instances", "Style", "Range"}), "nvtx_sum"),
    (frozenset({"Time", "Total Time", "Instances", "Range"}), "nvtx_pushpop_sum"),
    (frozenset({"Time", "Total Time", "Category", "Operation"}), "cuda_gpu_sum"),
    (frozenset({"Time", "Total Time", "Num Calls", "Name"}), "cuda_api_sum"),
    (frozenset({"Time", "Total Time", "Count", "Operation"}), "cuda_gpu_mem_time_sum"),
    (frozenset({"Total", "Count", "Operation"}), "cuda_gpu_mem_size_sum"),
    (frozenset({"Time", "Total Time", "Instances", "StdDev", "Name"}), _SUMS),
)
_FILE_NAMES = re.compile(
    r"(?:^|[._-])(cuda_\w*(?:sum|trace)|nvtx_\w+(?:sum|trace)|osrt_sum|gpukernsum|gputrace|cudaapisum"
    r"|gpumemsizesum|gpumemtimesum|kernexectrace|nvtx\w*sum)\.csv$"
)
_UNITS: Final = {"ns": 1, "us": 10**3, "μs": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9}
_COLUMN = re.compile(r"(.*?)(?: \(([^)]+)\))?")
_LINES_SEARCHED = 20
#: A column of the tables holds no more.
_LARGEST = (1 << 63) - 1


@dataclass
class _Sum:
    launch_count: int = 0
    total_ns: int = 0
    min_ns: int | None = None
    max_ns: int | None = None


def _columns(line: bytes) -> dict[str, tuple[int, str]]:
    """Return position and unit of each column of a header line, by the name without its unit."""
    found: dict[str, tuple[int, str]] = {}
    for position, cell in enumerate(split_row(line)):
        match = _COLUMN.fullmatch(cell)
        if match:
            found.setdefault(match.group(1).strip(), (position, match.group(2) or ""))
    return found


def _report_of(columns: dict[str, tuple[int, str]]) -> str | None:
    return next((name for needed, name in _REPORTS if needed <= columns.keys()), None)


def _header(head: bytes) -> tuple[int, str] | None:
    """Return where the header line begins and which report it heads; lines that nsys says stand before it."""
    at = 0
    for line in head.split(b"\n")[:_LINES_SEARCHED]:
        report = _report_of(_columns(line.removeprefix(b"\xef\xbb\xbf"))) if b"," in line else None
        if report is not None:
            return at, report
        at += len(line) + 1
    return None


def _sniff(source: Source) -> Sniff:
    if source.is_dir:
        return NO_MATCH
    if not source.head:
        is_named = _FILE_NAMES.search(source.name) is not None
        return Sniff(60, "an empty nsys stats table") if is_named else NO_MATCH
    if b"\x00" in source.head:
        return NO_MATCH
    found = _header(source.head)
    if found is None:
        return NO_MATCH
    if found[1] == _SUMS:
        return Sniff(90, "kernel sums of nsys stats")
    return Sniff(80, f"the {found[1]} table of nsys stats")


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    if not source.head:
        return LoadReport(0, notes=("nsys stats skipped this report: the capture holds no such data",))
    found = _header(source.head)
    if found is None or found[1] != _SUMS:
        what = "no kernel sums" if found is None else f"the {found[1]} table of nsys stats"
        raise InputError(f"{source.relative} is {what}; only kernel sums are read ({_HINT})", hint=_HINT)
    with source.open() as stream:
        stream.read(found[0])
        columns = _columns(stream.readline().removeprefix(b"\xef\xbb\xbf"))
        text = io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="")
        sums, skipped = _read_sums(text, columns)
        damage = stream.damage
        text.detach()
    rows = _write(sink, sums)
    return LoadReport(
        row_count=rows,
        skipped_count=skipped,
        first_skip_reason="a line without count, total and name" if skipped else None,
        damage=damage,
        notes=("kernel sums of a whole capture: they hold no times, so no step or phase can be told",),
    )


def _read_sums(text: io.TextIOWrapper, columns: dict[str, tuple[int, str]]) -> tuple[dict[str, _Sum], int]:
    """Return the sums by kernel name; a table by grid has several lines for one name."""
    sums: dict[str, _Sum] = {}
    skipped = 0
    try:
        for cells in csv.reader(text):
            if not any(cell.strip() for cell in cells):
                continue
            values = {name: _number(cells, *columns[name]) for name in ("Instances", "Total Time")}
            count, total = values["Instances"], values["Total Time"]
            name_at = columns["Name"][0]
            if count is None or total is None or name_at >= len(cells) or not cells[name_at]:
                skipped += 1
                continue
            one = sums.setdefault(cells[name_at], _Sum())
            if one.launch_count + count > _LARGEST or one.total_ns + total > _LARGEST:
                skipped += 1
                continue
            one.launch_count += count
            one.total_ns += total
            shortest, longest = (
                _number(cells, *columns[name]) if name in columns else None for name in ("Min", "Max")
            )
            one.min_ns = min((value for value in (one.min_ns, shortest) if value is not None), default=None)
            one.max_ns = max((value for value in (one.max_ns, longest) if value is not None), default=None)
    except csv.Error:
        skipped += 1
    return sums, skipped


def _number(cells: list[str], position: int, unit: str) -> int | None:
    """Return a cell as a whole number, times in ns."""
    if position >= len(cells):
        return None
    try:
        value = Decimal(cells[position].strip()) * _UNITS.get(unit, 1)
    except (InvalidOperation, Overflow):
        return None
    return round(value) if value.is_finite() and 0 <= value < _LARGEST else None


def _write(sink: Sink, sums: dict[str, _Sum]) -> int:
    numbered = list(enumerate(sorted(sums.items())))
    names = pl.DataFrame(
        [(number, name, None) for number, (name, _) in numbered],
        schema={"kernel_id": pl.Int32, "name": pl.String, "short_name": pl.String},
        orient="row",
    )
    rows = pl.DataFrame(
        [(number, one.launch_count, one.total_ns, one.min_ns, one.max_ns) for number, (_, one) in numbered],
        schema={
            "kernel_id": pl.Int32,
            "launch_count": pl.Int64,
            "total_ns": pl.Int64,
            "min_ns": pl.Int64,
            "max_ns": pl.Int64,
        },
        orient="row",
    )
    if not numbered:
        return 0
    return sink.append("raw_kernel_names", names) + sink.append("raw_kernel_sums", rows)


READER = Reader(
    name="nsight_systems_sums",
    title="nsys stats kernel sums (CSV), sums without times",
    tables=("raw_kernel_names", "raw_kernel_sums"),
    sniff=_sniff,
    load=_load,
    role="counters",
    tried_on_real_files=True,
)
