"""From the values of both sides to the verdict on one metric."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kvcliff.nightly.comparison.metrics import MetricSpec, title_of
from kvcliff.nightly.comparison.model import ComparePolicy, Leaning, MetricVerdict, Verdict
from kvcliff.nightly.comparison.statistics import (
    Change,
    Estimate,
    Spread,
    baseline_spread,
    change_between,
    count_deviation,
    median,
    share_deviation,
)
from kvcliff.resources import sql_root
from kvcliff.units import format_count, format_pct


@dataclass(frozen=True)
class Limits:
    """Thresholds and the policy's smallest relevant changes."""

    thresholds: Mapping[str, float]
    minimum_change_ratio: Mapping[str, float]

    @classmethod
    def of(cls, policy: ComparePolicy) -> "Limits":
        """Return the built-in thresholds with those of a policy in their place.

        Raises:
            KeyError: the policy names no threshold.
        """
        with (sql_root() / "seeds" / "thresholds.csv").open(encoding="utf-8", newline="") as file:
            built_in = {row["name"]: float(row["value"]) for row in csv.DictReader(file)}
        for name in policy.thresholds:
            if name not in built_in:
                raise KeyError(name)
        return cls({**built_in, **policy.thresholds}, policy.minimum_change_ratio)

    def value(self, name: str) -> float:
        """Return a threshold."""
        return self.thresholds[name]

    def minimum(self, spec: MetricSpec, key: str) -> float:
        """Return the smallest relevant change of a metric."""
        own = self.minimum_change_ratio.get(key, self.minimum_change_ratio.get(spec.key))
        return self.thresholds[spec.minimum] if own is None else own


@dataclass(frozen=True)
class Sides:
    """The values of one metric on both sides."""

    spec: MetricSpec
    key: str
    level: str
    base: tuple[Estimate, ...]
    run: Estimate | None


@dataclass(frozen=True)
class _Answer:
    verdict: Verdict
    reason: str
    noise: str = ""
    change: Change | None = None
    leaning: Leaning = None


def judge(sides: Sides, limits: Limits) -> MetricVerdict:
    """Return the verdict on one metric."""
    base_value = median([_shown(sides.spec, estimate) for estimate in sides.base]) if sides.base else None
    run_value = _shown(sides.spec, sides.run) if sides.run is not None else None
    answer = _answer(sides, limits)
    spec, change = sides.spec, answer.change
    ratio = run_value / base_value - 1 if base_value and run_value is not None else None
    if change is not None:
        ratio = change.ratio
    return MetricVerdict(
        metric=sides.key,
        title=title_of(spec, sides.key),
        unit=_unit(spec, sides.key),
        group=spec.group,
        level=sides.level or None,
        verdict=answer.verdict,
        base_value=base_value,
        run_value=run_value,
        change_ratio=ratio,
        interval_low=math.expm1(change.size - change.visible) if change is not None else None,
        interval_high=math.expm1(change.size + change.visible) if change is not None else None,
        minimum_change_ratio=limits.minimum(spec, sides.key),
        is_gating=spec.is_gating,
        noise=answer.noise,
        reason=answer.reason,
        better=spec.better,
        visible_ratio=math.expm1(change.visible) if change is not None else None,
        leaning=answer.leaning,
    )


def _shown(spec: MetricSpec, estimate: Estimate) -> float:
    """Return the value as a report shows it: a share of its total, all else as it is."""
    if spec.kind != "share":
        return estimate.value
    return estimate.value / estimate.exposure if estimate.exposure else 0.0


def _unit(spec: MetricSpec, key: str) -> str:
    if spec.unit:
        return spec.unit
    words = {"_mhz": "MHz", "_w": "W", "_c": "°C", "_pct": "%"}
    return next((unit for end, unit in words.items() if key.endswith(end)), "ratio")


def _answer(sides: Sides, limits: Limits) -> _Answer:
    if not sides.base:
        return _Answer("inconclusive", "only the run has it")
    if sides.run is None:
        return _Answer("inconclusive", "only the baseline has it")
    if sides.spec.better == "neither":
        return _Answer("same", "shown, not judged: neither direction is better by itself")
    match sides.spec.kind:
        case "count":
            return _count_answer(sides, sides.run, limits)
        case "share":
            return _share_answer(sides, sides.run, limits)
        case "state":
            return _state_answer(sides, sides.run)
        case _:
            return _measure_answer(sides, sides.run, limits)


def _sided(sides: Sides, size: float) -> Literal["better", "worse"]:
    return "worse" if (size > 0) == (sides.spec.better == "lower") else "better"


