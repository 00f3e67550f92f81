"""The section about the levels of a sweep: what each load brought, and where the first swap point is."""

import duckdb

from kvcliff.findings.levels import read_levels
from kvcliff.report.document import Column, Section
from kvcliff.report.tables import START_SQL, read_table

_LEVEL_COLUMNS = (
    Column("level", "Level", "name"),
    Column("running_max", "Running (max)", "count"),
    Column("kv_max_ratio", "KV (max)", "pct"),
    Column("tokens_per_s", "Tokens/s", "number"),
    Column("itl_p50_ms", "ITL p50", "ms"),
    Column("itl_p99_ms", "ITL p99", "ms"),
    Column("swap_point_count", "Swap points", "count"),
    Column("class", "Surest", "word"),
    Column("first_offset_ns", "First, into the level", "offset_ns"),
    Column("error_ns", "Error", "error_ns"),
    Column("action_count", "Actions", "count"),
    Column("blocked_s", "Blocked", "seconds"),
)
#: Throughput is the mean over time in which requests ran; latency the median over buckets.
_LEVEL_SQL = f"""
with kv as (
    select level, max(running_count) as running_max, max(used_ratio) as kv_max_ratio
    from kv_occupancy
    where tier = 'hbm'
    group by level
),

latency as (
    select
        level, fsum(tokens_per_s * bucket_ns) / nullif(sum(bucket_ns), 0) as tokens_per_s,
        quantile_disc(itl_p50_ms, 0.5) as itl_p50_ms, quantile_disc(itl_p99_ms, 0.5) as itl_p99_ms
    from token_latency
    where tokens_per_s > 0
    group by level
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
    kv.level, kv.running_max, kv.kv_max_ratio, latency.tokens_per_s, latency.itl_p50_ms, latency.itl_p99_ms,
    coalesce(points.swap_point_count, 0), points.class_name, points.at_ns - {START_SQL.format(table="kv")},
    points.error_ns, points.action_count, points.blocked_s
from kv
left join latency on kv.level = latency.level
left join points on kv.level = points.level
where kv.level is not null
order by list_position(?, kv.level)
limit 60
"""  # noqa: S608


def level_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return one row per level of a sweep, the lightest load first; ``None`` when the run is no sweep."""
    levels = read_levels(con)
    if len(levels) < 2:
        return None
    table = read_table(
        con,
        "kv_occupancy",
        _LEVEL_COLUMNS,
        _LEVEL_SQL,
        ([level.name for level in levels],),
        also_needs=("token_latency", "swap_points"),
    )
    return Section("levels", "Levels", (table,)) if table is not None else None
