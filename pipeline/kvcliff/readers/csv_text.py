"""Streaming rows of delimited text that may be cut, ragged, or have a byte-order mark and a ``sep=`` line."""

import csv
from collections.abc import Iterator
from typing import Final

from kvcliff.readers.decompression import Stream

_BOM: Final = b"\xef\xbb\xbf"
_LINE_LIMIT_BYTES: Final = 1 << 20


def is_text(head: bytes) -> bool:
    """Return whether the start of a file can be delimited text at all."""
    return bool(head.strip()) and b"\x00" not in head


def split_row(line: bytes) -> list[str]:
    """Return the cells of one line, blanks around them cut off; a line that is no CSV gives one cell."""
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    try:
        return [cell.strip() for cell in next(csv.reader([text], skipinitialspace=True), [])]
    except csv.Error:
        return [text.strip()]


def header_of(head: bytes) -> list[str]:
    """Return the cells of the first line, behind a byte-order mark and a ``sep=`` line."""
    lines = head.removeprefix(_BOM).split(b"\n", 2)
    if lines[0].strip().lower().startswith(b"sep=") and len(lines) > 1:
        lines.pop(0)
    return split_row(lines[0][:_LINE_LIMIT_BYTES])


def text_lines(stream: Stream) -> Iterator[tuple[bytes, bool]]:
    """Yield each line without its end, and whether it had one; lines that are far too long are cut."""
    is_first = True
    while line := stream.readline(_LINE_LIMIT_BYTES):
        if is_first:
            is_first = False
            line = line.removeprefix(_BOM)
            if line.strip().lower().startswith(b"sep="):
                continue
        yield line.rstrip(b"\r\n"), line.endswith(b"\n")
