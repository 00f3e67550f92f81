"""What commands print: results on stdout, all else on stderr; colour, tables and the JSON envelope."""

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TextIO

import click

from kvcliff.errors import KvcliffError

ENVELOPE_SCHEMA = "kvcliff.result/1"
Status = Literal["ok", "partial", "error"]


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
        return json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)


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


def say(text: str, *, bold: bool = False) -> None:
    """Print a line of the result on stdout."""
    click.echo(click.style(printable(text), bold=bold or None), color=is_coloured(sys.stdout))


def say_raw(text: str) -> None:
    """Print a finished document (JSON, CSV, Markdown) on stdout, as it is, with one newline at its end."""
    click.echo(text.removesuffix("\n"), color=True)


def note(text: str) -> None:
    """Print a line about the work on stderr."""
    click.echo(printable(text), err=True)


def warn(text: str) -> None:
    """Print a warning on stderr."""
    _labelled("warning", "yellow", text)


def show_error(error: Problem) -> None:
    """Print an error and its hint on stderr."""
    _labelled("error", "red", error.message)
    if error.hint:
        click.echo(f"  hint: {printable(error.hint)}", err=True)


def _labelled(label: str, colour: str, text: str) -> None:
    head = click.style(f"{label}:", fg=colour, bold=True)
    click.echo(f"{head} {printable(text)}", err=True, color=is_coloured(sys.stderr))


def format_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows as aligned text columns under their headings."""
    cells = [[printable(cell).replace("\n", " ") for cell in row] for row in (headings, *rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(headings))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
