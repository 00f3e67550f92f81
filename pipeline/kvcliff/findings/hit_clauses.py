"""What makes a run slow although prefixes were hit: one look at the marts per reason."""

from collections.abc import Callable
from dataclasses import dataclass

import duckdb

from kvcliff.findings.base import Evidence
from kvcliff.findings.captures import FEWER_BYTES
from kvcliff.findings.engine_facts import cap_action
from kvcliff.findings.marts import query_rows, threshold
from kvcliff.units import NS_PER_MS, format_bytes, format_count, format_ms, format_number, format_pct


@dataclass(frozen=True)
class Clause:
    """Part of the sentence: what was slow, or why, with the rows behind it.

    Attributes:
        words: the clause.
        confidence: how sure the explanation is.
        action: what to do first about it.
        evidence: the rows.
        reason: what the confidence rests on.
    """

    words: str
    confidence: float
    action: str
    evidence: Evidence
    reason: str | None = None


@dataclass(frozen=True)
class _SwapHarm:
    point_count: int
    first_id: int | None
    confirmed_count: int
    action_count: int | None
    victim_count: int | None
    longest_gap_ms: float | None


@dataclass(frozen=True)
class _Sum:
    row_count: int
    value: float | None


@dataclass(frozen=True)
class _Ratio:
    value: float | None
    threshold: float | None


@dataclass(frozen=True)
class _Loads:
    burst_count: int
    bytes: int | None
    visible_ns: int | None


@dataclass(frozen=True)
class _Jumps:
    jump_count: int
    before_ms: float | None
    after_ms: float | None


Look = Callable[[duckdb.DuckDBPyConnection], Clause | None]


def preemption(con: duckdb.DuckDBPyConnection) -> Clause | None:
    """Return preemption with harm: a hit saves prefill, not the wait for blocks."""
    where = "class = 'confirmed' or (class = 'probable' and l_status <> 'not_worse')"
    rows = query_rows(
        con,
        ("swap_points",),
        _SwapHarm,
        """
        select
            count(*),
            arg_min(swap_point_id, (case "class" when 'confirmed' then 0 else 1 end, at_ns, swap_point_id)),
            count(*) filter (where "class" = 'confirmed'), sum(action_count), sum(victim_count),
            max(longest_gap_ms)
        from swap_points
        where "class" = 'confirmed' or ("class" = 'probable' and l_status <> 'not_worse')
        """,
    )
    if not rows or rows[0].point_count == 0:
        return None
    harm = rows[0]
    count = f" {format_count(harm.action_count)} times" if harm.action_count else ""
    who = f"{format_count(harm.victim_count)} of them" if harm.victim_count else "streams"
    wait = (
        f", and {who} stood still for up to {format_ms(harm.longest_gap_ms)}" if harm.longest_gap_ms else ""
    )
    return Clause(
        f"the KV cache was full and the engine took blocks from running requests{count}{wait}",
        0.9 if harm.confirmed_count else 0.7,
        cap_action(con, harm.first_id or 0),
        Evidence(
            "swap_points",
            where,
            (
                ("swap points", harm.point_count),
                ("action_count", harm.action_count),
                ("victim_count", harm.victim_count),
                ("longest_gap_ms", harm.longest_gap_ms),
            ),
        ),
        reason="hits and preemptions are the engine's own counts; a hit saves prefill, no wait for blocks",
    )


def blocked(con: duckdb.DuckDBPyConnection) -> Clause | None:
    """Return blocked admission: requests queue for blocks although their prefix is cached."""
    rows = query_rows(
        con,
        ("swap_points",),
        _Sum,
        """select count(*), fsum(blocked_s) from swap_points where "class" = 'pressure' and blocked_s > 0""",
    )
    if not rows or (rows[0].value or 0.0) < threshold(con, "hit_blocked_s"):
        return None
    return Clause(
        f"requests waited for free KV blocks during {format_number(rows[0].value)} s, cached prefix or not",
        0.6,
        "Give running requests more KV room: cap context length or output length, or add KV memory.",
        Evidence("swap_points", "class = 'pressure' and blocked_s > 0", (("blocked_s", rows[0].value),)),
    )


