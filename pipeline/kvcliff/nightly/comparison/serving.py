"""Latency and throughput of a run from its requests, its time buckets and what its client printed."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvcliff.nightly.comparison.load import active_ns, single_totals
from kvcliff.nightly.comparison.marts import StoredMarts
from kvcliff.nightly.comparison.statistics import Estimate, interleaved_groups, sampling_sd

Reading = tuple[str, str, str, Estimate]
#: Metrics of requests: key, column and quantile.
_REQUEST_METRICS = (
    ("tpot_p50", "tpot_ms", 0.5),
    ("ttft_p50", "ttft_ms", 0.5),
    ("e2e_p50", "e2e_ms", 0.5),
    ("ttft_p99", "ttft_ms", 0.99),
    ("tpot_p99", "tpot_ms", 0.99),
    ("e2e_p99", "e2e_ms", 0.99),
    ("longest_gap", "longest_gap_ms", 0.99),
)
#: Metrics that clients print: key and the names that stand for it.
_PRINTED = (
    ("itl_p50", "median_itl_ms"),
    ("itl_p99", "p99_itl_ms"),
    ("tpot_p50", "median_tpot_ms"),
    ("ttft_p50", "median_ttft_ms"),
    ("e2e_p50", "median_e2e_ms"),
    ("tokens_per_s", "output_tokens_per_s"),
    ("ttft_p99", "p99_ttft_ms"),
    ("tpot_p99", "p99_tpot_ms"),
    ("e2e_p99", "p99_e2e_ms"),
)
_VALUES = ("tpot_ms", "ttft_ms", "e2e_ms", "longest_gap_ms")
_BISECTIONS = 60


@dataclass(frozen=True)
class _Request:
    is_error: bool
    arrival_ns: int | None
    end_ns: int | None
    output_tokens: int
    values: dict[str, float | None]


@dataclass(frozen=True)
class Bucket:
    """A time bucket: tokens and the quantiles of their gaps, where known."""

    ts_ns: int
    token_count: int
    quantiles: tuple[float, float, float, float] | None
    tokens_per_s: float | None
    running: float | None
    waiting: float | None


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile of at least one value, linear between neighbours."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def request_estimates(marts: StoredMarts, run_id: str) -> Iterator[Reading]:
    """Yield latency, throughput and errors of the measured requests, by level."""
    rows = marts.rows(
        "requests", ("level", "is_error", "arrival_ns", "end_ns", "output_tokens", *_VALUES), run_id,
        where="not coalesce(is_warmup, false)", order="source_id, request_no",
        needs=("is_warmup", "source_id", "request_no"),
    )  # fmt: skip
    by_level: dict[str, list[_Request]] = defaultdict(list)
    for level, is_error, arrival_ns, end_ns, output_tokens, *values in rows:
        by_level[level or ""].append(
            _Request(
                bool(is_error),
                arrival_ns,
                end_ns,
                output_tokens or 0,
                dict(zip(_VALUES, values, strict=True)),
            )
        )
    for level, requests in by_level.items():
        yield from _level_requests(level, requests)


def _level_requests(level: str, requests: Sequence[_Request]) -> Iterator[Reading]:
    served = [request for request in requests if not request.is_error]
    failed = len(requests) - len(served)
    yield level, "errors", "marts", Estimate(float(failed), exposure=float(len(requests)))
    for key, column, share in _REQUEST_METRICS:
        values = [value for request in served if (value := request.values[column]) is not None and value > 0]
        if not values:
            continue
        timed = [
            (request.arrival_ns, value)
            for request in served
            if request.arrival_ns is not None and (value := request.values[column]) is not None and value > 0
        ]
        groups = interleaved_groups([time_ns for time_ns, _ in timed])
        inside = sampling_sd([quantile([timed[place][1] for place in group], share) for group in groups])
        yield level, key, "requests", Estimate(quantile(values, share), inside)
    spans = [(r.arrival_ns, r.end_ns) for r in served if r.arrival_ns is not None and r.end_ns is not None]
    tokens = sum(r.output_tokens for r in served if r.arrival_ns is not None and r.end_ns is not None)
    if spans and tokens and (busy := active_ns(spans)):
        yield level, "tokens_per_s", "requests", Estimate(tokens * 1e9 / busy, exposure=float(len(spans)))


def read_buckets(marts: StoredMarts, run_id: str) -> dict[str, list[Bucket]]:
    """Return the time buckets of each level in order of time, replicas together."""
    rows = marts.rows(
        "token_latency",
        ("level", "ts_ns", "token_count", "itl_p50_ms", "itl_p90_ms", "itl_p99_ms", "itl_max_ms",
         "tokens_per_s", "running_count", "waiting_count"),
        run_id, order="level, ts_ns, replica_id", needs=("level", "ts_ns", "replica_id"),
    )  # fmt: skip
    found: dict[str, list[Bucket]] = defaultdict(list)
    for level, ts_ns, count, p50, p90, p99, top, rate, running, waiting in rows:
        points = (p50, p90 or p50, p99 or p90 or p50, top or p99 or p90 or p50) if p50 and count else None
        found[level or ""].append(Bucket(ts_ns, count or 0, points, rate, running, waiting))
    return found


def median_gap(buckets: Sequence[Bucket]) -> float | None:
    """Return the token-weighted median of the buckets' median gaps in ms; ``None`` when none is known."""
    known = sorted(
        (bucket.quantiles[0], bucket.token_count) for bucket in buckets if bucket.quantiles is not None
    )
    half = sum(count for _, count in known) / 2
    reached = 0
    for gap_ms, count in known:
        reached += count
        if reached >= half:
            return gap_ms
    return None


