"""The sections about moved bytes: copies between memories, and KV to and from the tiers of a cache."""

import duckdb

from kvcliff.findings.marts import mart_columns
from kvcliff.report.document import Block, Column, Paragraph, Section
from kvcliff.report.tables import read_table

_DIRECTION = """
    case kind
        when 'htod' then 'host to GPU'
        when 'dtoh' then 'GPU to host'
        when 'dtod' then 'within the GPU'
        when 'htoh' then 'within the host'
        when 'ptop' then 'GPU to GPU'
        else replace(kind, '_', ' ')
    end
"""
_COPY_COLUMNS = (
    Column("kind", "Copies", "word"),
    Column("is_kv_swap", "KV blocks", "word"),
    Column("burst_count", "Bursts", "count"),
    Column("bytes", "Bytes", "bytes"),
    Column("gb_per_s", "GB/s", "number"),
    Column("route_ratio", "Of the route's limit", "pct"),
    Column("copy_ns", "Time", "duration_ns"),
    Column("hidden_ratio", "Hidden under kernels", "pct"),
)
_COPY_SQL = f"""
select
    {_DIRECTION}, is_kv_swap, count(*), sum(bytes), sum(bytes) / nullif(sum(copy_ns), 0),
    1e9 * sum(bytes) / nullif(sum(copy_ns), 0) / min(route_bytes_per_s), sum(copy_ns),
    sum(hidden_ns) / nullif(sum(copy_ns), 0)
from transfers
group by kind, is_kv_swap
order by is_kv_swap desc nulls last, sum(bytes) desc, kind
"""  # noqa: S608
_BLOCK_COLUMNS = (
    Column("level", "Level", "name"),
    Column("device_id", "GPU", "count"),
    Column("kind", "KV blocks copied", "word"),
    Column("stream_id", "Stream", "count"),
    Column("piece_bytes", "Block", "bytes"),
    Column("copy_count", "Copies", "count"),
    Column("bytes", "Bytes", "bytes"),
    Column("gb_per_s", "GB/s", "number"),
    Column("route_ratio", "Of the route's limit", "pct"),
    Column("hidden_ratio", "Hidden under kernels", "pct"),
    Column("longest_ns", "Longest burst", "duration_ns"),
)
_BLOCK_SQL = f"""
select
    level, device_id, {_DIRECTION}, stream_id, piece_bytes, sum(copy_count), sum(bytes),
    sum(bytes) / nullif(sum(copy_ns), 0),
    1e9 * sum(bytes) / nullif(sum(copy_ns), 0) / min(route_bytes_per_s),
    sum(hidden_ns) / nullif(sum(copy_ns), 0), max(end_ns - start_ns)
from transfers
where is_kv_swap
group by level, device_id, kind, stream_id, piece_bytes
order by sum(bytes) desc, level, device_id, kind, stream_id, piece_bytes
limit 10
"""  # noqa: S608
_BLOCK_WORDS = (
    "Copies count as KV blocks when they go to or from pinned memory on a stream without kernels, in pieces "
    "of one size. Engines that move blocks by kernels leave no copies."
)
_SWAP_COLUMNS = (
    Column("swap_point_id", "Swap point", "count"),
    Column("kind", "KV blocks copied", "word"),
    Column("burst_count", "Bursts", "count"),
    Column("bytes", "Bytes", "bytes"),
    Column("gb_per_s", "GB/s", "number"),
    Column("copy_ns", "Time", "duration_ns"),
    Column("hidden_ratio", "Hidden under kernels", "pct"),
    Column("visible_ns", "Not hidden", "duration_ns"),
)
#: A burst belongs to a swap point when it starts between its first action (error included) and its end.
_SWAP_SQL = f"""
select
    points.swap_point_id, {_DIRECTION}, count(*), sum(copies.bytes),
    sum(copies.bytes) / nullif(sum(copies.copy_ns), 0), sum(copies.copy_ns),
    sum(copies.hidden_ns) / nullif(sum(copies.copy_ns), 0),
    sum(copies.copy_ns - coalesce(copies.hidden_ns, 0))
from swap_points as points
inner join transfers as copies
    on
        points.level is not distinct from copies.level
        and copies.start_ns >= points.at_ns - coalesce(points.error_ns, 0)
        and copies.start_ns <= coalesce(points.recovered_at_ns, points.end_ns)
where copies.is_kv_swap and copies.kind in ('htod', 'dtoh')
group by points.swap_point_id, copies.kind
order by points.swap_point_id, copies.kind
limit 40
"""  # noqa: S608
_TIER_COLUMNS = (
    Column("level", "Level", "name"),
    Column("replica_id", "Replica", "name"),
    Column("tier", "Tier", "word"),
    Column("direction", "Direction", "word"),
    Column("line_count", "Lines", "count"),
    Column("tokens", "Tokens", "count"),
    Column("missing_tokens", "Tokens not moved", "count"),
    Column("bytes", "Bytes", "bytes"),
    Column("gb_per_s", "GB/s while busy", "number"),
    Column("busy_ns", "Busy", "duration_ns"),
    Column("longest_ns", "Longest", "duration_ns"),
)
_TIER_SQL = """
select
    level, case when count(*) over (partition by level, tier, direction) > 1 then replica_id end, tier,
    case direction
        when 'store' then 'GPU to tier'
        when 'load' then 'tier to GPU'
        when 'prefetch' then 'outer to inner tier'
        else direction
    end,
    line_count, tokens, missing_tokens, bytes, bytes_per_s / 1e9, busy_ns, longest_ns
from tier_transfers
order by level, tier, direction, replica_id
limit 40
"""
_TIER_WORDS = (
    "As the lines of the log state it. Tokens not moved were asked for: of a load they did not come and are "
    "computed again, of a store most were in the tier already. Busy times of ranks and requests overlap."
)


def tier_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return what the log says was moved to and from the tiers of the KV cache."""
    moved = read_table(con, "tier_transfers", _TIER_COLUMNS, _TIER_SQL)
    if moved is None:
        return None
    return Section("tier_transfers", "KV moved to and from cache tiers", (moved, Paragraph(_TIER_WORDS)))


def transfer_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return copies between memories, how much of them was hidden under kernels, and those of swap points."""
    copies = read_table(con, "transfers", _COPY_COLUMNS, _with_known_route(con, _COPY_SQL))
    if copies is None:
        return None
    blocks: list[Block] = [copies]
    pieces = read_table(con, "transfers", _BLOCK_COLUMNS, _with_known_route(con, _BLOCK_SQL))
    if pieces is not None:
        blocks.extend([Paragraph(_BLOCK_WORDS), pieces])
    swaps = read_table(con, "transfers", _SWAP_COLUMNS, _SWAP_SQL, also_needs=("swap_points",))
    if swaps is not None:
        blocks.extend([Paragraph("KV blocks that moved during swap points:"), swaps])
    return Section("transfers", "Memory copies", tuple(blocks))


def _with_known_route(con: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Return the SELECT for a run that an older version stored without the limit of the route."""
    is_known = "route_bytes_per_s" in mart_columns(con, "transfers")
    return sql if is_known else sql.replace("min(route_bytes_per_s)", "cast(null as double)")
