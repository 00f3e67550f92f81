"""What a finding is made of: a question, an evaluation over marts, and results with evidence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import duckdb

Verdict = Literal["found", "not_found", "cannot_tell"]
Severity = Literal["critical", "warning", "info"]
Number = int | float | str | bool | None


@dataclass(frozen=True)
class Evidence:
    """Rows of a mart behind a result.

    Attributes:
        mart: table the numbers were read from.
        where: filter that shows the same rows (SQL condition), or ``""`` for all rows.
        numbers: name and value of each number, in reading order.
    """

    mart: str
    where: str
    numbers: tuple[tuple[str, Number], ...] = ()


@dataclass(frozen=True)
class Result:
    """One answer of a finding.

    Attributes:
        verdict: ``found``, ``not_found`` or ``cannot_tell``.
        severity: how much it matters when found; ``info`` otherwise.
        confidence: 0-1, how sure the verdict is; 0 when it cannot tell.
        summary: one sentence in plain text.
        action: what to do first, or ``None``.
        capture: what to capture so that the question can be answered, or ``None``.
        evidence: the rows behind it.
        reason: what the confidence rests on, or ``None`` when the summary says it.
    """

    verdict: Verdict
    severity: Severity
    confidence: float
    summary: str
    action: str | None = None
    capture: str | None = None
    evidence: tuple[Evidence, ...] = ()
    reason: str | None = None


EvaluateFunction = Callable[[duckdb.DuckDBPyConnection], tuple[Result, ...]]


@dataclass(frozen=True)
class Finding:
    """One diagnosis.

    Attributes:
        name: stable id, also the name of its module.
        question: what it answers, in one sentence.
        evaluate: reads the marts of one run and answers.
    """

    name: str
    question: str
    evaluate: EvaluateFunction


def cannot_tell(summary: str, capture: str | None, *evidence: Evidence) -> Result:
    """Return the result for a question the data cannot answer.

    Args:
        summary: what is missing.
        capture: the command that would provide it, or ``None`` when no capture can.
        evidence: rows that were looked at.
    """
    return Result("cannot_tell", "info", 0.0, summary, capture=capture, evidence=evidence)


def not_found(summary: str, confidence: float, *evidence: Evidence, reason: str | None = None) -> Result:
    """Return the result for a question that the data answers with no.

    Args:
        summary: what was seen instead.
        confidence: how sure the no is.
        evidence: rows that were looked at.
        reason: what the confidence rests on.
    """
    return Result("not_found", "info", confidence, summary, evidence=evidence, reason=reason)
