"""Hit rates of the run by cache tier, as several findings and the report word them."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.marts import query_rows
from kvcliff.units import format_pct

TIER_TITLES = {"hbm": "HBM", "host": "host memory", "remote": "remote store"}
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


def tier_words(hits: tuple[TierHits, ...]) -> str:
    """Return ``HBM 92 %, host memory 41 %``."""
    return ", ".join(
        f"{TIER_TITLES.get(hit.tier, hit.tier)} {format_pct(min(hit.hit_ratio, 1.0), 0)}" for hit in hits
    )
