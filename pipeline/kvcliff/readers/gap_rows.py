"""Arrays of arrays of seconds (the gaps of many requests): by far the largest part of a client's result.

They are taken from the text some rows at a time and decoded by a typed reader, never as one value.
"""

import json
from collections.abc import Sequence
from typing import Final

import polars as pl

#: Requests whose gaps are decoded together.
GAP_BATCH: Final = 1000
#: No time of a client comes near it; what lies beyond is no number of ours.
GAP_LIMIT_S: Final = 1e15
_SCHEMA: Final = pl.Schema({"gaps": pl.List(pl.Float64)})
_DECODER: Final = json.JSONDecoder()


def gaps_of(rows: Sequence[str]) -> pl.Series:
    """Return arrays of numbers as lists of seconds; what is no ordinary number is left out.

    Args:
        rows: text of each array, without its brackets.
    """
    lines = "\n".join(f'{{"gaps":[{row}]}}' for row in rows)
    try:
        gaps = pl.read_ndjson(lines.encode(), schema=_SCHEMA).get_column("gaps")
    except pl.exceptions.PolarsError:
        return _decoded(rows)
    largest = gaps.explode().abs().max()
    is_ordinary = len(gaps) == len(rows) and (not isinstance(largest, float) or largest < GAP_LIMIT_S)
    return gaps.fill_null([]).list.drop_nulls() if is_ordinary else _decoded(rows)


def _decoded(rows: Sequence[str]) -> pl.Series:
    """Return each row by the tolerant decoder; one that is no JSON is empty."""
    decoded: list[list[float]] = []
    for row in rows:
        try:
            values = _DECODER.decode(f"[{row}]")
        except (ValueError, RecursionError):
            values = []
        numbers = (finite_number(value) for value in values)
        decoded.append([number for number in numbers if number is not None])
    return pl.Series("gaps", decoded, dtype=pl.List(pl.Float64))


def finite_number(value: object) -> float | None:
    """Return a JSON value as a finite number (numbers may be quoted), else ``None``."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < GAP_LIMIT_S else None
