"""Sections that close a report: what else was found, and what could not be told."""

from kvcliff.report.document import Answers, FindingLine, Gap, Gaps, Section, Verdict
from kvcliff.report.verdict import answers


def answer_section(findings: tuple[FindingLine, ...], verdict: Verdict) -> Section | None:
    """Return what else was found, and what was looked for and not found."""
    items = answers(findings, verdict)
    return Section("answers", "Answers", (Answers(items),)) if items else None


def gap_section(findings: tuple[FindingLine, ...], missing: tuple[Gap, ...]) -> Section | None:
    """Return what could not be told, once per capture that would tell.

    Args:
        findings: all answers.
        missing: sections that have no data and that no finding speaks of.
    """
    unknown = (Gap(line.summary, line.capture) for line in findings if line.verdict == "cannot_tell")
    by_capture: dict[str | None, list[str]] = {}
    for gap in (*unknown, *missing):
        by_capture.setdefault(gap.capture, []).append(gap.text)
    items = tuple(Gap(" ".join(texts), capture) for capture, texts in by_capture.items())
    return Section("gaps", "What could not be told", (Gaps(items),)) if items else None
