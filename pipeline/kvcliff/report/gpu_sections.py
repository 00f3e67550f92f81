"""The section about GPU time: by phase, family and kernel, hardware use, and idle between steps."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.marts import query_rows
from kvcliff.report.document import Block, Column, Paragraph, Section
from kvcliff.report.tables import SHOWN_ROWS, read_table
from kvcliff.units import format_pct

#: Order in which phases are told.
_PHASE_ORDER = "['prefill', 'decode', 'mixed', 'prefill_or_mixed', 'other', 'between_steps']"
_PHASE_COLUMNS = (
    Column("level", "Level", "name"),
    Column("device_id", "GPU", "count"),
    Column("phase", "Phase", "word"),
    Column("share", "Share of GPU time", "pct"),
    Column("gpu_time_ns", "Kernels: time on the GPU", "duration_ns"),
    Column("graph_time_ns", "Opaque graphs: time on the GPU", "duration_ns"),
    Column("wall_ns", "Wall time", "duration_ns"),
    Column("kernel_count", "Launches", "count"),
    Column("attention_share", "Attention share", "pct"),
    Column("confident_share", "Phase is sure", "pct"),
)
_PHASE_SQL = f"""
with attention as (
    select level, device_id, phase, fsum(share_of_phase) filter (where is_attention) as share
    from kernel_families
    group by level, device_id, phase
)

select
    totals.level, totals.device_id, replace(totals.phase, '_', ' '),
    (totals.gpu_time_ns + totals.graph_time_ns)
    / nullif(sum(totals.gpu_time_ns + totals.graph_time_ns) over device, 0),
    totals.gpu_time_ns, nullif(totals.graph_time_ns, 0), totals.busy_ns + totals.graph_busy_ns,
    totals.kernel_count, attention.share,
    totals.confident_time_ns / nullif(totals.gpu_time_ns + totals.graph_time_ns, 0)
from phase_totals as totals
left join attention
    on
        totals.level is not distinct from attention.level
        and totals.device_id = attention.device_id
        and totals.phase = attention.phase
window device as (partition by totals.level, totals.device_id)
order by totals.level, totals.device_id, list_position({_PHASE_ORDER}, totals.phase), totals.phase
limit 40
"""  # noqa: S608
_FAMILY_COLUMNS = (
    Column("level", "Level", "name"),
    Column("phase", "Phase", "word"),
    Column("family", "Family", "word"),
    Column("gpu_time_ns", "GPU time", "duration_ns"),
    Column("share_of_phase", "Share of phase", "pct"),
    Column("kernel_count", "Launches", "count"),
)
_FAMILY_SQL = """
with families as (
    select level, phase, family, sum(gpu_time_ns) as gpu_time_ns, sum(kernel_count) as kernel_count
    from kernel_families
    group by level, phase, family
)

select
    level, replace(phase, '_', ' '), replace(family, '_', ' '), gpu_time_ns,
    gpu_time_ns / nullif(sum(gpu_time_ns) over (partition by level, phase), 0) as share_of_phase, kernel_count
from families
qualify share_of_phase >= 0.005
order by gpu_time_ns desc, level, phase, family
limit ?
"""
_KERNEL_COLUMNS = (
    Column("phase", "Phase", "word"),
    Column("short_name", "Kernel", "name"),
    Column("family", "Family", "word"),
    Column("gpu_time_ns", "GPU time", "duration_ns"),
    Column("share_of_phase", "Share of phase", "pct"),
    Column("launch_count", "Launches", "count"),
    Column("mean_ns", "Mean", "duration_ns"),
)
#: Kernels shown of each phase.
_SHOWN_KERNELS = 5
_KERNEL_SQL = f"""
with named as (
    select
        launches.phase, launches.family, coalesce(names.short_name, names.name) as short_name,
        sum(launches.kernel_count) as launch_count, sum(launches.gpu_time_ns) as gpu_time_ns
    from phase_kernels as launches
    inner join kernel_names as names on launches.kernel_id = names.kernel_id
    group by launches.phase, launches.family, coalesce(names.short_name, names.name)
)

select
    replace(phase, '_', ' '), short_name, replace(family, '_', ' '), gpu_time_ns,
    gpu_time_ns / nullif(sum(gpu_time_ns) over (partition by phase), 0), launch_count,
    gpu_time_ns / launch_count
from named
qualify
    row_number() over (partition by phase order by gpu_time_ns desc, short_name, family) <= {_SHOWN_KERNELS}
