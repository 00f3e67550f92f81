"""Typed look-ups in a model configuration: a value of the wrong kind counts as absent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_COUNT_LIMIT: Final = 1 << 48


@dataclass(frozen=True)
class ConfigValues:
    """One configuration object.

    Attributes:
        entries: the JSON object, inner objects merged into it.
    """

    entries: Mapping[str, object]

    def count(self, key: str) -> int | None:
        """Return a positive whole number, ``None`` when absent or of another kind."""
        number = self.number(key)
        return number if number is not None and number > 0 else None

    def number(self, key: str) -> int | None:
        """Return a whole number from zero on, ``None`` when absent or of another kind."""
        value = self.entries.get(key)
        is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _COUNT_LIMIT
        return int(value) if is_number and isinstance(value, int) else None

    def flag(self, key: str) -> bool | None:
        """Return a truth value, ``None`` when absent or of another kind."""
        value = self.entries.get(key)
        return value if isinstance(value, bool) else None

    def text(self, key: str) -> str | None:
        """Return a text that is not empty, ``None`` when absent or of another kind."""
        value = self.entries.get(key)
        return value if isinstance(value, str) and value else None

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Return a list of texts, ``None`` when absent or of another kind."""
        value = self.entries.get(key)
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            return tuple(value)
        return None

    def numbers(self, key: str) -> tuple[int, ...] | None:
        """Return a list of whole numbers, ``None`` when absent or of another kind."""
        value = self.entries.get(key)
        if isinstance(value, list) and all(
            isinstance(item, int) and not isinstance(item, bool) for item in value
        ):
            return tuple(value)
        return None
