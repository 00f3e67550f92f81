"""Finding: did KV pressure change how the engine works, and did users' tokens get slower?"""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.base import Evidence, Finding, Result, Severity, cannot_tell
from kvcliff.findings.captures import MORE_KV_ROOM, SCRAPE
from kvcliff.findings.engine_facts import cap_action
from kvcliff.findings.levels import Level, level_range, read_levels
from kvcliff.findings.marts import query_rows, threshold
from kvcliff.findings.run_time import format_error, read_run_time
from kvcliff.findings.swap_absent import answer_without_points
from kvcliff.findings.swap_words import (
    SwapPoint,
    confidence_reason,
    happened,
    kv_words,
    other_points,
    point_sentence,
    read_swap_points,
    worst_first,
)
from kvcliff.units import NS_PER_MS, NS_PER_S

_SEVERITY: dict[str, Severity] = {"confirmed": "critical", "probable": "warning"}
#: Of the class; for pressure, of the statement that it is no swap point.
_CONFIDENCE = {"confirmed": 0.95, "probable": 0.75, "pressure": 0.75}
#: Taken off when the error bar is longer than the longest wait: then the date says little.
_WIDE_ERROR_PENALTY = 0.1


@dataclass(frozen=True)
class _Step:
    step_ns: int | None


_STEP_SQL = """
select cast(median(step_ns) as bigint)
from (
    select ts_ns - lag(ts_ns) over (partition by origin order by ts_ns) as step_ns
    from kv_occupancy
    where tier = 'hbm' and level is not distinct from ? and replica_id is not distinct from ?
) as steps
"""


def _evaluate(con: duckdb.DuckDBPyConnection) -> tuple[Result, ...]:
    points = worst_first(read_swap_points(con))
    if not points:
        return (answer_without_points(con),)
    levels = read_levels(con)
    if points[0].class_name != "pressure" and len(levels) > 1:
        return (_sweep(con, points, levels),)
    return (_episodes(con, points, levels),)


def _episodes(
    con: duckdb.DuckDBPyConnection, points: tuple[SwapPoint, ...], levels: tuple[Level, ...]
) -> Result:
    head = points[0]
    starts = {level.name: level.started_at_ns for level in levels}
    sentence = point_sentence(head, read_run_time(con), starts.get(head.level or ""))
    is_wide = _is_wide(head)
    width = (
        f"; the date is no better than ± {format_error(head.error_ns or 0)}, longer than the harm"
        if is_wide
        else ""
    )
    coarse_ns = _coarse_step_ns(con, head)
    if coarse_ns is not None:
        pressure = sentence.removeprefix("No swap point, but ")
        return cannot_tell(
            f"{pressure}{other_points(head, points)}. Whether running requests were preempted cannot be told "
            f"from samples {format_error(coarse_ns)} apart.",
            SCRAPE,
            *(_evidence(point) for point in points[:10]),
        )
    confidence = _CONFIDENCE.get(head.class_name, 0.5) - (_WIDE_ERROR_PENALTY if is_wide else 0.0)
    return Result(
        "not_found" if head.class_name == "pressure" else "found",
        _SEVERITY.get(head.class_name, "info"),
        round(confidence, 2),
        f"{sentence}{width}{other_points(head, points)}.",
        action=_action(con, head),
        evidence=tuple(_evidence(point) for point in points[:10]),
        reason=confidence_reason(head),
    )


def _sweep(
    con: duckdb.DuckDBPyConnection, points: tuple[SwapPoint, ...], levels: tuple[Level, ...]
) -> Result:
    """Return the answer for a sweep: at which load it begins comes before what happened there."""
    real = tuple(point for point in points if point.class_name != "pressure")
    hit = frozenset(point.level for point in real if point.level is not None)
    first = next(level for level in levels if level.name in hit)
    head = next(point for point in real if point.level == first.name)
    when = read_run_time(con).at(head.at_ns, head.error_ns, first.started_at_ns)
    return Result(
        "found",
        _SEVERITY.get(points[0].class_name, "info"),
        _CONFIDENCE.get(points[0].class_name, 0.5),
        f"Swap points {level_range(levels, hit)}; the lowest ({head.class_name}) at level {first.name}, "
        f"{when}: {kv_words(head)} {happened(head)}.",
        action=_sweep_action(con, head, levels),
        evidence=tuple(_evidence(point) for point in real[:10]),
        reason=confidence_reason(points[0]),
    )


def _sweep_action(con: duckdb.DuckDBPyConnection, head: SwapPoint, levels: tuple[Level, ...]) -> str:
    below = [level.name for level in levels][: [level.name for level in levels].index(head.level or "")]
    if not below:
        return cap_action(con, head.swap_point_id)
    return f"Keep the load at level {below[-1]} or below, where no swap point was seen; {MORE_KV_ROOM}."


def _coarse_step_ns(con: duckdb.DuckDBPyConnection, point: SwapPoint) -> int | None:
    """Return the distance of samples too far apart to show what the engine did, else ``None``."""
    is_open = point.e_proof in (None, "gauges") and point.l_status == "not_measurable"
    if point.class_name != "pressure" or not is_open:
        return None
    rows = query_rows(con, ("kv_occupancy",), _Step, _STEP_SQL, (point.level, point.replica_id))
    step_ns = rows[0].step_ns if rows else None
    coarse_ns = threshold(con, "kv_sampling_coarse_s") * NS_PER_S
    return step_ns if step_ns is not None and step_ns >= coarse_ns else None


def _is_wide(point: SwapPoint) -> bool:
    return (
        point.error_ns is not None
        and point.longest_gap_ms is not None
        and point.error_ns > point.longest_gap_ms * NS_PER_MS
    )


def _action(con: duckdb.DuckDBPyConnection, point: SwapPoint) -> str:
    if point.class_name == "pressure":
        return "Watch KV occupancy against its ceiling; cap concurrency or context length before load grows."
    return cap_action(con, point.swap_point_id)


def _evidence(point: SwapPoint) -> Evidence:
    return Evidence(
        "swap_points",
        f"swap_point_id = {point.swap_point_id}",
        (
            ("class", point.class_name),
            ("at_ns", point.at_ns),
            ("error_ns", point.error_ns),
            ("kv_used_ratio", point.kv_used_ratio),
            ("e_proof", point.e_proof),
            ("l_status", point.l_status),
            ("action_count", point.action_count),
            ("victim_count", point.victim_count),
            ("longest_gap_ms", point.longest_gap_ms),
        ),
    )


FINDING = Finding(
    name="swap_point",
    question="Did KV pressure change how the engine works, and did users' tokens get slower?",
    evaluate=_evaluate,
)
