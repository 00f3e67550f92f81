"""Values of JSON files as checked numbers, times, short labels and classes of errors."""

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import polars as pl

from kvcliff.units import NS_PER_S

_NUMBER_LIMIT: Final = 1e15
_COUNT_LIMIT: Final = 1 << 53
_INT64_LIMIT: Final = 1 << 63
_LABEL_LIMIT: Final = 100
_CLASS: Final = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.]{0,79})\s*(?=[:(]|$)")
_NO_MEMBERS: Final[Mapping[str, object]] = MappingProxyType({})
#: Spellings of units of time, and their nanoseconds.
UNIT_NS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "ns": 1,
        "us": 1_000,
        "µs": 1_000,
        "ms": 1_000_000,
        "s": NS_PER_S,
        "sec": NS_PER_S,
        "seconds": NS_PER_S,
    }
)


def number(value: object) -> float | None:
    """Return a finite JSON number of ordinary size, else ``None``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if -_NUMBER_LIMIT < value < _NUMBER_LIMIT else None


def count(value: object) -> int | None:
    """Return a JSON number as a count (not negative), else ``None``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < _COUNT_LIMIT else None


def first_count(*values: object) -> int | None:
    """Return the first of several values that is a count."""
    return next((known for value in values if (known := count(value)) is not None), None)


def nanoseconds(value: object, unit_ns: int) -> int | None:
    """Return a time or duration that is not negative in nanoseconds, else ``None``.

    The whole part is scaled as an integer: an epoch in float seconds would lose 128 ns otherwise.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not 0 <= value < _INT64_LIMIT / unit_ns:
        return None
    if isinstance(value, int):
        return value * unit_ns
    fraction, whole = math.modf(value)
    result = int(whole) * unit_ns + round(fraction * unit_ns)
    return result if result < _INT64_LIMIT else None


def nanosecond_list(values: list[object], unit_ns: int) -> list[int]:
    """Return what :func:`nanoseconds` says of each element, those left out that are no time or duration."""
    if values and set(map(type, values)) == {float}:
        numbers = pl.Series(values, dtype=pl.Float64)
        # Not-a-number is in no range, so that one among them sends the list the slow way.
        if numbers.is_between(0, _INT64_LIMIT / unit_ns / 2, closed="left").all():
            whole = numbers.cast(pl.Int64)
            rest = ((numbers - whole.cast(pl.Float64)) * unit_ns).round(0, mode="half_to_even")
            return (whole * unit_ns + rest.cast(pl.Int64)).to_list()
    return [time for value in values if (time := nanoseconds(value, unit_ns)) is not None]


def whole_text(text: str) -> str:
    """Return text without halves of characters, which JSON can spell and no table can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def label(value: object) -> str | None:
    """Return a short text as it is, cut to a label's length; ``None`` for anything else or nothing."""
    return whole_text(value[:_LABEL_LIMIT]) if isinstance(value, str) and value else None


def members_of(value: object) -> Mapping[str, object]:
    """Return a JSON object; an empty one in the place of anything else."""
    return value if isinstance(value, dict) else _NO_MEMBERS


def elements_of(value: object) -> list[object]:
    """Return a JSON array; an empty one in the place of anything else."""
    return value if isinstance(value, list) else []


def error_kind(value: object) -> str | None:
    """Return the class of an error, never its text: ``None`` for no error.

    Objects name it (``type``, ``error_type``, ``code``); of a text only a class name in front of ``:``,
    ``(`` or the end is taken, from its last line.
    """
    if value is None or value in ("", 0, False):
        return None
    if isinstance(value, dict):
        named = next((value[key] for key in ("error_type", "type", "code") if value.get(key)), None)
        return error_kind(named) or "error"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"http_{value}" if 100 <= value < 600 else "error"
    if not isinstance(value, str):
        return "error"
    found = _CLASS.match(value.strip().rsplit("\n", 1)[-1]) if value.strip() else None
    return found[1] if found else "error"
