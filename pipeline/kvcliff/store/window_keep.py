"""The rows of each raw table that belong to a time window, as SELECTs of their numbers."""

from kvcliff.store.database import quote
from kvcliff.store.window_rules import WindowRule

#: Tables of GPU work that a host call puts there.
_LAUNCHED = ("raw_kernels", "raw_copies", "raw_graph_launches")


def kept_rows(rule: WindowRule) -> str:
    """Return the SELECT of the row numbers of a raw table that belong to a window.

    It reads ``window_bounds`` (the window on each file's own clock) and ``window_whole`` (files within it).
    """
    match rule.kind:
        case "samples":
            return _SAMPLES_SQL
        case "scrapes":
            return _SCRAPES_SQL
        case "requests":
            return _requests_sql(rule)
        case "whole":
            return _whole_sql(rule.table)
        case "launches":
            return _launches_sql(rule)
        case "ranges":
            return _RANGES_SQL
        case "state":
            return f"{_inside_sql(rule)} union {_last_before_sql(rule)}"
        case "tokens":
            # Gaps without times can only be told to lie in the window when the whole file does.
            return f"{_inside_sql(rule)} union {_last_before_sql(rule)} union {_whole_sql(rule.table)}"
        case "graphs":
            return f"{_inside_sql(rule)} union {_UNTIMED_GRAPHS_SQL}"
        case _:
            return _inside_sql(rule)


def _whole_sql(table: str) -> str:
    """Return the rows of the files that lie within the window as a whole."""
    return f"select rowid as row_no from temp.{quote(table)} semi join temp.window_whole using (source_id)"  # noqa: S608


def _inside_sql(rule: WindowRule) -> str:
    """Return the rows whose moment, or any part of whose time, lies in the window."""
    end = f"coalesce({rule.end}, {rule.start})" if rule.end is not None else rule.start
    return f"""
        select entries.rowid as row_no
        from temp.{quote(rule.table)} as entries
        inner join temp.window_bounds as bounds on entries.source_id = bounds.source_id
        where {rule.start} <= bounds.high_ns and {end} >= bounds.low_ns
    """  # noqa: S608


def _last_before_sql(rule: WindowRule) -> str:
    """Return the last row before the window of each series."""
    series = "".join(f", entries.{quote(name)}" for name in rule.series)
    return f"""
        select arg_max(entries.rowid, (entries.{rule.start}, entries.rowid)) as row_no
        from temp.{quote(rule.table)} as entries
        inner join temp.window_bounds as bounds on entries.source_id = bounds.source_id
        where entries.{rule.start} < bounds.low_ns
        group by entries.source_id{series}
    """  # noqa: S608


#: A series without a value in the window has no state in it: a process that ended before must not come back.
_SAMPLES_SQL = """
with timed as (
    select
        samples.rowid as row_no,
        samples.source_id,
        samples.series_id,
        coalesce(scrapes.end_src_ns, scrapes.src_ns) as at_ns,
        bounds.low_ns,
        bounds.high_ns
    from temp.raw_metric_samples as samples
    inner join temp.raw_metric_scrapes as scrapes
        on samples.source_id = scrapes.source_id and samples.scrape_no = scrapes.scrape_no
    inner join temp.window_bounds as bounds on samples.source_id = bounds.source_id
    where scrapes.is_timed
)

select row_no from timed where at_ns between low_ns and high_ns
union
select arg_max(row_no, (at_ns, row_no)) filter (where at_ns < low_ns)
from timed
group by source_id, series_id
having bool_or(at_ns between low_ns and high_ns)
"""
_SCRAPES_SQL = """
select scrapes.rowid as row_no
from temp.raw_metric_scrapes as scrapes
inner join temp.window_bounds as bounds on scrapes.source_id = bounds.source_id
where
    scrapes.is_timed
    and (
        coalesce(scrapes.end_src_ns, scrapes.src_ns) between bounds.low_ns and bounds.high_ns
        or exists (
            select 1 from temp.raw_metric_samples as samples
            where samples.source_id = scrapes.source_id and samples.scrape_no = scrapes.scrape_no
        )
    )
"""
_UNTIMED_GRAPHS_SQL = """
select graphs.rowid as row_no
from temp.raw_graph_launches as graphs
inner join temp.window_bounds as bounds on graphs.source_id = bounds.source_id
inner join temp.raw_launches as launches
    on
        graphs.source_id = launches.source_id
        and graphs.process_id is not distinct from launches.process_id
        and graphs.correlation_id = launches.correlation_id
where
    graphs.start_src_ns = 0 and graphs.end_src_ns = 0
    and launches.start_src_ns <= bounds.high_ns and launches.end_src_ns >= bounds.low_ns
"""
#: A range holds the calls that launch its work: it counts when these do, although it ended before the window.
_RANGES_SQL = """
select ranges.rowid as row_no
from temp.raw_nvtx_ranges as ranges
inner join temp.window_bounds as bounds on ranges.source_id = bounds.source_id
left join (
    select source_id, min(start_src_ns) as first_ns from temp.raw_launches group by source_id
) as launches on ranges.source_id = launches.source_id
where
    ranges.start_src_ns <= bounds.high_ns
    and coalesce(ranges.end_src_ns, ranges.start_src_ns)
    >= least(bounds.low_ns, coalesce(launches.first_ns, bounds.low_ns))
"""


def _requests_sql(rule: WindowRule) -> str:
    """Return the requests that were served in the window; one without an end lasts until its last token."""
    return f"""
        select requests.rowid as row_no
        from temp.raw_client_requests as requests
        inner join temp.window_bounds as bounds on requests.source_id = bounds.source_id
        left join (
            select source_id, request_no, max(src_ns) as last_ns
            from temp.raw_client_tokens group by source_id, request_no
        ) as tokens
            on requests.source_id = tokens.source_id and requests.request_no = tokens.request_no
        where
            {rule.start} <= bounds.high_ns
            and coalesce({rule.end}, tokens.last_ns, last_token_src_ns, {rule.start}) >= bounds.low_ns
    """  # noqa: S608


def _launches_sql(rule: WindowRule) -> str:
    """Return the calls that overlap the window and those whose GPU work does."""
    work = " union ".join(
        f"select source_id, process_id, correlation_id from temp.{quote(table)}"  # noqa: S608
        for table in _LAUNCHED
    )
    return f"""
        {_inside_sql(rule)}
        union
        select launches.rowid
        from temp.raw_launches as launches
        semi join ({work}) as work
            on
                launches.source_id = work.source_id
                and launches.process_id is not distinct from work.process_id
                and launches.correlation_id = work.correlation_id
    """  # noqa: S608
