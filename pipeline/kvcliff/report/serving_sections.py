"""Sections about users and the engine: requests, indicators, latency jumps, cache hits."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.cache_hits import TIER_TITLES, TierHits, read_tier_hits
from kvcliff.findings.marts import query_rows
from kvcliff.findings.other_jump import cause_words, metric_words
from kvcliff.report.document import Column, Paragraph, Section, Table
from kvcliff.report.tables import SHOWN_ROWS, SINCE_START, START_SQL, read_table, since_level
from kvcliff.report.values import counted
from kvcliff.units import format_count

_REQUEST_COLUMNS = (
    Column("level", "Level", "name"),
    Column("request_count", "Requests", "count"),
    Column("error_count", "Failed", "count"),
    Column("ttft_p50_ms", "TTFT p50", "ms"),
    Column("ttft_p99_ms", "TTFT p99", "ms"),
    Column("tpot_p50_ms", "TPOT p50", "ms"),
    Column("longest_gap_ms", "Longest gap", "ms"),
    Column("slo_met_ratio", "SLO met", "pct"),
)
_REQUEST_SQL = """
with measured as (
    select
        *,
        not coalesce(is_error, false) as is_good
    from requests
    where not coalesce(is_warmup, false)
)

select
    level,
    count(*),
    count(*) filter (where is_error),
    quantile_disc(ttft_ms, 0.5) filter (where is_good),
    quantile_disc(ttft_ms, 0.99) filter (where is_good),
    quantile_disc(tpot_ms, 0.5) filter (where is_good),
    max(longest_gap_ms),
    count(*) filter (where is_slo_met) / nullif(count(is_slo_met), 0)
from measured
group by level
order by min(arrival_ns), level
"""
_STALL_SQL = """
select
    count(*), count(distinct (source_id, request_no)),
    count(*) filter (where kv_used_ratio >= (select value from thresholds where name = 'kv_high_ratio')),
    count(kv_used_ratio)
from token_gaps
where is_stall
having count(*) > 0
"""
_INDICATOR_COLUMNS = (
    Column("indicator", "Indicator", "word"),
    Column("value", "Value", "by_unit"),
    Column("threshold", "Threshold", "by_unit"),
    Column("unit", "Unit", "hidden"),
    Column("state", "State", "word"),
    Column("meaning", "Meaning", "word"),
)
_INDICATOR_SQL = """
select
    case indicator
        when 'hbm_bandwidth' then 'HBM bandwidth use'
        when 'sm_active' then 'SM use'
        when 'kv_occupancy' then 'KV occupancy'
        when 'token_latency' then 'Token latency'
        when 'swap_count' then 'Swaps and preemptions'
        else indicator
    end,
    value, threshold, unit, state, meaning
from indicators
order by
    list_position(['hbm_bandwidth', 'sm_active', 'kv_occupancy', 'token_latency', 'swap_count'], indicator),
    indicator
"""
_JUMP_COLUMNS = (
    Column("level", "Level", "name"),
    Column("at_ns", "At", "instant"),
    Column("since_start_ns", SINCE_START, "offset_ns"),
    Column("error_ns", "Error", "error_ns"),
    Column("metric", "Measure", "word"),
    Column("before_ms", "Before", "ms"),
    Column("after_ms", "After", "ms"),
    Column("kv_used_ratio", "KV", "pct"),
    Column("cause", "Cause", "word"),
)
_JUMP_SQL = f"""
with largest as (
    select *
    from latency_jumps
    order by size_mads desc nulls last, after_ms desc nulls last, at_ns, level, replica_id, metric
    limit ?
)

select
    level, at_ns, at_ns - {START_SQL.format(table="largest")}, error_ns, metric, before_ms, after_ms,
    kv_used_ratio, cause
from largest
order by at_ns, level, metric, cause
"""  # noqa: S608
_HIT_COLUMNS = (
    Column("tier", "Tier", "word"),
    Column("lookup_tokens", "Looked up (tokens)", "count"),
    Column("hit_tokens", "Hit (tokens)", "count"),
    Column("hit_ratio", "Hit rate", "pct"),
    Column("origin", "From", "word"),
)


@dataclass(frozen=True)
class _Stalls:
    stall_count: int
    request_count: int
    high_count: int
    known_count: int

    @property
    def text(self) -> str:
        """The stalls in one sentence."""
        many = f"{counted(self.stall_count, 'stalls')} in {counted(self.request_count, 'requests')}"
        kv = (
            f"; KV was high in {format_count(self.high_count)} of the {format_count(self.known_count)} "
            "whose KV occupancy is known"
            if self.known_count
            else ""
        )
        return f"Streams that stood still while others progressed: {many}{kv}."


def request_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return what users saw, over the whole run, per level."""
    table = read_table(con, "requests", _REQUEST_COLUMNS, _REQUEST_SQL)
    if table is None:
        return None
    stalls = query_rows(con, ("token_gaps", "thresholds"), _Stalls, _STALL_SQL)
    return Section("requests", "What users saw", (table, *(Paragraph(row.text) for row in stalls)))


def indicator_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return the five indicators to watch."""
    table = read_table(con, "indicators", _INDICATOR_COLUMNS, _INDICATOR_SQL)
    return None if table is None else Section("indicators", "Five indicators", (table,))


def jump_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return latency jumps with their causes, KV and others."""
    table = read_table(
        con,
        "latency_jumps",
        _JUMP_COLUMNS,
        _JUMP_SQL,
        (SHOWN_ROWS,),
        also_needs=("kv_occupancy", "token_latency"),
        more_words="jumps",
        total_sql="select count(*) from latency_jumps",
    )
    if table is None:
        return None
    return Section("latency_jumps", "Latency jumps", (since_level(con, _in_words(table)),))


def _in_words(table: Table) -> Table:
    """Return the table with causes and measures as sentences write them."""
    words = {"cause": cause_words, "metric": metric_words}
    writers = [words.get(column.name) for column in table.columns]
    rows = tuple(
        tuple(
            value if write is None or value is None else write(str(value))
            for write, value in zip(writers, row, strict=True)
        )
        for row in table.rows
    )
    return Table(table.mart, table.columns, rows, table.more_count, table.more_words)


def hit_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return cache hits by tier."""
    hits = read_tier_hits(con)
    if not hits:
        return None
    table = Table("cache_hits", _HIT_COLUMNS, tuple(_hit_row(hit) for hit in hits))
    return Section("cache_hits", "Cache hits by tier", (table.without_empty_columns(),))


def _hit_row(hit: TierHits) -> tuple[str | int | float | None, ...]:
    origin = "printed by the engine" if hit.is_printed else "counted tokens"
    return (TIER_TITLES.get(hit.tier, hit.tier), hit.lookup_tokens, hit.hit_tokens, hit.hit_ratio, origin)