order by list_position({_PHASE_ORDER}, phase), phase, gpu_time_ns desc, short_name, family
"""  # noqa: S608
_STEP_COLUMNS = (
    Column("level", "Level", "name"),
    Column("phase", "Steps", "word"),
    Column("step_count", "Count", "count"),
    Column("step_p50_ns", "Step p50", "duration_ns"),
    Column("gpu_busy_ns", "GPU busy", "duration_ns"),
    Column("gap_ns", "Gaps inside", "duration_ns"),
    Column("host_bubble_ns", "Idle: late launch", "duration_ns"),
    Column("sync_bubble_ns", "Idle: after a sync", "duration_ns"),
    Column("copy_bubble_ns", "Idle: copies", "duration_ns"),
    Column("no_step_bubble_ns", "Idle: no step", "duration_ns"),
    Column("device_bubble_ns", "Idle: launched in time", "duration_ns"),
    Column("unknown_bubble_ns", "Idle: cause unknown", "duration_ns"),
    Column("recomputed_tokens", "Recomputed tokens", "count"),
)
_STEP_SQL = f"""
select
    level, replace(phase, '_', ' '), count(*), quantile_disc(end_ns - start_ns, 0.5), sum(gpu_busy_ns),
    sum(greatest(gpu_end_ns - gpu_start_ns - gpu_busy_ns, 0)),
    sum(bubble_before_ns) filter (where bubble_cause = 'host'),
    sum(bubble_before_ns) filter (where bubble_cause = 'sync'),
    sum(bubble_before_ns) filter (where bubble_cause = 'copy'),
    sum(bubble_before_ns) filter (where bubble_cause = 'idle'),
    sum(bubble_before_ns) filter (where bubble_cause = 'device'),
    sum(bubble_before_ns) filter (where bubble_cause = 'none' and bubble_before_ns > 0),
    nullif(sum(recomputed_tokens), 0)
from steps
group by level, phase
order by level, list_position({_PHASE_ORDER}, phase), phase
limit 40
"""  # noqa: S608
_USE_COLUMNS = (
    Column("level", "Level", "name"),
    Column("device_id", "GPU", "count"),
    Column("phase", "While", "word"),
    Column("dram_read_ratio", "HBM read", "pct"),
    Column("dram_write_ratio", "HBM write", "pct"),
    Column("sm_active_ratio", "SM active", "pct"),
    Column("sm_issue_ratio", "SM issue", "pct"),
    Column("tensor_active_ratio", "Tensor active", "pct"),
    Column("pcie_rx_ratio", "PCIe in", "pct"),
    Column("pcie_tx_ratio", "PCIe out", "pct"),
    Column("sample_count", "Samples", "count"),
)
_USE_SQL = f"""
select
    level, device_id, replace(phase, '_', ' '),
    max(mean_pct) filter (where counter = 'dram_read_pct') / 100,
    max(mean_pct) filter (where counter = 'dram_write_pct') / 100,
    max(mean_pct) filter (where counter = 'sm_active_pct') / 100,
    max(mean_pct) filter (where counter = 'sm_issue_pct') / 100,
    max(mean_pct) filter (where counter = 'tensor_active_pct') / 100,
    max(mean_pct) filter (where counter = 'pcie_rx_pct') / 100,
    max(mean_pct) filter (where counter = 'pcie_tx_pct') / 100,
    max(sample_count)
from gpu_phase_use
group by level, device_id, phase
order by level, device_id, list_position({_PHASE_ORDER}, phase), phase
limit 40
"""  # noqa: S608
_UNION_WORDS = (
    "Prefill or mixed: one attention launch serves the whole batch there, so whether others decode beside a "
    "prompt cannot be seen; step labels (NVTX) would tell."
)
_PARALLEL_WORDS = (
    "Time on the GPU counts kernels on parallel streams each; wall time counts overlaps once, for the "
    "earlier kernel."
)
_IDLE_WORDS = (
    "Idle time lies before a step. After a sync: the host waited until the GPU ran dry, then prepared the "
    "next step. Late launch: it came late without such a wait. Gaps inside: between the kernels of a step."
)
_SPREAD_SQL = """
select
    bool_or(gpu_time_ns + graph_time_ns > busy_ns + graph_busy_ns), bool_or(phase = 'prefill_or_mixed')
from phase_totals
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


@dataclass(frozen=True)
class _Spread:
    is_parallel: bool | None
    has_union: bool | None


def gpu_time_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return where GPU time goes: by phase, family and kernel, what the counters saw, and between steps."""
    phases = read_table(con, "phase_totals", _PHASE_COLUMNS, _PHASE_SQL, also_needs=("kernel_families",))
    families = read_table(
        con,
        "kernel_families",
        _FAMILY_COLUMNS,
        _FAMILY_SQL,
        (SHOWN_ROWS,),
        more_words="families",
        total_sql="select count(*) from (select distinct level, phase, family from kernel_families)",
    )
    kernels = read_table(con, "phase_kernels", _KERNEL_COLUMNS, _KERNEL_SQL, also_needs=("kernel_names",))
    use = read_table(con, "gpu_phase_use", _USE_COLUMNS, _USE_SQL)
    steps = read_table(con, "steps", _STEP_COLUMNS, _STEP_SQL)
    blocks: list[Block] = list(_decode_words(con))
    if phases is not None:
        blocks += [phases, *_phase_words(con)]
    blocks += [table for table in (families, kernels) if table is not None]
    if use is not None:
        blocks += [Paragraph("Mean use of the hardware while each phase ran, of its peak:"), use]
    if steps is not None:
        blocks += [steps, Paragraph(_IDLE_WORDS)]
    return Section("gpu_time", "Where GPU time goes", tuple(blocks)) if blocks else None


def _phase_words(con: duckdb.DuckDBPyConnection) -> tuple[Paragraph, ...]:
    """Return what must be known to read the phases of this run."""
    rows = query_rows(con, ("phase_totals",), _Spread, _SPREAD_SQL)
    parallel = (Paragraph(_PARALLEL_WORDS),) if rows and rows[0].is_parallel else ()
    union = (Paragraph(_UNION_WORDS),) if rows and rows[0].has_union else ()
    return (*parallel, *union)


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
