"""Sections about GPU traces themselves: what each can tell, and kernel sums that came without times."""

import duckdb

from kvcliff.report.document import Column, Paragraph, Section
from kvcliff.report.tables import SHOWN_ROWS, read_table

_CAPTURE_COLUMNS = (
    Column("level", "Level", "name"),
    Column("path", "Trace", "name"),
    Column("capability", "About", "word"),
    Column("verdict", "State", "word"),
    Column("event_count", "Events", "count"),
    Column("data_until_ns", "Until", "instant"),
    Column("reason", "Why", "word"),
)
#: What is missing comes first: it decides what the rest of the report can say.
_CAPTURE_SQL = """
with listed as (
    select *
    from captures
    qualify row_number() over (order by verdict = 'present', source_id, capability, verdict) <= 40
)

select
    level, path, replace(capability, '_', ' '), replace(verdict, '_', ' '), nullif(event_count, 0),
    data_until_ns, reason
from listed
order by source_id, capability, verdict
"""
_SUM_COLUMNS = (
    Column("level", "Level", "name"),
    Column("short_name", "Kernel", "name"),
    Column("family", "Family", "word"),
    Column("phase", "Phase", "word"),
    Column("launch_count", "Launches", "count"),
    Column("gpu_time_ns", "GPU time", "duration_ns"),
    Column("share", "Share", "pct"),
    Column("min_ns", "Shortest", "duration_ns"),
    Column("max_ns", "Longest", "duration_ns"),
)
_SUM_SQL = """
with named as (
    select
        sums.*, names.short_name,
        sums.gpu_time_ns / nullif(sum(sums.gpu_time_ns) over (partition by sums.source_id), 0) as share
    from kernel_sums as sums
    left join kernel_names as names on sums.kernel_id = names.kernel_id
)

select
    level, short_name, replace(family, '_', ' '), phase, launch_count, gpu_time_ns, share, min_ns, max_ns
from named
order by gpu_time_ns desc nulls last, source_id, kernel_id
limit ?
"""


def capture_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return what each GPU trace can tell, and what it cannot."""
    table = read_table(
        con,
        "captures",
        _CAPTURE_COLUMNS,
        _CAPTURE_SQL,
        more_words="rows",
        total_sql="select count(*) from captures",
    )
    if table is None:
        return None
    words = "Failed: asked for and not there. Not traced: not asked for. Neither says that the GPU was idle."
    return Section("captures", "What the GPU traces can tell", (table, Paragraph(words)))


def kernel_sum_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return the kernels of captures that came as sums only, the longest first."""
    table = read_table(
        con,
        "kernel_sums",
        _SUM_COLUMNS,
        _SUM_SQL,
        (SHOWN_ROWS,),
        also_needs=("kernel_names",),
        more_words="kernels",
        total_sql="select count(*) from kernel_sums",
    )
    if table is None:
        return None
    words = "These captures hold no times: no kernel is tied to a step, and parallel streams count twice."
    return Section("kernel_sums", "Kernel sums without times", (table, Paragraph(words)))
