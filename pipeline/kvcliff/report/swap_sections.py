"""Sections about swap points: when, how sure, what they cost, and who waited."""

import duckdb

from kvcliff.findings.marts import threshold
from kvcliff.findings.swap_words import cost_words, read_swap_points, worst_first
from kvcliff.report.document import Block, Column, Paragraph, Section, Table
from kvcliff.report.tables import SHOWN_ROWS, SINCE_START, START_SQL, read_table, since_level
from kvcliff.units import format_number

_PRESSURE_WORDS = (
    "Rows of class pressure are no swap points: requests only waited for blocks, the engine acted "
    "once or twice, or users' tokens did not get measurably slower."
)
_POINT_COLUMNS = (
    Column("swap_point_id", "No.", "count"),
    Column("level", "Level", "name"),
    Column("replica_id", "Replica", "name"),
    Column("at_ns", "First engine action", "instant"),
    Column("since_start_ns", SINCE_START, "offset_ns"),
    Column("error_ns", "Error", "error_ns"),
    Column("class", "Class", "word"),
    Column("kv_used_ratio", "KV", "pct"),
    Column("action_count", "Actions", "count"),
    Column("victim_count", "Victims", "count"),
    Column("longest_gap_ms", "Longest stall", "ms"),
    Column("blocked_s", "Blocked", "seconds"),
    Column("l_status", "Harm", "word"),
)
#: The worst rows, shown in order of time.
_FROM_WORST = """
from swap_points
qualify row_number() over (
    order by
        case "class" when 'confirmed' then 0 when 'probable' then 1 else 2 end,
        longest_gap_ms desc nulls last, action_count desc nulls last, at_ns, swap_point_id
) <= ?
order by at_ns, swap_point_id
"""
_POINT_SQL = (
    f"""
select
    swap_point_id, level,
    case
        when replica_id <> '0' or (select count(distinct replica_id) from swap_points) > 1 then replica_id
    end,
    at_ns, at_ns - {START_SQL.format(table="swap_points")}, error_ns, "class",
    kv_used_ratio, action_count, victim_count, longest_gap_ms, blocked_s,
    replace(l_status, '_', ' ')
"""  # noqa: S608
    + _FROM_WORST
)
_TIME_COLUMNS = (
    Column("swap_point_id", "No.", "count"),
    Column("mechanism", "Mechanism", "word"),
    Column("e_proof", "Proof", "word"),
    Column("pressure_offset_ns", "Pressure began", "offset_ns"),
    Column("resume_offset_ns", "First resume", "offset_ns"),
    Column("counter_offset_ns", "Counter moved", "offset_ns"),
    Column("recovered_offset_ns", "Recovered", "offset_ns"),
    Column("end_offset_ns", "Episode ended", "offset_ns"),
)
_TIME_SQL = (
    """
select
    swap_point_id, nullif(mechanism, 'none'), e_proof, pressure_at_ns - at_ns, resume_at_ns - at_ns,
    counter_at_ns - at_ns,
    recovered_at_ns - at_ns, end_ns - at_ns
"""
    + _FROM_WORST
)
_PRICE_COLUMNS = (
    Column("swap_point_id", "No.", "count"),
    Column("tokens_per_s_before", "Tokens/s before", "number"),
    Column("tokens_per_s_during", "Tokens/s during", "number"),
    Column("ttft_p50_before_ms", "TTFT p50 before", "ms"),
    Column("ttft_p50_during_ms", "TTFT p50 during", "ms"),
    Column("itl_p99_before_ms", "ITL p99 before", "ms"),
    Column("itl_p99_during_ms", "ITL p99 during", "ms"),
    Column("victim_gap_p50_ms", "Victims' stall p50", "ms"),
    Column("itl_p99_others_ms", "ITL p99 without stalls", "ms"),
    Column("tail_victim_ratio", "Slowest 1 % that are stalls", "pct"),
    Column("lost_s", "Silence of victims", "seconds"),
    Column("most_stalls", "Most stalls of one", "count"),
    Column("slo_before_ratio", "SLO met before", "pct"),
    Column("slo_during_ratio", "SLO met during", "pct"),
    Column("recomputed_tokens", "Recomputed tokens", "count"),
    Column("out_bytes", "Copied out", "bytes"),
    Column("in_bytes", "Copied back", "bytes"),
    Column("copy_gb_per_s", "Copy rate (GB/s)", "number"),
    Column("copy_hidden_ratio", "Copies hidden", "pct"),
)
_PRICE_SQL = (
    """
select
    swap_point_id, tokens_per_s_before, tokens_per_s_during, ttft_p50_before_ms, ttft_p50_during_ms,
    itl_p99_before_ms, itl_p99_during_ms, victim_gap_p50_ms, itl_p99_others_ms, tail_victim_ratio, lost_s,
    most_stalls, slo_before_ratio, slo_during_ratio, recomputed_tokens, out_bytes, in_bytes,
    copy_bytes_per_s / 1e9, copy_hidden_ratio
"""
    + _FROM_WORST
)
_SHAPE_COLUMNS = (
    Column("swap_point_id", "No.", "count"),
    Column("kv_rise_ratio", "KV rise per minute", "pct"),
    Column("ramp_offset_ns", "Ramp reaches the ceiling", "offset_ns"),
    Column("kv_itl_correlation", "KV and ITL correlate", "number"),
    Column("missing_kv_tokens", "KV missing at worst (tokens)", "count"),
    Column("missing_kv_ratio", "Of the cache", "pct"),
    Column("recovery", "Afterwards", "word"),
)
_SHAPE_SQL = (
    """
select
    swap_point_id, 60 * kv_rise_per_s, ramp_ceiling_ns - at_ns, kv_itl_correlation, missing_kv_tokens,
    missing_kv_ratio, replace(recovery, '_', ' ')
"""
    + _FROM_WORST
)
_SHAPE_WORDS = (
    "The ramp is a straight line through KV occupancy in the minute before it was nearly full; its time is "
    "counted from the first engine action. A correlation near 1 means that KV and latency rose together "
    "before the jump (each step had more to read or to compute); the jump itself is left out. "
    "Missing is what the requests that waited at the worst moment needed more than was free, by the mean "
    "request: with that much more the episode would not have come at this load."
)
_VICTIM_COLUMNS = (
    Column("swap_point_id", "Swap point", "count"),
    Column("level", "Level", "name"),
    Column("request_id", "Request", "name"),
    Column("prompt_tokens", "Prompt tokens", "count"),
    Column("output_tokens", "Output tokens", "count"),
    Column("gap_count", "Stalls", "count"),
    Column("gap_ms", "Longest stall", "ms"),
    Column("gap_total_ms", "All stalls", "ms"),
    Column("start_ns", "First stall at", "instant"),
    Column("since_start_ns", SINCE_START, "offset_ns"),
)
_VICTIM_SQL = f"""
select
    swap_point_id, level, coalesce(request_id, 'request ' || request_no), prompt_tokens, output_tokens,
    gap_count, gap_ms, gap_total_ms, start_ns, start_ns - {START_SQL.format(table="victims")}
from victims
order by gap_ms desc nulls last, start_ns, swap_point_id, source_id, request_no
limit ?
"""  # noqa: S608


