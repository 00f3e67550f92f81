"""The section about published request traces: rates, lengths, and what a prefix cache would save."""

import duckdb

from kvcliff.report.document import Block, Column, Paragraph, Section
from kvcliff.report.tables import read_table

_SUMMARY_COLUMNS = (
    Column("path", "Trace", "name"),
    Column("request_count", "Requests", "count"),
    Column("failed_count", "Failed", "count"),
    Column("span_s", "Span", "seconds"),
    Column("requests_per_s", "Requests/s", "number"),
    Column("peak_requests_per_s", "Peak", "number"),
    Column("input_p50", "Prompt p50 (tokens)", "count"),
    Column("input_p99", "Prompt p99", "count"),
    Column("output_p50", "Output p50 (tokens)", "count"),
    Column("output_p99", "Output p99", "count"),
    Column("reusable_block_ratio", "Reusable prefix blocks", "pct"),
)
_SUMMARY_SQL = """
select
    path, request_count, nullif(failed_count, 0), span_s, requests_per_s, peak_requests_per_s, input_p50,
    input_p99, output_p50, output_p99, reusable_block_ratio
from request_trace_summary
order by source_id
limit 40
"""
_REUSE_COLUMNS = (
    Column("path", "Trace", "name"),
    Column("cache_tokens", "Cache (tokens)", "count"),
    Column("cache_block_count", "Cache (blocks)", "count"),
    Column("reusable_block_ratio", "Served from it", "pct"),
)
#: Every second power of two is enough to see the curve; the last row is the unlimited cache.
_REUSE_SQL = """
with ranked as (
    select
        *,
        row_number() over (partition by source_id order by cache_block_count desc) as rank
    from request_trace_reuse
)

select summaries.path, ranked.cache_tokens, ranked.cache_block_count, ranked.reusable_block_ratio
from ranked
inner join request_trace_summary as summaries on ranked.source_id = summaries.source_id
where ranked.rank % 2 = 1
order by ranked.source_id, ranked.cache_block_count
limit 40
"""


def request_trace_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return the summary of each published trace, and the reuse that caches of growing size would find."""
    summary = read_table(con, "request_trace_summary", _SUMMARY_COLUMNS, _SUMMARY_SQL)
    if summary is None:
        return None
    blocks: list[Block] = [summary]
    reuse = read_table(
        con, "request_trace_reuse", _REUSE_COLUMNS, _REUSE_SQL, also_needs=("request_trace_summary",)
    )
    if reuse is not None:
        words = "Leading prefix blocks that a cache of this size would still hold when a request arrives:"
        blocks.extend([Paragraph(words), reuse])
    return Section("request_traces", "Request traces", tuple(blocks))