def slow_tokens(con: duckdb.DuckDBPyConnection) -> Clause | None:
    """Return token latency above its limit."""
    rows = query_rows(
        con,
        ("indicators",),
        _Ratio,
        "select value, threshold from indicators where indicator = 'token_latency' and state = 'high'",
    )
    if not rows:
        return None
    return Clause(
        f"the slow end of ITL is {format_ms(rows[0].value)}, the limit {format_ms(rows[0].threshold)}",
        0.5,
        "Capture a trace of a slow moment to name the cause.",
        Evidence(
            "indicators",
            "indicator = 'token_latency'",
            (("value", rows[0].value), ("threshold", rows[0].threshold)),
        ),
    )


def missed_slo(con: duckdb.DuckDBPyConnection) -> Clause | None:
    """Return a missed service level objective."""
    rows = query_rows(
        con,
        ("requests",),
        _Sum,
        """
        select count(is_slo_met), count(*) filter (where not is_slo_met) / nullif(count(is_slo_met), 0)
        from requests where not coalesce(is_warmup, false)
        """,
    )
    if not rows or (rows[0].value or 0.0) < threshold(con, "slo_missed_ratio"):
        return None
    return Clause(
        f"{format_pct(rows[0].value)} of the requests missed their SLO",
        0.5,
        "Capture a trace of a slow moment to name the cause.",
        Evidence("requests", "not is_slo_met", (("share", rows[0].value), ("requests", rows[0].row_count))),
    )


def decode_bytes(con: duckdb.DuckDBPyConnection) -> Clause | None:
    """Return decode bytes as the cause: every step reads weights and KV again, hit or not."""
    rows = query_rows(
        con,
        ("indicators",),
        _Ratio,
        "select value, threshold from indicators where indicator = 'hbm_bandwidth' and state = 'high'",
    )
    if not rows:
        return None
    return Clause(
        "a hit does not save the bytes that each decode step reads "
        f"(HBM bandwidth at {format_pct(rows[0].value, 0)})",
        0.8,
        FEWER_BYTES,
        Evidence(
            "indicators",
            "indicator = 'hbm_bandwidth'",
            (("value", rows[0].value), ("threshold", rows[0].threshold)),
        ),
    )


def tier_loads(con: duckdb.DuckDBPyConnection) -> Clause | None:
    """Return loads from a slower tier as the cause: the hit lay elsewhere and its copy was not hidden."""
    rows = query_rows(
        con,
        ("transfers",),
        _Loads,
        """
        select count(*), sum(bytes), sum(copy_ns - coalesce(hidden_ns, 0))
        from transfers where is_kv_swap and kind = 'htod'
        """,
    )
    if not rows or not rows[0].visible_ns:
        return None
    loads = rows[0]
    return Clause(
        f"hits in slower tiers were copied to HBM first ({format_bytes(loads.bytes)}, "
        f"{format_ms((loads.visible_ns or 0) / NS_PER_MS)} of it not hidden under kernels)",
        0.7,
        "Prefetch earlier, or keep hot prefixes in HBM: only hidden copies cost nothing.",
        Evidence(
            "transfers",
            "is_kv_swap and kind = 'htod'",
            (("bursts", loads.burst_count), ("bytes", loads.bytes), ("visible_ns", loads.visible_ns)),
        ),
    )


def batch(con: duckdb.DuckDBPyConnection) -> Clause | None:
    """Return batching as the cause: a larger batch or a prefill in it slows each step."""
    rows = query_rows(
        con,
        ("latency_jumps",),
        _Jumps,
        """
        select count(*), max_by(before_ms, after_ms), max(after_ms)
        from latency_jumps where cause in ('prefill', 'concurrency', 'context_growth')
        """,
    )
    if not rows or rows[0].jump_count == 0:
        return None
    jumps = rows[0]
    return Clause(
        "prefills, a larger batch or longer contexts slowed the steps "
        f"(from {format_ms(jumps.before_ms)} to {format_ms(jumps.after_ms)} at worst)",
        0.6,
        "Chunk prefills smaller, or cap the batch; see the latency jumps.",
        Evidence(
            "latency_jumps",
            "cause in ('prefill', 'concurrency', 'context_growth')",
            (("jumps", jumps.jump_count), ("before_ms", jumps.before_ms), ("after_ms", jumps.after_ms)),
        ),
    )
