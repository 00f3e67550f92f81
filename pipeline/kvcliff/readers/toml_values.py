"""Checked values of a TOML table: a mistake becomes a sentence with the key, the file and the way out."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kvcliff.errors import UsageProblem

_ZONE_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?")
_ZONE_LIMIT_S: Final = 15 * 3600
#: A file of settings is far smaller; the parser takes time and memory by the square of some of them.
_TEXT_LIMIT: Final = 1 << 20
#: Dots of a line: the memory that the parser takes for ``a.b.c = 1`` grows by the square of the parts.
_DOT_LIMIT: Final = 1000


def parse_toml(text: str) -> dict[str, Any]:
    """Return what a TOML text holds.

    Raises:
        ValueError: it is no TOML, or only an attack would look like it; the message may say where.
    """
    if len(text) > _TEXT_LIMIT:
        raise ValueError("it is larger than 1 MiB")
    if max(line.count(".") for line in text.split("\n")) > _DOT_LIMIT:
        raise ValueError("a line of it holds more than 1000 dots")
    try:
        return tomllib.loads(text)
    except RecursionError as exc:
        raise ValueError("its values are nested too deeply") from exc


@dataclass(frozen=True)
class TomlTable:
    """One table of a TOML file.

    Attributes:
        file_name: name of the file, for messages.
        prefix: what stands before the table's keys in messages (``model.``), '' at the top.
        entries: the table itself.
    """

    file_name: str
    prefix: str
    entries: Mapping[str, object]

    def problem(self, message: str, hint: str) -> UsageProblem:
        """Return the error for a mistake in this table."""
        return UsageProblem(f"{self.file_name}: {message}", hint=hint)

    def allow(self, keys: Iterable[str]) -> None:
        """Refuse keys that mean nothing.

        Raises:
            UsageProblem: names the first unknown key; the hint lists the known ones.
        """
        allowed = sorted(keys)
        unknown = next((key for key in self.entries if key not in allowed), None)
        if unknown is not None:
            raise self.problem(f"unknown key '{self.prefix}{unknown}'", f"allowed here: {', '.join(allowed)}")

    def table(self, key: str) -> "TomlTable":
        """Return a sub-table, empty when absent."""
        value = self.entries.get(key, {})
        if not isinstance(value, dict):
            raise self.problem(f"'{self.prefix}{key}' is no table", f"write it as [{key}]")
        return TomlTable(self.file_name, f"{self.prefix}{key}.", value)

    def tables(self, key: str) -> "list[TomlTable]":
        """Return an array of tables, empty when absent."""
        value = self.entries.get(key, [])
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise self.problem(f"'{self.prefix}{key}' is no array of tables", f"write each one as [[{key}]]")
        return [
            TomlTable(self.file_name, f"{key}[{number}].", entry) for number, entry in enumerate(value, 1)
        ]

    def text(self, key: str) -> str | None:
        """Return a text, ``None`` when absent."""
        value = self.entries.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self.problem(f"'{self.prefix}{key}' is no text", f'write {key} = "..."')
        return value

    def number(self, key: str) -> float | None:
        """Return a finite number, ``None`` when absent."""
        value = self.entries.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e18:
            raise self.problem(f"'{self.prefix}{key}' is no number", f"write {key} = 1.5, without quotes")
        return value

    def flag(self, key: str) -> bool | None:
        """Return a truth value, ``None`` when absent."""
        value = self.entries.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.problem(f"'{self.prefix}{key}' is neither true nor false", f"write {key} = true")
        return value

    def scalar(self, key: str) -> str | None:
        """Return a text, number or truth value as text, ``None`` when absent."""
        value = self.entries.get(key)
        if value is None:
            return None
        if isinstance(value, (str, bool, int)) or (isinstance(value, float) and abs(value) < 1e300):
            return _plain(value)
        raise self.problem(
            f"'{self.prefix}{key}' is neither a text nor a number nor true or false", "use one plain value"
        )

    def year(self, key: str) -> int | None:
        """Return a year, ``None`` when absent."""
        value = self.entries.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 2000 <= value <= 2200:
            raise self.problem(f"'{self.prefix}{key}' is no year", f"write {key} = 2026")
        return value

    def zone_offset_s(self, key: str) -> int | None:
        """Return a time zone's seconds east of UTC, ``None`` when absent."""
        text = self.text(key)
        if text is None:
            return None
        offset_s = _zone_offset_s(text.strip())
        if offset_s is None:
            hint = f'write {key} = "UTC" or "+09:00"; a place ("Asia/Tokyo") works when it has no summer time'
            raise self.problem(f"'{self.prefix}{key}' names no zone with one fixed offset", hint)
        return offset_s


def _plain(value: str | float | bool) -> str:
    """Return a value as setting text; whole floats lose their fraction."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _zone_offset_s(text: str) -> int | None:
    """Return the seconds east of UTC that a zone's text means, ``None`` when it is not one fixed number."""
    if text.upper() in {"UTC", "GMT", "Z"}:
        return 0
    match = _ZONE_OFFSET.fullmatch(text)
    if match is None:
        return _place_offset_s(text)
    seconds = int(match[2]) * 3600 + int(match[3] or 0) * 60
    if seconds > _ZONE_LIMIT_S:
        return None
    return -seconds if match[1] == "-" else seconds


def _place_offset_s(place: str) -> int | None:
    """Return the offset of a named zone when it is the same all year round."""
    try:
        zone = ZoneInfo(place)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
    offsets = {datetime(2026, month, 1, tzinfo=zone).utcoffset() for month in range(1, 13)}
    only = offsets.pop() if len(offsets) == 1 else None
    return int(only / timedelta(seconds=1)) if only is not None else None
