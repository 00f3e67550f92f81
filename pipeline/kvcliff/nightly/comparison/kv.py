"""KV occupancy, cache hits, preemptions and swap points of a run, by level."""

import math
from collections import defaultdict
from collections.abc import Iterator

from kvcliff.nightly.comparison.load import single_totals
from kvcliff.nightly.comparison.marts import StoredMarts
from kvcliff.nightly.comparison.statistics import Estimate

Reading = tuple[str, str, str, Estimate]
#: Proofs of a preemption, the most complete count first.
_PROOFS = ("counter", "resume", "log")
_SWAP_CLASSES = ("confirmed", "probable")


def kv_estimates(marts: StoredMarts, run_id: str) -> Iterator[Reading]:
    """Yield occupancy, queue, hit ratios, preemptions and swap points."""
    yield from _occupancy(marts, run_id)
    yield from _hits(marts, run_id)
    yield from _actions(marts, run_id)


def _occupancy(marts: StoredMarts, run_id: str) -> Iterator[Reading]:
    rows = marts.rows(
        "kv_occupancy", ("level", "used_ratio", "running_count", "waiting_count"), run_id,
        where="tier = 'hbm'", order="level, ts_ns, replica_id",
        needs=("tier", "level", "ts_ns", "replica_id"),
    )  # fmt: skip
    by_level: dict[str, list[tuple[float | None, int | None, int | None]]] = defaultdict(list)
    for level, used, running, waiting in rows:
        by_level[level or ""].append((used, running, waiting))
    for level, samples in by_level.items():
        used = [sample[0] for sample in samples if sample[0] is not None]
        if used:
            yield level, "kv_peak", "marts", Estimate(max(used))
            yield level, "kv_mean", "marts", Estimate(math.fsum(used) / len(used))
        for key, place in (("running", 1), ("waiting", 2)):
            counts = [value for sample in samples if (value := sample[place]) is not None]
            if counts:
                yield level, key, "kv", Estimate(sum(counts) / len(counts))


def _hits(marts: StoredMarts, run_id: str) -> Iterator[Reading]:
    rows = marts.rows(
        "cache_hits", ("level", "tier", "lookup_tokens", "hit_tokens"), run_id,
        where="lookup_tokens is not null and hit_tokens is not null", order="level, tier, ts_ns",
        needs=("tier", "level", "lookup_tokens", "hit_tokens", "ts_ns"),
    )  # fmt: skip
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for level, tier, lookups, hits in rows:
        sums[level or "", tier][0] += lookups
        sums[level or "", tier][1] += hits
    for (level, tier), (lookups, hits) in sums.items():
        if lookups:
            yield level, f"hit_ratio:{tier}", "marts", Estimate(hits / lookups)


def _actions(marts: StoredMarts, run_id: str) -> Iterator[Reading]:
    """Yield preemptions and swap points where the run could tell that there were some, or none."""
    found = marts.rows(
        "findings", ("verdict",), run_id, where="finding = 'swap_point'", needs=("finding", "verdict")
    )
    if not any(verdict != "cannot_tell" for (verdict,) in found):
        return
    points: dict[str, int] = defaultdict(int)
    for level, kind in marts.rows("swap_points", ("level", "class"), run_id, needs=("level", "class")):
        points[level or ""] += kind in _SWAP_CLASSES
    counts = _preemptions(marts, run_id)
    tokens = _generated_tokens(marts, run_id)
    for level in sorted({*points, *counts, *tokens}):
        yield level, "swap_points", "marts", Estimate(float(points.get(level, 0)))
        exposure = float(tokens.get(level) or 1)
        yield level, "preemptions", "marts", Estimate(float(counts.get(level, 0)), exposure=exposure)


def _preemptions(marts: StoredMarts, run_id: str) -> dict[str, int]:
    rows = marts.rows(
        "engine_events", ("level", "proof", "event_count"), run_id, where="kind = 'preempt'",
        needs=("kind", "level", "proof", "event_count"),
    )  # fmt: skip
    sums: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for level, proof, count in rows:
        sums[level or ""][proof] += count or 0
    return {
        level: next((found[proof] for proof in _PROOFS if proof in found), 0) for level, found in sums.items()
    }


def _generated_tokens(marts: StoredMarts, run_id: str) -> dict[str, int]:
    """Return the tokens generated at each level, by requests, else by buckets, else as the client says."""
    found: dict[str, int] = {}
    for level, totals in single_totals(marts, run_id).items():
        found[level] = round(totals.get("total_output_tokens", 0))
    for mart, column in (("token_latency", "token_count"), ("requests", "output_tokens")):
        sums: dict[str, int] = defaultdict(int)
        for level, count in marts.rows(mart, ("level", column), run_id, needs=("level", column)):
            sums[level or ""] += count or 0
        found.update({level: total for level, total in sums.items() if total or level not in found})
    return found
