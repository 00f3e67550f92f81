"""Choosing the sentence that a report opens with, and the steps it recommends."""

from kvcliff.findings import FINDINGS
from kvcliff.report.document import Answer, FindingLine, Verdict

_SEVERITY_RANK = {"critical": 0, "warning": 1, "info": 2}
#: Findings that answer the question of a report; the others open it only when these say nothing.
_LEADING = ("hit_but_slow", "swap_point")
#: Found, but no reason for slow tokens: they never open a report.
_BACKGROUND = ("headroom", "capture_failed", "clock_trust", "source_disagreement")
#: Only information, but an answer: they open a report whose swap point cannot be told.
_INFORMING = ("concurrency_knee", "counter_limits")


def choose_verdict(findings: tuple[FindingLine, ...]) -> Verdict:
    """Return the opening sentence of a report.

    ``hit_but_slow`` when found, else the swap point, else the gravest other finding that is more than
    information; else what the swap point finding says instead: a positive no, or why it cannot tell. Then
    a limit of the load or of kernels, when one was found, says more.
    """
    found = [line for line in findings if line.verdict == "found"]
    leading = [line for name in _LEADING for line in found if line.finding == name]
    others = sorted(
        (line for line in found if line.finding not in (*_LEADING, *_BACKGROUND) and line.severity != "info"),
        key=lambda line: (_SEVERITY_RANK.get(line.severity, 9), line.finding_no),
    )
    rest = [line for line in findings if line.finding == "swap_point"]
    informing = [
        line
        for name in _INFORMING
        for line in found
        if line.finding == name and all(item.verdict == "cannot_tell" for item in rest)
    ]
    for line in (*leading, *others, *informing, *rest):
        return _verdict(line)
    return Verdict(None, "cannot_tell", "info", None, "Nothing was diagnosed in this run.", None)


def _verdict(line: FindingLine) -> Verdict:
    is_unknown = line.verdict == "cannot_tell"
    return Verdict(
        line.finding,
        line.verdict,
        line.severity,
        None if is_unknown else line.confidence,
        line.summary,
        line.action,
        line.capture if is_unknown else None,
        line.reason,
    )


def ordered_actions(findings: tuple[FindingLine, ...]) -> tuple[str, ...]:
    """Return what to do, gravest first, each once; only what a finding of this run supports."""
    found = sorted(
        (line for line in findings if line.verdict == "found" and line.action),
        key=lambda line: (_SEVERITY_RANK.get(line.severity, 9), line.finding_no),
    )
    actions: dict[str, list[str]] = {}
    for line in found:
        actions.setdefault(line.action or "", []).append(line.finding)
    return tuple(
        f"{action} (finding: {', '.join(dict.fromkeys(names))})" for action, names in actions.items()
    )


def answers(findings: tuple[FindingLine, ...], verdict: Verdict) -> tuple[Answer, ...]:
    """Return what else was found and what was not, the gravest first; the opening sentence is left out."""
    questions = {finding.name: finding.question for finding in FINDINGS}
    ranked = sorted(
        (line for line in findings if line.verdict != "cannot_tell" and line.summary != verdict.sentence),
        key=lambda line: (line.verdict != "found", _SEVERITY_RANK.get(line.severity, 9), line.finding_no),
    )
    return tuple(
        Answer(
            line.finding,
            questions.get(line.finding, ""),
            line.verdict,
            line.severity,
            line.confidence,
            line.summary,
        )
        for line in ranked
    )
