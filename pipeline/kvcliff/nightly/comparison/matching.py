"""Whether runs can be compared at all: model, GPU, load, distance in time; and which settings differ."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kvcliff.nightly.comparison.load import Load
from kvcliff.nightly.comparison.model import SettingDifference
from kvcliff.nightly.comparison.reading import RunReading
from kvcliff.readers.settings import SETTING_NAMES
from kvcliff.units import NS_PER_S, format_number

#: Figures that an engine measures anew at every start, and what it is told about its own output.
_MEASURED = frozenset({
    "kv_cache_bytes", "activation_memory_bytes", "peak_torch_memory_bytes", "non_torch_memory_bytes",
    "total_gpu_memory_bytes", "free_gpu_memory_bytes",
})  # fmt: skip
#: Groups of settings that can change how fast a run is.
_SPEED_GROUPS = ("engine", "gpu")
#: Facts of the model's files that can too.
_SPEED_FACTS = frozenset({"dtype", "quantization", "weight_bytes", "sliding_window"})
_RELEVANT = frozenset(
    setting.name
    for setting in SETTING_NAMES
    if (setting.group in _SPEED_GROUPS and setting.name not in _MEASURED) or setting.name in _SPEED_FACTS
)
_NO_SETTINGS = _MEASURED | {setting.name for setting in SETTING_NAMES if setting.group in ("clock", "slo")}
#: Figures that follow from others and jitter: a small difference is none.
_JITTERING = frozenset(
    {"num_gpu_blocks", "num_cpu_blocks", "kv_cache_tokens", "weight_bytes", "gpu_memory_bytes"}
)
_JITTER_RATIO = 0.05
_SHAPE = (
    "layers",
    "hidden_size",
    "attention_heads",
    "kv_heads",
    "intermediate_size",
    "vocab_size",
    "num_experts",
)


@dataclass(frozen=True)
class Nearness:
    """How far a run is from its baseline in time.

    Attributes:
        is_near: within the distance for which the noise is known; ``None`` when times are unknown.
        gap_ns: from the run to the nearest run of the baseline.
        allowed_ns: distance that counts as near.
    """

    is_near: bool | None
    gap_ns: int | None
    allowed_ns: int


def nearness(base: Sequence[RunReading], run: RunReading, near_s: float) -> Nearness:
    """Return how far a run is from its baseline.

    A baseline of three runs or more shows the noise of the distances between them too: nightly runs are a day
    apart, and so is the next one.

    Args:
        base: baseline.
        run: the run.
        near_s: distance up to which runs are near anyway.
    """
    near_ns = round(near_s * NS_PER_S)
    spans = sorted((b.started_ns, b.ended_ns or b.started_ns) for b in base if b.started_ns is not None)
    if run.started_ns is None or len(spans) < len(base):
        return Nearness(None, None, near_ns)
    end_ns = run.ended_ns or run.started_ns
    gap_ns = min(max(start - end_ns, run.started_ns - end, 0) for start, end in spans)
    between = [max(late[0] - early[1], 0) for early, late in pairwise(spans)]
    # The next night starts a little earlier or later than the last ones did.
    allowed_ns = max([near_ns, *(gap + gap // 4 for gap in between)] if len(spans) > 2 else [near_ns])
    return Nearness(gap_ns <= allowed_ns, gap_ns, allowed_ns)


def incomparable_reason(base: Sequence[RunReading], run: RunReading, load_ratio: float) -> str | None:
    """Return what makes runs incomparable, in words; ``None`` when nothing does.

    Args:
        base: baseline.
        run: the run.
        load_ratio: difference from which loads are not the same.
    """
    for other in base:
        for check in (_gpu_difference, _model_difference, _level_difference):
            if reason := check(other, run):
                return reason
        for level in sorted({*other.loads} & {*run.loads}):
            if reason := _load_difference(other.loads[level], run.loads[level], load_ratio):
                return f"{reason} at level {level}" if level else reason
    return None


def _setting(reading: RunReading, name: str) -> str | None:
    return reading.settings.get(("", name))


def _gpu_difference(base: RunReading, run: RunReading) -> str | None:
    for name, words in (("device_type", "device"), ("gpu_name", "GPU")):
        ours, theirs = _setting(base, name), _setting(run, name)
        if ours and theirs and ours.casefold().split() != theirs.casefold().split():
            return f"another {words}: {ours} in {base.run_id}, {theirs} in {run.run_id}"
    ours, theirs = _setting(base, "gpu_memory_bytes"), _setting(run, "gpu_memory_bytes")
    if ours and theirs and _differs(ours, theirs, _JITTER_RATIO):
        return f"another GPU: {ours} bytes of memory in {base.run_id}, {theirs} in {run.run_id}"
    return None


def _model_difference(base: RunReading, run: RunReading) -> str | None:
    for name in _SHAPE:
        ours, theirs = _setting(base, name), _setting(run, name)
        if ours and theirs and ours != theirs:
            return f"another model: {name} is {ours} in {base.run_id}, {theirs} in {run.run_id}"
    ours, theirs = _setting(base, "model_name"), _setting(run, "model_name")
    is_shape_known = all(
        _setting(reading, "layers") and _setting(reading, "hidden_size") for reading in (base, run)
    )
    if ours and theirs and ours != theirs and not is_shape_known:
        return f"another model: {ours} in {base.run_id}, {theirs} in {run.run_id}"
    return None


def _level_difference(base: RunReading, run: RunReading) -> str | None:
    if base.levels and run.levels and not {*base.levels} & {*run.levels}:
        ours, theirs = (", ".join(level or "one" for level in reading.levels) for reading in (base, run))
        return f"another load: levels {ours} in {base.run_id}, {theirs} in {run.run_id}"
    return None


def _load_difference(base: Load, run: Load, ratio: float) -> str | None:
    """Return how two loads differ.

    Tokens per request must agree, and so must what the client was told. Of rate and requests in flight only
    one stays as it was when a server gets slower: a client keeps either its rate or its concurrency.
    """
    stated: tuple[tuple[str, Callable[[Load], float | None]], ...] = (
        ("prompt tokens per request", lambda load: load.prompt_tokens),
        ("output tokens per request", lambda load: load.output_tokens),
        ("concurrency limit of the client", lambda load: load.concurrency_limit),
        ("request rate of the client", lambda load: load.request_rate_per_s),
    )
    for words, read in stated:
        ours, theirs = read(base), read(run)
        if ours and theirs and _differs(ours, theirs, ratio):
            return f"another load: {format_number(ours)} and {format_number(theirs)} {words}"
    if base.rate_per_s and run.rate_per_s and base.in_flight and run.in_flight:
        is_rate_other = _differs(base.rate_per_s, run.rate_per_s, ratio)
        if is_rate_other and _differs(base.in_flight, run.in_flight, ratio):
            return (
                f"another load: {format_number(base.rate_per_s)} and {format_number(run.rate_per_s)} "
                f"requests/s, {format_number(base.in_flight)} and {format_number(run.in_flight)} in flight"
            )
    return None


def _differs(ours: str | float, theirs: str | float, ratio: float) -> bool:
    """Return whether two numbers are further apart than a share of the larger one, or texts differ."""
    try:
        one, other = float(ours), float(theirs)
    except ValueError:
        return ours != theirs
    return abs(one - other) > ratio * max(abs(one), abs(other))


def setting_differences(base: Sequence[RunReading], run: RunReading) -> tuple[SettingDifference, ...]:
    """Return the settings whose value in the run no baseline run has; relevant ones first.

    A setting that one side does not state at all is no difference: another set of files was kept.
    """
    keys = sorted({key for reading in (*base, run) for key in reading.settings})
    found = []
    for scope, name in keys:
        if name in _NO_SETTINGS:
            continue
        values = sorted(
            {value for reading in base if (value := reading.settings.get((scope, name))) is not None}
        )
        theirs = run.settings.get((scope, name))
        if theirs is None or not values or theirs in values:
            continue
        if name in _JITTERING and not all(_differs(value, theirs, _JITTER_RATIO) for value in values):
            continue
        is_relevant = name in _RELEVANT
        found.append(SettingDifference(scope, name, " / ".join(values), theirs, is_relevant))
    return tuple(sorted(found, key=lambda item: (not item.is_relevant, item.scope, item.name)))
