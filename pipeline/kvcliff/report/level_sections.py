"""The section about the levels of a sweep: what each load brought, and where the first swap point is."""

import duckdb

from kvcliff.report.document import Column, Section
from kvcliff.report.tables import START_SQL, read_table

_LEVEL_COLUMNS = (
    Column("level", "Level", "name"),
    Column("request_rate_per_s", "Requests/s", "number"),
    Column("mark", "Mark", "word"),
    Column("cause", "Cause", "word"),
    Column("running_max", "Running (max)", "count"),
    Column("kv_max_ratio", "KV (max)", "pct"),
    Column("read_hit_ratio", "L2 hits of SM reads", "pct"),
    Column("dram_use_ratio", "DRAM use", "pct"),
    Column("tokens_per_s", "Tokens/s", "number"),
    Column("elasticity", "Growth per load", "number"),
    Column("ttft_p50_ms", "TTFT p50", "ms"),
    Column("itl_p50_ms", "ITL p50", "ms"),
    Column("itl_p99_ms", "ITL p99", "ms"),
    Column("preemption_count", "Preemptions", "count"),
    Column("swap_point_count", "Swap points", "count"),
    Column("class", "Surest", "word"),
    Column("first_offset_ns", "First, into the level", "offset_ns"),
    Column("error_ns", "Error", "error_ns"),
    Column("action_count", "Actions", "count"),
    Column("blocked_s", "Blocked", "seconds"),
)
#: Swap points know the levels of folders only: for levels inside one folder their number is left open.
_LEVEL_SQL = f"""
with placed as (
    select distinct level
    from kv_occupancy
),

points as (
    select
        level, count(*) as swap_point_count, sum(action_count) as action_count, fsum(blocked_s) as blocked_s,
        min("class") as class_name, min(at_ns) as at_ns, arg_min(error_ns, (at_ns, swap_point_id)) as error_ns
    from swap_points
    where "class" in ('confirmed', 'probable')
    group by level
)

select
    knees.level,
    case knees.load_kind when 'request rate' then knees.load end,
    nullif(
        concat_ws(
            ', ', case when knees.is_knee then 'knee' end, case when knees.is_saturation then 'saturation' end
        ),
        ''
    ),
    case knees.cause when 'kv' then 'KV' when 'l2' then 'L2' else knees.cause end,
    knees.running_max, knees.kv_used_ratio_max,
    case when knees.l2_reuse in ('present', 'none') then knees.read_hit_ratio end, knees.dram_use_ratio,
    knees.tokens_per_s, knees.elasticity, knees.ttft_p50_ms,
    knees.itl_p50_ms, knees.itl_p99_ms, knees.preemption_count,
    case when placed.level is not null then coalesce(points.swap_point_count, 0) end, points.class_name,
    points.at_ns - {START_SQL.format(table="knees")}, points.error_ns, points.action_count, points.blocked_s
from concurrency_knee as knees
left join placed on knees.level = placed.level
left join points on knees.level = points.level
order by knees.sweep nulls first, knees.place_no nulls last, knees.level_number nulls last, knees.level
limit 60
"""  # noqa: S608


def level_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return one row per level of a sweep, the lightest load first; ``None`` when the run is no sweep."""
    table = read_table(
        con,
        "concurrency_knee",
        _LEVEL_COLUMNS,
        _LEVEL_SQL,
        also_needs=("kv_occupancy", "token_latency", "swap_points", "runs"),
    )
    return Section("levels", "Levels", (table,)) if table is not None else None
