"""Which level and replica a figure shows when a run has several: the one that is worst off."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.levels import read_levels
from kvcliff.findings.marts import query_rows


@dataclass(frozen=True)
class Focus:
    """The part of a run that the figure shows.

    Attributes:
        level: level, or ``None`` when the run has one.
        replica_id: replica.
        reason: why this one, empty when there is no choice.
        other_count: how many level and replica pairs are not the main curve.
    """

    level: str | None
    replica_id: str | None
    reason: str
    other_count: int


@dataclass(frozen=True)
class _Candidate:
    level: str | None
    replica_id: str | None
    rank: int
    measure: float | None


_POINTS_SQL = """
select
    level, replica_id,
    min(case "class" when 'confirmed' then 0 when 'probable' then 1 else 2 end) as rank,
    max(longest_gap_ms) as measure
from swap_points
group by level, replica_id
order by rank, coalesce(measure, 0) desc, min(at_ns), level, replica_id
"""
_LOWEST_SQL = """
select level, replica_id, 0 as rank, null as measure
from swap_points
where "class" in ('confirmed', 'probable') and level is not null
group by level, replica_id
order by list_position(?, level), min(at_ns), replica_id
"""
_KV_SQL = """
select level, replica_id, 3 as rank, max(used_ratio) as measure
from kv_occupancy
where tier = 'hbm'
group by level, replica_id
order by measure desc nulls last, min(ts_ns), level, replica_id
"""
_LATENCY_SQL = """
select level, replica_id, 4 as rank, max(itl_p99_ms) as measure
from token_latency
group by level, replica_id
order by measure desc nulls last, min(ts_ns), level, replica_id
"""


def choose_focus(con: duckdb.DuckDBPyConnection) -> Focus | None:
    """Return what to draw, or ``None`` when the run has neither KV nor latency series."""
    points = query_rows(con, ("swap_points",), _Candidate, _POINTS_SQL)
    names = [level.name for level in read_levels(con)]
    lowest = query_rows(con, ("swap_points",), _Candidate, _LOWEST_SQL, (names,)) if len(names) > 1 else ()
    series = query_rows(con, ("kv_occupancy",), _Candidate, _KV_SQL)
    latency = query_rows(con, ("token_latency",), _Candidate, _LATENCY_SQL)
    pairs = {(row.level, row.replica_id) for row in (*series, *latency)}
    if not pairs:
        return None
    chosen, reason = next(
        (rows[0], words)
        for rows, words in (
            (lowest, "it is the lowest level with a swap point"),
            (points, "it has the gravest swap point"),
            (series, "its KV occupancy is highest"),
            (latency, "its ITL p99 is highest"),
        )
        if rows
    )
    others = len(pairs - {(chosen.level, chosen.replica_id)})
    return Focus(chosen.level, chosen.replica_id, reason if others else "", others)
