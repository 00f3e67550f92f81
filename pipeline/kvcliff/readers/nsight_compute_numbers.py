"""Numbers that Nsight Compute printed under any locale, as values, and why a cell has none."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import polars as pl

_GAP: Final = " \u00a0\u202f"
#: Apostrophes (Switzerland) group with a decimal point as well as with a comma.
_GROUP: Final = _GAP + "'\u2019"
#: Only a decimal point and commas between groups can print these.
_POINT: Final = re.compile(r"-?\d{1,3}(,\d{3})+\.\d+|-?[1-9]\d{0,2}(,\d{3}){2,}")
#: Only a decimal comma, or points or blanks between groups can print these. Three digits behind a lone point
#: are a group: the tool prints two or six decimals, never three.
_COMMA: Final = re.compile(
    rf"-?\d+,\d{{1,2}}|-?[1-9]\d{{0,2}}(\.\d{{3}})+(,\d+)?|-?[1-9]\d{{0,2}}([{_GAP}]\d{{3}})+(,\d+)?"
)
#: Doubles of raw pages look like this under every locale.
_PLAIN_DOUBLE: Final = r"^-?\d+\.(\d{1,2}|\d{4,})$"
_TWO_DECIMALS: Final = re.compile(r"-?\d+\.\d{1,2}")
_LONE_COMMA: Final = re.compile(r"-?[1-9]\d{0,2},\d{3}")
_REASONS: Final = {
    "": "empty",
    "n/a": "not_available",
    "(!) n/a": "not_available",
    "no data": "no_data",
    "nan": "nan",
    "-nan": "nan",
    "(!) nan": "nan",
    "inf": "nan",
    "-inf": "nan",
}
_DIGIT: Final = re.compile(rf"^[-+]?[\d.,\s{_GROUP}]*$")


@dataclass(frozen=True)
class NumberStyle:
    """How a file prints numbers.

    Attributes:
        is_decimal_comma: whether a comma stands before the decimals.
        is_ambiguous: whether some cells would also make sense the other way (``1,234``).
    """

    is_decimal_comma: bool
    is_ambiguous: bool


POINT_STYLE: Final = NumberStyle(is_decimal_comma=False, is_ambiguous=False)


def style_of(cells: Iterable[str], *, is_raw_page: bool) -> NumberStyle:
    """Return the number style that cells of one file tell.

    Args:
        cells: printed values.
        is_raw_page: doubles of a raw page have a point under every locale, they prove nothing there.
    """
    points = commas = plain = lone = 0
    for cell in set(cells):
        if _POINT.fullmatch(cell):
            points += 1
        elif _COMMA.fullmatch(cell):
            commas += 1
        elif _TWO_DECIMALS.fullmatch(cell):
            plain += 1
        elif _LONE_COMMA.fullmatch(cell):
            lone += 1
    against = points if is_raw_page else points + plain
    is_comma = commas > against
    return NumberStyle(is_comma, lone > 0 and not is_comma and against == 0)


def parse_numbers(cells: pl.Series, style: NumberStyle) -> tuple[pl.Series, pl.Series | None]:
    """Return the values of printed cells, and why a value is null (``None`` when there is no null).

    Args:
        cells: texts; null counts as empty.
        style: how the file prints numbers.
    """
    values = cells.cast(pl.Float64, strict=False) if not style.is_decimal_comma else _with_comma(cells)
    is_finite = values.is_finite()
    if values.null_count() == 0 and is_finite.all():
        return values, None
    values = values.set(~is_finite.fill_null(value=True), None)
    if not style.is_decimal_comma:
        bare = cells.str.replace_all(rf"[,{_GROUP}]", "").cast(pl.Float64, strict=False)
        values = values.fill_null(bare.set(~bare.is_finite().fill_null(value=True), None))
    return values, _reasons(cells, values) if values.null_count() else None


def _with_comma(cells: pl.Series) -> pl.Series:
    """Return the values of cells printed with a decimal comma; plain doubles of raw pages among them."""
    bare = cells.str.replace_all(rf"[.{_GROUP}]", "").str.replace(",", ".", literal=True)
    is_plain = cells.str.contains(_PLAIN_DOUBLE).fill_null(value=False)
    return cells.zip_with(is_plain, bare).cast(pl.Float64, strict=False)


def _reasons(cells: pl.Series, values: pl.Series) -> pl.Series:
    """Return why cells have no value, null where they have one."""
    missing = cells.fill_null("").filter(values.is_null()).unique().to_list()
    reasons = {cell: _reason(cell) for cell in missing}
    texts = cells.fill_null("").replace_strict(reasons, default=None, return_dtype=pl.String)
    return texts.set(values.is_not_null(), None)


def _reason(cell: str) -> str:
    """Return why one cell has no value."""
    known = _REASONS.get(cell.strip().lower())
    return known or ("unreadable" if _DIGIT.match(cell) else "text")
