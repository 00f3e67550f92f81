"""What a comparison says: a verdict per metric, causes, settings that differ, and one sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kvcliff.nightly.comparison.statistics import Direction

Verdict = Literal["better", "worse", "same", "inconclusive"]
#: Side that an inconclusive metric may have moved to.
Leaning = Literal["better", "worse"] | None
#: What a cause says: where the change sits, what differs between the runs, or why nothing can be concluded.
CauseKind = Literal["where", "why", "doubt"]


@dataclass(frozen=True)
class ComparePolicy:
    """What counts as a relevant change, where it is not the built-in one.

    Attributes:
        thresholds: overrides of ``sql/seeds/thresholds.csv`` by name (``compare_*``).
        minimum_change_ratio: smallest relevant change by metric key (``itl_p50``), 0.05 = 5 %.
        is_forced: compare runs that are incomparable (other GPU, model, load) all the same.
    """

    thresholds: Mapping[str, float] = field(default_factory=dict)
    minimum_change_ratio: Mapping[str, float] = field(default_factory=dict)
    is_forced: bool = False


@dataclass(frozen=True)
class MetricVerdict:
    """One metric of both sides, and whether it changed.

    Attributes:
        metric: stable key, such as ``itl_p50``, ``tokens_per_s``, ``preemptions``.
        title: how it is called in a report.
        unit: unit of both values (``ms``, ``tokens/s``, ``ratio``, ``count``, ``bytes``).
        group: ``latency``, ``throughput``, ``kv``, ``gpu``, ``cache``, ``ledger``.
        level: level of a sweep; ``None`` when the runs have one.
        verdict: ``better``, ``worse``, ``same`` or ``inconclusive``.
        base_value: of the baseline (median of its runs).
        run_value: of the compared run.
        change_ratio: run / base - 1; ``None`` when the base is zero or a side is unknown.
        interval_low: of the change, as a ratio; ``None`` when unknown.
        interval_high: of the change.
        minimum_change_ratio: smallest change that counts.
        is_gating: whether it takes part in the verdict over all metrics.
        noise: where the width of the interval comes from, in words.
        reason: why this verdict, in words.
        better: which direction is better; ``neither`` for facts that are shown and not judged.
        visible_ratio: smallest change that this comparison would have seen; ``None`` when unknown.
        leaning: side that an inconclusive metric moved to by more than is relevant; ``None`` without one.
    """

    metric: str
    title: str
    unit: str
    group: str
    level: str | None
    verdict: Verdict
    base_value: float | None
    run_value: float | None
    change_ratio: float | None
    interval_low: float | None
    interval_high: float | None
    minimum_change_ratio: float
    is_gating: bool
    noise: str
    reason: str
    better: Direction = "lower"
    visible_ratio: float | None = None
    leaning: Leaning = None


@dataclass(frozen=True)
class Cause:
    """One part of the explanation of a change.

    Attributes:
        kind: ``where`` the change sits, ``why`` (what differs between the runs), or ``doubt``.
        subject: closed word. Where: ``every_step``, ``slow_steps``, ``tail``, ``phase``, ``kernel_family``,
            ``gpu_idle``, ``waiting``, ``prefill``, ``kv_ceiling``, ``not_kv``. Why: ``prefix_cache``,
            ``setting``, ``engine_version``, ``gpu_clock``, ``load``. Doubt: ``repeats_missing``,
            ``unexplained``.
        name: the phase, family, setting ... meant; empty when the subject says it all.
        text: one sentence.
    """

    kind: CauseKind
    subject: str
    name: str
    text: str


@dataclass(frozen=True)
class SettingDifference:
    """One setting that is not the same on both sides; ``None`` where it is not stated."""

    scope: str
    name: str
    base_value: str | None
    run_value: str | None
    is_relevant: bool


@dataclass(frozen=True)
class Comparison:
    """The answer of a comparison.

    Attributes:
        base_run_ids: the baseline.
        run_id: the run that was compared with it.
        verdict: over all gating metrics; ``inconclusive`` when incomparable.
        metrics: all metrics that at least one side has, gating ones first, in a fixed order.
        causes: the explanation, most important first.
        differences: settings that differ, relevant ones first.
        incomparable_reason: why the runs cannot be compared, or ``None``; with ``is_forced`` the reason stays
            and the metrics are there all the same.
        summary: one sentence with the verdict, its size and its cause.
    """

    base_run_ids: tuple[str, ...]
    run_id: str
    verdict: Verdict
    metrics: tuple[MetricVerdict, ...]
    causes: tuple[Cause, ...]
    differences: tuple[SettingDifference, ...]
    incomparable_reason: str | None
    summary: str

    @property
    def worse(self) -> tuple[MetricVerdict, ...]:
        """The gating metrics that are worse."""
        return tuple(metric for metric in self.metrics if metric.is_gating and metric.verdict == "worse")
