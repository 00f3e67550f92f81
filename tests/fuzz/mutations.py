"""Changes to an input that keep most of it: cut, doubled, moved, with odd numbers, texts and JSON values."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["piece", "cut", "double", "move", "flip", "number", "value"]
KINDS: tuple[Kind, ...] = ("piece", "cut", "double", "move", "flip", "number", "value")
#: What is put in: numbers beyond every type, broken encodings, and what each format gives a meaning to.
PIECES: tuple[bytes, ...] = (
    *(b'"', b"'", b"{", b"}", b"[", b"]", b",", b":", b";", b"|", b"=", b"#", b"%", b"\\", b"/", b" ", b"\t"),
    *(
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\x00",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"\xe2\x80\xa8",
        b"\x1b[31m",
    ),
    *(
        b"nan",
        b"NaN",
        b"inf",
        b"-Infinity",
        b"1e999",
        b"-1",
        b"-0",
        b"0",
        b"1.5",
        b"1_0",
        b"0x10",
        b"\xd9\xa3",
    ),
    *(b"9" * 19, b"9" * 30, b"9" * 5000, b"9223372036854775808", b"18446744073709551616", b"1e18", b"1e-320"),
    *(
        b"null",
        b"true",
        b"{}",
        b"[]",
        b'""',
        b"[" * 2000,
        b'{"a":' * 500,
        b'"\\ud800"',
        b'"\\u0000"',
        b"# EOF\n",
    ),
    *(b"9999-12-31 23:59:59", b"0001-01-01T00:00:00Z", b"2030-02-30", b"+99:99", b"x" * 70_000),
)
VALUES: tuple[object, ...] = (
    *(None, True, False, 0, -1, -0.5, 1.5, 10**18, 10**30, -(10**30), 1e300, 2**63, 2**64, 5e-324),
    *(
        "",
        "x" * 300,
        "\x00",
        "\ud800",
        "NaN",
        "1",
        "-1",
        "2030-02-30",
        [],
        {},
        [None],
        [[1, "x", 2]],
        {"value": []},
    ),
)
NUMBERS: tuple[bytes, ...] = (
    *(
        b"0",
        b"-1",
        b"-0",
        b"1e999",
        b"nan",
        b"inf",
        b"0.5",
        b"1e18",
        b"1e-320",
        b"9" * 19,
        b"9" * 30,
        b"9" * 5000,
    ),
    *(
        b"9223372036854775807",
        b"-9223372036854775808",
        b"18446744073709551615",
        b"4294967296",
        b"\xd9\xa3",
        b"",
    ),
)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Edit:
    """One change.

    Attributes:
        kind: what is done.
        where: place in the input, 0 to 1.
        length: how many bytes it is about.
        pick: which piece, number, value or bit.
    """

    kind: Kind
    where: float
    length: int
    pick: int


def edited(data: bytes, edits: Sequence[Edit]) -> bytes:
    """Return the input after all changes."""
    for edit in edits:
        data = _edited(data, edit)
    return data


def _edited(data: bytes, edit: Edit) -> bytes:
    place = int(edit.where * len(data))
    end = place + edit.length
    match edit.kind:
        case "piece":
            return data[:place] + PIECES[edit.pick % len(PIECES)] + data[end:]
        case "cut":
            return data[:place]
        case "double":
            return data[:end] + data[place:]
        case "move":
            return data[:place] + data[end:] + data[place:end]
        case "flip":
            byte = bytes((data[place] ^ 1 << edit.pick % 8,)) if place < len(data) else b""
            return data[:place] + byte + data[place + 1 :]
        case "number":
            return _with_number(data, edit)
        case "value":
            return _with_value(data, edit)


def _with_number(data: bytes, edit: Edit) -> bytes:
    """Return the input with another number in the place of one."""
    found = list(_NUMBER.finditer(data[: 1 << 20]))
    if not found:
        return data
    match = found[min(int(edit.where * len(found)), len(found) - 1)]
    return data[: match.start()] + NUMBERS[edit.pick % len(NUMBERS)] + data[match.end() :]


def _with_value(data: bytes, edit: Edit) -> bytes:
    """Return JSON (one document, or one a line) with another value somewhere; other input as it is."""
    try:
        documents = [json.loads(line) for line in data.splitlines()] if data[:1] in b"{[" else []
    except (ValueError, RecursionError):
        return data
    places: list[tuple[dict[str, object] | list[object], str | int]] = []
    for document in documents:
        _collect(document, places)
    if not places:
        return data
    holder, key = places[min(int(edit.where * len(places)), len(places) - 1)]
    holder[key] = VALUES[edit.pick % len(VALUES)]  # type: ignore[index, call-overload]
    return "\n".join(json.dumps(document) for document in documents).encode() + b"\n"


def _collect(node: object, places: list[tuple[dict[str, object] | list[object], str | int]]) -> None:
    """Collect every place of a value below a node."""
    if isinstance(node, dict):
        for key, value in node.items():
            places.append((node, key))
            _collect(value, places)
    elif isinstance(node, list):
        for number, value in enumerate(node):
            places.append((node, number))
            _collect(value, places)
