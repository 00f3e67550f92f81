"""Sentences whose numbers are tied to the mart rows that they come from."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Citation:
    """One number of a sentence.

    Attributes:
        mart: table that it was read from.
        where: filter that shows the row (SQL condition).
        column: column of the row.
        value: the value there.
        text: how the sentence writes it.
    """

    mart: str
    where: str
    column: str
    value: float
    text: str


@dataclass(frozen=True)
class CitedSentence:
    """Text with the citations of every number in it."""

    text: str
    citations: tuple[Citation, ...] = ()


@dataclass
class CitedRow:
    """A mart row that sentences quote; it keeps what was quoted.

    Attributes:
        mart: table of the row.
        where: filter that shows the row.
        values: column values of the row.
        quoted: what was quoted, in order.
    """

    mart: str
    where: str
    values: dict[str, float | str | bool | None]
    quoted: list[Citation] = field(default_factory=list)

    def has(self, *columns: str) -> bool:
        """Return whether all these columns have a value."""
        return all(self.values.get(column) is not None for column in columns)

    def word(self, column: str) -> str:
        """Return the text of a column, empty when there is none."""
        return str(self.values.get(column) or "")

    def number(self, column: str) -> float:
        """Return the number of a column.

        Raises:
            KeyError: the column holds no number.
        """
        value = self.values.get(column)
        if not isinstance(value, int | float):
            raise KeyError(column)
        return float(value)

    def say(self, column: str, write: Callable[[float], str]) -> str:
        """Return a number as text, and remember that it was quoted."""
        value = self.number(column)
        text = write(value)
        self.quoted.append(Citation(self.mart, self.where, column, value, text))
        return text
