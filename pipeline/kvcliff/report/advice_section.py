"""What to do: actions of the findings, then every change in order with what it would gain in this run."""

import duckdb

from kvcliff.findings.advice_words import (
    CHANGES,
    STATES,
    advice_sentences,
    ceiling_sentences,
    read_advice,
    refusal_sentences,
)
from kvcliff.findings.cited import CitedRow, CitedSentence
from kvcliff.findings.levels import read_levels
from kvcliff.findings.marts import mart_columns
from kvcliff.report.document import Block, Column, FindingLine, Paragraph, Section, Steps, Table, Value
from kvcliff.report.focus import choose_focus
from kvcliff.report.tables import read_table
from kvcliff.report.verdict import ordered_actions

_COLUMNS = (
    Column("change", "Change", "word"),
    Column("state", "Verdict", "word"),
    Column("kv_bytes_per_token", "KV per token", "bytes"),
    Column("ceiling_tokens", "Pool, tokens", "count"),
    Column("ceiling_requests", "Requests that fit", "count"),
    Column("peak_ratio", "Peak in it", "pct"),
    Column("floor_ms", "Decode floor", "ms"),
    Column("step_ms", "ITL", "ms"),
    Column("tokens_per_s", "Tokens/s", "number"),
    Column("cap", "Cap", "count"),
    Column("affected_ratio", "Over it", "pct"),
)
_LEVEL_COLUMNS = (
    Column("sequences", "Sequences", "count"),
    Column("basis", "What it is", "word"),
    Column("batch", "Running", "count"),
    Column("kv_peak_ratio", "KV asked for", "pct"),
    Column("step_ms", "ITL", "ms"),
    Column("tokens_per_s", "Tokens/s", "number"),
    Column("reason", "Not predicted because", "word"),
)
_LEVEL_SQL = """
select sequences, replace(basis, '_', ' '), batch, kv_peak_ratio, step_ms, tokens_per_s, reason
from predictions
where level is not distinct from ? and replica_id is not distinct from ?
order by sequences
"""
_PREDICTED_SQL = """
select max(assumption)
from predictions
where
    level is not distinct from ? and replica_id is not distinct from ?
    and basis <> 'measured' and reason is null
"""


def advice_section(con: duckdb.DuckDBPyConnection, findings: tuple[FindingLine, ...]) -> Section | None:
    """Return what to do: gravest action first, then the changes in order; only what the evidence supports."""
    actions = ordered_actions(findings)
    blocks: list[Block] = [Steps(actions)] if actions else []
    blocks.extend(_advice_blocks(con))
    return Section("actions", "What to do", tuple(blocks)) if blocks else None


def _ceilings(con: duckdb.DuckDBPyConnection, rows: tuple[CitedRow, ...]) -> tuple[CitedSentence, ...]:
    focus = choose_focus(con)
    return ceiling_sentences(con, focus.level, focus.replica_id) if rows and focus is not None else ()


def _focused_rows(con: duckdb.DuckDBPyConnection) -> tuple[CitedRow, ...]:
    focus = choose_focus(con)
    return read_advice(con, focus.level, focus.replica_id) if focus is not None else ()


def _advice_blocks(con: duckdb.DuckDBPyConnection) -> list[Block]:
    rows = _focused_rows(con)
    if not rows:
        return []
    advised = tuple(sentence.text for sentence in advice_sentences(rows))
    blocks: list[Block] = [Paragraph(_introduction(con, rows, bool(advised)))]
    if advised:
        blocks.extend((Steps(advised), _change_table(rows)))
    blocks.extend(Paragraph(sentence.text) for sentence in refusal_sentences(rows))
    blocks.extend(Paragraph(sentence.text) for sentence in _ceilings(con, rows))
    return [*blocks, *_level_table(con, rows)]


def _introduction(con: duckdb.DuckDBPyConnection, rows: tuple[CitedRow, ...], has_advice: bool) -> str:
    level = rows[0].values.get("level")
    where = (
        f" Level {level}; the others are in the mart advice." if level and len(read_levels(con)) > 1 else ""
    )
    if not has_advice:
        return f"No change of model, KV cache or limits is supported by this run.{where}"
    return f"Changes in the order to try them, with what each would gain (mart advice).{where}"


def _change_table(rows: tuple[CitedRow, ...]) -> Table:
    shown = [row for row in rows if row.word("state") in ("measured", *STATES)]
    values = tuple(tuple(_cell(row, column.name) for column in _COLUMNS) for row in shown)
    return Table("advice", _COLUMNS, values).without_empty_columns()


def _cell(row: CitedRow, name: str) -> Value:
    if name == "change":
        return CHANGES.get(row.word("advice"), row.word("advice"))
    if name == "state":
        return STATES.get(row.word("state"), row.word("state"))
    return row.values.get(name)


def _level_table(con: duckdb.DuckDBPyConnection, rows: tuple[CitedRow, ...]) -> list[Block]:
    """Return what other numbers of sequences would do, when at least one of them can be predicted."""
    if not mart_columns(con, "predictions"):
        return []
    engine = (rows[0].values.get("level"), rows[0].values.get("replica_id"))
    found = con.execute(_PREDICTED_SQL, list(engine)).fetchall()
    if not found or found[0][0] is None:
        return []
    table = read_table(con, "predictions", _LEVEL_COLUMNS, _LEVEL_SQL, engine)
    words = f"Other numbers of concurrent sequences, assuming that {found[0][0]} (mart predictions):"
    return [Paragraph(words), table] if table is not None else []