def tail_gap(buckets: Sequence[Bucket], share: float = 0.99) -> float | None:
    """Return a high quantile of all gaps behind buckets, each linear between its quantiles.

    Args:
        buckets: buckets of one level.
        share: quantile, 0.5 or above: below its median a bucket's distribution is not known.

    Returns:
        The quantile in ms; ``None`` when no bucket knows its gaps.
    """
    known = [(bucket.token_count, bucket.quantiles) for bucket in buckets if bucket.quantiles is not None]
    if not known:
        return None
    wanted = share * sum(count for count, _ in known)
    low, high = 0.0, max(points[3] for _, points in known)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if sum(count * _below(middle, points) for count, points in known) < wanted:
            low = middle
        else:
            high = middle
    return high


def _below(value: float, points: tuple[float, float, float, float]) -> float:
    """Return the share of a bucket's gaps below a value."""
    reached, share = 0.0, 0.0
    for point, total in zip(points, (0.5, 0.9, 0.99, 1.0), strict=True):
        if value < point:
            return share + (total - share) * (value - reached) / (point - reached)
        reached, share = point, total
    return 1.0


def bucket_estimates(marts: StoredMarts, run_id: str) -> Iterator[Reading]:
    """Yield inter-token latency, throughput and queue of the time buckets, by level."""
    for level, buckets in read_buckets(marts, run_id).items():
        timed = [bucket for bucket in buckets if bucket.quantiles is not None]
        groups = _grouped(timed)
        for key, measure in (("itl_p50", median_gap), ("itl_p99", tail_gap)):
            if value := measure(timed):
                yield (
                    level,
                    key,
                    "buckets",
                    Estimate(value, sampling_sd([measure(group) or 0 for group in groups])),
                )
        flowing = [bucket for bucket in buckets if bucket.tokens_per_s]
        if flowing:
            rates = [_mean_rate(group) for group in _grouped(flowing)]
            yield level, "tokens_per_s", "buckets", Estimate(_mean_rate(flowing), sampling_sd(rates))
        for key, values in (
            ("running", [bucket.running for bucket in buckets if bucket.running is not None]),
            ("waiting", [bucket.waiting for bucket in buckets if bucket.waiting is not None]),
        ):
            if values:
                yield level, key, "buckets", Estimate(math.fsum(values) / len(values))


def _grouped(buckets: Sequence[Bucket]) -> list[list[Bucket]]:
    groups = interleaved_groups([bucket.ts_ns for bucket in buckets])
    return [[buckets[place] for place in group] for group in groups]


def _mean_rate(buckets: Sequence[Bucket]) -> float:
    return math.fsum(bucket.tokens_per_s or 0.0 for bucket in buckets) / len(buckets)


def total_estimates(marts: StoredMarts, run_id: str) -> Iterator[Reading]:
    """Yield the percentiles that a client printed, by level."""
    for level, totals in single_totals(marts, run_id).items():
        for key, name in _PRINTED:
            if (value := totals.get(name)) is not None and value > 0:
                count = max(totals.get("completed", 1.0), 1.0)
                yield level, key, "totals", Estimate(value, exposure=count)
