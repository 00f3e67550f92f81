"""What a Perfetto trace of a run shows, read from marts: tracks with slices, instants and counters."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import duckdb

from kvcliff.findings.marts import mart_columns
from kvcliff.report.tables import fetch_rows

Kind = Literal["slices", "instants", "counter"]
Value = int | float | str | bool | None


@dataclass(frozen=True)
class Event:
    """One slice, instant or counter value.

    Attributes:
        start_ns: its time on the run clock.
        end_ns: end of a slice, else ``None``.
        name: what stands on it; empty for counters.
        value: value of a counter, else ``None``.
        notes: further numbers, shown when it is clicked.
    """

    start_ns: int
    end_ns: int | None
    name: str
    value: float | None
    notes: tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Track:
    """One line of the trace.

    Attributes:
        group: heading under which it stands.
        name: its name.
        kind: what lies on it.
        unit: unit of a counter, else empty.
        events: in order of time.
    """

    group: str
    name: str
    kind: Kind
    unit: str
    events: tuple[Event, ...]


@dataclass(frozen=True)
class _Query:
    """One SELECT of tracks: group, name, start, end, event name or value, then what ``notes`` names."""

    mart: str
    kind: Kind
    unit: str
    sql: str
    notes: tuple[str, ...] = ()


_ENGINE = "'engine ' || coalesce(replica_id, '0') || coalesce(', level ' || level, '')"
_GPU = "'GPU ' || coalesce(device_id, 0) || coalesce(', level ' || level, '')"


def _counter(mart: str, name: str, unit: str, expression: str, where: str = "true") -> _Query:
    return _Query(
        mart,
        "counter",
        unit,
        f"""
        select {_ENGINE}, '{name}', ts_ns, null, {expression}
        from {mart}
        where ({where}) and {expression} is not null and ts_ns is not null
        order by level, replica_id, ts_ns, {expression}
        """,  # noqa: S608
    )


#: In the order in which the tracks stand below each other.
_QUERIES: tuple[_Query, ...] = (
    _Query(
        "swap_points",
        "instants",
        "",
        f"""
        select
            {_ENGINE}, 'swap points', at_ns, null,
            'swap point ' || swap_point_id || ' (' || "class" || ')',
            error_ns, mechanism, e_proof, kv_used_ratio, action_count, victim_count, longest_gap_ms
        from swap_points
        where at_ns is not null
        order by level, replica_id, at_ns, swap_point_id
        """,  # noqa: S608
        (
            "error_ns",
            "mechanism",
            "e_proof",
            "kv_used_ratio",
            "action_count",
            "victim_count",
            "longest_gap_ms",
        ),
    ),
    _Query(
        "swap_points",
        "slices",
        "",
        f"""
        select
            {_ENGINE}, 'swap point episodes', at_ns, greatest(coalesce(recovered_at_ns, end_ns), at_ns),
            'episode ' || swap_point_id, "class", action_count, victim_count, blocked_s
        from swap_points
        where at_ns is not null and coalesce(recovered_at_ns, end_ns) is not null
        order by level, replica_id, at_ns, swap_point_id
        """,  # noqa: S608
        ("class", "action_count", "victim_count", "blocked_s"),
    ),
    _Query(
        "engine_events",
        "instants",
        "",
        f"""
        select
            {_ENGINE}, 'engine events', ts_ns, null, replace(kind, '_', ' '), proof, event_count, tokens,
            bytes, error_ns, is_under_pressure
        from engine_events
        where ts_ns is not null
        order by level, replica_id, ts_ns, kind, proof, event_count, tokens, bytes, error_ns
        """,  # noqa: S608
        ("proof", "event_count", "tokens", "bytes", "error_ns", "is_under_pressure"),
    ),
    _Query(
        "latency_jumps",
        "instants",
        "",
        f"""
        select
            {_ENGINE}, 'latency jumps', at_ns, null, 'jump: ' || replace(cause, '_', ' '), metric, before_ms,
            after_ms, kv_used_ratio, error_ns
        from latency_jumps
        where at_ns is not null
        order by level, replica_id, at_ns, metric, cause
        """,  # noqa: S608
        ("metric", "before_ms", "after_ms", "kv_used_ratio", "error_ns"),
    ),
    _counter("kv_occupancy", "KV occupancy (HBM)", "%", "used_ratio * 100", "tier = 'hbm'"),
    _counter("kv_occupancy", "KV occupancy (host tier)", "%", "used_ratio * 100", "tier = 'host'"),
    _counter("kv_occupancy", "running", "requests", "running_count", "tier = 'hbm'"),
    _counter("kv_occupancy", "waiting", "requests", "waiting_count", "tier = 'hbm'"),
    _counter("token_latency", "ITL p50", "ms", "itl_p50_ms"),
    _counter("token_latency", "ITL p99", "ms", "itl_p99_ms"),
    _counter("token_latency", "tokens per second", "tokens/s", "tokens_per_s"),
    _Query(
        "steps",
        "slices",
        "",
        f"""
        select
            {_GPU}, 'steps (host)', start_ns, end_ns, phase, step_id, sequence_count, new_tokens,
            context_tokens, generation_tokens, kv_read_tokens, recomputed_tokens, gpu_busy_ns,
            bubble_before_ns, bubble_cause, confidence
        from steps
        where start_ns is not null and end_ns >= start_ns
        order by level, device_id, start_ns, end_ns desc, step_id
        """,  # noqa: S608
        (
            "step_id",
            "sequence_count",
            "new_tokens",
            "context_tokens",
            "generation_tokens",
            "kv_read_tokens",
            "recomputed_tokens",
            "gpu_busy_ns",
            "bubble_before_ns",
            "bubble_cause",
            "confidence",
        ),
    ),
    _Query(
        "steps",
        "slices",
        "",
        f"""
        select {_GPU}, 'steps (GPU)', gpu_start_ns, gpu_end_ns, phase, step_id, kernel_count, graph_count
        from steps
        where gpu_start_ns is not null and gpu_end_ns >= gpu_start_ns
        order by level, device_id, gpu_start_ns, gpu_end_ns desc, step_id
        """,  # noqa: S608
        ("step_id", "kernel_count", "graph_count"),
    ),
    # Kernels of one phase that follow each other are one slice: the kernels themselves lie in the original.
    _Query(
        "kernel_phases",
        "slices",
        "",
        f"""
        with marked as (
            select
                level, device_id, phase, start_ns, end_ns, busy_ns, source_id, kernel_no,
                phase is distinct from lag(phase) over device
                or start_ns - max(end_ns) over (
                    partition by level, device_id order by start_ns, source_id, kernel_no
                    rows between unbounded preceding and 1 preceding
                ) > 1000000 as is_new
            from kernel_phases
            where start_ns is not null and end_ns >= start_ns
            window device as (partition by level, device_id order by start_ns, source_id, kernel_no)
        ),

        numbered as (
            select
                *,
                sum(case when coalesce(is_new, true) then 1 else 0 end) over (
                    partition by level, device_id order by start_ns, source_id, kernel_no
                    rows between unbounded preceding and current row
                ) as span_no
            from marked
        )

        select
            {_GPU}, 'phases', min(start_ns), max(end_ns), any_value(phase), count(*) as kernel_count,
            sum(busy_ns) as busy_ns
        from numbered
        group by level, device_id, span_no
        order by level, device_id, span_no
        """,  # noqa: S608
        ("kernel_count", "busy_ns"),
    ),
    _Query(
        "transfers",
        "slices",
        "",
        f"""
        select
            {_GPU}, 'copies: ' || replace(kind, '_', ' '), start_ns, end_ns,
            case when is_kv_swap then 'KV blocks' else 'copy' end, transfer_id, bytes, copy_count,
            bytes_per_s / 1e9 as gb_per_s, hidden_ratio, step_id
        from transfers
        where start_ns is not null and end_ns >= start_ns
        order by level, device_id, kind, start_ns, end_ns desc, transfer_id
        """,  # noqa: S608
        ("transfer_id", "bytes", "copy_count", "gb_per_s", "hidden_ratio", "step_id"),
    ),
)


def read_tracks(con: duckdb.DuckDBPyConnection) -> Iterator[Track]:
    """Yield the tracks of an exposed run that have anything on them, those of one kind after another.

    Args:
        con: connection on which the run is exposed.
    """
    for query in _QUERIES:
        if not mart_columns(con, query.mart):
            continue
        places: dict[tuple[str, str], list[Event]] = {}
        for row in fetch_rows(con, query.mart, query.sql):
            events = places.setdefault((str(row[0]), str(row[1])), [])
            events.append(_event(query, row))
        for (group, name), events in places.items():
            yield Track(group, name, query.kind, query.unit, tuple(events))


def _event(query: _Query, row: tuple[Any, ...]) -> Event:
    start_ns, end_ns, content, *noted = row[2:]
    return Event(
        start_ns=int(start_ns),
        end_ns=None if end_ns is None else int(end_ns),
        name="" if query.kind == "counter" else str(content),
        value=float(content) if query.kind == "counter" else None,
        notes=tuple(
            (title, value) for title, value in zip(query.notes, noted, strict=True) if value is not None
        ),
    )
