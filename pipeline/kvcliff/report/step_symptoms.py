"""Symptoms of the steps: jumps, bytes, idle time, copies."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.marts import query_rows
from kvcliff.findings.other_jump import cause_action, cause_words, metric_words
from kvcliff.report.symptom import Findings, Sighting, found_action, listed, with_value
from kvcliff.units import format_bytes, format_count, format_duration_ns, format_ms, format_number, format_pct


@dataclass(frozen=True)
class _Jumps:
    cause: str
    jump_count: int
    metric: str | None
    before_ms: float | None
    after_ms: float | None
    kv_used_ratio: float | None


_JUMP_SQL = """
with ranked as (
    select
        *,
        count(*) over (partition by cause) as jump_count,
        row_number() over (
            partition by cause
            order by size_mads desc nulls last, after_ms desc nulls last, at_ns, level, replica_id, metric
        ) as rank
    from latency_jumps
    where cause <> 'kv'
)

select cause, jump_count, metric, before_ms, after_ms, kv_used_ratio
from ranked
where rank = 1
order by cause = 'unknown', jump_count desc, cause
"""


def other_jumps(con: duckdb.DuckDBPyConnection, _: Findings) -> tuple[Sighting, ...]:
    """Return the latency jumps that KV does not explain, by cause."""
    return tuple(
        Sighting(
            listed(
                f"{metric_words(row.metric)} {format_ms(row.before_ms)} to {format_ms(row.after_ms)}",
                with_value(format_pct, row.kv_used_ratio, "KV {}"),
                f"{format_count(row.jump_count)} such jumps" if row.jump_count > 1 else None,
            ),
            cause_words(row.cause),
            cause_action(row.cause),
        )
        for row in query_rows(con, ("latency_jumps",), _Jumps, _JUMP_SQL)
    )


@dataclass(frozen=True)
class _Floor:
    ratio: float
    measured_ms: float | None
    floor_ms: float | None
    is_near: bool


_FLOOR_SQL = """
with places as (
    select
        level, replica_id,
        max(ratio) filter (where line = 'ratio_to_floor') as ratio,
        max(time_ms) filter (where line = 'measured') as measured_ms,
        max(time_ms) filter (where line = 'floor') as floor_ms
    from bandwidth_ledger
    where step_class = 'decode'
    group by level, replica_id
)

select
    ratio, measured_ms, floor_ms,
    ratio <= (select value from thresholds where name = 'decode_floor_near_ratio')
from places
where ratio is not null
order by ratio desc, level, replica_id
limit 1
"""


def decode_floor(con: duckdb.DuckDBPyConnection, findings: Findings) -> tuple[Sighting, ...]:
    """Return the slowest decode step against its memory floor."""
    return tuple(
        Sighting(
            f"decode step {format_ms(row.measured_ms)}, floor {format_ms(row.floor_ms)} "
            f"({format_number(row.ratio)} times)",
            "the step reads what it must: bytes are the limit"
            if row.is_near
            else "not the bytes: launches, scheduling, compute or waiting take the rest",
            found_action(findings, "bandwidth_bound")
            if row.is_near
            else "See where GPU time goes and the idle time between steps.",
        )
        for row in query_rows(con, ("bandwidth_ledger", "thresholds"), _Floor, _FLOOR_SQL)
    )


@dataclass(frozen=True)
class _Idle:
    host_ratio: float
    copy_ratio: float


#: Before a decode step requests were running: idle time there is the engine's, unless no step ran for long.
_IDLE_SQL = """
with decode as (
    select
        sum(gpu_busy_ns) as busy_ns,
        coalesce(sum(bubble_before_ns) filter (where bubble_cause <> 'idle'), 0) as idle_ns,
        sum(bubble_before_ns) filter (where bubble_cause in ('host', 'sync')) as host_ns,
        sum(bubble_before_ns) filter (where bubble_cause = 'copy') as copy_ns
    from steps
    where phase = 'decode' and gpu_busy_ns > 0
)

select
    coalesce(host_ns, 0) / nullif(busy_ns + idle_ns, 0),
    coalesce(copy_ns, 0) / nullif(busy_ns + idle_ns, 0)
from decode
where
    (coalesce(host_ns, 0) + coalesce(copy_ns, 0)) / nullif(busy_ns + idle_ns, 0)
    >= (select value from thresholds where name = 'idle_high_ratio')
"""


def idle_decode(con: duckdb.DuckDBPyConnection, _: Findings) -> tuple[Sighting, ...]:
    """Return how much of decode's time the GPU idles, when it is much."""
    return tuple(
        Sighting(
            f"of decode's time the GPU idles {format_pct(row.host_ratio)} for a late host "
            f"and {format_pct(row.copy_ratio)} for copies",
            "the host launches steps late: scheduling, sampling or detokenising on the CPU"
            if row.host_ratio >= row.copy_ratio
            else "steps wait for copies between memories",
            "Use CUDA graphs and asynchronous scheduling; give the engine's processes CPU cores of their own."
            if row.host_ratio >= row.copy_ratio
            else "Overlap copies with compute, or avoid the swap that causes them.",
        )
        for row in query_rows(con, ("steps", "thresholds"), _Idle, _IDLE_SQL)
    )


@dataclass(frozen=True)
class _Copies:
    bytes: int
    visible_ns: int
    hidden_ratio: float | None


_COPY_SQL = """
select
    sum(bytes), sum(copy_ns - coalesce(hidden_ns, 0)), sum(hidden_ns) / nullif(sum(copy_ns), 0)
from transfers
where is_kv_swap and kind in ('htod', 'dtoh')
having count(*) > 0
"""


def kv_copies(con: duckdb.DuckDBPyConnection, _: Findings) -> tuple[Sighting, ...]:
    """Return the KV blocks that moved between GPU and host."""
    return tuple(
        Sighting(
            f"{format_bytes(row.bytes)} of KV blocks, {format_pct(row.hidden_ratio, 0)} of the time hidden "
            f"under kernels, {format_duration_ns(row.visible_ns)} not",
            "what is not hidden under kernels delays the steps that wait for it",
            "Keep the working set in HBM (fewer requests, smaller KV); hide what must move by prefetching.",
        )
        for row in query_rows(con, ("transfers",), _Copies, _COPY_SQL)
    )
