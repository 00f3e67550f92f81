"""The section about the two ledgers: where memory went, and what a step must read against what it took."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.levels import read_levels
from kvcliff.findings.marts import query_rows
from kvcliff.report.document import Block, Column, Paragraph, Section
from kvcliff.report.focus import choose_focus
from kvcliff.report.tables import read_table

_CAPACITY_COLUMNS = (
    Column("replica_id", "Replica", "name"),
    Column("tier", "Tier", "word"),
    Column("line", "Line", "word"),
    Column("bytes", "Bytes", "bytes"),
    Column("tokens", "Tokens", "count"),
    Column("share", "Share", "pct"),
    Column("meaning", "Meaning", "word"),
    Column("origin", "From", "name"),
)
_CAPACITY_SQL = """
select
    case when (select count(distinct replica_id) from capacity_ledger) > 1 then replica_id end,
    tier, replace(line, '_', ' '), bytes, tokens, share, meaning, origin
from capacity_ledger
where level is not distinct from ?
order by replica_id, tier, line_no, line
limit 40
"""
_BANDWIDTH_COLUMNS = (
    Column("replica_id", "Replica", "name"),
    Column("step_class", "Steps", "word"),
    Column("line", "Line", "word"),
    Column("bytes", "Bytes", "bytes"),
    Column("time_ms", "Time", "ms"),
    Column("tokens_per_s", "Tokens/s", "number"),
    Column("ratio", "Ratio", "number"),
    Column("meaning", "Meaning", "word"),
    Column("origin", "From", "name"),
)
_BANDWIDTH_SQL = """
select
    case when (select count(distinct replica_id) from bandwidth_ledger) > 1 then replica_id end,
    step_class, replace(line, '_', ' '), bytes, time_ms, tokens_per_s, ratio, meaning, origin
from bandwidth_ledger
where line <> 'cannot_tell' and level is not distinct from ?
order by replica_id, step_class, line_no, line
limit 40
"""
_UNKNOWN_SQL = """
select meaning, string_agg(distinct step_class, ' and ' order by step_class)
from bandwidth_ledger
where line = 'cannot_tell' and meaning is not null and level is not distinct from ?
group by meaning
order by meaning
"""


@dataclass(frozen=True)
class _Unknown:
    meaning: str
    step_classes: str


def ledger_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return both ledgers; of a sweep, those of the level that the figure shows."""
    focus = choose_focus(con)
    level = focus.level if focus is not None else None
    capacity = read_table(con, "capacity_ledger", _CAPACITY_COLUMNS, _CAPACITY_SQL, (level,))
    bandwidth = read_table(con, "bandwidth_ledger", _BANDWIDTH_COLUMNS, _BANDWIDTH_SQL, (level,))
    tables = tuple(table for table in (capacity, bandwidth) if table is not None)
    if not tables:
        return None
    blocks: list[Block] = []
    if level is not None and len(read_levels(con)) > 1:
        blocks.append(
            Paragraph(f"Level {level}; the others are in the marts capacity_ledger and bandwidth_ledger.")
        )
    blocks.extend(tables)
    for unknown in query_rows(con, ("bandwidth_ledger",), _Unknown, _UNKNOWN_SQL, (level,)):
        why = unknown.meaning.removeprefix("no floor: ")
        blocks.append(Paragraph(f"No floor for {unknown.step_classes}: {why}."))
    return Section("ledgers", "Ledgers: capacity and bandwidth", tuple(blocks))
