"""What to answer about swap points when a run has none: a proven no, or what is missing."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.base import Evidence, Result, cannot_tell, not_found
from kvcliff.findings.captures import SCRAPE
from kvcliff.findings.marts import query_rows, threshold
from kvcliff.findings.run_time import format_error
from kvcliff.units import format_count, format_pct


@dataclass(frozen=True)
class _KvRange:
    row_count: int
    level_count: int
    level_without_count: int
    max_ratio: float | None
    mean_footprint_ratio: float | None
    longest_step_ns: int | None
    gauge_count: int


@dataclass(frozen=True)
class _EventCount:
    row_count: int
    event_count: int | None


_KV_RANGE_SQL = """
with hbm as (
    select
        *,
        ts_ns - lag(ts_ns) over (partition by level, replica_id, origin order by ts_ns) as step_ns
    from kv_occupancy
    where tier = 'hbm' and used_ratio is not null
),

load_levels as (
    select distinct coalesce(level, '') as level from token_latency where token_count > 0
)

select
    count(*),
    count(distinct coalesce(level, '')),
    (select count(*) from load_levels where level not in (select coalesce(level, '') from hbm)),
    max(used_ratio),
    fsum(used_ratio) filter (where running_count > 0)
    / nullif(sum(running_count) filter (where running_count > 0), 0),
    quantile_disc(step_ns, 0.9),
    count(*) filter (where waiting_count is not null and running_count is not null)
from hbm
"""
_EVENTS_SQL = """
select count(*), sum(event_count)
from engine_events
where
    kind in ('preempt', 'flip', 'recompute_step', 'retract', 'pause', 'swap_out', 'copies_out')
    and proof in ('counter', 'log', 'resume', 'copies')
"""


def answer_without_points(con: duckdb.DuckDBPyConnection) -> Result:
    """Return the answer for a run without swap points: a proven no, or what is missing."""
    ranges = query_rows(con, ("kv_occupancy", "token_latency"), _KvRange, _KV_RANGE_SQL)
    kv = ranges[0] if ranges else _KvRange(0, 0, 0, None, None, None, 0)
    events = query_rows(con, ("engine_events",), _EventCount, _EVENTS_SQL)
    acted = (events[0].event_count or 0) if events else 0
    evidence = Evidence(
        "kv_occupancy",
        "tier = 'hbm'",
        (
            ("rows", kv.row_count),
            ("max used_ratio", kv.max_ratio),
            ("mean footprint_ratio", kv.mean_footprint_ratio),
        ),
    )
    if kv.max_ratio is None:
        seen = f"the engine acted {format_count(acted)} times, but " if acted else ""
        return cannot_tell(f"Swap point: {seen}no KV occupancy was recorded.", SCRAPE, evidence)
    if kv.max_ratio <= 0:
        return cannot_tell(
            "Swap point: the KV occupancy series is zero throughout, which under load means "
            "a wrong metric name, not an empty cache.",
            SCRAPE,
            evidence,
        )
    if kv.level_without_count:
        return cannot_tell(
            f"Swap point: {format_count(kv.level_without_count)} level(s) have token times but no KV series.",
            SCRAPE,
            evidence,
        )
    return _answer_no(con, kv, acted, evidence)


def _answer_no(con: duckdb.DuckDBPyConnection, kv: _KvRange, acted: int, evidence: Evidence) -> Result:
    highest = kv.max_ratio or 0.0
    high = threshold(con, "kv_high_ratio")
    # Without running counts the footprint is unknown; then only the general level can tell.
    ceiling = 1.0 - min(kv.mean_footprint_ratio, 1.0) if kv.mean_footprint_ratio is not None else high
    coarse_ns = threshold(con, "kv_sampling_coarse_s") * 1e9
    is_coarse = kv.longest_step_ns is not None and kv.longest_step_ns > coarse_ns
    sampled = f", sampled every {format_error(kv.longest_step_ns or 0)}" if is_coarse else ""
    if highest < max(high, ceiling):
        never = (
            "never came within one request's footprint of its ceiling"
            if kv.mean_footprint_ratio is not None and highest < ceiling
            else f"stayed below {format_pct(high, 0)}"
        )
        return not_found(
            f"No swap point: KV occupancy {never} (max {format_pct(highest)}{sampled}).",
            0.7 if is_coarse else 0.95,
            evidence,
            reason=_reason(kv),
        )
    if kv.gauge_count == 0:
        return cannot_tell(
            f"Swap point: KV occupancy reached {format_pct(highest)}, "
            "and nothing recorded says what the engine did then.",
            SCRAPE,
            evidence,
        )
    did = (
        f"what the engine did ({format_count(acted)} actions) did not happen under it"
        if acted
        else "the engine neither preempted nor held requests back"
    )
    return not_found(
        f"No swap point: KV occupancy reached {format_pct(highest)}{sampled}, but {did}.",
        0.6 if is_coarse else 0.75,
        evidence,
        reason=_reason(kv),
    )


def _reason(kv: _KvRange) -> str:
    step = f", most of them at most {format_error(kv.longest_step_ns)} apart" if kv.longest_step_ns else ""
    return f"{format_count(kv.row_count)} samples of the engine's KV occupancy{step}"
