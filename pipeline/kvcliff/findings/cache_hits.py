"""Hit rates of the run by cache tier, as several findings and the report word them."""

import math
from dataclasses import dataclass

import duckdb

from kvcliff.findings.marts import query_rows, read_rows
from kvcliff.units import format_count, format_number, format_pct

TIER_TITLES = {"hbm": "engine cache", "host": "host memory", "remote": "remote store"}
_SQL = """
with latest as (
    select tier, replica_id, max_by(hit_ratio, end_ns) filter (where hit_ratio is not null) as hit_ratio
    from cache_hits
    group by tier, replica_id
),

printed as (
    select tier, fsum(hit_ratio) / nullif(count(hit_ratio), 0) as hit_ratio
    from latest
    group by tier
),

counted as (
    select tier, sum(lookup_tokens) as lookup_tokens, sum(hit_tokens) as hit_tokens
    from cache_hits
    group by tier
)

select
    counted.tier,
    counted.lookup_tokens,
    counted.hit_tokens,
    coalesce(counted.hit_tokens / nullif(counted.lookup_tokens, 0), printed.hit_ratio) as hit_ratio,
    counted.lookup_tokens is null as is_printed
from counted
left join printed on counted.tier = printed.tier
where counted.lookup_tokens > 0 or (counted.lookup_tokens is null and printed.hit_ratio is not null)
order by case counted.tier when 'hbm' then 0 when 'host' then 1 else 2 end, counted.tier
"""


@dataclass(frozen=True)
class TierHits:
    """Hits of one tier over the run.

    Attributes:
        tier: ``hbm``, ``host`` or ``remote``.
        lookup_tokens: tokens looked up, or ``None`` when only a printed ratio is known.
        hit_tokens: tokens found.
        hit_ratio: hits over look-ups; of printed ratios the latest, averaged over replicas.
        is_printed: whether the ratio is the engine's own printed one.
    """

    tier: str
    lookup_tokens: int | None
    hit_tokens: int | None
    hit_ratio: float
    is_printed: bool


def read_tier_hits(con: duckdb.DuckDBPyConnection) -> tuple[TierHits, ...]:
    """Return the hit rate of each tier that was looked up, HBM first."""
    return query_rows(con, ("cache_hits",), TierHits, _SQL)


@dataclass(frozen=True)
class _Pace:
    tokens_per_s: float | None


@dataclass(frozen=True)
class _Lost:
    lost_s: float | None


@dataclass(frozen=True)
class Savings:
    """What hits saved over the run, and what they could not.

    Attributes:
        saved_tokens: prompt tokens that were not computed again.
        saved_s: prefill time of so many tokens at the measured pace, ``None`` when no pace was measured.
        lost_s: silence of swap-point victims, which no hit shortens; ``None`` when none was measured.
    """

    saved_tokens: int
    saved_s: float | None
    lost_s: float | None


def read_savings(con: duckdb.DuckDBPyConnection, hits: tuple[TierHits, ...]) -> Savings | None:
    """Return what the hits saved, or ``None`` when only printed ratios are known."""
    saved = sum(hit.hit_tokens or 0 for hit in hits)
    if not saved:
        return None
    paces = read_rows(
        con,
        "bandwidth_ledger",
        _Pace,
        where="step_class = 'prefill' and line = 'measured' and tokens_per_s > 0",
        order="tokens_per_s, level, replica_id",
    )
    pace = paces[0].tokens_per_s if paces else None
    lost = [
        row.lost_s
        for row in read_rows(con, "swap_points", _Lost, order="swap_point_id")
        if row.lost_s is not None
    ]
    return Savings(saved, saved / pace if pace else None, math.fsum(lost) if lost else None)


def savings_words(savings: Savings) -> str:
    """Return what the hits saved and what they could not, for the reason of a verdict."""
    pace = f" (about {format_number(savings.saved_s)} s of it)" if savings.saved_s is not None else ""
    lost = (
        f", but not the {format_number(savings.lost_s)} s that streams stood still in all"
        if savings.lost_s
        else ""
    )
    return f"the hits saved the prefill of {format_count(savings.saved_tokens)} prompt tokens{pace}{lost}"


def tier_words(hits: tuple[TierHits, ...]) -> str:
    """Return ``engine cache 92 %, host memory 41 %``."""
    return ", ".join(
        f"{TIER_TITLES.get(hit.tier, hit.tier)} {format_pct(min(hit.hit_ratio, 1.0), 0)}" for hit in hits
    )
