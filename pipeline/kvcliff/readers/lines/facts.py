"""Facts that start-up lines state, on their way to ``raw_settings``."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from kvcliff.readers.lines.base import Record, SettingRow, count_of, scaled_bytes

_SNAPSHOT = re.compile(r"models--([\w.-]{1,96})--([\w.-]{1,96})/snapshots/")


class Fact(NamedTuple):
    """One setting under its canonical name."""

    name: str
    value: str
    unit: str | None


def setting_rows(record: Record, facts: Iterable[Fact | None]) -> tuple[SettingRow, ...]:
    """Return facts as rows of the rank that states them; ``None`` among them is left out."""
    scope = record.settings_scope()
    return tuple(
        SettingRow(record.line_no, scope, fact.name, fact.value, fact.unit)
        for fact in facts
        if fact is not None
    )


def count_fact(name: str, text: str | None, unit: str | None = None) -> Fact | None:
    """Return a whole number as a fact, or ``None`` when the text is none."""
    number = count_of(text)
    return Fact(name, str(number), unit) if number is not None else None


def model_name(text: str) -> str | None:
    """Return a model's name: ``org/name`` as it is, of a path only the last part."""
    text = text.strip().rstrip("/\\")
    snapshot = _SNAPSHOT.search(text + "/")
    if snapshot is not None:
        return f"{snapshot[1]}/{snapshot[2]}"
    is_path = text[:1] in {"/", ".", "~", "\\"} or "\\" in text or ":" in text or text.count("/") > 1
    name = re.split(r"[/\\]", text)[-1] if is_path else text
    return name if re.fullmatch(r"[\w.+-]{1,96}(?:/[\w.+-]{1,96})?", name) else None


def bytes_fact(name: str, text: str | None, unit_bytes: int) -> Fact | None:
    """Return an amount of memory as a fact in bytes."""
    size = scaled_bytes(text, unit_bytes)
    return Fact(name, str(size), "bytes") if size is not None else None
