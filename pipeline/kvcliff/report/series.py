"""The curves and marks of the figure, read from marts and thinned to what a page can show."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.levels import read_levels
from kvcliff.findings.marts import query_rows
from kvcliff.report.focus import Focus

#: Bins over the time axis; each keeps its lowest and highest value, so no peak is lost.
_BIN_COUNT = 700
#: Bins over the run for engine events: one tick each, however many happened in it.
_EVENT_BIN_COUNT = 350
_MAX_MARKS = 400
#: Replicas drawn in grey behind the main curve.
_MAX_OTHERS = 8

Curve = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class _Sample:
    ts_ns: int
    value: float


@dataclass(frozen=True)
class SwapMark:
    """A swap point as drawn."""

    swap_point_id: int
    class_name: str
    at_ns: int
    error_ns: int | None
    end_ns: int | None


@dataclass(frozen=True)
class JumpMark:
    """A latency jump that is not KV, as drawn."""

    cause: str
    at_ns: int


@dataclass(frozen=True)
class _Instant:
    ts_ns: int


@dataclass(frozen=True)
class FigureSeries:
    """All that the figure draws; empty curves are not drawn.

    Attributes:
        level: level of a sweep that is drawn, or ``None``.
        level_start_ns: its first sample.
        kv: HBM occupancy ratio of the replica in focus.
        kv_host: occupancy ratio of its host tier.
        kv_others: occupancy of other replicas of the same level.
        itl_p50: median ITL in ms.
        itl_p99: 99th percentile ITL in ms.
        tokens_per_s: throughput, drawn where no latency is known.
        waiting: waiting requests.
        running: running requests.
        swap_marks: swap points.
        jump_marks: jumps with another cause.
        event_times_ns: instants of engine actions, thinned.
    """

    level: str | None
    level_start_ns: int | None
    kv: Curve
    kv_host: Curve
    kv_others: tuple[Curve, ...]
    itl_p50: Curve
    itl_p99: Curve
    tokens_per_s: Curve
    waiting: Curve
    running: Curve
    swap_marks: tuple[SwapMark, ...]
    jump_marks: tuple[JumpMark, ...]
    event_times_ns: tuple[int, ...]


@dataclass(frozen=True)
class _Name:
    value: str | None


_HERE = "level is not distinct from ? and replica_id is not distinct from ?"


def read_series(con: duckdb.DuckDBPyConnection, focus: Focus) -> FigureSeries:
    """Return the curves and marks of the level and replica in focus."""
    here = (focus.level, focus.replica_id)
    starts = {level.name: level.started_at_ns for level in read_levels(con)}
    return FigureSeries(
        level=focus.level,
        level_start_ns=starts.get(focus.level or ""),
        kv=_curve(con, "kv_occupancy", "used_ratio", "tier = 'hbm'", here),
        kv_host=_curve(con, "kv_occupancy", "used_ratio", "tier = 'host'", here),
        kv_others=_other_curves(con, focus),
        itl_p50=_curve(con, "token_latency", "itl_p50_ms", "itl_p50_ms > 0", here),
        itl_p99=_curve(con, "token_latency", "itl_p99_ms", "itl_p99_ms > 0", here),
        tokens_per_s=_curve(con, "token_latency", "tokens_per_s", "true", here),
        waiting=_curve(con, "kv_occupancy", "waiting_count", "tier = 'hbm'", here),
        running=_curve(con, "kv_occupancy", "running_count", "tier = 'hbm'", here),
        swap_marks=query_rows(
            con,
            ("swap_points",),
            SwapMark,
            f"""
            select swap_point_id, "class", at_ns, error_ns, coalesce(recovered_at_ns, end_ns)
            from swap_points where {_HERE} order by at_ns, swap_point_id
            """,  # noqa: S608
            here,
        ),
        jump_marks=query_rows(
            con,
            ("latency_jumps",),
            JumpMark,
            f"""
            select cause, at_ns from latency_jumps
            where cause <> 'kv' and {_HERE}
            order by size_mads desc nulls last, at_ns, cause
            limit {_MAX_MARKS}
            """,  # noqa: S608
            here,
        ),
        event_times_ns=_event_times(con, here),
    )


def _event_times(con: duckdb.DuckDBPyConnection, here: tuple[str | None, str | None]) -> tuple[int, ...]:
    """Return when the engine acted: the first action of each bin of the time axis."""
    rows = query_rows(
        con,
        ("engine_events",),
        _Instant,
        f"""
        with actions as (
            select ts_ns from engine_events
            where
                ts_ns is not null
                and (
                    kind in (
                        'preempt', 'flip', 'recompute_step', 'retract', 'pause', 'swap_out', 'oom', 'fatal'
                    )
                    or (kind in ('copies_out', 'copies_in') and is_under_pressure)
                )
                and {_HERE}
        ),

        binned as (
            select
                ts_ns,
                cast(ts_ns - min(ts_ns) over () as hugeint) * {_EVENT_BIN_COUNT}
                // (max(ts_ns) over () - min(ts_ns) over () + 1) as bin
            from actions
        )

        select min(ts_ns) from binned group by bin order by 1
        """,  # noqa: S608
        here,
    )
    return tuple(row.ts_ns for row in rows)


def _other_curves(con: duckdb.DuckDBPyConnection, focus: Focus) -> tuple[Curve, ...]:
    names = query_rows(
        con,
        ("kv_occupancy",),
        _Name,
        """
        select distinct replica_id from kv_occupancy
        where tier = 'hbm' and level is not distinct from ? and replica_id is distinct from ?
        order by replica_id limit ?
        """,
        (focus.level, focus.replica_id, _MAX_OTHERS),
    )
    return tuple(
        _curve(con, "kv_occupancy", "used_ratio", "tier = 'hbm'", (focus.level, name.value)) for name in names
    )


def _curve(
    con: duckdb.DuckDBPyConnection,
    mart: str,
    column: str,
    condition: str,
    here: tuple[str | None, str | None],
) -> Curve:
    """Return one curve; in each bin of the time axis the lowest and the highest sample are kept."""
    rows = query_rows(
        con,
        (mart,),
        _Sample,
        f"""
        with samples as (
            select ts_ns, {column} as value
            from {mart} where {condition} and {column} is not null and {_HERE}
        ),

        binned as (
            select
                ts_ns, value,
                cast(ts_ns - min(ts_ns) over () as hugeint) * {_BIN_COUNT}
                // (max(ts_ns) over () - min(ts_ns) over () + 1) as bin
            from samples
        ),

        ranked as (
            select
                ts_ns, value,
                row_number() over (partition by bin order by value, ts_ns) as low_rank,
                row_number() over (partition by bin order by value desc, ts_ns) as high_rank
            from binned
        )

        select distinct ts_ns, cast(value as double) from ranked
        where low_rank = 1 or high_rank = 1
        order by ts_ns, 2
        """,  # noqa: S608
        here,
    )
    return tuple((row.ts_ns, row.value) for row in rows)
