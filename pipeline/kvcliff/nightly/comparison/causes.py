"""Why runs differ: where the change sits, what differs between the runs, and what makes it doubtful."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kvcliff.nightly.comparison.matching import Nearness
from kvcliff.nightly.comparison.model import Cause, MetricVerdict, SettingDifference
from kvcliff.nightly.comparison.reading import RunReading
from kvcliff.nightly.comparison.statistics import median
from kvcliff.nightly.comparison.verdicts import Limits
from kvcliff.units import NS_PER_S, format_count, format_duration_ns, format_ms, format_number, format_pct

_STEP_METRICS = ("itl_p50", "tpot_p50", "step_decode_p50")
_QUANTILE_NAMES = ("p10", "p25", "median", "p75", "p90")
#: A shift of all quantiles by at least this share of the median's is one of every step.
_EVERY_STEP_SHARE = 0.5
#: Share of a phase's change that one kernel family must make up to be named for it.
_FAMILY_SHARE = 0.5
_SAME_BATCH_RATIO = 0.1
_HIT_DIFFERENCE = 0.1
_QUEUE_FACTOR = 1.5
#: Distances in time from here on are told in hours.
_MANY_HOURS = 2


@dataclass(frozen=True)
class Case:
    """What an explanation starts from.

    Attributes:
        base: baseline.
        run: the run.
        level: level whose change is explained.
        metrics: verdicts of that level, before doubts about the time between the runs.
        differences: settings that differ.
        limits: thresholds.
    """

    base: tuple[RunReading, ...]
    run: RunReading
    level: str
    metrics: tuple[MetricVerdict, ...]
    differences: tuple[SettingDifference, ...]
    limits: Limits

    def before(self, key: str) -> float | None:
        """Return the baseline's value of a metric, the median of the runs that have it."""
        values = [value for run in self.base if (value := run.value(self.level, key)) is not None]
        return median(values) if values else None

    def after(self, key: str) -> float | None:
        """Return the run's value of a metric."""
        return self.run.value(self.level, key)

    def changed(self, *keys: str) -> MetricVerdict | None:
        """Return the first of these metrics that is better or worse."""
        found = {metric.metric: metric for metric in self.metrics if metric.verdict in ("better", "worse")}
        return next((found[key] for key in keys if key in found), None)


def explain(case: Case) -> tuple[Cause, ...]:
    """Return the parts of an explanation: where, then why; nothing when no gating metric changed."""
    if not any(metric.is_gating and metric.verdict in ("better", "worse") for metric in case.metrics):
        return ()
    parts: tuple[Callable[[Case], Iterator[Cause]], ...] = (
        _steps, _tail, _gpu_time, _bubbles, _queue, _first_token, _kv, _prefix_cache, _settings, _clock,
    )  # fmt: skip
    found = [cause for part in parts for cause in part(case)]
    return tuple(sorted(found, key=lambda cause: cause.kind == "why"))


def doubts(case: Case, distance: Nearness, is_explained: bool) -> tuple[Cause, ...]:
    """Return why a change may not be the run's own.

    Args:
        case: the case.
        distance: how far the run is from its baseline in time.
        is_explained: whether something recorded differs that can cause it.
    """
    if distance.is_near and is_explained:
        return ()
    if distance.is_near:
        words = (
            "no recorded setting, version, load or clock differs: the cause lies outside of what was recorded"
        )
        return (Cause("doubt", "unexplained", "", words),)
    if distance.gap_ns is None:
        away = "when the runs took place is not recorded"
    else:
        away = f"the nearest baseline run is {_gap_words(distance.gap_ns)} away"
    if is_explained:
        words = f"{away}, so part of the change can be drift of the host"
    else:
        words = (
            f"nothing in the run explains it and {away}: repeats near in time are missing, "
            "so drift of the host cannot be told from a change"
        )
    return (Cause("doubt", "repeats_missing", "", words),)


def _gap_words(gap_ns: int) -> str:
    hours = gap_ns / (3600 * NS_PER_S)
    return format_duration_ns(gap_ns) if hours < _MANY_HOURS else f"{format_number(hours)} h"


def signed_pct(ratio: float) -> str:
    """Return a change as per cent with its sign."""
    return f"{ratio * 100:+.1f} %" if abs(ratio) < 1 else f"{ratio * 100:+,.0f} %"


