"""Cutting the raw rows of a run to a time window, between the tying of its clocks and its models."""

from dataclasses import replace

import duckdb

from kvcliff.errors import UsageProblem
from kvcliff.store.database import quote
from kvcliff.store.window import RunSpan, RunWindow, WindowRequest, place_window
from kvcliff.store.window_keep import kept_rows
from kvcliff.store.window_rules import TRIMMED_MARTS, WINDOW_RULES, WindowRule
from kvcliff.units import format_count

_UNTIED_NOTE = "left out of the window: no time on the run's clock"


def cut_to_window(
    con: duckdb.DuckDBPyConnection, request: WindowRequest, *, utc_known: bool, year_known: bool = True
) -> RunWindow:
    """Delete the raw rows outside a window and return the window.

    Clocks are tied on all rows before; what state needs (the last value before the window of each counter
    and gauge, settings, facts about captures) stays.

    Args:
        con: connection with the temporary raw tables, ``sources`` and ``clocks``.
        request: what to keep.
        utc_known: whether the run clock is UTC.
        year_known: whether its dates have their real year.

    Raises:
        UsageProblem: the window cannot be placed, lies outside the run, or holds no row.
    """
    window = place_window(request, _span(con, utc_known=utc_known, year_known=year_known))
    con.execute(
        """
        create or replace temp table window_bounds as
        select source_id, $start_ns - offset_ns as low_ns, $end_ns - offset_ns as high_ns
        from temp.clocks where uncertainty_ns is not null
        """,
        {"start_ns": window.start_ns, "end_ns": window.end_ns},
    )
    before = _timed_counts(con)
    _mark_whole_sources(con)
    _complete_counts(con)
    for rule in WINDOW_RULES:
        if rule.kind != "always" and _has_rows(con, rule.table):
            _cut(con, rule)
    _empty_unknown_ends(con)
    after = _timed_counts(con)
    is_empty = not any(_has_inside(con, rule) for rule in WINDOW_RULES if rule.start is not None)
    for table in ("window_bounds", "window_whole", "window_kept"):
        con.execute(f"drop table if exists temp.{quote(table)}")
    if is_empty:
        raise UsageProblem(
            f"no row of the run lies in the window {window.label}",
            hint="the files have a hole there; give a wider window",
        )
    left_out = _write_notes(con, before, after)
    return replace(window, notes=(*window.notes, *left_out))


def trim_marts(con: duckdb.DuckDBPyConnection, window: RunWindow) -> None:
    """Take out of the marts what reaches over the edges of a window.

    Rows of series before it were kept to count from, not to show. A bucket over an edge has a part of its
    tokens only, which is no rate.
    """
    for mart, end in TRIMMED_MARTS:
        con.execute(f"delete from temp.{quote(mart)} where {end} < ?", [window.start_ns])  # noqa: S608
    edges = [(window.is_start_cut, window.start_ns), (window.is_end_cut, window.end_ns + 1)]
    for edge_ns in (edge_ns for is_cut, edge_ns in edges if is_cut):
        con.execute(
            "update temp.token_latency set tokens_per_s = null where ts_ns < ? and ts_ns + bucket_ns > ?",
            [edge_ns, edge_ns],
        )


def _span(con: duckdb.DuckDBPyConnection, *, utc_known: bool, year_known: bool) -> RunSpan:
    """Return when the run was, from every row with a time.

    Raises:
        UsageProblem: no row has one.
    """
    whole = _extent(con, tuple(rule for rule in WINDOW_RULES if rule.start is not None))
    if whole is None:
        raise UsageProblem(
            "a window needs times, and no file of the run has any", hint="leave out --from and --to"
        )
    load = _extent(con, tuple(rule for rule in WINDOW_RULES if rule.is_load)) or whole
    return RunSpan(*load, *whole, utc_known, year_known)


def _extent(con: duckdb.DuckDBPyConnection, rules: tuple[WindowRule, ...]) -> tuple[int, int] | None:
    """Return the first and the last instant on the run clock in some tables, ``None`` without one."""
    moments = " union all ".join(
        f"select source_id, min({rule.start}) as first_ns, "  # noqa: S608
        f"max(coalesce({rule.end or rule.start}, {rule.start})) as last_ns "
        f"from temp.{quote(rule.table)} where {_is_timed(rule)} group by source_id"
        for rule in rules
    )
    row = con.execute(
        f"""
        select min(moments.first_ns + clocks.offset_ns), max(moments.last_ns + clocks.offset_ns)
        from ({moments}) as moments
        inner join temp.clocks as clocks on moments.source_id = clocks.source_id
        where clocks.uncertainty_ns is not null
        """  # noqa: S608
    ).fetchone()
    return None if row is None or row[0] is None else (int(row[0]), int(row[1]))


def _is_timed(rule: WindowRule) -> str:
    """Return the condition for rows with a time; graphs that could not be timed carry zeros."""
    if rule.table == "raw_metric_scrapes":
        return "is_timed"
    return "end_src_ns > 0" if rule.table == "raw_graph_launches" else "true"


def _has_rows(con: duckdb.DuckDBPyConnection, table: str) -> bool:
    return con.execute(f"select 1 from temp.{quote(table)} limit 1").fetchone() is not None  # noqa: S608


