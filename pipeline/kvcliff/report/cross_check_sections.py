"""Sections that hold sources against each other: step times, facts stated twice, a client's own totals."""

import duckdb

from kvcliff.report.document import Column, Paragraph, Section
from kvcliff.report.tables import read_table

_STEP_COLUMNS = (
    Column("level", "Level", "name"),
    Column("replica_id", "Replica", "name"),
    Column("step_class", "Steps", "word"),
    Column("origin", "From", "word"),
    Column("step_count", "Count", "count"),
    Column("elapsed_p10_ms", "p10", "ms"),
    Column("elapsed_p50_ms", "p50", "ms"),
    Column("elapsed_p90_ms", "p90", "ms"),
    Column("elapsed_p99_ms", "p99", "ms"),
    Column("elapsed_total_s", "In all", "seconds"),
    Column("sequence_count", "Requests (mean)", "number"),
    Column("context_tokens", "Prefill tokens (mean)", "number"),
)
_STEP_SQL = """
select
    level, case when (select count(distinct replica_id) from step_times) > 1 then replica_id end,
    step_class, case origin when 'iterations' then 'log of every step' else 'GPU trace' end, step_count,
    elapsed_p10_ms, elapsed_p50_ms, elapsed_p90_ms, elapsed_p99_ms, elapsed_total_s, sequence_count,
    nullif(context_tokens, 0)
from step_times
order by level, replica_id, step_class, origin
limit 40
"""
_AGREEMENT_COLUMNS = (
    Column("level", "Level", "name"),
    Column("topic", "About", "word"),
    Column("first_source", "One source", "name"),
    Column("first_value", "States", "by_unit"),
    Column("second_source", "Another", "name"),
    Column("second_value", "States", "by_unit"),
    Column("unit", "Unit", "hidden"),
    Column("compared_count", "Compared", "count"),
    Column("differing_count", "Differ", "count"),
    Column("is_disagreement", "Contradict", "word"),
)
_AGREEMENT_SQL = """
select
    level, replace(topic, '_', ' '), first_source, first_value, second_source, second_value, unit,
    compared_count, differing_count, is_disagreement
from source_agreement
order by is_disagreement desc, level, replica_id, topic, first_source, second_source
limit 20
"""
_CLIENT_COLUMNS = (
    Column("level", "Level", "name"),
    Column("path", "File", "name"),
    Column("name", "Figure", "name"),
    Column("value", "Value", "number"),
)
#: Where requests are known one by one their own times are shown, not the client's arithmetic.
_CLIENT_SQL = """
select totals.level, sources.path, totals.name, totals.value
from client_totals as totals
left join sources on totals.source_id = sources.source_id
where not exists (select 1 from requests)
order by totals.source_id, totals.load_no, totals.name
limit 60
"""


def step_time_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return how long engine steps took, by what they compute."""
    table = read_table(con, "step_times", _STEP_COLUMNS, _STEP_SQL)
    return None if table is None else Section("step_times", "How long steps took", (table,))


def agreement_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return facts that two sources state on their own, contradictions first."""
    table = read_table(
        con,
        "source_agreement",
        _AGREEMENT_COLUMNS,
        _AGREEMENT_SQL,
        more_words="facts",
        total_sql="select count(*) from source_agreement",
    )
    if table is None:
        return None
    words = "Contradict: both cannot be right within their definitions. Other differences are of the moment."
    return Section("source_agreement", "What two sources state", (table, Paragraph(words)))


def client_total_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return a client's own totals when it kept no times of single requests."""
    table = read_table(con, "client_totals", _CLIENT_COLUMNS, _CLIENT_SQL, also_needs=("sources", "requests"))
    if table is None:
        return None
    words = "The client's own arithmetic over the whole load: it keeps no times of single requests."
    return Section("client_totals", "What the client itself states", (table, Paragraph(words)))
