"""The metrics that a comparison judges: what each is, which way is better, how noisy repeats are."""

from dataclasses import dataclass
from typing import Literal

from kvcliff.nightly.comparison.statistics import Direction

Kind = Literal["measure", "count", "share", "state"]


@dataclass(frozen=True)
class MetricSpec:
    """One metric.

    Attributes:
        key: stable name; metrics of a family end in ``:`` and carry the rest in the reading.
        title: words of a report.
        unit: unit of the value.
        group: part of the report.
        better: which direction is better; ``neither`` is shown and never judged.
        noise: threshold of its noise between repeats.
        minimum: threshold of its smallest relevant change.
        request_noise: threshold of the noise of one request, for a metric whose noise falls with their
            number; ``noise`` then holds where the number is unknown.
        alarm: threshold of standard deviations from which a change is no chance.
        kind: a positive measure, a count of events, a share of requests, or a state (some or none).
        is_gating: whether it takes part in the verdict over all.
        is_core: whether ``same`` over all rests on it.
        origins: readings that count, best first; both sides must have the same one.
    """

    key: str
    title: str
    unit: str
    group: str
    better: Direction
    noise: str = "compare_noise_latency_ratio"
    minimum: str = "compare_min_change_ratio"
    alarm: str = "compare_alarm_sds"
    request_noise: str | None = None
    kind: Kind = "measure"
    is_gating: bool = False
    is_core: bool = False
    origins: tuple[str, ...] = ("marts",)


_LATENCY = "compare_noise_latency_ratio"
_REQUEST = "compare_noise_request_ratio"
_TAIL = "compare_noise_tail_ratio"
_STEP = "compare_noise_step_ratio"
_KERNEL = "compare_noise_kernel_ratio"
_FIRST_TAIL = "compare_noise_first_tail_ratio"
_TAIL_CHANGE = "compare_min_change_tail_ratio"
_STEPS = ("iterations", "trace")
_CLIENT = ("requests", "totals")

#: All metrics in the order of a report; gating ones first.
METRICS: tuple[MetricSpec, ...] = (
    MetricSpec(
        "itl_p50",
        "median time between tokens",
        "ms",
        "latency",
        "lower",
        _LATENCY,
        alarm="compare_primary_alarm_sds",
        is_gating=True,
        is_core=True,
        origins=("buckets", "totals"),
    ),
    MetricSpec(
        "itl_p99",
        "p99 time between tokens",
        "ms",
        "latency",
        "lower",
        _TAIL,
        _TAIL_CHANGE,
        is_gating=True,
        origins=("buckets", "totals"),
    ),
    MetricSpec(
        "tpot_p50",
        "median time per output token",
        "ms",
        "latency",
        "lower",
        _REQUEST,
        is_gating=True,
        is_core=True,
        origins=_CLIENT,
    ),
    MetricSpec(
        "ttft_p50",
        "median time to first token",
        "ms",
        "latency",
        "lower",
        "compare_noise_first_token_ratio",
        _TAIL_CHANGE,
        is_gating=True,
        origins=_CLIENT,
    ),
    MetricSpec(
        "e2e_p50",
        "median request time",
        "ms",
        "latency",
        "lower",
        _REQUEST,
        is_gating=True,
        origins=_CLIENT,
    ),
    MetricSpec(
        "tokens_per_s",
        "tokens per second",
        "tokens/s",
        "throughput",
        "higher",
        "compare_noise_throughput_ratio",
        request_noise="compare_noise_per_request_ratio",
        is_gating=True,
        is_core=True,
        origins=("requests", "totals", "buckets"),
    ),
    MetricSpec(
        "preemptions",
        "preemptions",
        "count",
        "kv",
        "lower",
        "compare_noise_count_ratio",
        _TAIL_CHANGE,
        kind="count",
        is_gating=True,
    ),
    MetricSpec("swap_points", "swap points", "count", "kv", "lower", kind="state", is_gating=True),
    MetricSpec("errors", "failed requests", "ratio", "latency", "lower", kind="share", is_gating=True),
    MetricSpec(
        "ttft_p99",
        "p99 time to first token",
        "ms",
        "latency",
        "lower",
        _FIRST_TAIL,
        _TAIL_CHANGE,
        origins=_CLIENT,
    ),
    MetricSpec(
        "tpot_p99",
        "p99 time per output token",
        "ms",
        "latency",
        "lower",
        _TAIL,
        _TAIL_CHANGE,
        origins=_CLIENT,
    ),
    MetricSpec("e2e_p99", "p99 request time", "ms", "latency", "lower", _TAIL, _TAIL_CHANGE, origins=_CLIENT),
    MetricSpec(
        "longest_gap",
        "longest silence in a stream (p99 of requests)",
        "ms",
        "latency",
        "lower",
        _FIRST_TAIL,
        _TAIL_CHANGE,
        origins=("requests",),
    ),
    MetricSpec("step_decode_p50", "median decode step", "ms", "steps", "lower", _STEP, origins=_STEPS),
    MetricSpec(
        "step_decode_p90", "p90 decode step", "ms", "steps", "lower", _TAIL, _TAIL_CHANGE, origins=_STEPS
    ),
    MetricSpec(
        "step_mixed_p50", "median mixed step", "ms", "steps", "lower", _TAIL, _TAIL_CHANGE, origins=_STEPS
    ),
    MetricSpec(
        "step_prefill_p50", "median prefill step", "ms", "steps", "lower", _TAIL, _TAIL_CHANGE, origins=_STEPS
    ),
    MetricSpec(
        "bubble_decode",
        "mean GPU idle time before a decode step",
        "ms",
        "steps",
        "lower",
        _TAIL,
        _TAIL_CHANGE,
        origins=("trace",),
    ),
    MetricSpec(
        "batch_decode", "mean requests in a decode step", "requests", "load", "neither", origins=_STEPS
    ),
    MetricSpec("running", "mean running requests", "requests", "load", "neither", origins=("kv", "buckets")),
    MetricSpec("waiting", "mean waiting requests", "requests", "load", "neither", origins=("kv", "buckets")),
    MetricSpec("kv_peak", "highest KV occupancy", "ratio", "kv", "neither"),
    MetricSpec("kv_mean", "mean KV occupancy", "ratio", "kv", "neither"),
    MetricSpec("hit_ratio:", "cache hits of tier {name}", "ratio", "cache", "neither"),
    MetricSpec("phase:", "GPU time of a {name} step", "ms", "gpu", "lower", _KERNEL),
    MetricSpec("family:", "GPU time of {name} in a step", "ms", "gpu", "lower", _KERNEL, _TAIL_CHANGE),
    MetricSpec(
        "decode_floor_ratio", "decode step over its memory floor", "ratio", "ledger", "lower", _LATENCY
    ),
    MetricSpec("capacity:", "memory: {name}", "bytes", "ledger", "neither"),
    MetricSpec("counter:", "typical {name}", "", "gpu", "neither"),
)


def find_spec(key: str) -> MetricSpec | None:
    """Return the metric that a key belongs to, ``family:decode/attention`` to the family ``family:``."""
    head = key[: key.index(":") + 1] if ":" in key else key
    return next((spec for spec in METRICS if spec.key == head), None)


def title_of(spec: MetricSpec, key: str) -> str:
    """Return the words for a metric of a reading."""
    return spec.title.format(name=key.partition(":")[2]) if spec.key.endswith(":") else spec.title
