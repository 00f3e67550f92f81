"""The section about GPU counters over time: hardware counters of traces, and telemetry."""

import duckdb

from kvcliff.report.document import Column, Section
from kvcliff.report.tables import read_table

_COLUMNS = (
    Column("level", "Level", "name"),
    Column("device_id", "GPU", "count"),
    Column("counter", "Counter", "name"),
    Column("sample_count", "Samples", "count"),
    Column("low", "Lowest", "number"),
    Column("median", "Median", "number"),
    Column("p95", "p95", "number"),
    Column("high", "Highest", "number"),
)
_SQL = """
select
    level, device_id, counter, count(*), min(value), quantile_disc(value, 0.5), quantile_disc(value, 0.95),
    max(value)
from gpu_samples
where value is not null
group by level, device_id, counter
order by level, device_id, counter
limit 60
"""
_TOTAL_SQL = """
select count(*)
from (
    select distinct level, device_id, counter
    from gpu_samples
    where value is not null
) as series
"""


def telemetry_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return the range of each GPU counter over the run; units stand in the counters' names."""
    table = read_table(con, "gpu_samples", _COLUMNS, _SQL, more_words="counters", total_sql=_TOTAL_SQL)
    return None if table is None else Section("gpu_counters", "GPU counters over time", (table,))
