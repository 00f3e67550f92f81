"""Changes that are no jump but explain one that is missing: a profiler that stops, contexts that grow."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.base import Evidence, Result
from kvcliff.findings.levels import read_levels
from kvcliff.findings.marts import query_rows, threshold
from kvcliff.findings.run_time import read_run_time
from kvcliff.units import format_count, format_ms, format_pct


@dataclass(frozen=True)
class _ProfilerStop:
    first_ns: int
    last_ns: int
    error_ns: int
    level: str | None


#: A stop has a line at its begin and at its end, within a minute.
_STOP_SQL = """
with stops as (
    select
        *,
        coalesce(ts_ns - lag(ts_ns) over in_order > 60000000000, true) as is_start
    from engine_events
    where kind = 'profiler_stop'
    window in_order as (partition by level, replica_id order by ts_ns)
),

numbered as (
    select *, count(*) filter (where is_start) over (
        partition by level, replica_id order by ts_ns rows between unbounded preceding and current row
    ) as stop_no
    from stops
)

select min(ts_ns) as first_ns, max(ts_ns) as last_ns, max(error_ns) as error_ns, level
from numbered
where not exists (select 1 from latency_jumps where cause = 'profiler')
group by level, replica_id, stop_no
having max(ts_ns) > min(ts_ns)
order by last_ns - first_ns desc, first_ns
limit 1
"""


def profiler_stops(con: duckdb.DuckDBPyConnection) -> tuple[Result, ...]:
    """Return the longest stop of a profiler that no jump shows: the engine stands still meanwhile."""
    rows = query_rows(con, ("engine_events", "latency_jumps"), _ProfilerStop, _STOP_SQL)
    run_time = read_run_time(con)
    starts = {level.name: level.started_at_ns for level in read_levels(con)}
    return tuple(
        Result(
            "found",
            "info",
            0.8,
            f"A profiler took {format_ms((row.last_ns - row.first_ns) / 1e6)} to stop at "
            f"{run_time.at(row.first_ns, row.error_ns, starts.get(row.level or ''))}: it stood still, "
            "not for KV; no token latency jumped with it.",
            evidence=(Evidence("engine_events", "kind = 'profiler_stop'", (("ts_ns", row.first_ns),)),),
            reason="the lines of the log at its begin and its end",
        )
        for row in rows
    )


@dataclass(frozen=True)
class _Growth:
    level: str | None
    itl_first_ms: float
    itl_last_ms: float
    kv_first_ratio: float
    kv_last_ratio: float
    batch: float


#: Stretches of one steady batch in which KV and the median ITL climb together from fifth to fifth.
_GROWTH_SQL = """
with occupancy as (
    select level, replica_id, ts_ns // 1000000000 as second, avg(used_ratio) as kv_used_ratio
    from kv_occupancy
    where used_ratio is not null and tier = 'hbm'
    group by level, replica_id, ts_ns // 1000000000
),

buckets as (
    select
        l.level, l.replica_id, l.ts_ns, l.itl_p50_ms, round(l.running_count) as batch, o.kv_used_ratio,
        row_number() over (partition by l.level, l.replica_id order by l.ts_ns)
        - row_number() over (
            partition by l.level, l.replica_id, round(l.running_count) order by l.ts_ns
        ) as island
    from token_latency as l
    inner join occupancy as o
        on o.replica_id = l.replica_id
        and o.level is not distinct from l.level
        and o.second = l.ts_ns // 1000000000
    where l.itl_p50_ms is not null and l.running_count >= 1
),

placed as (
    select *, ntile(5) over (partition by level, replica_id, batch, island order by ts_ns) as fifth
    from buckets
),

stretches as (
    select
        level, batch, min(ts_ns) as start_ns,
        median(itl_p50_ms) filter (where fifth = 1) as itl_first_ms,
        median(itl_p50_ms) filter (where fifth = 5) as itl_last_ms,
        median(kv_used_ratio) filter (where fifth = 1) as kv_first_ratio,
        median(kv_used_ratio) filter (where fifth = 5) as kv_last_ratio
    from placed
    group by level, replica_id, batch, island
    having
        max(ts_ns) - min(ts_ns) >= ? * 1000000000
        and corr(itl_p50_ms, kv_used_ratio) >= ?
        and corr(itl_p50_ms, ts_ns) >= ?
)

select level, itl_first_ms, itl_last_ms, kv_first_ratio, kv_last_ratio, batch
from stretches
where itl_last_ms >= ? * itl_first_ms and kv_last_ratio >= ? * kv_first_ratio
order by itl_last_ms / itl_first_ms desc, start_ns
limit 1
"""


def context_growth(con: duckdb.DuckDBPyConnection) -> str:
    """Return a clause on the steepest slow rise of latency under a steady batch whose contexts grew."""
    together, factor = threshold(con, "kv_itl_together"), threshold(con, "jump_batch_factor")
    limits = (threshold(con, "jump_before_s"), together, together, factor, factor)
    rows = query_rows(con, ("token_latency", "kv_occupancy"), _Growth, _GROWTH_SQL, limits)
    if not rows:
        return ""
    (row,) = rows
    return (
        f"; ITL p50 rose slowly from {format_ms(row.itl_first_ms)} to {format_ms(row.itl_last_ms)} while "
        f"{format_count(row.batch)} requests ran and KV occupancy grew from "
        f"{format_pct(row.kv_first_ratio, 0)} to {format_pct(row.kv_last_ratio, 0)}: contexts grew longer"
    )
