"""What commands print: results on stdout, all else on stderr; colour, tables and the JSON envelope."""

import json
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TextIO

import click

from kvcliff.errors import KvcliffError

ENVELOPE_SCHEMA = "kvcliff.result/1"
Status = Literal["ok", "partial", "error"]
#: What JSON may hold as it is, but a terminal must not get: C1 controls, DEL, separators of lines, marks that
#: turn or hide text, and halves of characters, which no encoding takes. They stand only inside JSON strings.
_UNPRINTABLE = re.compile(
    "[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb]"
)


@dataclass(frozen=True)
class Problem:
    """One error of the JSON envelope."""

    code: str
    message: str
    hint: str | None = None

    @classmethod
    def of(cls, error: KvcliffError) -> "Problem":
        """Return the problem that an error stands for."""
        return cls(error.code, error.message, error.hint)


@dataclass(frozen=True)
class Envelope:
    """The JSON answer of a command; the same shape for success and failure."""

    command: str
    data: Any
    status: Status = "ok"
    errors: tuple[Problem, ...] = field(default=())

    def to_json(self) -> str:
        """Return the envelope as JSON text with sorted keys, without NaN or infinity."""
        document = {
            "schema": ENVELOPE_SCHEMA,
            "command": self.command,
            "status": self.status,
            "data": _plain(self.data),
            "errors": [
                {"code": error.code, "message": error.message, "hint": error.hint} for error in self.errors
            ],
        }
        text = json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
        return _UNPRINTABLE.sub(_json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _plain(value: Any) -> Any:
    """Return ``value`` made of JSON types only; numbers that JSON lacks become null, other types text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)


def is_coloured(stream: TextIO) -> bool:
    """Return whether ``stream`` gets colour: NO_COLOR, then FORCE_COLOR, then the terminal decides."""
    if os.environ.get("NO_COLOR"):
        return False
    forced = os.environ.get("FORCE_COLOR")
    if forced:
        return forced != "0"
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def printable(text: str) -> str:
    """Return ``text`` without control characters, so that file content cannot steer a terminal."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text
    )


def one_line(text: str) -> str:
    """Return ``text`` printable and without line breaks, so that file content cannot forge a line of ours."""
    return printable(text).replace("\n", " ")


def say(text: str, *, bold: bool = False) -> None:
    """Print a line of the result on stdout."""
    click.echo(click.style(one_line(text), bold=bold or None), color=is_coloured(sys.stdout))


def say_lines(text: str) -> None:
    """Print lines that were laid out before (a table, a wrapped paragraph) on stdout."""
    click.echo(printable(text))


def say_raw(text: str) -> None:
    """Print a finished document (JSON, CSV, Markdown) on stdout, as it is, with one newline at its end."""
    click.echo(text.removesuffix("\n"), color=True)


def note(text: str) -> None:
    """Print a line about the work on stderr."""
    click.echo(one_line(text), err=True)


def warn(text: str) -> None:
    """Print a warning on stderr."""
    _labelled("warning", "yellow", text)


def show_error(error: Problem) -> None:
    """Print an error and its hint on stderr."""
    _labelled("error", "red", error.message)
    if error.hint:
        click.echo(f"  hint: {one_line(error.hint)}", err=True)


def _labelled(label: str, colour: str, text: str) -> None:
    head = click.style(f"{label}:", fg=colour, bold=True)
    click.echo(f"{head} {one_line(text)}", err=True, color=is_coloured(sys.stderr))


def format_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows as aligned text columns under their headings."""
    cells = [[one_line(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(headings))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
