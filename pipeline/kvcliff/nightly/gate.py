"""The gate: what a comparison and the run's own numbers mean under the policy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kvcliff.nightly.comparison.compare import Comparison, MetricVerdict
from kvcliff.nightly.policy import NightlyPolicy, Severity
from kvcliff.units import format_count, format_number, format_pct

GateVerdict = Literal["failed", "inconclusive", "warned", "passed", "learning", "set_aside"]
Outcome = Literal["better", "same", "worse", "inconclusive", "limit", "swap_points", "incomparable"]
#: Verdicts whose runs may be part of a baseline.
GOOD: tuple[GateVerdict, ...] = ("passed", "warned", "learning")
#: The check on how many swap points a run may have; ``swap_points`` is the metric of the comparison.
SWAP_POINTS_FOUND = "swap_points_found"
#: The check on the comparison as a whole.
WHOLE = "comparable"
_BAD_OUTCOMES = ("worse", "inconclusive", "limit", "swap_points", "incomparable")


@dataclass(frozen=True)
class Check:
    """One thing that the gate looked at.

    Attributes:
        metric: key of the metric, ``swap_points_found`` or ``comparable``.
        title: its name in words.
        unit: unit of the values.
        level: level of a sweep, or ``None``.
        outcome: what came of it.
        severity: what that does; ``ignore`` for good outcomes.
        base_value: of the baseline.
        run_value: of the run.
        change_ratio: run / base - 1.
        minimum_change_ratio: smallest change that counts.
        message: the outcome in words.
        is_gating: whether the comparison counts the metric in its own verdict.
    """

    metric: str
    title: str
    unit: str
    level: str | None
    outcome: Outcome
    severity: Severity
    base_value: float | None
    run_value: float | None
    change_ratio: float | None
    minimum_change_ratio: float | None
    message: str
    is_gating: bool = False


@dataclass(frozen=True)
class Judgement:
    """What the gate says of a run.

    Attributes:
        run_id: the run.
        series: runs that belong together, by their labels.
        verdict: ``failed``, ``inconclusive``, ``warned``, ``passed``, ``learning`` (no baseline yet) or
            ``set_aside`` (by the policy).
        summary: one sentence.
        cause: why it changed, as far as the comparison says; empty when it says nothing.
        base_run_ids: what it was compared with.
        checks: everything that was looked at, the gravest first.
    """

    run_id: str
    series: str
    verdict: GateVerdict
    summary: str
    cause: str
    base_run_ids: tuple[str, ...]
    checks: tuple[Check, ...]

    @property
    def told(self) -> tuple[Check, ...]:
        """The checks that led to the verdict, or that a reader must know."""
        return tuple(check for check in self.checks if check.severity != "ignore")


@dataclass(frozen=True)
class Subject:
    """The run that is judged, and what is known of it beside the comparison.

    Attributes:
        run_id: the run.
        series: its series.
        folder: its folder, for messages.
        base_run_ids: its baseline; empty while the series is learning.
        swap_point_count: its swap points of the classes that count.
        is_set_aside: whether the policy keeps it from tripping the gate.
        base_versions: versions of kvcliff that read the baseline, where they are not the run's own.
    """

    run_id: str
    series: str
    folder: str
    base_run_ids: tuple[str, ...]
    swap_point_count: int
    is_set_aside: bool = False
    base_versions: tuple[str, ...] = ()


def judge(
    subject: Subject, comparison: Comparison | None, policy: NightlyPolicy, *, problem: str = ""
) -> Judgement:
    """Return what the gate says of a run.

    Args:
        subject: the run.
        comparison: with its baseline; with itself while the series is learning, for its own numbers.
        policy: limits and severities.
        problem: why there is no comparison.
    """
    has_base = bool(subject.base_run_ids)
    checks = [_swap_points(subject, policy)]
    if problem:
        checks.append(_whole_run("inconclusive", policy.gate.inconclusive, f"it was not compared: {problem}"))
    if comparison is not None:
        values = [_value(metric) for metric in comparison.metrics]
        checks += _compared(comparison, subject, policy) if has_base else values
        checks += _limits(comparison, subject.series, policy)
    checks.sort(key=_rank)
    compared = comparison if has_base else None
    if subject.is_set_aside:
        checks = [replace(check, severity="ignore") for check in checks]
    verdict: GateVerdict = "set_aside" if subject.is_set_aside else _verdict(checks, has_base=has_base)
    return Judgement(
        run_id=subject.run_id,
        series=subject.series,
        verdict=verdict,
        summary=_summary(verdict, checks, compared, subject.folder),
        cause=_cause(compared) if compared is not None else "",
        base_run_ids=subject.base_run_ids,
        checks=tuple(checks),
    )


def _verdict(checks: Sequence[Check], *, has_base: bool) -> GateVerdict:
    severities = {check.severity for check in checks}
    if "fail" in severities:
        return "failed"
    if "inconclusive" in severities:
        return "inconclusive"
    if not has_base:
        return "learning"
    return "warned" if "warn" in severities else "passed"


def _rank(check: Check) -> tuple[int, bool]:
    order = {"fail": 0, "inconclusive": 1, "warn": 2, "ignore": 3}
    return order[check.severity], check.outcome not in _BAD_OUTCOMES


def _value(metric: MetricVerdict) -> Check:
    """Return the value of a metric that is compared with nothing."""
    return Check(
        metric.metric,
        metric.title,
        metric.unit,
        metric.level,
        "same",
        "ignore",
        None,
        metric.run_value,
        None,
        None,
        f"{metric.title} {value_text(metric.run_value, metric.unit)}",
        metric.is_gating,
    )


def _swap_points(subject: Subject, policy: NightlyPolicy) -> Check:
    """Return the check on the number of swap points.

    Without a limit the comparison decides; while the series is learning a reader is told at least.
    """
    count, allowed = subject.swap_point_count, policy.allowed_swap_points(subject.series)
    is_over = count > (allowed or 0) and (allowed is not None or not subject.base_run_ids)
    classes = " or ".join(policy.gate.swap_point_classes)
    counted = f"{format_count(count)} {classes} swap point{'s' if count != 1 else ''}"
    limit = (
        f"{format_count(allowed)} allowed" if allowed is not None else "no limit is set (allowed_swap_points)"
    )
    return Check(
        metric=SWAP_POINTS_FOUND,
        title="swap points found",
        unit="count",
        level=None,
        outcome="swap_points" if is_over else "same",
        severity=("warn" if allowed is None else policy.gate.swap_points) if is_over else "ignore",
        base_value=None if allowed is None else float(allowed),
        run_value=float(count),
        change_ratio=None,
        minimum_change_ratio=None,
        message=f"{counted}, {limit}",
    )


def _compared(comparison: Comparison, subject: Subject, policy: NightlyPolicy) -> list[Check]:
    if comparison.incomparable_reason is not None:
        return [_whole_run("incomparable", policy.gate.inconclusive, comparison.incomparable_reason)]
    checks = [_metric(metric, comparison, subject, policy) for metric in comparison.metrics]
    if comparison.verdict == "inconclusive":
        checks.append(_whole_run("inconclusive", policy.gate.inconclusive, comparison.summary))
    elif comparison.verdict != "same" and subject.base_versions:
        checks.append(
            _whole_run("inconclusive", policy.gate.inconclusive, _version_words(subject, comparison))
        )
    return checks


def _version_words(subject: Subject, comparison: Comparison) -> str:
    """Return why a change since an upgrade of kvcliff proves nothing, and the way out."""
    versions = ", ".join(subject.base_versions)
    return (
        f"{comparison.summary}; but kvcliff {versions} read the baseline and another version this run, so "
        "the change can be the tool's (the next good runs settle it; or: kvcliff runs accept)"
    )


def _whole_run(outcome: Outcome, severity: Severity, message: str) -> Check:
    """Return a check about the comparison as a whole."""
    return Check(WHOLE, "comparison", "", None, outcome, severity, None, None, None, None, message)


def _metric(metric: MetricVerdict, comparison: Comparison, subject: Subject, policy: NightlyPolicy) -> Check:
    return Check(
        metric=metric.metric,
        title=metric.title,
        unit=metric.unit,
        level=metric.level,
        outcome=metric.verdict,
        severity=_metric_severity(metric, comparison, subject, policy),
        base_value=metric.base_value,
        run_value=metric.run_value,
        change_ratio=metric.change_ratio,
        minimum_change_ratio=metric.minimum_change_ratio,
        message=_metric_message(metric),
        is_gating=metric.is_gating,
    )


def _metric_severity(
    metric: MetricVerdict, comparison: Comparison, subject: Subject, policy: NightlyPolicy
) -> Severity:
    """Return what a metric's verdict does.

    A metric that nobody gates by default does so once the policy names a severity for it. One noisy metric
    does not make a run inconclusive, unless the policy wants that metric to be conclusive; whether the whole
    is, the comparison says. Where it concludes nothing (the host drifted, say), or another version of kvcliff
    read the baseline, a worse metric is no failure.
    """
    rule = policy.rule_for(metric.metric, subject.series)
    if metric.verdict in ("better", "same") or metric.metric in policy.quarantine.metrics:
        return "ignore"
    if metric.verdict == "inconclusive":
        return policy.gate.inconclusive if rule.severity in ("fail", "inconclusive") else "ignore"
    if not metric.is_gating and rule.severity is None:
        return "ignore"
    severity = rule.severity if rule.severity is not None else policy.gate.worse
    is_doubtful = metric.is_gating and comparison.verdict == "inconclusive"
    if severity == "fail" and (is_doubtful or subject.base_versions):
        return policy.gate.inconclusive
    return severity


def _metric_message(metric: MetricVerdict) -> str:
    change = "" if metric.change_ratio is None else f" ({change_text(metric.change_ratio)})"
    values = (
        f"{value_text(metric.base_value, metric.unit)} -> {value_text(metric.run_value, metric.unit)}{change}"
    )
    where = f" at level {metric.level}" if metric.level is not None else ""
    reason = f": {metric.reason}" if metric.reason else ""
    return f"{metric.title}{where} {metric.verdict}, {values}{reason}"


def _limits(comparison: Comparison, series: str, policy: NightlyPolicy) -> list[Check]:
    """Return a check for each metric outside the limits that the policy sets."""
    checks = []
    for metric in comparison.metrics:
        rule = policy.rule_for(metric.metric, series)
        value = metric.run_value
        is_quarantined = metric.metric in policy.quarantine.metrics
        for limit, is_maximum in ((rule.maximum, True), (rule.minimum, False)):
            if value is None or limit is None or is_quarantined:
                continue
            if value > limit if is_maximum else value < limit:
                checks.append(
                    _over_limit(metric, value, limit, rule.severity or "fail", is_maximum=is_maximum)
                )
    return checks


def _over_limit(
    metric: MetricVerdict, value: float, limit: float, severity: Severity, *, is_maximum: bool
) -> Check:
    where = f" at level {metric.level}" if metric.level is not None else ""
    side = "above" if is_maximum else "below"
    message = (
        f"{metric.title}{where} is {value_text(value, metric.unit)}, "
        f"{side} the limit of {value_text(limit, metric.unit)}"
    )
    return Check(
        metric.metric,
        metric.title,
        metric.unit,
        metric.level,
        "limit",
        severity,
        limit,
        value,
        None,
        None,
        message,
    )


def _summary(
    verdict: GateVerdict, checks: Sequence[Check], comparison: Comparison | None, folder: str
) -> str:
    """Return the verdict in one sentence: the comparison's own one when it led to it."""
    told = [check for check in checks if check.severity != "ignore"]
    if verdict == "set_aside":
        return f"the policy sets {folder} aside"
    if not told:
        if verdict == "learning":
            return "nothing to compare with yet: the run becomes part of the baseline"
        return comparison.summary if comparison is not None else "nothing is wrong with it"
    if comparison is not None and told[0].outcome == "worse" and told[0].is_gating:
        return next((check.message for check in told if check.metric == WHOLE), comparison.summary)
    more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    return f"{told[0].message}{more}"


def _cause(comparison: Comparison) -> str:
    """Return the comparison's explanation: what differs first, else where the change sits."""
    ranked = sorted(comparison.causes, key=lambda cause: {"why": 0, "doubt": 1, "where": 2}[cause.kind])
    return ranked[0].text if ranked else ""


def change_text(ratio: float) -> str:
    """Return a relative change with its sign, such as ``+13.0 %``."""
    return ("+" if ratio >= 0 else "-") + format_pct(abs(ratio))


def value_text(value: float | None, unit: str) -> str:
    """Return a value with its unit."""
    if value is None:
        return "n/a"
    if unit == "ratio":
        return format_pct(value)
    if unit in ("count", ""):
        return format_number(value)
    return f"{format_number(value)} {unit}"
