"""The section about what users got before, during and after swap points, request by request."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.marts import query_rows
from kvcliff.report.document import Block, Column, Paragraph, Section
from kvcliff.report.tables import SINCE_START, START_SQL, read_table, since_level
from kvcliff.units import format_ms

_COLUMNS = (
    Column("level", "Level", "name"),
    Column("replica_id", "Replica", "name"),
    Column("window", "Requests that arrived", "word"),
    Column("request_count", "Requests", "count"),
    Column("error_count", "Failed", "count"),
    Column("first_offset_ns", SINCE_START, "offset_ns"),
    Column("last_offset_ns", "Until", "offset_ns"),
    Column("ttft_p50_ms", "TTFT p50", "ms"),
    Column("ttft_p99_ms", "TTFT p99", "ms"),
    Column("tpot_p50_ms", "TPOT p50", "ms"),
    Column("tpot_p99_ms", "TPOT p99", "ms"),
    Column("longest_gap_ms", "Longest gap", "ms"),
    Column("slo_met_ratio", "SLO met", "pct"),
)
_CLEAN = "before, and had ended"
#: A client that is tied to no replica sees the swap points of all of them. An episode without an end lasts.
_SQL = f"""
with users as (
    select
        *,
        not coalesce(is_error, false) as is_good,
        min(replica_id) over (partition by level) = max(replica_id) over (partition by level) as is_one_client
    from requests
    where not coalesce(is_warmup, false) and arrival_ns is not null
),

episodes as (
    select
        level, replica_id, at_ns - coalesce(error_ns, 0) as start_ns,
        coalesce(greatest(recovered_at_ns, end_ns), recovered_at_ns, end_ns) as end_ns
    from swap_points
    where "class" in ('confirmed', 'probable')
),

placed as (
    select
        users.source_id, users.request_no,
        min(episodes.start_ns) as first_ns,
        max(coalesce(episodes.end_ns, 9223372036854775807)) as last_ns,
        coalesce(
            bool_or(
                users.arrival_ns >= episodes.start_ns
                and users.arrival_ns < coalesce(episodes.end_ns, 9223372036854775807)
            ),
            false
        ) as is_during
    from users
    inner join episodes
        on
            users.level is not distinct from episodes.level
            and (users.is_one_client or users.replica_id = episodes.replica_id)
    group by users.source_id, users.request_no
),

windowed as (
    select
        users.*,
        case
            when users.arrival_ns < placed.first_ns and users.end_ns < placed.first_ns then 1
            when users.arrival_ns < placed.first_ns then 2
            when placed.is_during then 3
            when users.arrival_ns < placed.last_ns then 4
            else 5
        end as window_no
    from users
    inner join placed on users.source_id = placed.source_id and users.request_no = placed.request_no
)

select
    level, case when not bool_and(is_one_client) then replica_id end,
    case window_no
        when 1 then '{_CLEAN}'
        when 2 then 'before, still running then'
        when 3 then 'during a swap point'
        when 4 then 'between swap points'
        else 'after'
    end,
    count(*), count(*) filter (where is_error),
    min(arrival_ns) - {START_SQL.format(table="windowed")},
    max(arrival_ns) - {START_SQL.format(table="windowed")},
    quantile_disc(ttft_ms, 0.5) filter (where is_good),
    quantile_disc(ttft_ms, 0.99) filter (where is_good),
    quantile_disc(tpot_ms, 0.5) filter (where is_good),
    quantile_disc(tpot_ms, 0.99) filter (where is_good),
    max(longest_gap_ms),
    count(*) filter (where is_slo_met) / nullif(count(is_slo_met), 0)
from windowed
group by level, replica_id, window_no
order by min(min(arrival_ns)) over (partition by level), level, replica_id, window_no
limit 40
"""  # noqa: S608
_OBJECTIVE_SQL = """
select
    max(number) filter (where name = 'slo_ttft_ms'),
    max(number) filter (where name = 'slo_itl_ms')
from settings
where is_effective
"""
_WINDOW_WORDS = (
    "Windows go by arrival. A request that arrived before a swap point and was still running when it began "
    "is counted apart: its later tokens came under pressure. Load may differ between the windows, and the "
    "p99 of fewer than 100 requests is the slowest one."
)
_NO_OBJECTIVES = (
    "No objectives are stated, so no share of requests met them: "
    "write ttft_ms and itl_ms under [slo] in run.toml."
)


@dataclass(frozen=True)
class _Objectives:
    ttft_ms: float | None
    itl_ms: float | None


def slo_section(con: duckdb.DuckDBPyConnection) -> Section | None:
    """Return what requests got before, during and after swap points; ``None`` when the run has none."""
    table = read_table(
        con,
        "requests",
        _COLUMNS,
        _SQL,
        also_needs=("swap_points", "kv_occupancy", "token_latency", "runs"),
    )
    if table is None:
        return None
    blocks: list[Block] = [since_level(con, table), Paragraph(_WINDOW_WORDS)]
    if not any(_CLEAN in row for row in table.rows):
        blocks.append(
            Paragraph("No request had ended before the first swap point: there is no clean baseline.")
        )
    blocks.append(Paragraph(_objective_words(con)))
    return Section("slo", "SLO before, during and after", tuple(blocks))


def _objective_words(con: duckdb.DuckDBPyConnection) -> str:
    rows = query_rows(con, ("settings",), _Objectives, _OBJECTIVE_SQL)
    stated = rows[0] if rows else _Objectives(None, None)
    limits = [
        f"{name} at most {format_ms(value)}"
        for name, value in (("TTFT", stated.ttft_ms), ("TPOT", stated.itl_ms))
        if value is not None
    ]
    return f"Objectives of the run: {' and '.join(limits)}." if limits else _NO_OBJECTIVES
