"""Finding: the KV cache was hit, and still it is slow. What makes it slow?"""

from collections.abc import Callable
from dataclasses import dataclass

import duckdb

from kvcliff.findings.base import Evidence, Finding, Result, cannot_tell, not_found
from kvcliff.findings.cache_hits import TierHits, read_tier_hits, tier_words
from kvcliff.findings.captures import CLIENT, FEWER_BYTES, PREFIX_CACHE, SCRAPE, TRACE
from kvcliff.findings.engine_facts import cap_action, runs_on_cpu, setting
from kvcliff.findings.marts import has_rows, query_rows, read_rows, threshold
from kvcliff.units import NS_PER_MS, format_bytes, format_count, format_ms, format_number, format_pct


@dataclass(frozen=True)
class _Clause:
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
class _Source:
    source_id: int
    path: str


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


_Look = Callable[[duckdb.DuckDBPyConnection], _Clause | None]


def _evaluate(con: duckdb.DuckDBPyConnection) -> tuple[Result, ...]:
    hits = read_tier_hits(con)
    if not hits:
        return (_without_hits(con),)
    words = tier_words(hits)
    evidence = Evidence("cache_hits", "", tuple((f"{hit.tier} hit_ratio", hit.hit_ratio) for hit in hits))
    if max(hit.hit_ratio for hit in hits) < threshold(con, "hit_high_ratio"):
        return (
            not_found(
                f"The cache hit rate is not high ({words}); prefixes are mostly computed.", 0.8, evidence
            ),
        )
    waits = _first(con, (_preemption, _blocked))
    slowness = waits or _first(con, (_slow_tokens, _missed_slo))
    causes = _all(con, (_decode_bytes, _tier_loads, _batch)) if slowness is not None else ()
    if slowness is not None and (waits is not None or causes):
        return (_found(hits, slowness, causes, evidence, is_explained=waits is not None),)
    if slowness is not None:
        # Slow for a reason that nothing here shows may have nothing to do with the cache.
        text = f"The KV cache was hit ({words}) and {slowness.words}; nothing in this run shows why."
        capture = None if runs_on_cpu(con) else TRACE
        return (cannot_tell(text, capture, evidence, slowness.evidence),)
    if not (has_rows(con, "token_latency") or has_rows(con, "requests")):
        return (
            cannot_tell(
                f"The KV cache was hit ({words}), but no token latency was recorded.", CLIENT, evidence
            ),
        )
    return (not_found(f"The KV cache was hit ({words}), and nothing shows that it was slow.", 0.8, evidence),)


def _without_hits(con: duckdb.DuckDBPyConnection) -> Result:
    """Return the answer for a run without hit rates: prefix caching is off, or what would show them."""
    if setting(con, "enable_prefix_caching") == "false":
        evidence = Evidence("settings", "name = 'enable_prefix_caching'", (("value", "false"),))
        return not_found("No prefix was hit: prefix caching is off (enable_prefix_caching).", 0.9, evidence)
    scraped = read_rows(
        con, "sources", _Source, where="role = 'metrics' and row_count > 0", order="source_id"
    )
    if scraped:
        return cannot_tell(
            f"Hit but slow: {scraped[0].path} holds no counters of prefix cache hits "
            "(prefix caching off, or an older engine).",
            PREFIX_CACHE,
        )
    return cannot_tell("Hit but slow: no cache hit rate was recorded.", SCRAPE)


def _first(con: duckdb.DuckDBPyConnection, looks: tuple[_Look, ...]) -> _Clause | None:
    return next((clause for clause in (look(con) for look in looks) if clause is not None), None)


def _all(con: duckdb.DuckDBPyConnection, looks: tuple[_Look, ...]) -> tuple[_Clause, ...]:
    return tuple(clause for clause in (look(con) for look in looks) if clause is not None)


def _found(
    hits: tuple[TierHits, ...],
    slowness: _Clause,
    causes: tuple[_Clause, ...],
    evidence: Evidence,
    *,
    is_explained: bool,
) -> Result:
    """Return the result: waits for KV blocks explain themselves, slow tokens need one of the causes."""
    leader = slowness if is_explained else causes[0]
    clauses = [slowness.words] if is_explained else [slowness.words, leader.words]
    also = causes if is_explained else causes[1:]
    tail = f"; also, {' and '.join(cause.words for cause in also)}" if also else ""
    return Result(
        "found",
        "critical" if is_explained and leader.confidence >= 0.9 else "warning",
        leader.confidence,
        f"The KV cache was hit ({tier_words(hits)}) and still it is slow: {', '.join(clauses)}{tail}.",
        action=leader.action,
        evidence=(evidence, slowness.evidence, *(cause.evidence for cause in causes)),
        reason=leader.reason,
    )


def _preemption(con: duckdb.DuckDBPyConnection) -> _Clause | None:
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
    return _Clause(
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


def _blocked(con: duckdb.DuckDBPyConnection) -> _Clause | None:
    """Return blocked admission: requests queue for blocks although their prefix is cached."""
    rows = query_rows(
        con,
        ("swap_points",),
        _Sum,
        """select count(*), fsum(blocked_s) from swap_points where "class" = 'pressure' and blocked_s > 0""",
    )
    if not rows or (rows[0].value or 0.0) < threshold(con, "hit_blocked_s"):
        return None
    return _Clause(
        f"requests waited for free KV blocks during {format_number(rows[0].value)} s, cached prefix or not",
        0.6,
        "Give running requests more KV room: cap context length or output length, or add KV memory.",
        Evidence("swap_points", "class = 'pressure' and blocked_s > 0", (("blocked_s", rows[0].value),)),
    )


def _slow_tokens(con: duckdb.DuckDBPyConnection) -> _Clause | None:
    """Return token latency above its limit."""
    rows = query_rows(
        con,
        ("indicators",),
        _Ratio,
        "select value, threshold from indicators where indicator = 'token_latency' and state = 'high'",
    )
    if not rows:
        return None
    return _Clause(
        f"the slow end of ITL is {format_ms(rows[0].value)}, the limit {format_ms(rows[0].threshold)}",
        0.5,
        "Capture a trace of a slow moment to name the cause.",
        Evidence(
            "indicators",
            "indicator = 'token_latency'",
            (("value", rows[0].value), ("threshold", rows[0].threshold)),
        ),
    )


def _missed_slo(con: duckdb.DuckDBPyConnection) -> _Clause | None:
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
    return _Clause(
        f"{format_pct(rows[0].value)} of the requests missed their SLO",
        0.5,
        "Capture a trace of a slow moment to name the cause.",
        Evidence("requests", "not is_slo_met", (("share", rows[0].value), ("requests", rows[0].row_count))),
    )


def _decode_bytes(con: duckdb.DuckDBPyConnection) -> _Clause | None:
    """Return decode bytes as the cause: every step reads weights and KV again, hit or not."""
    rows = query_rows(
        con,
        ("indicators",),
        _Ratio,
        "select value, threshold from indicators where indicator = 'hbm_bandwidth' and state = 'high'",
    )
    if not rows:
        return None
    return _Clause(
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


def _tier_loads(con: duckdb.DuckDBPyConnection) -> _Clause | None:
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
    return _Clause(
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


def _batch(con: duckdb.DuckDBPyConnection) -> _Clause | None:
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
    return _Clause(
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


FINDING = Finding(
    name="hit_but_slow",
    question="Was the KV cache hit, and tokens were slow all the same?",
    evaluate=_evaluate,
)
