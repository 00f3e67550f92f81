"""Steps, GPU phases, kernel families, counters and ledgers of a run, by level."""

from collections import defaultdict
from collections.abc import Iterator

from kvcliff.nightly.comparison.marts import StoredMarts
from kvcliff.nightly.comparison.statistics import Estimate, median

Reading = tuple[str, str, str, Estimate]
_PHASES = ("decode", "mixed", "prefill")
#: Telemetry that explains a change of speed, by its canonical name.
_COUNTERS = (
    "sm_clock_mhz", "mem_clock_mhz", "power_w", "temperature_c", "gpu_busy_pct", "throttle_flag",
    "thermal_violation_flag", "power_violation_pct",
)  # fmt: skip
_QUANTILES = ("elapsed_p10_ms", "elapsed_p25_ms", "elapsed_p50_ms", "elapsed_p75_ms", "elapsed_p90_ms")
_STEP_KEY = ("level", "origin", "step_class", "step_count")


def step_estimates(marts: StoredMarts, run_id: str) -> Iterator[Reading]:
    """Yield step times by class; replicas together, weighted by their steps."""
    columns = (*_STEP_KEY, "elapsed_p50_ms", "elapsed_p90_ms", "bubble_ms", "sequence_count")
    rows = marts.rows(
        "step_times", columns, run_id, order="level, origin, step_class, replica_id", needs=_STEP_KEY
    )
    sums: dict[tuple[str, str, str], list[tuple[int, float]]] = defaultdict(list)
    for level, origin, step_class, count, p50, p90, bubble, sequences in rows:
        for key, value in (
            (f"step_{step_class}_p50", p50),
            (f"step_{step_class}_p90", p90 if step_class == "decode" else None),
            (f"bubble_{step_class}", bubble if step_class == "decode" else None),
            (f"batch_{step_class}", sequences if step_class == "decode" else None),
        ):
            if value is not None:
                sums[level or "", key, origin].append((count, value))
    for (level, key, origin), values in sorted(sums.items()):
        if value := _weighted(values):
            yield level, key, origin, Estimate(value)


def _weighted(values: list[tuple[int, float]]) -> float:
    return sum(count * value for count, value in values) / max(sum(count for count, _ in values), 1)


def step_profiles(marts: StoredMarts, run_id: str) -> dict[str, tuple[float, ...]]:
    """Return quantiles (10 to 90 %) of decode steps by level, from the iteration log or else the trace."""
    rows = marts.rows(
        "step_times", ("level", "step_count", *_QUANTILES), run_id, where="step_class = 'decode'",
        order="level, origin desc, replica_id",
        needs=("step_class", "level", "origin", "replica_id", *_QUANTILES),
    )  # fmt: skip
    found: dict[str, tuple[float, ...]] = {}
    for level, _, *values in rows:
        if all(value is not None and value > 0 for value in values):
            found[level or ""] = tuple(values)
    return found


def gpu_estimates(marts: StoredMarts, run_id: str) -> Iterator[Reading]:
    """Yield GPU time of phases and kernel families per step, and the median of telemetry."""
    steps: dict[tuple[str, str], int] = {}
    for level, origin, step_class, count in marts.rows("step_times", _STEP_KEY, run_id, needs=_STEP_KEY):
        if origin == "trace":
            steps[level or "", step_class] = steps.get((level or "", step_class), 0) + count
    sums: dict[tuple[str, str, str], int] = defaultdict(int)
    for level, phase, kernels, graphs in marts.rows(
        "phase_totals", ("level", "phase", "gpu_time_ns", "graph_time_ns"), run_id, needs=("level", "phase")
    ):
        sums[level or "", phase, f"phase:{phase}"] += (kernels or 0) + (graphs or 0)
    for level, phase, family, time_ns in marts.rows(
        "kernel_families",
        ("level", "phase", "family", "gpu_time_ns"),
        run_id,
        needs=("level", "phase", "family"),
    ):
        sums[level or "", phase, f"family:{phase}/{family}"] += time_ns or 0
    for (level, phase, key), time_ns in sorted(sums.items()):
        if phase in _PHASES and time_ns and (count := steps.get((level, phase), 0)):
            yield level, key, "marts", Estimate(time_ns / 1e6 / count)
    yield from _counters(marts, run_id)


def _counters(marts: StoredMarts, run_id: str) -> Iterator[Reading]:
    rows = marts.rows(
        "gpu_samples", ("level", "counter", "value"), run_id,
        where="counter in ('" + "', '".join(_COUNTERS) + "') and value is not null",
        order="level, counter, value", needs=("level", "counter", "value"),
    )  # fmt: skip
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for level, counter, value in rows:
        values[level or "", counter].append(value)
    for (level, counter), found in values.items():
        is_flag = counter.endswith(("_flag", "violation_pct"))
        # A flag is a share of time; the median of a clock leaves out the idle ends of a run.
        yield (
            level,
            f"counter:{counter}",
            "marts",
            Estimate(sum(found) / len(found) if is_flag else median(found)),
        )


def ledger_estimates(marts: StoredMarts, run_id: str) -> Iterator[Reading]:
    """Yield the decode step over its floor, and the lines of the memory ledger."""
    for level, ratio in marts.rows(
        "bandwidth_ledger", ("level", "ratio"), run_id,
        where="step_class = 'decode' and line = 'ratio_to_floor' and ratio > 0",
        order="level, replica_id desc",
        needs=("step_class", "line", "ratio", "level", "replica_id"),
    ):  # fmt: skip
        yield level or "", "decode_floor_ratio", "marts", Estimate(ratio)
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for level, tier, line, size in marts.rows(
        "capacity_ledger", ("level", "tier", "line", "bytes"), run_id, where="bytes is not null",
        needs=("level", "tier", "line", "bytes"),
    ):  # fmt: skip
        sums[level or "", f"capacity:{tier} {line}"] += size
    for (level, key), size in sorted(sums.items()):
        yield level, key, "marts", Estimate(float(size))
