"""The sentence of a comparison."""

from collections.abc import Sequence

from kvcliff.nightly.comparison.causes import signed_pct
from kvcliff.nightly.comparison.model import Cause, MetricVerdict, Verdict
from kvcliff.units import format_pct

_MAX_METRICS = 3
_MAX_CAUSES = {"where": 3, "why": 3, "doubt": 1}
_HEADS: dict[Verdict, str] = {
    "worse": "worse", "better": "better", "same": "no regression", "inconclusive": "inconclusive",
}  # fmt: skip


def summarize(
    verdict: Verdict, metrics: Sequence[MetricVerdict], causes: Sequence[Cause], raw: Sequence[MetricVerdict]
) -> str:
    """Return the verdict, its size and its cause in one sentence.

    Args:
        verdict: over all.
        metrics: final verdicts.
        causes: explanation.
        raw: verdicts before doubts about the time between the runs.
    """
    gating = [metric for metric in metrics if metric.is_gating]
    worse = [metric for metric in gating if metric.verdict == "worse"]
    better = [metric for metric in gating if metric.verdict == "better"]
    parts = []
    if verdict == "worse":
        parts = [_listed(worse)] + ([f"better: {_listed(better)}"] if better else [])
    elif verdict == "better":
        parts = [_listed(better)]
    elif verdict == "same":
        parts = [_same_words(gating)]
    else:
        parts = [_inconclusive_words(gating, raw)]
    for kind, limit in _MAX_CAUSES.items():
        texts = [cause.text for cause in causes if cause.kind == kind]
        parts += texts[:limit] + (
            [f"and {len(texts) - limit} more differences"] if len(texts) > limit else []
        )
    return f"{_HEADS[verdict]}: {'; '.join(part for part in parts if part)}"


def _listed(metrics: Sequence[MetricVerdict]) -> str:
    texts = [_phrase(metric) for metric in metrics]
    more = len(texts) - _MAX_METRICS
    return ", ".join(texts[:_MAX_METRICS]) + (f" and {more} more" if more > 0 else "")


def _phrase(metric: MetricVerdict) -> str:
    level = f" at {metric.level}" if metric.level else ""
    name = metric.title
    if metric.unit == "count":
        return f"{name} {_count(metric.base_value)} → {_count(metric.run_value)}{level}"
    if metric.change_ratio is None:
        return f"{name}{level}"
    return f"{name} {signed_pct(metric.change_ratio)}{level}"


def _count(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}"


def _same_words(gating: Sequence[MetricVerdict]) -> str:
    known = [metric for metric in gating if metric.verdict == "same" and metric.visible_ratio is not None]
    if not known:
        return "nothing that was measured on both sides changed"
    # The first ones of the registry say most about a user's experience.
    best = known[0]
    seen = f"a change of {format_pct(best.visible_ratio, 0)} would have been seen"
    return f"{_phrase(best)} ({seen})"


def _inconclusive_words(gating: Sequence[MetricVerdict], raw: Sequence[MetricVerdict]) -> str:
    changed = [metric for metric in raw if metric.is_gating and metric.verdict in ("better", "worse")]
    if changed:
        return _listed(changed)
    doubtful = [
        metric for metric in gating if metric.verdict == "inconclusive" and metric.change_ratio is not None
    ]
    doubtful = [metric for metric in doubtful if metric.leaning is not None] or doubtful
    if doubtful:
        first = max(doubtful, key=lambda metric: abs(metric.change_ratio or 0))
        return f"{_phrase(first)} ({first.reason})"
    return "no metric of latency or throughput is known on both sides"
