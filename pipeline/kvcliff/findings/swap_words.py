"""Swap points as sentences tell them: what the engine did, what users felt, and how that is known."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.marts import query_rows, read_rows, threshold
from kvcliff.findings.run_time import RunTime
from kvcliff.units import format_count, format_ms, format_number, format_pct

#: Surest class first.
CLASS_RANK = {"confirmed": 0, "probable": 1, "pressure": 2}
_ACTED = {
    "recompute": ("preempted", "and recomputed the victims later"),
    "swap": ("preempted", "and swapped the victims to the host"),
    "retract": ("retracted requests", "and recomputed them later"),
    "pause": ("paused requests", "and recomputed them later"),
    "offload": ("moved KV blocks off the GPU", ""),
    "unknown": ("acted on KV pressure", "(mechanism unknown)"),
}
_PROOF = {
    "counter": "its preemption counter",
    "log": "its own log line",
    "resume": "recompute steps in its iteration log",
    "copies": "block-sized copies between host and GPU",
}


@dataclass(frozen=True)
class SwapPoint:
    """One row of ``swap_points``, as far as the wording needs it."""

    swap_point_id: int
    level: str | None
    replica_id: str | None
    class_name: str
    mechanism: str | None
    e_proof: str | None
    l_status: str | None
    l_reason: str | None
    kv_used_ratio: float | None
    action_count: int | None
    victim_count: int | None
    blocked_s: float | None
    longest_gap_ms: float | None
    tokens_per_s_before: float | None
    tokens_per_s_during: float | None
    at_ns: int
    error_ns: int | None


_SWAP_POINTS_SQL = """
select
    swap_point_id, level, replica_id, "class", mechanism, e_proof, l_status, l_reason, kv_used_ratio,
    action_count, victim_count, blocked_s, longest_gap_ms, tokens_per_s_before, tokens_per_s_during,
    at_ns, error_ns
