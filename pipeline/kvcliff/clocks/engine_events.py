"""Events that an engine's log and a trace of its GPU state: steps, first tokens, requests, preemptions."""

from typing import Final

import duckdb
import polars as pl

from kvcliff.clocks.events import COLUMNS, INTEGERS, EventStream, query_frame
from kvcliff.clocks.shape import log_samples

#: More requests than this in one step are damage.
_MAX_STEP_REQUESTS: Final = 10_000
#: Texts of step marks that state requests and tokens of both phases.
_STEP_MARK: Final = r"(?:^execute_|step )(context[_=]\d+\(\d+\)[_ ]generation[_=]\d+\(\d+\))"


def read_log_events(con: duckdb.DuckDBPyConnection, source_id: int, stamp_ns: int) -> list[EventStream]:
    """Return the event streams of a log.

    Args:
        con: connection with the raw tables.
        source_id: the log.
        stamp_ns: [ns] width of its stamps; a stamp is the floor of the event.
    """
    steps = _log_steps(con, source_id, stamp_ns)
    return [
        EventStream(source_id, "scrape", _access_lines(con, source_id, "metrics", stamp_ns)),
        EventStream(source_id, "request", _access_lines(con, source_id, "completions", stamp_ns)),
        EventStream(source_id, "step", steps.select(COLUMNS), work=steps),
        EventStream(source_id, "first_token", _first_tokens(steps)),
        EventStream(source_id, "preemption", _log_preemptions(con, source_id, stamp_ns)),
        EventStream(source_id, "load", log_samples(con, source_id, stamp_ns)),
    ]


def _log_preemptions(con: duckdb.DuckDBPyConnection, source_id: int, stamp_ns: int) -> pl.DataFrame:
    """Return the preemptions whose number since the engine's start is printed."""
    return query_frame(
        con,
        """
        select cumulative_count as ordinal, min(src_ns) as lo_ns, min(src_ns) + ? as hi_ns
        from temp.raw_log_events
        where source_id = ? and kind = 'preempt' and cumulative_count is not null and src_ns is not null
        group by cumulative_count
        order by cumulative_count
        """,
        [stamp_ns, source_id],
    ).with_columns(INTEGERS)


def _access_lines(
    con: duckdb.DuckDBPyConnection, source_id: int, path_class: str, stamp_ns: int
) -> pl.DataFrame:
    """Return one row per access line; it was written between the stamps around it."""
    return query_frame(
        con,
        """
        with
        lines as (
            select
                line_no, after_src_ns as lo_ns, before_src_ns + ? as hi_ns,
                unnest(range(access_count)) as copy_no
            from temp.raw_log_access
            where source_id = ? and path_class = ? and status between 200 and 299
        ),
        numbered as (
            select row_number() over (order by line_no, copy_no) as ordinal, lo_ns, hi_ns from lines
        )
        select ordinal, lo_ns, hi_ns from numbered
        where lo_ns is not null and hi_ns is not null
        order by ordinal
        """,
        [stamp_ns, source_id, path_class],
    ).with_columns(INTEGERS)


def _log_steps(con: duckdb.DuckDBPyConnection, source_id: int, stamp_ns: int) -> pl.DataFrame:
    """Return the engine steps of a log: number, bounds of the step's end, requests and tokens of both phases.

    A stamp is the floor of the time at which the step ended. Step times are printed too, so a step cannot end
    earlier than any step before it plus the times since, nor later than any after it less those until then.
    """
    steps = query_frame(
        con,
        """
        select
            row_number() over (order by line_no) as ordinal, src_ns, coalesce(elapsed_ms, 0) as elapsed_ms,
            context_requests, context_tokens, generation_requests, generation_tokens
        from temp.raw_log_iterations
        where source_id = ? and not coalesce(is_dummy, false) and src_ns is not null
        order by line_no
        """,
        [source_id],
    )
    spent = (pl.col("elapsed_ms") * 1e6).cast(pl.Int64).cum_sum()
    narrow = steps.with_columns(
        ((pl.col("src_ns") - spent).cum_max() + spent).alias("lo_ns"),
        ((pl.col("src_ns") + stamp_ns - spent).cum_min(reverse=True) + spent).alias("hi_ns"),
    )
    # Steps that overlap (several engines, pipelining) print more time than passes: then only the stamps hold.
    if narrow.filter(pl.col("lo_ns") >= pl.col("hi_ns")).height > 0:
        narrow = steps.with_columns(
            pl.col("src_ns").alias("lo_ns"), (pl.col("src_ns") + stamp_ns).alias("hi_ns")
        )
    return narrow.with_columns(INTEGERS)


def _first_tokens(steps: pl.DataFrame) -> pl.DataFrame:
    """Return one event per request in prefill: its first token comes with the step, if prompts are whole."""
    context = steps.filter(pl.col("context_requests").is_between(1, _MAX_STEP_REQUESTS)).select(
        pl.int_ranges(0, pl.col("context_requests")).alias("ordinal"), "lo_ns", "hi_ns"
    )
    return (
        context.explode("ordinal")
        .with_columns(pl.int_range(1, pl.len() + 1).alias("ordinal"))
        .with_columns(INTEGERS)
    )


def read_trace_events(con: duckdb.DuckDBPyConnection, source_id: int) -> list[EventStream]:
    """Return the event streams of a trace whose engine marked its steps."""
    steps = _trace_steps(con, source_id)
    return [
        EventStream(source_id, "step", steps.select(COLUMNS), work=steps),
        EventStream(source_id, "first_token", _first_tokens(steps)),
    ]


def _trace_steps(con: duckdb.DuckDBPyConnection, source_id: int) -> pl.DataFrame:
    """Return the marked engine steps of a trace: number, end, requests and tokens of both phases.

    Ranks of one engine mark the same steps; the process with the most marks speaks for all.
    """
    return query_frame(
        con,
        r"""
        with
        marks as (
            select
                process_id, range_no, start_src_ns, coalesce(end_src_ns, start_src_ns) as end_ns,
                regexp_extract_all(regexp_extract(name, ?, 1), '\d+') as numbers
            from temp.raw_nvtx_ranges
            where source_id = ? and name is not null and not coalesce(is_open, false)
        ),
        steps as (select * from marks where len(numbers) = 4),
        speakers as (select process_id, count(*) as mark_count from steps group by process_id),
        speaker as (select process_id from speakers order by mark_count desc, process_id limit 1)
        select
            row_number() over (order by start_src_ns, range_no) as ordinal, end_ns as lo_ns, end_ns as hi_ns,
            try_cast(numbers[1] as bigint) as context_requests,
            try_cast(numbers[2] as bigint) as context_tokens,
            try_cast(numbers[3] as bigint) as generation_requests,
            try_cast(numbers[4] as bigint) as generation_tokens
        from steps
        where process_id is not distinct from (select process_id from speaker)
        order by ordinal
        """,
        [_STEP_MARK, source_id],
    ).with_columns(INTEGERS)
