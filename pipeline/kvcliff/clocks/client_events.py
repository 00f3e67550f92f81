"""Events that a load client saw: requests sent, first tokens, tokens, ends, and the load that they make."""

from functools import partial
from typing import Final

import duckdb
import polars as pl

from kvcliff.clocks.events import (
    INTEGERS,
    AnyEventStream,
    EventKind,
    EventStream,
    LateEventStream,
    no_events,
    query_frame,
)
from kvcliff.clocks.shape import client_samples

#: More chunks than this cost more to number than a tie by them is worth.
_MAX_CHUNKS: Final = 10_000_000
#: Earliest and latest time of the event of a request, by kind; a request without both has none.
_REQUEST_TIMES: Final[dict[EventKind, tuple[str, str]]] = {
    "first_token": ("first_token_src_ns", "first_token_src_ns"),
    "finish": ("done_src_ns", "case when not coalesce(is_error, false) then done_src_ns end"),
    "request": ("submit_src_ns", "coalesce(first_token_src_ns, done_src_ns)"),
}


def read_client_events(con: duckdb.DuckDBPyConnection, source_id: int) -> list[AnyEventStream]:
    """Return the event streams of a load client."""
    streams: list[AnyEventStream] = [
        EventStream(source_id, kind, _requests(con, source_id, low, high))
        for kind, (low, high) in _REQUEST_TIMES.items()
    ]
    streams.append(EventStream(source_id, "load", client_samples(con, source_id)))
    streams.append(LateEventStream(source_id, "token", partial(_tokens, con, source_id)))
    return streams


def _requests(con: duckdb.DuckDBPyConnection, source_id: int, low: str, high: str) -> pl.DataFrame:
    """Return one event per request, numbered in order of time."""
    return query_frame(
        con,
        f"""
        with times as (
            select {low} as lo_ns, {high} as hi_ns, request_no
            from temp.raw_client_requests where source_id = ?
        )
        select row_number() over (order by lo_ns, hi_ns, request_no) as ordinal, lo_ns, hi_ns
        from times where lo_ns is not null and hi_ns is not null
        order by ordinal
        """,  # noqa: S608
        [source_id],
    ).with_columns(INTEGERS)


def _tokens(con: duckdb.DuckDBPyConnection, source_id: int) -> pl.DataFrame:
    """Return the chunks of all streams, numbered by the tokens that had arrived with them."""
    condition = "source_id = ? and src_ns is not null"
    counted = con.execute(f"select count(*) from temp.raw_client_tokens where {condition}", [source_id])  # noqa: S608
    if counted.fetchall()[0][0] > _MAX_CHUNKS:
        return no_events()
    return query_frame(
        con,
        f"""
        with
        chunks as (
            select
                src_ns, coalesce(tokens, 1) as tokens,
                sum(coalesce(tokens, 1)) over (order by src_ns, request_no, chunk_no) as ordinal
            from temp.raw_client_tokens where {condition}
        )
        select cast(ordinal as bigint) as ordinal, src_ns as lo_ns, src_ns as hi_ns from chunks
        where tokens > 0
        order by ordinal
        """,  # noqa: S608
        [source_id],
    ).with_columns(INTEGERS)
