"""Finding: the KV cache was hit, and still it is slow. What makes it slow?"""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.base import Evidence, Finding, Result, cannot_tell, not_found
from kvcliff.findings.cache_hits import (
    Savings,
    TierHits,
    read_savings,
    read_tier_hits,
    savings_words,
    tier_words,
)
from kvcliff.findings.captures import CLIENT, PREFIX_CACHE, SCRAPE, TRACE
from kvcliff.findings.engine_facts import runs_on_cpu, setting
from kvcliff.findings.hit_clauses import (
    Clause,
    Look,
    batch,
    blocked,
    decode_bytes,
    missed_slo,
    preemption,
    slow_tokens,
    tier_loads,
)
from kvcliff.findings.hit_shares import BATCH, DECODE_BYTES, TIER_LOADS, Share, read_shares, share_words
from kvcliff.findings.marts import has_rows, read_rows, threshold

_CAUSES: tuple[tuple[str, Look], ...] = (
    (DECODE_BYTES, decode_bytes),
    (TIER_LOADS, tier_loads),
    (BATCH, batch),
)


@dataclass(frozen=True)
class _Source:
    source_id: int
    path: str


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
    waits = _first(con, (preemption, blocked))
    slowness = waits or _first(con, (slow_tokens, missed_slo))
    shares = read_shares(con) if slowness is not None else ()
    causes = _ranked(con, shares) if slowness is not None else ()
    if slowness is not None and (waits is not None or causes):
        savings = read_savings(con, hits)
        return (_found(hits, slowness, causes, evidence, savings, shares, is_explained=waits is not None),)
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


def _first(con: duckdb.DuckDBPyConnection, looks: tuple[Look, ...]) -> Clause | None:
    return next((clause for clause in (look(con) for look in looks) if clause is not None), None)


def _ranked(con: duckdb.DuckDBPyConnection, shares: tuple[Share, ...]) -> tuple[Clause, ...]:
    """Return the causes that the run shows, the most expensive first where their price is known."""
    places = {share.name: place for place, share in enumerate(shares)}
    looks = sorted(_CAUSES, key=lambda cause: places[cause[0]])
    return tuple(clause for clause in (look(con) for _, look in looks) if clause is not None)


def _found(
    hits: tuple[TierHits, ...],
    slowness: Clause,
    causes: tuple[Clause, ...],
    evidence: Evidence,
    savings: Savings | None,
    shares: tuple[Share, ...],
    *,
    is_explained: bool,
) -> Result:
    """Return the result: waits for KV blocks explain themselves, slow tokens need one of the causes."""
    leader = slowness if is_explained else causes[0]
    clauses = [slowness.words] if is_explained else [slowness.words, leader.words]
    also = causes if is_explained else causes[1:]
    saved = savings_words(savings) if savings is not None else None
    reasons = [leader.reason, saved, share_words(shares)]
    tail = f"; also, {' and '.join(cause.words for cause in also)}" if also else ""
    return Result(
        "found",
        "critical" if is_explained and leader.confidence >= 0.9 else "warning",
        leader.confidence,
        f"The KV cache was hit ({tier_words(hits)}) and still it is slow: {', '.join(clauses)}{tail}.",
        action=leader.action,
        evidence=(evidence, slowness.evidence, *(cause.evidence for cause in causes)),
        reason="; ".join(reason for reason in reasons if reason) or None,
    )


FINDING = Finding(
    name="hit_but_slow",
    question="Was the KV cache hit, and tokens were slow all the same?",
    evaluate=_evaluate,
)