def _steps(case: Case) -> Iterator[Cause]:
    changed = case.changed(*_STEP_METRICS)
    profile = case.run.profiles.get(case.level)
    profiles = [found for run in case.base if (found := run.profiles.get(case.level))]
    if changed is None or profile is None or not profiles:
        return
    before = [median(values) for values in zip(*profiles, strict=True)]
    shifts = [after / value - 1 for after, value in zip(profile, before, strict=True)]
    middle = shifts[2]
    word = "slower" if middle > 0 else "faster"
    if middle and min(shift / middle for shift in shifts) >= _EVERY_STEP_SHARE:
        sizes = ", ".join(f"{_QUANTILE_NAMES[place]} {signed_pct(shifts[place])}" for place in (0, 2, 4))
        yield Cause(
            "where", "every_step", "decode", f"every decode step is {word} ({sizes}){_batch_words(case)}"
        )
    elif abs(shifts[4]) > abs(shifts[0]):
        sizes = ", ".join(f"{_QUANTILE_NAMES[place]} {signed_pct(shifts[place])}" for place in (0, 4))
        yield Cause("where", "slow_steps", "decode", f"the slower decode steps changed most ({sizes})")


def _batch_words(case: Case) -> str:
    before, after = case.before("batch_decode"), case.after("batch_decode")
    if not before or not after:
        return ""
    if abs(after / before - 1) <= _SAME_BATCH_RATIO:
        return " at the same batch size"
    return f"; a step holds {format_number(before)} → {format_number(after)} requests"


def _tail(case: Case) -> Iterator[Cause]:
    tail = case.changed("itl_p99")
    if tail is not None and case.changed("itl_p50") is None:
        sides = f"{format_ms(tail.base_value)} → {format_ms(tail.run_value)}"
        yield Cause("where", "tail", "", f"few tokens changed, not the median: p99 {sides}")


def _gpu_time(case: Case) -> Iterator[Cause]:
    deltas = _deltas(case, "phase:")
    if not deltas:
        return
    delta_ms, key = max(deltas, key=lambda item: (abs(item[0]), item[1]))
    verdict = next((metric for metric in case.metrics if metric.metric == key), None)
    if verdict is None or verdict.verdict not in ("better", "worse"):
        return
    phase = key.partition(":")[2]
    text = f"{phase} steps: GPU time {format_ms(case.before(key))} → {format_ms(case.after(key))} each"
    yield Cause("where", "phase", phase, text)
    families = _deltas(case, f"family:{phase}/")
    if not families:
        return
    family_ms, family_key = max(families, key=lambda item: (item[0] * delta_ms, item[1]))
    if family_ms * delta_ms > 0 and abs(family_ms) >= _FAMILY_SHARE * abs(delta_ms):
        family = family_key.partition("/")[2]
        sides = f"{format_ms(case.before(family_key) or 0)} → {format_ms(case.after(family_key) or 0)}"
        yield Cause("where", "kernel_family", family, f"most of it in {family} kernels ({sides} a step)")


def _deltas(case: Case, prefix: str) -> list[tuple[float, str]]:
    keys = sorted({key for run in (*case.base, case.run) for key in run.names(case.level, prefix)})
    return [((case.after(key) or 0.0) - (case.before(key) or 0.0), key) for key in keys]


def _bubbles(case: Case) -> Iterator[Cause]:
    metric = case.changed("bubble_decode")
    if metric is not None:
        sides = f"{format_ms(metric.base_value)} → {format_ms(metric.run_value)}"
        yield Cause("where", "gpu_idle", "", f"the GPU idles before decode steps for {sides}")


def _queue(case: Case) -> Iterator[Cause]:
    before, after = case.before("waiting"), case.after("waiting")
    if before is None or after is None or max(before, after) < 1:
        return
    if max(before, after) >= _QUEUE_FACTOR * min(before, after):
        text = f"requests in the queue: {format_number(before)} → {format_number(after)} on average"
        yield Cause("where", "waiting", "", text)


def _first_token(case: Case) -> Iterator[Cause]:
    first, steps = case.changed("ttft_p50"), case.changed(*_STEP_METRICS)
    if first is not None and steps is None:
        sides = f"{format_ms(first.base_value)} → {format_ms(first.run_value)}"
        yield Cause("where", "prefill", "", f"the time to the first token changed ({sides}), decode did not")