from swap_points
order by at_ns, swap_point_id
"""


@dataclass(frozen=True)
class _Cost:
    most_stalls: int | None
    missing_kv_tokens: int | None
    missing_kv_ratio: float | None
    recovery: str | None
    kv_itl_correlation: float | None


def cost_words(con: duckdb.DuckDBPyConnection, point: SwapPoint) -> str:
    """Return what led to a swap point, what it lacked and what came after, as sentences; or nothing.

    Args:
        con: connection on which the run is exposed.
        point: the swap point.
    """
    where = f"swap_point_id = {int(point.swap_point_id)}"
    rows = read_rows(con, "swap_points", _Cost, where=where, order="swap_point_id")
    if not rows or point.class_name == "pressure":
        return ""
    cost = rows[0]
    words = []
    if (cost.kv_itl_correlation or 0.0) >= threshold(con, "kv_itl_together"):
        words.append("Before it KV and ITL rose together: each step had more to read or to compute.")
    if cost.missing_kv_ratio:
        words.append(_missing(cost.missing_kv_ratio, cost.missing_kv_tokens))
    if (cost.most_stalls or 0) >= threshold(con, "thrash_stalls"):
        words.append(f"One request was stopped {format_count(cost.most_stalls)} times: thrashing.")
    words.append(_afterwards(cost) or "")
    return " ".join(word for word in words if word)


def _missing(ratio: float, tokens: int | None) -> str:
    amount = f"{format_count(tokens)} tokens, {format_pct(ratio, 0)} of the cache" if tokens else ""
    amount = amount or f"{format_pct(ratio, 0)} of the cache"
    return f"For what waited at the worst moment KV lacked {amount}."


def _afterwards(cost: _Cost) -> str | None:
    if cost.recovery == "slower_after":
        return "Afterwards KV had room again, but the steps stayed slow."
    if cost.recovery == "not_seen":
        return "It did not recover before the record ended."
    return None


def read_swap_points(con: duckdb.DuckDBPyConnection) -> tuple[SwapPoint, ...]:
    """Return the swap points of the run in order of time."""
    return query_rows(con, ("swap_points",), SwapPoint, _SWAP_POINTS_SQL)


def worst_first(points: tuple[SwapPoint, ...]) -> tuple[SwapPoint, ...]:
    """Return swap points by class, then by time: the first of the surest class is the one to look at."""
    return tuple(
        sorted(
            points, key=lambda point: (CLASS_RANK.get(point.class_name, 9), point.at_ns, point.swap_point_id)
        )
    )


def point_sentence(point: SwapPoint, run_time: RunTime, level_start_ns: int | None = None) -> str:
    """Return the sentence about one swap point, without the full stop.

    Args:
        point: the swap point.
        run_time: how instants are written.
        level_start_ns: begin of its level, when the run is a sweep.
    """
    when = f"{run_time.at(point.at_ns, point.error_ns, level_start_ns)}{_where(point)}"
    if point.class_name == "pressure":
        return f"No swap point, but KV pressure from {when}: {kv_words(point)} {_pressure_words(point)}"
    return f"Swap point ({point.class_name}) at {when}: {kv_words(point)} {happened(point)}"


def _where(point: SwapPoint) -> str:
    level = f", level {point.level}" if point.level is not None else ""
    replica = f", replica {point.replica_id}" if point.replica_id not in (None, "0") else ""
    return f"{level}{replica}"


def kv_words(point: SwapPoint) -> str:
    """Return where KV stood: ``with KV occupancy at 99.3 %``."""
    if point.kv_used_ratio is None:
        return "under KV pressure"
    return f"with KV occupancy at {format_pct(point.kv_used_ratio)}"


def happened(point: SwapPoint) -> str:
    """Return what the engine did and what users felt, from the words ``the engine`` on."""
    if point.l_status == "not_measurable":
        reason = f" ({point.l_reason})" if point.l_reason else ""
        return f"the engine {_acted(point)}; the victims' wait is certain, its size is not{reason}"
    return f"the engine {_acted(point)}, and {_harm(point)}"


def _acted(point: SwapPoint) -> str:
    verb, tail = _ACTED.get(point.mechanism or "unknown", _ACTED["unknown"])
    count = ""
    if point.action_count:
        # Engines that say how many they preempted warn of every 50th only.
        is_least = point.e_proof == "log" and point.mechanism in ("recompute", "swap")
        least = " at least" if is_least else ""
        count = (
            f"{least} once"
            if point.action_count == 1
            else f"{least} {format_count(point.action_count)} times"
        )
        tail = tail.replace("victims", "victim") if point.action_count == 1 else tail
    return " ".join(part for part in (f"{verb}{count}", tail) if part)


def _stalls(point: SwapPoint) -> str | None:
    if point.victim_count:
        noun = "request" if point.victim_count == 1 else "requests"
        wait = f" for up to {format_ms(point.longest_gap_ms)}" if point.longest_gap_ms is not None else ""
        return f"{format_count(point.victim_count)} {noun} stood still{wait}"
    if point.longest_gap_ms is not None:
        return f"a token stream stood still for up to {format_ms(point.longest_gap_ms)}"
    return None


def _harm(point: SwapPoint) -> str:
    """Return what users felt; throughput counts only when it fell: a growing load raises it."""
    felt = _stalls(point) or f"users' tokens got slower ({point.l_reason or 'see the table'})"
    before, during = point.tokens_per_s_before, point.tokens_per_s_during
    if before is None or during is None or during >= before:
        return felt
    return f"{felt} (throughput fell from {format_number(before)} to {format_number(during)} tokens/s)"


def _pressure_words(point: SwapPoint) -> str:
    if not point.action_count:
        waited = (
            f"requests waited {format_number(point.blocked_s)} s for free blocks"
            if point.blocked_s is not None
            else "requests waited for free blocks"
        )
        return f"{waited}; no preemption was seen"
    if point.l_status == "not_worse":
        return f"the engine {_acted(point)}, but users' tokens did not get measurably slower"
    stalls = _stalls(point)
    return (
        f"the engine {_acted(point)}{f', and {stalls}' if stalls else ''}; too rare to count as a swap point"
    )


def confidence_reason(point: SwapPoint) -> str:
    """Return what the class of a swap point rests on."""
    if point.class_name == "pressure":
        return "occupancy and queue are the engine's own gauges; events between their samples can be missed"
    if point.e_proof in _PROOF:
        acted = f"{_PROOF[point.e_proof]} proves that the engine acted"
    else:
        acted = "only its gauges show that the engine acted (running fell while waiting rose)"
    harm = point.l_reason or "users' tokens"
    if point.l_status == "not_measurable":
        return f"KV was at its ceiling and {acted}, but harm to users was not measurable: {harm}"
    return f"KV was at its ceiling, {acted}, and for users: {harm}"


def other_points(head: SwapPoint, points: tuple[SwapPoint, ...]) -> str:
    """Return how many more there are: ``; 1 more confirmed in this run (stalls up to 9 s)``, or nothing."""
    rest = [point for point in points if point.swap_point_id != head.swap_point_id]
    counts = [(name, sum(1 for point in rest if point.class_name == name)) for name in CLASS_RANK]
    words = [
        f"{count} {'more spell' if count == 1 else 'more spells'} of pressure"
        if name == "pressure"
        else f"{count} more {name}"
        for name, count in counts
        if count
    ]
    if not words:
        return ""
    longest = max((point.longest_gap_ms for point in rest if point.longest_gap_ms is not None), default=None)
    stalls = f" (stalls up to {format_ms(longest)})" if longest is not None else ""
    return f"; {' and '.join(words)} in this run{stalls}"
