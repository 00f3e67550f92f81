"""The section about communication between GPUs: its share of each phase, and who waits for whom."""

import duckdb

from kvcliff.report.document import Column, Paragraph, Section
from kvcliff.report.tables import read_table

_COLUMNS = (
    Column("level", "Level", "name"),
    Column("source_id", "File", "count"),
    Column("device_id", "GPU", "count"),
    Column("phase", "Phase", "word"),
    Column("share_of_phase", "Share of phase", "pct"),
    Column("gpu_time_ns", "Communication", "duration_ns"),
    Column("kernel_count", "Operations", "count"),
    Column("matched_count", "Matched", "count"),
    Column("together_ratio", "Ran together", "pct"),
    Column("wait_ns", "Waited for others", "duration_ns"),
    Column("last_count", "Arrived last", "count"),
    Column("skew_p50_ns", "Skew p50", "duration_ns"),
    Column("skew_p99_ns", "Skew p99", "duration_ns"),
)
_SQL = """
with judged as (
    select
        *,
        together_ratio is null
        or together_ratio >= (select value from thresholds where name = 'communication_together_ratio')
            as is_one_engine
    from communication
)

select
    level, source_id, device_id, replace(phase, '_', ' '), share_of_phase, gpu_time_ns, kernel_count,
    matched_count, together_ratio, case when is_one_engine then wait_ns end,
    case when is_one_engine then last_count end, case when is_one_engine then skew_p50_ns end,
    case when is_one_engine then skew_p99_ns end
from judged
order by
    level, list_position(['prefill', 'decode', 'mixed', 'prefill_or_mixed', 'other'], phase), source_id,
    device_id
limit 40
"""
_WORDS = (
    "Matched: the same operation was found on every rank. A rank that comes early spins inside its kernel, "
    "so its wait is part of its communication; skew is the wait of the first rank. Where operations did not "
    "run together, the ranks do not belong together and no wait is told."
)


def communication_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return communication between GPUs by rank and phase."""
    table = read_table(con, "communication", _COLUMNS, _SQL, also_needs=("thresholds",))
    if table is None:
        return None
    return Section("communication", "Communication between GPUs", (table, Paragraph(_WORDS)))