def _has_inside(con: duckdb.DuckDBPyConnection, rule: WindowRule) -> bool:
    """Return whether a table that was cut has a row in the window, beside those that it is counted from."""
    end = f"coalesce({rule.end}, {rule.start})" if rule.end is not None else rule.start
    row = con.execute(
        f"select 1 from temp.{quote(rule.table)} as entries "  # noqa: S608
        "inner join temp.window_bounds as bounds on entries.source_id = bounds.source_id "
        f"where {end} >= bounds.low_ns limit 1"
    ).fetchone()
    return row is not None


def _timed_counts(con: duckdb.DuckDBPyConnection) -> dict[int, int]:
    """Return the rows of each source in tables that a window cuts."""
    parts = " union all ".join(
        f"select source_id, count(*) as row_count from temp.{quote(rule.table)} group by source_id"  # noqa: S608
        for rule in WINDOW_RULES
        if rule.kind != "always"
    )
    rows = con.execute(
        f"select source_id, sum(row_count) from ({parts}) group by source_id order by source_id"  # noqa: S608
    ).fetchall()
    return {source_id: int(count) for source_id, count in rows}


def _mark_whole_sources(con: duckdb.DuckDBPyConnection) -> None:
    """List the sources all of whose rows lie in the window: only their sums are sums of the window."""
    parts = " union all ".join(
        f"select source_id, {rule.start} as first_ns, {rule.end or rule.start} as last_ns "  # noqa: S608
        f"from temp.{quote(rule.table)}"
        for rule in WINDOW_RULES
        if rule.start is not None and rule.kind != "tokens"
    )
    con.execute(
        f"""
        create or replace temp table window_whole as
        select source_id
        from ({parts}) as moments
        inner join temp.window_bounds as bounds using (source_id)
        group by source_id, bounds.low_ns, bounds.high_ns
        having min(first_ns) >= bounds.low_ns and max(coalesce(last_ns, first_ns)) <= bounds.high_ns
        """  # noqa: S608
    )


def _complete_counts(con: duckdb.DuckDBPyConnection) -> None:
    """Write the change of a running total to each event, before the event that it is counted from goes."""
    con.execute(
        """
        update temp.raw_log_events as entries set event_count = changes.change
        from (
            select
                source_id,
                line_no,
                cast(greatest(cumulative_count - lag(cumulative_count) over (
                    partition by source_id, engine, kind order by src_ns, line_no
                ), 1) as bigint) as change
            from temp.raw_log_events
        ) as changes
        where
            entries.source_id = changes.source_id and entries.line_no = changes.line_no
            and entries.event_count is null and entries.cumulative_count is not null
            and changes.change is not null
        """
    )


def _cut(con: duckdb.DuckDBPyConnection, rule: WindowRule) -> None:
    """Delete the rows of a table that are not of the window."""
    table = f"temp.{quote(rule.table)}"
    con.execute(f"create or replace temp table window_kept as {kept_rows(rule)}")
    # An anti join: "not in" would keep every row as soon as one number is null.
    con.execute(
        f"delete from {table} as entries where not exists "  # noqa: S608
        "(select 1 from temp.window_kept where window_kept.row_no = entries.rowid)"
    )


def _empty_unknown_ends(con: duckdb.DuckDBPyConnection) -> None:
    """Empty what is not of the window in requests that cross its edges.

    A request counts in the window in which it was served; its first token, end and failure count in the one
    in which they happened. The last token before the window says since when its stream is silent and is
    itself none of the window's.
    """
    con.execute(
        """
        update temp.raw_client_requests as requests set first_token_src_ns = null, ttft_ns = null
        from temp.window_bounds as bounds
        where
            requests.source_id = bounds.source_id
            and coalesce(first_token_src_ns, submit_src_ns + ttft_ns)
            not between bounds.low_ns and bounds.high_ns
        """
    )
    con.execute(
        """
        update temp.raw_client_requests as requests
        set
            done_src_ns = null, latency_ns = null, last_token_src_ns = null, output_tokens = null,
            is_error = false, error_kind = null
        from temp.window_bounds as bounds
        where
            requests.source_id = bounds.source_id
            and coalesce(done_src_ns, submit_src_ns + latency_ns, last_token_src_ns) > bounds.high_ns
        """
    )
    con.execute(
        """
        update temp.raw_client_tokens as tokens set tokens = null
        from temp.window_bounds as bounds
        where tokens.source_id = bounds.source_id and src_ns < bounds.low_ns
        """
    )


def _write_notes(
    con: duckdb.DuckDBPyConnection, before: dict[int, int], after: dict[int, int]
) -> tuple[str, ...]:
    """Say of each file how much of it lies in the window, and return what to say of files without times."""
    rows = con.execute("select source_id from temp.clocks where uncertainty_ns is not null").fetchall()
    tied = {source_id for (source_id,) in rows}
    for source_id, count in before.items():
        share = f"{format_count(after.get(source_id, 0))} of {format_count(count)} rows belong to the window"
        con.execute(
            "update temp.sources set notes = concat_ws(chr(10), notes, ?) where source_id = ?",
            [share if source_id in tied else _UNTIED_NOTE, source_id],
        )
    untied = sum(source_id not in tied for source_id in before)
    if not untied:
        return ()
    files = "1 file is" if untied == 1 else f"{format_count(untied)} files are"
    return (f"{files} {_UNTIED_NOTE}",)