def swap_point_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return the table of swap points and their separate times."""
    points = read_table(
        con,
        "swap_points",
        _POINT_COLUMNS,
        _POINT_SQL,
        (SHOWN_ROWS,),
        also_needs=("kv_occupancy", "token_latency"),
        more_words="swap points",
        total_sql="select count(*) from swap_points",
    )
    times = read_table(con, "swap_points", _TIME_COLUMNS, _TIME_SQL, (SHOWN_ROWS,))
    if points is None:
        return None
    blocks: list[Block] = [since_level(con, points)]
    if _has_pressure(points):
        blocks.append(Paragraph(_PRESSURE_WORDS))
    if times is not None and len(times.columns) > 1:
        blocks.extend(
            [Paragraph("How the engine acted, and the other times, counted from its first action:"), times]
        )
    return Section("swap_points", "Swap points", tuple(blocks))


def _has_pressure(points: Table) -> bool:
    index = next(number for number, column in enumerate(points.columns) if column.name == "class")
    return any(row[index] == "pressure" for row in points.rows)


def price_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return what each swap point cost: throughput and latency before and during it."""
    table = read_table(con, "swap_points", _PRICE_COLUMNS, _PRICE_SQL, (SHOWN_ROWS,))
    if table is None or len(table.columns) < 2:
        return None
    window = format_number(threshold(con, "harm_before_s"))
    words = (
        f"Before is the {window} s ahead of the first engine action, whatever the load was then: "
        "where the load was still growing, throughput rises."
    )
    return Section("price", "Before and during", (table, Paragraph(words)))


def shape_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return how KV and latency moved before each swap point, what KV lacked, and what came after."""
    table = read_table(con, "swap_points", _SHAPE_COLUMNS, _SHAPE_SQL, (SHOWN_ROWS,))
    if table is None or len(table.columns) < 2:
        return None
    words = [_SHAPE_WORDS]
    points = worst_first(read_swap_points(con))
    if points and (cost := cost_words(con, points[0])):
        words.insert(0, f"Swap point {points[0].swap_point_id}, the worst: {cost}")
    blocks = (Paragraph(text) for text in words)
    return Section("shape", "Before the jump, and what was missing", (table, *blocks))


def victim_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return the requests that stood still, the longest stall first."""
    table = read_table(
        con,
        "victims",
        _VICTIM_COLUMNS,
        _VICTIM_SQL,
        (SHOWN_ROWS,),
        also_needs=("kv_occupancy", "token_latency"),
        more_words="victims",
        total_sql="select count(*) from victims",
    )
    return None if table is None else Section("victims", "Victims", (since_level(con, table),))
