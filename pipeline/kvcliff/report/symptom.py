"""What a symptom of slow token generation is, and words that the symptoms share."""

from collections.abc import Callable
from dataclasses import dataclass

import duckdb

from kvcliff.report.document import FindingLine

Findings = tuple[FindingLine, ...]


@dataclass(frozen=True)
class Sighting:
    """A symptom as this run shows it.

    Attributes:
        evidence: the numbers of this run.
        cause: what they mean.
        action: what to do first, or ``None``.
    """

    evidence: str
    cause: str
    action: str | None


@dataclass(frozen=True)
class Symptom:
    """One symptom to look for.

    Attributes:
        words: what is noticed.
        mart: where it would show; without rows there it cannot be told.
        where: condition on those rows.
        lacks: what a run without them lacks.
        look: returns the sightings of this run, none when it does not show it.
    """

    words: str
    mart: str
    where: str
    lacks: str
    look: Callable[[duckdb.DuckDBPyConnection, Findings], tuple[Sighting, ...]]


def found_action(findings: Findings, name: str) -> str | None:
    """Return what a finding says to do first, when it was found."""
    return next((line.action for line in findings if line.finding == name and line.verdict == "found"), None)


def is_found(findings: Findings, name: str) -> bool:
    """Return whether a finding was found."""
    return any(line.finding == name and line.verdict == "found" for line in findings)


def with_value(write: Callable[[float | None], str], value: float | None, sentence: str) -> str | None:
    """Return the sentence with the value in it, or ``None`` without one."""
    return None if value is None else sentence.format(write(value))


def listed(*parts: str | None) -> str:
    """Return the parts that are there, in one line."""
    return ", ".join(part for part in parts if part is not None)
