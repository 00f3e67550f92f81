"""An incident window against the time before it: what changed when, as sections of the window's report."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import duckdb

from kvcliff.nightly.comparison.compare import ComparePolicy, Comparison, compare_readings
from kvcliff.nightly.comparison.marts import StoredMarts
from kvcliff.nightly.comparison.reading import RunReading, read_run
from kvcliff.nightly.comparison.report import titled, worth_showing
from kvcliff.nightly.comparison.verdicts import Limits
from kvcliff.nightly.comparison.words import summarize
from kvcliff.nightly.window_changes import WindowChange, window_changes
from kvcliff.nightly.window_series import StoredPart
from kvcliff.report.document import Block, Column, Paragraph, Section, Steps, Table
from kvcliff.store.catalog import StoredRun
from kvcliff.units import NS_PER_S

#: Rows that a report shows.
_MAX_CHANGES = 40
_CHANGES = (
    Column("level", "Level", "name"),
    Column("replica_id", "Replica", "name"),
    Column("at_ns", "When", "instant"),
    Column("error_ns", "Error", "error_ns"),
    Column("offset_ns", "Into the window", "offset_ns"),
    Column("what", "What changed", "word"),
    Column("unit", "Unit", "hidden"),
    Column("before", "Before", "by_unit"),
    Column("after", "After", "by_unit"),
)
_METRICS = (
    Column("metric", "Metric", "word"),
    Column("unit", "Unit", "hidden"),
    Column("before", "Before", "by_unit"),
    Column("window", "Window", "by_unit"),
    Column("change_ratio", "Change", "pct"),
    Column("verdict", "Verdict", "word"),
)
_KINDS = {"where": "Where", "why": "Why", "doubt": "Doubt"}
#: Origins whose throughput is that of whole requests: at the edges of a window these are cut.
_CUT_ORIGINS = ("requests", "totals")


@dataclass(frozen=True)
class WindowReport:
    """What a window differs in from the time before it.

    Attributes:
        comparison: verdicts per metric.
        changes: what changed, in order of time, in both parts.
        before: the time before, as it is stored.
        window: the window.
    """

    comparison: Comparison
    changes: tuple[WindowChange, ...]
    before: StoredRun
    window: StoredPart

    @property
    def sections(self) -> tuple[Section, ...]:
        """The sections of a report."""
        return (
            _change_section(self.changes, self.window),
            _comparison_section(self.comparison, self.before),
        )


def compare_with_before(
    con: duckdb.DuckDBPyConnection, before: StoredRun, window: StoredRun, policy: ComparePolicy
) -> WindowReport:
    """Return what a stored window differs in from the stored time before it.

    The load may be another one: that is an answer here, not an obstacle.

    Args:
        con: connection to the store.
        before: the time before, as a stored run.
        window: the window, as a stored run.
        policy: what counts as relevant.
    """
    marts = StoredMarts(con)
    thresholds = dict(Limits.of(policy).thresholds)
    parts = (_part(before), _part(window))
    base, run = (_with_measured_load(marts, part, read_run(marts, part.run_id)) for part in parts)
    base, run = _comparable(base, run, thresholds["compare_load_ratio"])
    comparison = _without_doubts(compare_readings((base,), run, replace(policy, is_forced=True)))
    return WindowReport(comparison, window_changes(marts, *parts, thresholds), before, parts[1])


def _without_doubts(comparison: Comparison) -> Comparison:
    """Return the comparison without doubts about repeats and unrecorded causes.

    Both parts are of one run, with the same settings by nature: what came first among the changes says more
    about the cause.
    """
    causes = tuple(cause for cause in comparison.causes if cause.kind != "doubt")
    summary = summarize(comparison.verdict, comparison.metrics, causes, comparison.metrics)
    return replace(comparison, causes=causes, summary=summary)


def _part(run: StoredRun) -> StoredPart:
    started = run.started_at_ns or 0
    return StoredPart(run.run_id, started, run.ended_at_ns if run.ended_at_ns is not None else started)


def _with_measured_load(marts: StoredMarts, part: StoredPart, reading: RunReading) -> RunReading:
    """Return a reading whose load is what arrived in its time, not what the requests that ended in it say.

    Requests that end soon after an edge are the short ones, and those over it count in both parts.
    """
    arrivals = Counter(
        level or ""
        for level, arrival_ns in marts.rows("requests", ("level", "arrival_ns"), part.run_id)
        if part.holds(arrival_ns)
    )
    seconds = max(part.end_ns - part.start_ns, 1) / NS_PER_S
    is_sweep = len(reading.loads) > 1
    loads = {
        level: replace(
            load,
            output_tokens=None,
            rate_per_s=None if is_sweep or not arrivals[level] else arrivals[level] / seconds,
            in_flight=_demand(reading, level) or None,
        )
        for level, load in reading.loads.items()
    }
    return replace(reading, loads=loads)


def _demand(reading: RunReading, level: str) -> float:
    """Return the mean number of requests that were there to be served."""
    return (reading.value(level, "running") or 0.0) + (reading.value(level, "waiting") or 0.0)


def _comparable(base: RunReading, run: RunReading, load_ratio: float) -> tuple[RunReading, RunReading]:
    """Return both readings with what can be compared of them.

    Whole requests are cut at the edges of a window, so that only time buckets count every token; and when
    other numbers of requests were there to be served, more or fewer tokens are no verdict on the engine.
    """
    levels = {level for level, key in run.estimates if key == "tokens_per_s"}
    kept = {level for level in levels if _is_same_demand(base, run, level, load_ratio)}
    return _of_window(base, kept), _of_window(run, kept)


def _is_same_demand(base: RunReading, run: RunReading, level: str, load_ratio: float) -> bool:
    sums = [_demand(reading, level) for reading in (base, run)]
    return abs(sums[0] - sums[1]) <= load_ratio * max(sums)


def _of_window(reading: RunReading, levels: set[str]) -> RunReading:
    estimates = {}
    for (level, key), found in reading.estimates.items():
        names = found
        if key == "tokens_per_s":
            names = {name: value for name, value in found.items() if name not in _CUT_ORIGINS}
            names = names if level in levels else {}
        if names:
            estimates[level, key] = names
    return replace(reading, estimates=estimates)


def _change_section(changes: Sequence[WindowChange], window: StoredPart) -> Section:
    title = "What changed, and when"
    if not changes:
        words = "Nothing changed by a relevant amount, neither before the window nor in it."
        return Section("window_changes", title, (Paragraph(words),))
    shown = tuple(sorted(changes, key=lambda change: not window.holds(change.at_ns)))[:_MAX_CHANGES]
    ordered = sorted(shown, key=changes.index)
    has_replicas = len({change.replica_id for change in changes if change.replica_id}) > 1
    rows = tuple(
        (
            change.level,
            change.replica_id if has_replicas else None,
            change.at_ns,
            change.error_ns,
            change.at_ns - window.start_ns,
            change.what,
            change.unit or None,
            change.before,
            change.after,
        )
        for change in ordered
    )
    table = Table("window_changes", _CHANGES, rows, len(changes) - len(shown), "changes")
    words = (
        "In order of time; times into the window below zero lie before it. Before and after are the medians "
        "of the levels on both sides of the change; slow drifts show as several steps."
    )
    return Section("window_changes", title, (Paragraph(words), table.without_empty_columns()))


def _comparison_section(comparison: Comparison, before: StoredRun) -> Section:
    stored = f"The time before is stored as the run {before.run_id} ({before.labels})."
    summary = f"{comparison.summary[:1].upper()}{comparison.summary[1:]}."
    blocks: list[Block] = [Paragraph(summary), Paragraph(stored)]
    if comparison.incomparable_reason is not None:
        blocks.append(Paragraph(f"The load differs as well: {comparison.incomparable_reason}."))
    if comparison.causes:
        blocks.append(Steps(tuple(f"{_KINDS[cause.kind]}: {cause.text}." for cause in comparison.causes)))
    metrics = worth_showing(comparison.metrics)
    if metrics:
        rows = tuple(
            (
                titled(metric),
                "" if metric.unit == "count" else metric.unit,
                metric.base_value,
                metric.run_value,
                metric.change_ratio,
                metric.verdict if metric.better != "neither" else None,
            )
            for metric in metrics
        )
        blocks.append(Table("window_comparison", _METRICS, rows))
    return Section("window_comparison", "The window against the time before it", tuple(blocks))
