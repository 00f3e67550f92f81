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
#: Sources that state one and the same value are one row: a fact that six files agree on has fifteen pairs.
_AGREEMENT_SQL = """
with
facts as (
    select
        *,
        not is_disagreement and differing_count = 0 and first_value = second_value as is_same
    from source_agreement
),
joined as (
    select
        level, replica_id, topic,
        array_to_string(
            list_sort(list_distinct(list_concat(list(first_source), list(second_source)))), ', '
        ) as first_source,
        first_value, null as second_source, null as second_value, unit,
        max(compared_count) as compared_count, 0 as differing_count, false as is_disagreement
    from facts
    where is_same
    group by level, replica_id, topic, first_value, unit
    union all
    select
        level, replica_id, topic, first_source, first_value, second_source, second_value, unit,
        compared_count, differing_count, is_disagreement
    from facts
    where not is_same
)
select
    level, replace(topic, '_', ' '), first_source, first_value, coalesce(second_source, 'the same'),
    second_value, unit, compared_count, differing_count, is_disagreement
from joined
order by is_disagreement desc, level, replica_id, topic, first_source, second_source, first_value
limit 20
"""
_AGREEMENT_TOTAL_SQL = """
with
facts as (
    select
        *,
        not is_disagreement and differing_count = 0 and first_value = second_value as is_same
    from source_agreement
)
select count(distinct case
    when is_same then [level, replica_id, topic, unit, cast(first_value as varchar)]
    else [level, replica_id, topic, first_source, second_source]
end)
from facts
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
        total_sql=_AGREEMENT_TOTAL_SQL,
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
