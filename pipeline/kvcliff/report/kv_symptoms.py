"""Symptoms of the KV cache: hits that do not help, swap points, pressure, a queue with room."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.cache_hits import read_tier_hits, tier_words
from kvcliff.findings.marts import query_rows
from kvcliff.report.symptom import Findings, Sighting, found_action, is_found, listed, with_value
from kvcliff.report.values import counted
from kvcliff.units import format_count, format_ms, format_number, format_pct


def hits_but_slow(con: duckdb.DuckDBPyConnection, findings: Findings) -> tuple[Sighting, ...]:
    """Return that prefixes were hit and tokens were slow all the same."""
    if not is_found(findings, "hit_but_slow"):
        return ()
    return (
        Sighting(
            f"hits: {tier_words(read_tier_hits(con))}",
            "a hit saves the prefill of a prefix; it frees no blocks and makes no decode step shorter",
            found_action(findings, "hit_but_slow"),
        ),
    )


_MECHANISMS = {
    "recompute": "KV blocks ran out: requests were preempted and computed again",
    "swap": "KV blocks ran out: requests were preempted and their blocks copied out and back",
    "retract": "KV blocks ran out: requests were retracted to the queue",
    "pause": "KV blocks ran out: requests were paused and computed again",
    "offload": "KV blocks ran out: blocks were moved to another tier",
}


@dataclass(frozen=True)
class _Points:
    mechanism: str | None
    point_count: int
    class_name: str
    kv_used_ratio: float | None
    action_count: int | None
    victim_count: int | None
    longest_gap_ms: float | None


_POINT_SQL = """
select
    mechanism, count(*), min("class"), max(kv_used_ratio), sum(action_count), sum(victim_count),
    max(longest_gap_ms)
from swap_points
where "class" in ('confirmed', 'probable')
group by mechanism
order by count(*) desc, mechanism
"""


def swap_points(con: duckdb.DuckDBPyConnection, findings: Findings) -> tuple[Sighting, ...]:
    """Return the swap points by mechanism."""
    rows = query_rows(con, ("swap_points",), _Points, _POINT_SQL)
    return tuple(
        Sighting(
            listed(
                f"{counted(row.point_count, 'swap points')} ({row.class_name})",
                with_value(format_pct, row.kv_used_ratio, "KV {}"),
                with_value(format_count, row.action_count, "{} engine actions"),
                with_value(format_count, row.victim_count, "{} victims"),
                with_value(format_ms, row.longest_gap_ms, "longest stall {}"),
            ),
            _MECHANISMS.get(row.mechanism or "", "KV blocks ran out"),
            found_action(findings, "swap_point"),
        )
        for row in rows
    )


@dataclass(frozen=True)
class _Pressure:
    episode_count: int
    action_count: int | None
    blocked_s: float | None
    kv_used_ratio: float | None


_PRESSURE_SQL = """
select count(*), nullif(sum(action_count), 0), fsum(blocked_s), max(kv_used_ratio)
from swap_points
where "class" = 'pressure'
having count(*) > 0
"""


def kv_pressure(con: duckdb.DuckDBPyConnection, _: Findings) -> tuple[Sighting, ...]:
    """Return pressure on KV that did not make tokens slower."""
    return tuple(
        Sighting(
            listed(
                counted(row.episode_count, "episodes"),
                with_value(format_pct, row.kv_used_ratio, "KV {}"),
                with_value(format_count, row.action_count, "{} engine actions"),
                with_value(format_number, row.blocked_s, "admission blocked {} s"),
            ),
            "KV touches its ceiling: requests wait for blocks"
            if row.action_count is None
            else "KV touches its ceiling: the engine acts too rarely, or without measurable harm",
            "Admit fewer requests or give KV more room before the load grows: the next step up swaps.",
        )
        for row in query_rows(con, ("swap_points",), _Pressure, _PRESSURE_SQL)
    )


@dataclass(frozen=True)
class _Queue:
    share: float
    waiting_max: int
    kv_max_ratio: float


_QUEUE_SQL = """
with samples as (
    select
        waiting_count, used_ratio,
        waiting_count > 0
        and used_ratio < (select value from thresholds where name = 'kv_high_ratio') as is_queue
    from kv_occupancy
    where tier = 'hbm' and waiting_count is not null and used_ratio is not null
)

select
    count(*) filter (where is_queue) / count(*),
    max(waiting_count) filter (where is_queue), max(used_ratio) filter (where is_queue)
from samples
having
    count(*) filter (where is_queue) / nullif(count(*), 0)
    >= (select value from thresholds where name = 'queue_share_high_ratio')
"""


def queue_with_room(con: duckdb.DuckDBPyConnection, _: Findings) -> tuple[Sighting, ...]:
    """Return that requests queued although KV had room."""
    return tuple(
        Sighting(
            f"up to {format_count(row.waiting_max)} waiting in {format_pct(row.share, 0)} of the samples "
            f"with KV at {format_pct(row.kv_max_ratio, 0)} or less",
            "admission is limited by something else: max_num_seqs, the token budget of a step, or prefill",
            "Compare running requests with max_num_seqs, and step tokens with max_num_batched_tokens.",
        )
        for row in query_rows(con, ("kv_occupancy", "thresholds"), _Queue, _QUEUE_SQL)
    )
