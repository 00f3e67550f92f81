"""All ties between the sources of a run: by shared events, by a shared sampler, by a shared local clock."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import duckdb

from kvcliff.clocks.anchors import Tie, exact_tie, tie_by_events
from kvcliff.clocks.client_events import read_client_events
from kvcliff.clocks.engine_events import read_log_events, read_trace_events
from kvcliff.clocks.events import AnyEventStream, EventKind, LateEventStream
from kvcliff.clocks.metric_events import read_metric_events
from kvcliff.clocks.sources import ClockSource
from kvcliff.units import NS_PER_S

_EVENT_ROLES = frozenset({"log", "metrics", "client", "trace"})
_SAMPLED_ROLES = frozenset({"metrics", "device", "counters"})
#: Files that share this many of their first stamps were written by one sampler.
_SHARED_STAMP_SHARE = 0.5
#: Two relative files whose first stamps are closer than this began together.
_SAME_START_NS = NS_PER_S
#: Hosts keep within this by NTP.
_NTP_NS = 100_000_000
#: Zones differ by this at least.
_ZONE_STEP_NS = 900 * NS_PER_S
#: A result or another dated file within this time of a log's end decides its year, whatever the zone.
_YEAR_REACH_NS = 26 * 3600 * NS_PER_S


def find_ties(
    con: duckdb.DuckDBPyConnection,
    sources: tuple[ClockSource, ...],
    tied_ids: frozenset[int] = frozenset(),
) -> tuple[Tie, ...]:
    """Return the best tie of every pair of sources that have something in common.

    Args:
        con: connection with the raw tables.
        sources: the sources of the run.
        tied_ids: sources whose times were told by another one: they say nothing more about clocks.
    """
    timed = [source for source in sources if source.first_ns is not None and source.source_id not in tied_ids]
    streams = {
        source.source_id: _events(con, source, timed) for source in timed if source.role in _EVENT_ROLES
    }
    ties = [_tie(con, left, right, streams) for left, right in _pairs(timed)]
    return tuple(tie for tie in ties if tie is not None)


def _pairs(sources: list[ClockSource]) -> Iterator[tuple[ClockSource, ClockSource]]:
    for number, left in enumerate(sources):
        for right in sources[number + 1 :]:
            if left.shares_group_with(right):
                yield left, right


def _events(
    con: duckdb.DuckDBPyConnection, source: ClockSource, sources: list[ClockSource]
) -> dict[EventKind, AnyEventStream]:
    """Return the events of a source, unless there is no other whose events they could be."""
    has_partner = any(
        other.role in _EVENT_ROLES and other.role != source.role and other.shares_group_with(source)
        for other in sources
    )
    streams = _read_events(con, source) if has_partner else []
    return {
        stream.kind: stream
        for stream in streams
        if isinstance(stream, LateEventStream) or stream.frame.height > 0
    }


def _read_events(con: duckdb.DuckDBPyConnection, source: ClockSource) -> Sequence[AnyEventStream]:
    if source.role == "log":
        return read_log_events(con, source.source_id, source.stamp_ns)
    if source.role == "metrics":
        return read_metric_events(con, source.source_id)
    if source.role == "client":
        return read_client_events(con, source.source_id)
    return read_trace_events(con, source.source_id)


def _tie(
    con: duckdb.DuckDBPyConnection,
    left: ClockSource,
    right: ClockSource,
    streams: dict[int, dict[EventKind, AnyEventStream]],
) -> Tie | None:
    if (
        left.kind == right.kind == "relative"
        and {left.role, right.role} <= _SAMPLED_ROLES
        and left.folder == right.folder
    ):
        return _same_sampler(con, left, right)
    if left.kind == right.kind == "local":
        tie = _same_local_clock(left, right)
        if tie is not None and {left.role, right.role} & {"device", "counters"}:
            return tie
        if tie is not None and left.role == right.role == "log" and _is_side_by_side(left, right, tie):
            return exact_tie(left.source_id, right.source_id, tie.fit.difference_ns, _NTP_NS, "same_clock")
    mine, theirs = streams.get(left.source_id), streams.get(right.source_id)
    if not mine or not theirs or left.role == right.role:
        return None
    return tie_by_events(mine, theirs, (left.role, right.role))


def _same_sampler(con: duckdb.DuckDBPyConnection, left: ClockSource, right: ClockSource) -> Tie | None:
    """Return the tie of two files whose times count from the same moment, or ``None``."""
    row = con.execute(
        """
        with
        stamps as (
            select source_id, src_ns from temp.raw_metric_scrapes
            union
            select source_id, src_ns from temp.raw_device_samples
            union
            select source_id, src_ns from temp.raw_gpu_metrics
        ),
        mine as (select src_ns from stamps where source_id = ?),
        theirs as (select src_ns from stamps where source_id = ?)
        select
            (select count(*) from mine inner join theirs using (src_ns)),
            least((select count(*) from mine), (select count(*) from theirs))
        """,
        [left.source_id, right.source_id],
    ).fetchall()[0]
    if row[1] > 0 and row[0] >= _SHARED_STAMP_SHARE * row[1]:
        return exact_tie(left.source_id, right.source_id, 0, 0, "same_clock")
    if (
        left.first_ns is None
        or right.first_ns is None
        or abs(left.first_ns - right.first_ns) > _SAME_START_NS
    ):
        return None
    return exact_tie(left.source_id, right.source_id, 0, _SAME_START_NS, "same_clock")


def _is_side_by_side(left: ClockSource, right: ClockSource, tie: Tie) -> bool:
    """Return whether two logs of one folder overlap and are so short that no other zone would let them."""
    if left.folder != right.folder or None in (left.first_ns, left.last_ns, right.first_ns, right.last_ns):
        return False
    (first, last), (other_first, other_last) = (
        (side.first_ns or 0, side.last_ns or 0) for side in (left, right)
    )
    moved_first, moved_last = first + tie.fit.difference_ns, last + tie.fit.difference_ns
    is_short = max(last - first, other_last - other_first) < _ZONE_STEP_NS // 2
    return is_short and moved_first <= other_last and other_first <= moved_last


def _same_local_clock(left: ClockSource, right: ClockSource) -> Tie | None:
    """Return the tie of two files in the local time of one machine; the one with a year dates the other."""
    if left.is_year_known == right.is_year_known:
        return (
            exact_tie(left.source_id, right.source_id, 0, NS_PER_S, "same_clock")
            if left.is_year_known
            else None
        )
    dated, undated = (left, right) if left.is_year_known else (right, left)
    if dated.last_ns is None:
        return None
    shift_ns = year_shift_ns(undated, dated.last_ns)
    if shift_ns is None:
        return None
    tie = exact_tie(undated.source_id, dated.source_id, shift_ns, NS_PER_S, "same_clock")
    return tie if undated is left else tie.reversed()


def year_shift_ns(undated: ClockSource, near_ns: int) -> int | None:
    """Return what to add to stamps of a nominal year to get the year in which they end near a known time.

    Args:
        undated: source whose stamps have month and day only.
        near_ns: [ns] a dated local time close to its end.

    Returns:
        The shift, or ``None`` when the end is more than a day away from the known time in every year.
    """
    if undated.last_ns is None:
        return None
    nominal = _instant(undated.last_ns)
    best: int | None = None
    for year in range(_instant(near_ns).year - 1, _instant(near_ns).year + 2):
        try:
            dated = nominal.replace(year=year)
        except ValueError:  # 29 February of a nominal leap year
            continue
        shift_ns = (dated - nominal) // timedelta(seconds=1) * NS_PER_S
        distance = abs(undated.last_ns + shift_ns - near_ns)
        if distance <= _YEAR_REACH_NS and (best is None or distance < abs(undated.last_ns + best - near_ns)):
            best = shift_ns
    return best


def _instant(ns: int) -> datetime:
    return datetime.fromtimestamp(ns // NS_PER_S, UTC)
