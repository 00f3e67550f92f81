"""What the clients of a run asked of the server: tokens per request, rate, requests in flight."""

import math
from collections import defaultdict
from dataclasses import dataclass

from kvcliff.nightly.comparison.marts import StoredMarts

_COLUMNS = ("level", "prompt_tokens", "output_tokens", "arrival_ns", "end_ns", "e2e_ms")
#: How far a rounded total may lie from the exact one: two decimals are printed.
_ROUNDING_RATIO = 0.005
_ROUNDING = 0.006


@dataclass(frozen=True)
class Load:
    """The load of one level; ``None`` where no file says.

    Attributes:
        prompt_tokens: mean of a request.
        output_tokens: mean of a request.
        rate_per_s: requests per second while any was in flight.
        in_flight: mean requests in flight in that time.
        concurrency_limit: the client's own limit.
        request_rate_per_s: the rate it was told to send at.
    """

    prompt_tokens: float | None = None
    output_tokens: float | None = None
    rate_per_s: float | None = None
    in_flight: float | None = None
    concurrency_limit: float | None = None
    request_rate_per_s: float | None = None


def active_ns(intervals: list[tuple[int, int]]) -> int:
    """Return the time that intervals cover together, overlaps once."""
    total, reached = 0, None
    for start, end in sorted(intervals):
        if reached is None or start > reached:
            total += end - start
            reached = end
        elif end > reached:
            total += end - reached
            reached = end
    return total


def read_loads(marts: StoredMarts, run_id: str) -> dict[str, Load]:
    """Return the load of each level, from request rows or else from what the client printed."""
    loads = _from_requests(marts, run_id)
    for level, totals in single_totals(marts, run_id).items():
        known = loads.get(level, Load())
        count = totals.get("completed")
        loads[level] = Load(
            known.prompt_tokens or _per(totals.get("total_input_tokens"), count),
            known.output_tokens or _per(totals.get("total_output_tokens"), count),
            known.rate_per_s,
            known.in_flight,
            totals.get("max_concurrency"),
            totals.get("request_rate"),
        )
    return loads


def _per(total: float | None, count: float | None) -> float | None:
    return total / count if total and count else None


def _from_requests(marts: StoredMarts, run_id: str) -> dict[str, Load]:
    rows = marts.rows(
        "requests", _COLUMNS, run_id,
        where="not coalesce(is_warmup, false) and not coalesce(is_error, false)",
        order="source_id, request_no", needs=("is_warmup", "is_error", "source_id", "request_no"),
    )  # fmt: skip
    by_level: dict[str, list[tuple[int | None, ...]]] = defaultdict(list)
    for level, *values in rows:
        by_level[level or ""].append(tuple(values))
    return {level: _load(requests) for level, requests in by_level.items()}


def _load(requests: list[tuple[int | None, ...]]) -> Load:
    prompts = [row[0] for row in requests if row[0] is not None]
    outputs = [row[1] for row in requests if row[1] is not None]
    spans = [(row[2], row[3]) for row in requests if row[2] is not None and row[3] is not None]
    active_s = active_ns(spans) / 1e9
    busy_s = math.fsum((end - start) / 1e9 for start, end in spans)
    return Load(
        sum(prompts) / len(prompts) if prompts else None,
        sum(outputs) / len(outputs) if outputs else None,
        len(spans) / active_s if active_s else None,
        busy_s / active_s if active_s else None,
    )


def single_totals(marts: StoredMarts, run_id: str) -> dict[str, dict[str, float]]:
    """Return what a client printed, by level, where it printed about one load only.

    A client may print one load twice, as a result file and as a table on its console with rounded figures;
    the fuller one counts. Loads that disagree are several, and then none speaks for the level.
    """
    rows = marts.rows(
        "client_totals", ("level", "source_id", "load_no", "name", "value"), run_id,
        order="source_id, load_no, name", needs=("source_id", "load_no", "name", "value"),
    )  # fmt: skip
    loads: dict[str, dict[tuple[int, int], dict[str, float]]] = defaultdict(dict)
    for level, source_id, load_no, name, value in rows:
        loads[level or ""].setdefault((source_id, load_no), {})[name] = value
    found = {}
    for level, printed in loads.items():
        fullest = max(printed.values(), key=len)
        if all(_agree(fullest, other) for other in printed.values()):
            found[level] = fullest
    return found


def _agree(fuller: dict[str, float], other: dict[str, float]) -> bool:
    """Return whether two sets of totals tell of the same load, apart from rounding."""
    common = [name for name in other if name in fuller]
    return bool(common) and all(
        math.isclose(fuller[name], other[name], rel_tol=_ROUNDING_RATIO, abs_tol=_ROUNDING) for name in common
    )