def _measure_answer(sides: Sides, run: Estimate, limits: Limits) -> _Answer:
    if run.value <= 0 or any(estimate.value <= 0 for estimate in sides.base):
        if run.value == 0 and all(estimate.value == 0 for estimate in sides.base):
            return _Answer("same", "zero on both sides")
        return _Answer("inconclusive", "zero on one side, so the change has no ratio")
    logs = [math.log(estimate.value) for estimate in sides.base]
    built_in = _built_in_noise(sides, run, limits)
    spread = baseline_spread(logs, built_in, limits.value("compare_noise_runs"))
    change = change_between(sides.base, run, spread, alarm_sds=limits.value(sides.spec.alarm))
    noise = _noise_words(spread, built_in)
    minimum = math.log1p(limits.minimum(sides.spec, sides.key))
    seen = f"a change of {format_pct(math.expm1(change.visible), 0)} would have been seen"
    is_relevant = abs(change.size) >= minimum
    if is_relevant and abs(change.size) > change.visible:
        return _Answer(_sided(sides, change.size), f"beyond noise: {seen}", noise, change)
    if is_relevant and abs(change.size) > limits.value("compare_doubt_sds") * change.sd:
        side = _sided(sides, change.size)
        words = f"perhaps {side}, but not beyond doubt: only {seen}"
        return _Answer("inconclusive", words, noise, change, side)
    if change.visible > math.log1p(limits.value("compare_blind_factor") * math.expm1(minimum)):
        return _Answer("inconclusive", f"too noisy: only {seen}", noise, change)
    if is_relevant:
        return _Answer("same", f"within noise: only {seen}", noise, change)
    words = "below the smallest relevant change"
    return _Answer("same", f"{words} ({format_pct(math.expm1(minimum), 0)}); {seen}", noise, change)


def _built_in_noise(sides: Sides, run: Estimate, limits: Limits) -> float:
    """Return the standard deviation between repeats of a metric.

    Throughput is counted in whole requests: where their number is known, the noise falls with its root, down
    to that of the median latency, which many requests do not make smaller.
    """
    fewest = min(estimate.exposure for estimate in (*sides.base, run))
    if sides.spec.request_noise is None or fewest <= 1:
        return limits.value(sides.spec.noise)
    per_request = limits.value(sides.spec.request_noise) / math.sqrt(fewest)
    return max(limits.value("compare_noise_latency_ratio"), per_request)


def _noise_words(spread: Spread, floor_sd: float) -> str:
    built_in = f"built-in {format_pct(floor_sd)} between repeats"
    if spread.measured_sd is None:
        return f"{built_in}; the baseline is one run"
    own = f"{format_pct(spread.measured_sd)} between the {spread.run_count} runs of the baseline"
    return f"{own}, weighed with the {built_in}: {format_pct(spread.sd)}"


def _count_answer(sides: Sides, run: Estimate, limits: Limits) -> _Answer:
    base = median([estimate.value for estimate in sides.base])
    counts = f"{format_count(base)} → {format_count(run.value)}"
    sd = limits.value(sides.spec.noise)
    deviation, expected = count_deviation(*_same_exposure(sides.base, run), sd)
    noise = f"counting, and {format_pct(sd, 0)} between repeats"
    if abs(run.value - expected) < limits.value("isolated_actions"):
        return _Answer("same", f"{counts}: fewer than {limits.value('isolated_actions'):.0f} apart", noise)
    is_relevant = abs(run.value - expected) >= limits.minimum(sides.spec, sides.key) * expected
    if is_relevant and abs(deviation) > limits.value("compare_alarm_sds"):
        return _Answer(_sided(sides, deviation), f"{counts}: beyond counting noise", noise)
    if is_relevant and abs(deviation) > limits.value("compare_doubt_sds"):
        side = _sided(sides, deviation)
        return _Answer("inconclusive", f"{counts}: perhaps {side}, not beyond doubt", noise, None, side)
    return _Answer("same", f"{counts}: within counting noise", noise)


def _same_exposure(base: Sequence[Estimate], run: Estimate) -> tuple[list[Estimate], Estimate]:
    """Return counts over generated tokens; over the run as a whole when one side does not know its tokens."""
    if all(estimate.exposure > 1 for estimate in (*base, run)):
        return list(base), run
    return [Estimate(estimate.value) for estimate in base], Estimate(run.value)


def _share_answer(sides: Sides, run: Estimate, limits: Limits) -> _Answer:
    failed = sum(estimate.value for estimate in sides.base)
    total = sum(estimate.exposure for estimate in sides.base)
    words = (
        f"{format_count(failed)} of {format_count(total)} → "
        f"{format_count(run.value)} of {format_count(run.exposure)}"
    )
    if not total or not run.exposure:
        return _Answer("inconclusive", f"{words}: no requests on one side")
    difference = run.value / run.exposure - failed / total
    deviation = share_deviation(failed, total, run.value, run.exposure)
    if abs(difference) < limits.value("compare_min_error_ratio"):
        return _Answer("same", words, "counting")
    if abs(deviation) > limits.value("compare_alarm_sds"):
        return _Answer(_sided(sides, difference), f"{words}: beyond counting noise", "counting")
    if abs(deviation) > limits.value("compare_doubt_sds"):
        side = _sided(sides, difference)
        return _Answer("inconclusive", f"{words}: perhaps {side}, not beyond doubt", "counting", None, side)
    return _Answer("same", f"{words}: within counting noise", "counting")


def _state_answer(sides: Sides, run: Estimate) -> _Answer:
    had = sum(estimate.value > 0 for estimate in sides.base)
    if had not in (0, len(sides.base)):
        words = f"{had} of the {len(sides.base)} baseline runs have some themselves"
        return _Answer("inconclusive" if run.value else "same", words)
    if run.value > 0 and not had:
        return _Answer("worse", "there are some now, the baseline had none")
    if had and not run.value:
        return _Answer("better", "there are none any more")
    return _Answer("same", "there are some on both sides" if had else "there are none on either side")
