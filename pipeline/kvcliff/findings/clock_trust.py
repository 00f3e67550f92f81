"""Finding: can the files of the run be put side by side in time?"""

import re
from dataclasses import dataclass

import duckdb

from kvcliff.findings.base import Evidence, Finding, Result, cannot_tell, not_found
from kvcliff.findings.marts import query_rows, threshold
from kvcliff.findings.run_time import format_error
from kvcliff.units import NS_PER_S, format_count

_UNTIED = "untied"
#: Words of a clock's note when shared events contradict what the file states about its clock.
_OFF = re.compile(r"its clock was (?P<size>[0-9.,]+ s) (?P<side>ahead|behind)")
#: Words of a note when there was nothing to tie: the file has no times at all.
_NO_TIMES = "states no times"
_MAX_NAMED = 4


@dataclass(frozen=True)
class _Clock:
    source_id: int
    path: str
    role: str | None
    method: str | None
    uncertainty_ns: int | None
    note: str | None
    has_request_times: bool


_SQL = """
with timed as (
    select distinct source_id
    from requests
    where arrival_ns is not null
)

select
    sources.source_id, sources.path, sources.role, clocks.method, clocks.uncertainty_ns, clocks.note,
    timed.source_id is not null
from sources
left join clocks on sources.source_id = clocks.source_id
left join timed on sources.source_id = timed.source_id
where
    sources.row_count > 0
    and sources.role in ('log', 'metrics', 'client', 'trace', 'device')
order by sources.source_id
"""


def clock_was_off(note: str | None) -> str | None:
    """Return by how much a clock was off, in words (``12.251 s ahead``), or ``None`` when it was not."""
    match = _OFF.search(note or "")
    return f"{match['size']} {match['side']}" if match is not None else None


def _evaluate(con: duckdb.DuckDBPyConnection) -> tuple[Result, ...]:
    clocks = query_rows(con, ("sources", "clocks", "requests"), _Clock, _SQL)
    if not clocks:
        return (cannot_tell("Clocks: no file of the run has times.", "kvcliff inspect RUN"),)
    timed = tuple(clock for clock in clocks if not _has_no_times(clock))
    results = (*_off(timed), *_untied(timed), *_wide(con, timed))
    return results or (_agreed(timed, len(clocks)),)


def _has_no_times(clock: _Clock) -> bool:
    """Return whether the file holds nothing that could be put in time: settings, or lines without stamps."""
    return clock.method is None or (clock.method == _UNTIED and _NO_TIMES in (clock.note or ""))


def _has_instants(clock: _Clock) -> bool:
    """Return whether a wide clock could spoil anything: a client's summary has no instants."""
    return clock.role != "client" or clock.has_request_times


def _agreed(clocks: tuple[_Clock, ...], file_count: int) -> Result:
    if not clocks:
        return cannot_tell("Clocks: no file of the run states a time.", "kvcliff inspect RUN")
    widest = max((clock.uncertainty_ns or 0 for clock in clocks if _has_instants(clock)), default=0)
    many = f"all {format_count(len(clocks))} files with times are"
    tied = many if len(clocks) > 1 else "the one file with times is"
    without = f" ({format_count(file_count - len(clocks))} state none)" if file_count > len(clocks) else ""
    return not_found(
        f"Clocks: {tied} on one clock, to within {format_error(widest)}{without}.", 0.9, _evidence(clocks)
    )


def _off(clocks: tuple[_Clock, ...]) -> tuple[Result, ...]:
    off = tuple((clock, words) for clock in clocks if (words := clock_was_off(clock.note)) is not None)
    if not off:
        return ()
    named = [f"the clock of {clock.path} was {words}" for clock, words in off[:_MAX_NAMED]]
    more = f", and {format_count(len(off) - _MAX_NAMED)} more were off" if len(off) > _MAX_NAMED else ""
    text = ", ".join(named)
    return (
        Result(
            "found",
            "warning",
            0.8,
            f"Clocks disagreed: {text}{more}; events that the files share contradict the times they state, "
            "and the report goes by the events.",
            action="Synchronise the hosts' clocks (NTP); in this report they are corrected.",
            evidence=(_evidence(tuple(clock for clock, _ in off)),),
        ),
    )


def _untied(clocks: tuple[_Clock, ...]) -> tuple[Result, ...]:
    untied = tuple(clock for clock in clocks if clock.method == _UNTIED)
    if not untied:
        return ()
    note = f" ({_first_line(untied[0].note)})" if untied[0].note else ""
    return (
        Result(
            "found",
            "warning",
            0.9,
            f"Times of {untied[0].path} could not be tied to the run clock{note}{_more(untied)}; "
            "they cannot be placed on one clock and were not compared with the other files.",
            action=f"State the clock offset of {untied[0].path} in run.toml, then diagnose again.",
            evidence=(_evidence(untied),),
        ),
    )


def _wide(con: duckdb.DuckDBPyConnection, clocks: tuple[_Clock, ...]) -> tuple[Result, ...]:
    limit_ns = threshold(con, "clock_uncertainty_wide_s") * NS_PER_S
    wide = tuple(clock for clock in clocks if (clock.uncertainty_ns or 0) > limit_ns and _has_instants(clock))
    if not wide:
        return ()
    worst = max(wide, key=lambda clock: (clock.uncertainty_ns or 0, -clock.source_id))
    return (
        Result(
            "found",
            "info",
            0.9,
            f"The clock of {worst.path} is known to ± {format_error(worst.uncertainty_ns or 0)} only"
            f"{_more(wide)}; shorter effects cannot be attributed to it.",
            action="Record sources that state UTC (container logs with stamps, scrapes with a time marker).",
            evidence=(_evidence(wide),),
        ),
    )


def _first_line(note: str | None) -> str:
    return (note or "").split("\n")[0].rstrip(".")


def _more(clocks: tuple[_Clock, ...]) -> str:
    return f", and {format_count(len(clocks) - 1)} more" if len(clocks) > 1 else ""


def _evidence(clocks: tuple[_Clock, ...]) -> Evidence:
    ids = ", ".join(str(clock.source_id) for clock in clocks)
    return Evidence(
        "clocks",
        f"source_id in ({ids})",
        tuple((f"source {clock.source_id} uncertainty_ns", clock.uncertainty_ns) for clock in clocks),
    )


FINDING = Finding(
    name="clock_trust",
    question="Are the clocks of the files in doubt?",
    evaluate=_evaluate,
)
