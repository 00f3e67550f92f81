"""The forms in which an Nsight Systems capture comes: which one a source is, and why some are refused."""

import re
from typing import Final, Literal

from kvcliff.readers.base import Source

Form = Literal[
    "sqlite", "parquetdir", "arrowdir", "arrows", "report", "unfinished", "hdf", "json", "text", "info"
]
REPORT_MAGIC: Final = b"NVIDIA Tegra Profiler Report"
SQLITE_MAGIC: Final = b"SQLite format 3\x00"
_HDF_MAGIC = b"\x89HDF\r\n\x1a\n"
_ARROW_START = b"\xff\xff\xff\xff"
#: Tables that nearly every export has; any of them tells an export from other folders and files.
_COMMON_TABLES = (
    "StringIds",
    "NVTX_EVENTS",
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    "TARGET_INFO_SESSION_START_TIME",
)
_VERSION = re.compile(rb"Report (\d{4})@(\d{1,3})@(\d{1,3})(?:@\d{1,9})?-")
_FOLDER_SUFFIXES: tuple[tuple[str, Form], ...] = ((".parquet", "parquetdir"), (".arrow", "arrowdir"))

#: What reports call each form.
TITLES: Final[dict[Form, str]] = {
    "sqlite": "an Nsight Systems SQLite export",
    "parquetdir": "an Nsight Systems export as a folder of Parquet files",
    "arrowdir": "an Nsight Systems export as a folder of Arrow files",
    "arrows": "an Nsight Systems export as one Arrow file",
    "report": "an Nsight Systems report that must be exported first",
    "unfinished": "an unfinished Nsight Systems capture",
    "hdf": "an Nsight Systems HDF5 export",
    "json": "an Nsight Systems JSON export",
    "text": "an Nsight Systems text export",
    "info": "the header of an Nsight Systems report",
}
#: Why a form is never read.
REFUSALS: Final[dict[Form, str]] = {
    "hdf": "that writes missing values as 0, so that absent ends and ids cannot be told from real ones",
    "json": "that holds the profiler's own events and not its tables",
    "text": "that holds the profiler's own events and not its tables",
    "info": "without any event",
}


def form_of(source: Source) -> Form | None:
    """Return the form of a source that is no SQLite file; ``None`` when it is no Nsight Systems capture."""
    if source.is_dir:
        return _folder_form(source)
    head = source.head
    if head.startswith(REPORT_MAGIC):
        return "report"
    if source.name.endswith(".qdstrm") and b"\x00" in head[:4096]:
        return "unfinished"
    if head.startswith(_ARROW_START):
        names = (b"ANALYSIS_", b"CUPTI_ACTIVITY_", *(name.encode() for name in _COMMON_TABLES))
        return "arrows" if b"table_name" in head and any(name in head for name in names) else None
    if head.startswith(_HDF_MAGIC):
        is_named = any(name.encode() in head for name in _COMMON_TABLES)
        return "hdf" if is_named or source.name.endswith((".h5", ".hdf", ".hdf5")) else None
    return _text_form(head.lstrip())


def _folder_form(source: Source) -> Form | None:
    for suffix, form in _FOLDER_SUFFIXES:
        if any(f"{table}{suffix}" in source.listing for table in _COMMON_TABLES):
            return form
    return None


def _text_form(head: bytes) -> Form | None:
    if head.startswith(b'{"data":[') and b'"[kernel.kallsyms]"' in head[:4096]:
        return "json"
    if head.startswith(b'data: "') and b'data: "[kernel.kallsyms]"' in head[:4096]:
        return "text"
    return "info" if head.startswith(b"{") and b'"VmSystemInformation"' in head[:4096] else None


def report_version(source: Source) -> tuple[int, int, int] | None:
    """Return the nsys that wrote a report; ``None`` when the report does not say (2023.1 and older)."""
    match = _VERSION.search(source.head[:256])
    return None if match is None else (int(match.group(1)), int(match.group(2)), int(match.group(3)))
