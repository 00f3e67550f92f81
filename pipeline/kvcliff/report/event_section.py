"""The section about what the engine did or said: events by kind and by the evidence for them."""

import duckdb

from kvcliff.report.document import Column, Section
from kvcliff.report.tables import SINCE_START, START_SQL, read_table, since_level

_COLUMNS = (
    Column("level", "Level", "name"),
    Column("replica_id", "Replica", "name"),
    Column("kind", "Event", "word"),
    Column("proof", "Seen in", "word"),
    Column("event_count", "Count", "count"),
    Column("pressure_count", "Under KV pressure", "count"),
    Column("tokens", "Tokens", "count"),
    Column("bytes", "Bytes", "bytes"),
    Column("first_ns", "First at", "instant"),
    Column("since_start_ns", SINCE_START, "offset_ns"),
    Column("last_offset_ns", "Last", "offset_ns"),
)
_SQL = f"""
with counted as (
    select
        level, replica_id, kind, proof,
        sum(event_count) as event_count,
        sum(event_count) filter (where is_under_pressure) as pressure_count,
        sum(tokens) as tokens, sum(bytes) as bytes, min(ts_ns) as first_ns, max(ts_ns) as last_ns
    from engine_events
    group by level, replica_id, kind, proof
)

select
    level,
    case when (select count(distinct replica_id) from engine_events) > 1 then replica_id end,
    replace(kind, '_', ' '), proof, event_count, nullif(pressure_count, 0), nullif(tokens, 0),
    nullif(bytes, 0), first_ns, first_ns - {START_SQL.format(table="counted")},
    last_ns - {START_SQL.format(table="counted")}
from counted
order by first_ns, level, replica_id, kind, proof
limit 60
"""  # noqa: S608
_TOTAL_SQL = """
select count(*)
from (
    select distinct level, replica_id, kind, proof
    from engine_events
) as kinds
"""


def event_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return the engine's events; one event may stand in several rows, once per kind of evidence."""
    table = read_table(
        con,
        "engine_events",
        _COLUMNS,
        _SQL,
        also_needs=("kv_occupancy", "token_latency", "runs"),
        more_words="kinds of events",
        total_sql=_TOTAL_SQL,
    )
    return (
        None if table is None else Section("engine_events", "What the engine did", (since_level(con, table),))
    )
