"""The section about kernel counters: L2 hits and DRAM use by family, what limits kernels, and warnings."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.marts import query_rows
from kvcliff.report.document import Block, Column, Paragraph, Section
from kvcliff.report.tables import read_table

#: Levels in the order of their load: c2 before c16.
_LEVEL_ORDER = r"try_cast(regexp_extract(level, '(\d+)\D*$', 1) as double) nulls first, level"
_CACHE_COLUMNS = (
    Column("level", "Level", "name"),
    Column("family", "Family", "word"),
    Column("profile_count", "Profiled kernels", "count"),
    Column("read_hit_ratio", "L2 hits of SM reads", "pct"),
    Column("dram_use_ratio", "DRAM use (bytes)", "pct"),
    Column("dram_busy_ratio", "DRAM busy", "pct"),
    Column("l2_use_ratio", "L2 busy", "pct"),
    Column("sm_use_ratio", "SM busy", "pct"),
    Column("occupancy_ratio", "Occupancy", "pct"),
    Column("tensor_use_ratio", "Tensor", "pct"),
    Column("small_grid_count", "Less than one wave", "count"),
)
_CACHE_SQL = f"""
select
    level, replace(family, '_', ' '), profile_count, read_hit_ratio, dram_use_ratio, dram_busy_ratio,
    l2_use_ratio, sm_use_ratio, occupancy_ratio, tensor_use_ratio, nullif(small_grid_count, 0)
from l2_cache
where profile_count > 0
order by {_LEVEL_ORDER}, duration_ns desc nulls last, family
limit 20
"""  # noqa: S608
_VERDICT_COLUMNS = (
    Column("level", "Level", "name"),
    Column("short_name", "Kernel", "name"),
    Column("verdict", "Limited by", "word"),
    Column("profile_count", "Profiled", "count"),
    Column("duration_ns", "Mean duration", "duration_ns"),
    Column("dram_busy_ratio", "DRAM busy", "pct"),
    Column("l2_use_ratio", "L2 busy", "pct"),
    Column("sm_use_ratio", "SM busy", "pct"),
)
_VERDICT_SQL = f"""
select
    level, short_name, replace(replace(verdict, '_', ' '), 'l2', 'L2'), count(*),
    sum(duration_ns) // nullif(count(duration_ns), 0),
    favg(dram_busy_ratio), favg(l2_use_ratio), favg(sm_use_ratio)
from profiled_kernels
where not is_copy
group by level, short_name, verdict
order by sum(duration_ns) desc nulls last, {_LEVEL_ORDER}, short_name, verdict
limit 20
"""  # noqa: S608
_LIMIT_COLUMNS = (
    Column("level", "Level", "name"),
    Column("phase", "Phase", "word"),
    Column("family", "Family", "word"),
    Column("verdict", "Limited by", "word"),
    Column("cause", "Because of", "word"),
    Column("verdict_ratio", "Share of its time", "pct"),
    Column("coverage_ratio", "Profiled share of GPU time", "pct"),
    Column("l2_reuse", "L2 reuse", "word"),
    Column("read_hit_ratio", "L2 hits of SM reads", "pct"),
    Column("dram_busy_ratio", "DRAM busy", "pct"),
    Column("sm_use_ratio", "SM busy", "pct"),
)
#: Without a trace every row is covered, which says nothing; one family is the same as all.
_LIMIT_SQL = f"""
select
    level, phase, replace(family, '_', ' '), replace(replace(verdict, '_', ' '), 'l2', 'L2'), cause,
    verdict_ratio, case basis when 'trace' then coverage_ratio end, l2_reuse, read_hit_ratio,
    dram_busy_ratio, sm_use_ratio
from counter_limits
where covered_time_ns > 0 or basis = 'profile'
qualify family <> 'all' or count(*) over (partition by level, phase) > 2
order by
    {_LEVEL_ORDER}, list_position(['prefill', 'decode', 'mixed', 'other', 'unknown'], phase), family <> 'all',
    time_ns desc, family
