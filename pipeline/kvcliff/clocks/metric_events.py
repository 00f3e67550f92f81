"""Events that a series of scrapes shows: the scrapes themselves, steps of counters, load in the gauges."""

from typing import Final

import duckdb
import polars as pl

from kvcliff.clocks.events import (
    INTEGERS,
    EventKind,
    EventStream,
    ends_of_changes,
    query_frame,
    spelled_changes,
)
from kvcliff.clocks.shape import gauge_samples

#: Counters that move once per event, by kind; names without the engine's prefix, the first found wins.
COUNTER_NAMES: Final[dict[EventKind, tuple[str, ...]]] = {
    "step": ("iteration_tokens_total_count",),
    "first_token": ("time_to_first_token_seconds_count",),
    "finish": ("request_success_total", "request_success", "num_requests_total"),
    "token": ("generation_tokens_total", "generation_tokens"),
    "preemption": ("num_preemptions_total", "num_preemptions"),
}
#: Events so many that only the ends of each change are kept.
_DENSE_KINDS: Final = frozenset({"step", "token"})
#: A count larger than this is damage.
_MAX_COUNT: Final = 10**15
#: Scrapes closer together than this share of the usual interval are a burst after a stall.
_BURST_SHARE: Final = 0.1


def read_metric_events(con: duckdb.DuckDBPyConnection, source_id: int) -> list[EventStream]:
    """Return the event streams of a series of scrapes."""
    changes = _counter_changes(con, source_id)
    streams = [
        EventStream(source_id, "scrape", _scrapes(con, source_id)),
        EventStream(source_id, "load", gauge_samples(con, source_id)),
    ]
    for kind in COUNTER_NAMES:
        mine = changes.filter(pl.col("kind") == kind)
        streams.append(
            EventStream(
                source_id, kind, ends_of_changes(mine) if kind in _DENSE_KINDS else spelled_changes(mine)
            )
        )
    return streams


def _scrapes(con: duckdb.DuckDBPyConnection, source_id: int) -> pl.DataFrame:
    """Return the scrapes that brought values, each between its start and its end."""
    return query_frame(
        con,
        """
        select
            row_number() over (order by scrape_no) as ordinal, src_ns as lo_ns,
            coalesce(end_src_ns, src_ns) as hi_ns
        from temp.raw_metric_scrapes
        where source_id = ? and coalesce(is_timed, true) and src_ns is not null
            and scrape_no in (select scrape_no from temp.raw_metric_samples where source_id = ?)
        order by scrape_no
        """,
        [source_id, source_id],
    ).with_columns(INTEGERS)


def _counter_changes(con: duckdb.DuckDBPyConnection, source_id: int) -> pl.DataFrame:
    """Return the growth of counters between scrapes, summed over engines and labels; resets count from 0."""
    names = [(kind, name) for kind, spellings in COUNTER_NAMES.items() for name in spellings]
    return query_frame(
        con,
        """
        with
        spellings as (
            select
                unnest(?::varchar[]) as kind, unnest(?::varchar[]) as name,
                unnest(?::integer[]) as preference
        ),
        series as (
            select m.series_id, s.kind, s.preference
            from temp.raw_metric_series as m
            inner join spellings as s on regexp_replace(m.name, '^[^:]*:', '') = s.name
            where m.source_id = ? and m.le is null
        ),
        chosen as (
            select kind, series_id from series
            qualify preference = min(preference) over (partition by kind)
        ),
        scrapes as (
            select
                scrape_no, src_ns as start_ns, coalesce(end_src_ns, src_ns) as end_ns,
                src_ns - lag(src_ns) over (order by scrape_no) as gap_ns
            from temp.raw_metric_scrapes
            where source_id = ? and coalesce(is_timed, true) and src_ns is not null
        ),
        kept as (
            select scrape_no, start_ns, end_ns from scrapes
            where gap_ns is null or gap_ns >= ? * (select median(gap_ns) from scrapes)
        ),
        per_series as (
            select
                c.kind, k.scrape_no, k.end_ns, v.value,
                lag(v.value) over of_series as before, lag(k.start_ns) over of_series as before_ns
            from temp.raw_metric_samples as v
            inner join chosen as c on v.series_id = c.series_id
            inner join kept as k on v.scrape_no = k.scrape_no
            where v.source_id = ?
            window of_series as (partition by v.series_id order by k.scrape_no)
        ),
        growth as (
            select
                kind, scrape_no, end_ns, min(before_ns) as after_ns,
                sum(
                    case when before is null then 0 when value < before then value else value - before end
                ) as added,
                sum(case when before is null then value else 0 end) as entered
            from per_series
            group by kind, scrape_no, end_ns
        ),
        totals as (
            select
                kind, scrape_no, after_ns, end_ns, added,
                first_value(entered) over of_kind + sum(added) over of_kind as total
            from growth
            window of_kind as (partition by kind order by scrape_no)
        )
        select
            kind, after_ns as lo_ns, end_ns as hi_ns,
            cast(round(total - added) as bigint) + 1 as first_ordinal,
            cast(round(total) as bigint) as last_ordinal
        from totals
        where added > 0 and after_ns is not null and abs(total) < ? and round(total) > round(total - added)
        order by kind, scrape_no
        """,
        [
            [kind for kind, _ in names],
            [name for _, name in names],
            list(range(len(names))),
            source_id,
            source_id,
            _BURST_SHARE,
            source_id,
            _MAX_COUNT,
        ],
    )
