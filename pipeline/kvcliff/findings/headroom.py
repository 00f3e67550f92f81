"""Finding: how far is the KV cache from its ceiling; would more KV room pay?"""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.base import Evidence, Finding, Result, cannot_tell, not_found
from kvcliff.findings.captures import SCRAPE
from kvcliff.findings.marts import query_rows, threshold
from kvcliff.units import format_number, format_pct


@dataclass(frozen=True)
class _Ramp:
    level: str | None
    replica_id: str
    rise_per_s: float
    ceiling_s: float
    end_ns: int


@dataclass(frozen=True)
class _Peak:
    level: str | None
    replica_id: str | None
    used_ratio: float
    ts_ns: int


_SQL = """
select level, replica_id, used_ratio, ts_ns
from kv_occupancy
where tier = 'hbm' and used_ratio is not null
order by used_ratio desc, ts_ns, level, replica_id
limit 1
"""
#: Where the record ends on a ramp: a straight line that explains most of the last minute under load.
_RAMP_SQL = """
with samples as (
    select
        level, replica_id, origin, used_ratio, ts_ns,
        max(ts_ns) over (partition by level, replica_id, origin) as end_ns,
        arg_max(running_count, ts_ns) over (partition by level, replica_id, origin) as last_running
    from kv_occupancy
    where tier = 'hbm' and used_ratio is not null
),

lines as (
    select
        level, replica_id, origin, end_ns,
        regr_slope(used_ratio, (ts_ns - end_ns) / 1e9) as rise_per_s,
        regr_intercept(used_ratio, (ts_ns - end_ns) / 1e9) as end_ratio,
        regr_r2(used_ratio, (ts_ns - end_ns) / 1e9) as explained_ratio,
        max(used_ratio) - min(used_ratio) as range_ratio,
        count(*) as sample_count
    from samples
    where ts_ns >= end_ns - ?::bigint * 1000000000 and last_running is distinct from 0
    group by level, replica_id, origin, end_ns
)

select level, replica_id, round(rise_per_s, 6), round((1 - end_ratio) / rise_per_s, 2), end_ns
from lines
where
    rise_per_s > 0 and end_ratio < 1 and explained_ratio >= 0.5 and range_ratio >= ? and sample_count >= ?
order by (1 - end_ratio) / rise_per_s, level, replica_id, origin
limit 1
"""


def _evaluate(con: duckdb.DuckDBPyConnection) -> tuple[Result, ...]:
    peaks = query_rows(con, ("kv_occupancy",), _Peak, _SQL)
    if not peaks or peaks[0].used_ratio <= 0:
        return (cannot_tell("KV headroom: no KV occupancy was recorded.", SCRAPE),)
    peak = peaks[0]
    forecast = _forecast(con)
    evidence = Evidence(
        "kv_occupancy",
        f"tier = 'hbm' and ts_ns = {peak.ts_ns}",
        (("used_ratio", peak.used_ratio), ("ts_ns", peak.ts_ns)),
    )
    if peak.used_ratio < threshold(con, "kv_headroom_ratio"):
        return (
            Result(
                "found",
                "info",
                0.85,
                f"The KV cache has headroom: it peaked at {format_pct(peak.used_ratio)}, "
                f"so a tiered KV pool or more KV memory would not pay.{forecast}",
                evidence=(evidence,),
            ),
        )
    text = f"The KV cache has little headroom: it peaked at {format_pct(peak.used_ratio)}.{forecast}"
    return (not_found(text, 0.85, evidence),)


def _forecast(con: duckdb.DuckDBPyConnection) -> str:
    """Return when the ramp on which the record ends reaches the ceiling, as a sentence; or nothing."""
    limits = (
        threshold(con, "shape_before_s"),
        threshold(con, "kv_flat_ratio"),
        threshold(con, "jump_min_buckets"),
    )
    rows = query_rows(con, ("kv_occupancy",), _Ramp, _RAMP_SQL, limits)
    if not rows:
        return ""
    ramp = rows[0]
    return (
        f" The record ends while KV rises by {format_pct(60 * ramp.rise_per_s, 0)} of the cache a minute: "
        f"at that pace it reaches its ceiling {format_number(ramp.ceiling_s)} s later."
    )


FINDING = Finding(
    name="headroom",
    question="How far is the KV cache from its ceiling; would more KV room pay?",
    evaluate=_evaluate,
)
