"""Comparing a run with a baseline of other runs: a verdict per metric, why it changed, and one sentence."""

from collections.abc import Sequence
from dataclasses import replace

import duckdb

from kvcliff.errors import UsageProblem
from kvcliff.nightly.comparison.causes import Case, doubts, explain, largest_level
from kvcliff.nightly.comparison.marts import StoredMarts
from kvcliff.nightly.comparison.matching import incomparable_reason, nearness, setting_differences
from kvcliff.nightly.comparison.metrics import METRICS, find_spec
from kvcliff.nightly.comparison.model import (
    Cause,
    CauseKind,
    ComparePolicy,
    Comparison,
    MetricVerdict,
    SettingDifference,
    Verdict,
)
from kvcliff.nightly.comparison.reading import RunReading, read_run
from kvcliff.nightly.comparison.statistics import Estimate
from kvcliff.nightly.comparison.verdicts import Limits, Sides, judge
from kvcliff.nightly.comparison.words import summarize

__all__ = [
    "Cause",
    "CauseKind",
    "ComparePolicy",
    "Comparison",
    "MetricVerdict",
    "SettingDifference",
    "Verdict",
    "compare_readings",
    "compare_runs",
]


def compare_runs(
    con: duckdb.DuckDBPyConnection,
    base_run_ids: Sequence[str],
    run_id: str,
    *,
    policy: ComparePolicy | None = None,
) -> Comparison:
    """Return how a stored run differs from a baseline of stored runs.

    Reads the stored marts only, creates nothing in the database, and gives the same answer for the same rows
    every time.

    Args:
        con: connection to the store, read-only or not.
        base_run_ids: one or more stored runs, in any order.
        run_id: stored run to judge.
        policy: what counts as relevant; the built-in values without it.

    Raises:
        UsageProblem: a run is not in the store, or no baseline is given.
        KeyError: the policy names no threshold.
    """
    if not base_run_ids:
        raise UsageProblem("there is no baseline to compare with", hint="kvcliff compare BASE... RUN")
    marts = StoredMarts(con)
    # The same run twice would make a baseline look twice as sure.
    base = tuple(read_run(marts, base_id) for base_id in sorted(set(base_run_ids)))
    return compare_readings(base, read_run(marts, run_id), policy or ComparePolicy())


def compare_readings(base: tuple[RunReading, ...], run: RunReading, policy: ComparePolicy) -> Comparison:
    """Return how a run differs from a baseline, from what was read of them."""
    limits = Limits.of(policy)
    base_ids = tuple(reading.run_id for reading in base)
    differences = setting_differences(base, run)
    reason = incomparable_reason(base, run, limits.value("compare_load_ratio"))
    if reason is not None and not policy.is_forced:
        summary = f"not comparable: {reason}"
        return Comparison(base_ids, run.run_id, "inconclusive", (), (), differences, reason, summary)
    raw = _judged(base, run, limits)
    level = largest_level(raw)
    case = Case(
        base,
        run,
        level,
        tuple(metric for metric in raw if (metric.level or "") == level),
        differences,
        limits,
    )
    causes = explain(case)
    if reason is not None and causes:
        causes = (*causes, Cause("why", "load", "", reason))
    is_explained = any(cause.kind == "why" for cause in causes)
    distance = nearness(base, run, limits.value("compare_near_s"))
    if causes:
        causes = (*causes, *doubts(case, distance, is_explained))
    is_doubted = not distance.is_near and not is_explained
    metrics = tuple(_doubted(metric) for metric in raw) if is_doubted else raw
    verdict = _overall(raw, metrics)
    summary = summarize(verdict, metrics, causes, raw)
    return Comparison(base_ids, run.run_id, verdict, metrics, causes, differences, reason, summary)


def _judged(base: tuple[RunReading, ...], run: RunReading, limits: Limits) -> tuple[MetricVerdict, ...]:
    """Return the verdicts on all metrics in the order of the registry, then by name and level."""
    order = {spec.key: number for number, spec in enumerate(METRICS)}
    keys = {key for reading in (*base, run) for key in reading.estimates}
    found = []
    for level, key in keys:
        spec = find_spec(key)
        if spec is not None:
            found.append((order[spec.key], key, level, spec))
    return tuple(
        judge(_sides(Sides(spec, key, level, (), None), base, run), limits)
        for _, key, level, spec in sorted(found, key=lambda item: item[:3])
    )


def _sides(empty: Sides, base: tuple[RunReading, ...], run: RunReading) -> Sides:
    """Return the values of both sides from the best origin that the run and the most baseline runs have."""
    place = (empty.level, empty.key)
    theirs = run.estimates.get(place, {})
    ours = [found for reading in base if (found := reading.estimates.get(place))]
    for origin in empty.spec.origins:
        values = tuple(found[origin] for found in ours if origin in found)
        if origin in theirs and values and len(values) == len(ours):
            return replace(empty, base=values, run=theirs[origin])
    for origin in empty.spec.origins:
        values = tuple(found[origin] for found in ours if origin in found)
        if values and not theirs:
            return replace(empty, base=values)
    return replace(empty, run=next(iter(theirs.values()), None)) if not ours else _mixed(empty, ours, theirs)


def _mixed(empty: Sides, ours: list[dict[str, Estimate]], theirs: dict[str, Estimate]) -> Sides:
    """Return the values of both sides when only some baseline runs share an origin with the run."""
    for origin in empty.spec.origins:
        values = tuple(found[origin] for found in ours if origin in found)
        if origin in theirs and values:
            return replace(empty, base=values, run=theirs[origin])
    return replace(empty, run=next(iter(theirs.values())))


def _doubted(metric: MetricVerdict) -> MetricVerdict:
    """Return a changed measure as inconclusive; what the engine did (preemptions, failures) stays a fact."""
    spec = find_spec(metric.metric)
    if spec is None or spec.kind != "measure" or metric.verdict not in ("better", "worse"):
        return metric
    reason = f"{metric.verdict}, {metric.reason}; but drift of the host cannot be told from a change"
    return replace(metric, verdict="inconclusive", reason=reason, leaning=metric.verdict)


def _overall(raw: tuple[MetricVerdict, ...], metrics: tuple[MetricVerdict, ...]) -> Verdict:
    """Return the verdict over the gating metrics.

    One metric that is worse makes the run worse; a change whose time is in doubt makes it inconclusive; and
    it is the same when at least one core metric says so and no more of them lean to one side.

    Args:
        raw: verdicts before doubts about the time between the runs.
        metrics: verdicts after them.
    """
    gating = [metric for metric in metrics if metric.is_gating]
    if any(metric.verdict == "worse" for metric in gating):
        return "worse"
    if any(
        before.is_gating and before.verdict != after.verdict
        for before, after in zip(raw, metrics, strict=True)
    ):
        return "inconclusive"
    if any(metric.verdict == "better" for metric in gating):
        return "better"
    core = [metric for metric in gating if (spec := find_spec(metric.metric)) is not None and spec.is_core]
    same = sum(metric.verdict == "same" for metric in core)
    leaning = sum(metric.leaning is not None for metric in core)
    return "same" if same and leaning <= same else "inconclusive"