def _kv(case: Case) -> Iterator[Cause]:
    before, after = case.before("kv_peak"), case.after("kv_peak")
    if before is None or after is None:
        return
    is_same = format_pct(before, 0) == format_pct(after, 0)
    peaks = f"peak {format_pct(before, 0)} " + ("on both sides" if is_same else f"→ {format_pct(after, 0)}")
    told = _preemption_words(case.before("preemptions"), case.after("preemptions"))
    actions = case.changed("swap_points", "preemptions")
    ceiling = case.limits.value("kv_step_ceiling_ratio")
    if actions is not None and actions.verdict == "worse" and after >= ceiling:
        word = "reaches" if before < ceiling else "stays at"
        yield Cause("where", "kv_ceiling", "", f"KV {word} its ceiling ({peaks}{told})")
    elif actions is not None and actions.verdict == "better" and before >= ceiling:
        yield Cause("where", "kv_ceiling", "", f"KV pressure is lower ({peaks}{told})")
    elif actions is None and max(before, after) < case.limits.value("kv_high_ratio"):
        yield Cause("where", "not_kv", "", f"not KV ({peaks}{told})")
    elif actions is None and min(before, after) >= case.limits.value("kv_high_ratio"):
        yield Cause("where", "not_kv", "", f"KV pressure is the same ({peaks}{told})")


def _preemption_words(before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return ""
    if not before and not after:
        return ", no preemption"
    return f", preemptions {format_count(before)} → {format_count(after)}"


def _prefix_cache(case: Case) -> Iterator[Cause]:
    keys = sorted({key for run in (*case.base, case.run) for key in run.names(case.level, "hit_ratio:")})
    switch = next((item for item in case.differences if item.name == "enable_prefix_caching"), None)
    for key in keys:
        before, after = case.before(key) or 0.0, case.after(key) or 0.0
        tier = key.partition(":")[2]
        if abs(after - before) < _HIT_DIFFERENCE:
            continue
        hits = (
            f"{format_pct(before, 0)} → {format_pct(after, 0)} of looked-up prompt tokens hit in tier {tier}"
        )
        words = (
            f"prefix caching {switch.base_value} → {switch.run_value}: {hits}" if switch is not None else hits
        )
        yield Cause("why", "prefix_cache", tier, words)


def _settings(case: Case) -> Iterator[Cause]:
    is_cache_told = any(True for _ in _prefix_cache(case))
    relevant = [item for item in case.differences if item.is_relevant]
    # Room for KV follows from other settings: it is told when nothing else is.
    for item in sorted(
        relevant, key=lambda item: (item.name in ("num_gpu_blocks", "kv_cache_tokens"), item.name)
    ):
        if item.name == "enable_prefix_caching" and is_cache_told:
            continue
        subject = (
            "engine_version" if item.name in ("engine", "engine_version", "engine_generation") else "setting"
        )
        where = f" ({item.scope})" if item.scope else ""
        text = f"{item.name}{where} {item.base_value} → {item.run_value}{_running_words(case, item.name)}"
        yield Cause("why", subject, item.name, text)


def _running_words(case: Case, name: str) -> str:
    before, after = case.before("running"), case.after("running")
    if name != "max_num_seqs" or not before or not after or abs(after / before - 1) <= _SAME_BATCH_RATIO:
        return ""
    return f": {format_number(before)} → {format_number(after)} requests run at once on average"


def _clock(case: Case) -> Iterator[Cause]:
    before, after = case.before("counter:sm_clock_mhz"), case.after("counter:sm_clock_mhz")
    if before and after and abs(after / before - 1) >= case.limits.value("compare_clock_ratio"):
        text = f"the SM clock was {format_number(before, 4)} → {format_number(after, 4)} MHz"
        yield Cause("why", "gpu_clock", "sm_clock_mhz", text)
    for name in ("throttle_flag", "thermal_violation_flag"):
        flag_before, flag_after = case.before(f"counter:{name}"), case.after(f"counter:{name}")
        if flag_before is None or flag_after is None:
            continue
        if abs(flag_after - flag_before) >= case.limits.value("compare_clock_ratio"):
            sides = f"{format_pct(flag_before, 0)} → {format_pct(flag_after, 0)}"
            yield Cause("why", "gpu_clock", name, f"the GPU was throttled for {sides} of the time")


def largest_level(metrics: Sequence[MetricVerdict]) -> str:
    """Return the level of the gating metric that changed most, worse before better."""
    changed = [metric for metric in metrics if metric.is_gating and metric.verdict in ("better", "worse")]
    if not changed:
        return next((metric.level or "" for metric in metrics if metric.is_gating), "")
    top = max(changed, key=lambda metric: (metric.verdict == "worse", abs(metric.change_ratio or 0)))
    return top.level or ""
