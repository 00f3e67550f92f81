"""The section about GPU time: by phase, by kernel family, and idle between steps."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.marts import query_rows
from kvcliff.report.document import Block, Column, Paragraph, Section
from kvcliff.report.tables import SHOWN_ROWS, read_table
from kvcliff.units import format_pct

_PHASE_COLUMNS = (
    Column("level", "Level", "name"),
    Column("device_id", "GPU", "count"),
    Column("phase", "Phase", "word"),
    Column("share", "Share of GPU time", "pct"),
    Column("gpu_time_ns", "Kernels", "duration_ns"),
    Column("graph_time_ns", "Opaque graphs", "duration_ns"),
    Column("kernel_count", "Launches", "count"),
    Column("attention_share", "Attention share", "pct"),
    Column("confident_share", "Phase is sure", "pct"),
)
_PHASE_SQL = """
with attention as (
    select level, device_id, phase, fsum(share_of_phase) filter (where is_attention) as share
    from kernel_families
    group by level, device_id, phase
)

select
    totals.level, totals.device_id, totals.phase,
    (totals.gpu_time_ns + totals.graph_time_ns)
    / nullif(sum(totals.gpu_time_ns + totals.graph_time_ns) over device, 0),
    totals.gpu_time_ns, nullif(totals.graph_time_ns, 0), totals.kernel_count, attention.share,
    totals.confident_time_ns / nullif(totals.gpu_time_ns + totals.graph_time_ns, 0)
from phase_totals as totals
left join attention
    on
        totals.level is not distinct from attention.level
        and totals.device_id = attention.device_id
        and totals.phase = attention.phase
window device as (partition by totals.level, totals.device_id)
order by
    totals.level, totals.device_id, list_position(['prefill', 'decode', 'mixed', 'other'], totals.phase),
    totals.phase
limit 40
"""
_FAMILY_COLUMNS = (
    Column("level", "Level", "name"),
    Column("device_id", "GPU", "count"),
    Column("phase", "Phase", "word"),
    Column("family", "Family", "word"),
    Column("gpu_time_ns", "GPU time", "duration_ns"),
    Column("share_of_phase", "Share of phase", "pct"),
    Column("kernel_count", "Launches", "count"),
)
_FAMILY_SQL = """
select level, device_id, phase, replace(family, '_', ' '), gpu_time_ns, share_of_phase, kernel_count
from kernel_families
where share_of_phase >= 0.005
order by gpu_time_ns desc, level, device_id, phase, family
limit ?
"""
_STEP_COLUMNS = (
    Column("level", "Level", "name"),
    Column("phase", "Steps", "word"),
    Column("step_count", "Count", "count"),
    Column("step_p50_ns", "Step p50", "duration_ns"),
    Column("gpu_busy_ns", "GPU busy", "duration_ns"),
    Column("host_bubble_ns", "Idle: host late", "duration_ns"),
    Column("copy_bubble_ns", "Idle: copies", "duration_ns"),
    Column("device_bubble_ns", "Idle: other", "duration_ns"),
    Column("recomputed_tokens", "Recomputed tokens", "count"),
)
_STEP_SQL = """
select
    level, phase, count(*), quantile_disc(end_ns - start_ns, 0.5), sum(gpu_busy_ns),
    sum(bubble_before_ns) filter (where bubble_cause = 'host'),
    sum(bubble_before_ns) filter (where bubble_cause = 'copy'),
    sum(bubble_before_ns) filter (where bubble_cause = 'device'),
    nullif(sum(recomputed_tokens), 0)
from steps
group by level, phase
order by level, list_position(['prefill', 'decode', 'mixed', 'other'], phase), phase
limit 40
"""
_DECODE_SQL = """
with phases as (
    select
        sum(gpu_time_ns + graph_time_ns) as all_ns,
        sum(gpu_time_ns + graph_time_ns) filter (where phase = 'decode') as decode_ns
    from phase_totals
),

families as (
    select
        sum(gpu_time_ns) as all_ns,
        sum(gpu_time_ns) filter (where is_attention) as attention_ns
    from kernel_families
    where phase = 'decode'
)

select
    phases.decode_ns / nullif(phases.all_ns, 0),
    families.attention_ns / nullif(families.all_ns, 0)
from phases
cross join families
"""


@dataclass(frozen=True)
class _Decode:
    share: float | None
    attention_share: float | None


def gpu_time_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return where GPU time goes: by phase, by kernel family, and between steps."""
    phases = read_table(con, "phase_totals", _PHASE_COLUMNS, _PHASE_SQL, also_needs=("kernel_families",))
    families = read_table(
        con,
        "kernel_families",
        _FAMILY_COLUMNS,
        _FAMILY_SQL,
        (SHOWN_ROWS,),
        more_words="families",
        total_sql="select count(*) from kernel_families",
    )
    steps = read_table(con, "steps", _STEP_COLUMNS, _STEP_SQL)
    tables = tuple(table for table in (phases, families, steps) if table is not None)
    if not tables:
        return None
    blocks: tuple[Block, ...] = (*_decode_words(con), *tables)
    return Section("gpu_time", "Where GPU time goes", blocks)


def _decode_words(con: duckdb.DuckDBPyConnection) -> tuple[Paragraph, ...]:
    """Return decode's share and attention's share of it, which every further question starts from."""
    rows = query_rows(con, ("phase_totals", "kernel_families"), _Decode, _DECODE_SQL)
    if not rows or rows[0].share is None:
        return ()
    attention = rows[0].attention_share
    share = (
        f"; attention is {format_pct(attention)} of decode's visible kernels" if attention is not None else ""
    )
    return (Paragraph(f"Decode took {format_pct(rows[0].share)} of the GPU time{share}."),)