limit 40
"""  # noqa: S608
_PHASE_COLUMNS = (
    Column("level", "Level", "name"),
    Column("device_id", "GPU", "count"),
    Column("phase", "Phase", "word"),
    Column("coverage_ratio", "Profiled share of GPU time", "pct"),
    Column("read_hit_ratio", "L2 hits of SM reads", "pct"),
    Column("attention_hit_ratio", "Attention alone", "pct"),
    Column("dram_use_ratio", "DRAM use (bytes)", "pct"),
    Column("sm_use_ratio", "SM busy", "pct"),
    Column("occupancy_ratio", "Occupancy", "pct"),
)
#: A phase of which little was profiled shows that, and no numbers.
_PHASE_SQL = f"""
select
    level, device_id, phase, coverage_ratio,
    case when is_covered then read_hit_ratio end, case when is_covered then attention_hit_ratio end,
    case when is_covered then dram_use_ratio end, case when is_covered then sm_use_ratio end,
    case when is_covered then occupancy_ratio end
from counter_phases
where covered_count > 0
order by {_LEVEL_ORDER}, device_id, list_position(['prefill', 'decode', 'mixed', 'other'], phase), phase
limit 40
"""  # noqa: S608
_WARNING_SQL = """
select min(meaning), count(*), (select count(distinct source_id) from profiled_kernels)
from counter_warnings
group by warning_no
order by warning_no
"""
_BARE_SQL = """
select count(*)
from l2_cache
where profile_count > 0 and read_hit_ratio is null and all_hit_max_ratio is not null
"""


@dataclass(frozen=True)
class _Warning:
    meaning: str
    file_count: int
    total_count: int

    @property
    def text(self) -> str:
        """Return the warning as a sentence, with how many files it concerns when not all of them."""
        share = (
            f" ({self.file_count} of {self.total_count} files)" if self.file_count < self.total_count else ""
        )
        return f"{self.meaning[0].upper()}{self.meaning[1:]}{share}."


@dataclass(frozen=True)
class _Bare:
    family_count: int


def counter_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return what kernel counters say, or ``None`` when the run has no such file."""
    cache = read_table(con, "l2_cache", _CACHE_COLUMNS, _CACHE_SQL)
    if cache is None:
        # A file without kernels still has its warnings: the driver may have refused access.
        remarks = _remarks(con)
        return Section("kernel_counters", "Kernel counters", remarks) if remarks else None
    blocks: list[Block] = [cache]
    phases = read_table(con, "counter_phases", _PHASE_COLUMNS, _PHASE_SQL)
    if phases is not None:
        blocks.extend([Paragraph("Carried over to the launches of the GPU trace, by phase:"), phases])
    limits = read_table(con, "counter_limits", _LIMIT_COLUMNS, _LIMIT_SQL)
    if limits is not None:
        blocks.extend([Paragraph("What limits each phase and family, by the time of its kernels:"), limits])
    verdicts = read_table(con, "profiled_kernels", _VERDICT_COLUMNS, _VERDICT_SQL)
    if verdicts is not None:
        blocks.extend([Paragraph("The profiled kernels by name, most time first:"), verdicts])
    return Section("kernel_counters", "Kernel counters", (*blocks, *_remarks(con)))


def _remarks(con: duckdb.DuckDBPyConnection) -> tuple[Paragraph, ...]:
    """Return the warnings whose trigger is met, each once, and why a hit rate may be absent."""
    warnings = query_rows(con, ("counter_warnings",), _Warning, _WARNING_SQL)
    texts = [item.text for item in warnings]
    if any(item.family_count for item in query_rows(con, ("l2_cache",), _Bare, _BARE_SQL)):
        texts.append(
            "Where only the L2 hit rate of all clients was collected no hit rate is shown: "
            "writes always hit, so it says nothing about reuse."
        )
    return tuple(Paragraph(text) for text in texts)
