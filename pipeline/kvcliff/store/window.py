"""The time window that a run is cut to: how its edges are written, and where they lie on the run clock."""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, Literal

from kvcliff.errors import UsageProblem
from kvcliff.readers.stamps import epoch_to_ns, parse_stamp
from kvcliff.units import NS_PER_S, format_instant

#: What a time of the command line is counted from: 1970 in UTC, 1970 on a clock without zone, midnight of the
#: run's day, the begin of the run; a duration stands for itself.
TimeKind = Literal["utc", "local", "day", "start", "duration"]
WindowPart = Literal["window", "before"]

TIME_HINT: Final = (
    "for example 2026-11-30T14:05:00Z, 2026-11-30T15:05:00+01:00, 1764511500 or now-30m; of a run also "
    "2026-11-30T14:05:00 or 14:05:00 on its own clock, or +5m after its begin"
)
_UNIT_NS: Final = {
    "ms": NS_PER_S // 1000,
    "s": NS_PER_S,
    "m": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
    "d": 86_400 * NS_PER_S,
}
_DAY_NS: Final = _UNIT_NS["d"]
_MS: Final = _UNIT_NS["ms"]
#: What is left of a written date without its year.
_YEAR: Final = slice(5, None)
_PART = r"(\d{1,9}(?:\.\d{1,9})?)(ms|[smhd])"
_DURATION: Final = re.compile(rf"(?:{_PART})+")
_AGO: Final = re.compile(rf"now(?:-(?P<past>(?:{_PART})+))?")
_TIME_OF_DAY: Final = re.compile(r"(?P<h>\d{1,2}):(?P<m>\d{2})(?::(?P<s>\d{2})(?:[.,](?P<f>\d{1,9}))?)?")
_WITHOUT_SECONDS: Final = re.compile(r"(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2})(Z|[+-]\d{2}:?\d{2})?")
_NAMED_ZONE: Final = re.compile(r"(?<!\d)(?!UTC|GMT)[A-Z]{3,5}$")
#: Before this instant (2000-01-01) a run clock is a relative one that started near zero.
_FIRST_REAL_NS: Final = 946_684_800 * NS_PER_S


@dataclass(frozen=True)
class WindowTime:
    """One time of the command line.

    Attributes:
        text: as it was given.
        kind: what it is counted from.
        ns: nanoseconds from there.
    """

    text: str
    kind: TimeKind
    ns: int


@dataclass(frozen=True)
class WindowRequest:
    """The part of a run that is asked for.

    Attributes:
        start: first instant, or ``None`` for the run's begin.
        end: last instant, or ``None`` for the run's end.
        part: the window itself, or the time before it.
        before: where the time before the window begins: an instant or a duration; ``None`` makes it as long
            as the window.
    """

    start: WindowTime | None
    end: WindowTime | None
    part: WindowPart = "window"
    before: WindowTime | None = None

    @property
    def identity(self) -> str:
        """Return the words that tell this part of a run from others, for the run's id."""
        times = [self.start, self.end, *([self.before] if self.part == "before" else [])]
        words = (f"{time.kind}:{time.ns}" if time is not None else "" for time in times)
        return "\n".join((self.part, *words))

    def time_before(self, before: WindowTime | None) -> "WindowRequest":
        """Return the time before this window, from an instant, for a duration, or as long as the window."""
        return replace(self, part="before", before=before)


@dataclass(frozen=True)
class RunSpan:
    """When a run was, on its own clock.

    Attributes:
        start_ns: begin of the run as reports count from it: its first sample, request or kernel.
        end_ns: its end.
        first_ns: first instant that any row states, which can be the start of the server long before.
        last_ns: last one.
        utc_known: whether the run clock is UTC.
        year_known: whether its dates have their real year.
    """

    start_ns: int
    end_ns: int
    first_ns: int
    last_ns: int
    utc_known: bool
    year_known: bool = True

    @property
    def is_absolute(self) -> bool:
        """Return whether the run clock has dates at all."""
        return self.start_ns >= _FIRST_REAL_NS

    @property
    def zone(self) -> str:
        """Return the words behind a clock time."""
        return "UTC" if self.utc_known else "local time, zone unknown"

    def text(self, first_ns: int, last_ns: int) -> str:
        """Return a stretch of the run in words, ``2026-11-30 14:05:00.0 to 14:06:00.0 UTC``."""
        if not self.is_absolute:
            first, last = ((ns - self.start_ns) / NS_PER_S for ns in (first_ns, last_ns))
            return f"{first:+,.1f} s to {last:+,.1f} s after its begin"
        is_one_day = first_ns // _DAY_NS == last_ns // _DAY_NS
        begun, ended = (format_instant(ns, decimals=1) for ns in (first_ns, last_ns))
        if not self.year_known:
            begun, ended = begun[_YEAR], ended[_YEAR]
        return f"{begun} to {ended.split()[-1] if is_one_day else ended} {self.zone}"

    def option_text(self, ns: int) -> str:
        """Return an instant to the millisecond as the options of a window take it."""
        if not (self.is_absolute and self.year_known):
            return f"+{max(ns - self.start_ns, 0) // _MS}ms"
        text = format_instant(ns).replace(" ", "T").removesuffix(".000")
        return f"{text}Z" if self.utc_known else text

    @property
    def extent(self) -> str:
        """Return the whole run in words."""
        return self.text(self.start_ns, self.end_ns)


@dataclass(frozen=True)
class RunWindow:
    """A part of a run on the run clock, both instants included.

    Attributes:
        part: the window itself, or the time before it.
        start_ns: first instant.
        end_ns: last instant.
        label: the window in words.
        option_texts: its edges as ``--from`` and ``--to`` take them.
        is_start_cut: whether the run has rows before it.
        is_end_cut: whether the run has rows after it.
        notes: what was taken for granted when it was placed.
    """

    part: WindowPart
    start_ns: int
    end_ns: int
    label: str
    option_texts: tuple[str, str]
    is_start_cut: bool
    is_end_cut: bool
    notes: tuple[str, ...] = ()


def parse_time(text: str, now_s: float) -> WindowTime:
    """Return a time of the command line.

    Args:
        text: ISO 8601 with or without zone, unix seconds, ``now`` or ``now-30m``, ``14:05:00``, ``+5m``.
        now_s: the present, unix seconds.

    Raises:
        UsageProblem: it is none of these.
    """
    given = text.strip()
    if ago := _AGO.fullmatch(given):
        return WindowTime(given, "utc", max(round(now_s * NS_PER_S) - _length_ns(ago["past"] or ""), 0))
    if given.startswith("+") and _DURATION.fullmatch(given[1:]):
        return WindowTime(given, "start", _length_ns(given[1:]))
    if day := _TIME_OF_DAY.fullmatch(given):
        return WindowTime(given, "day", _day_ns(day, given))
    if (epoch_ns := epoch_to_ns(given)) is not None:
        return WindowTime(given, "utc", epoch_ns)
    written = _WITHOUT_SECONDS.sub(r"\1:00\2", given) if _WITHOUT_SECONDS.fullmatch(given) else given
    stamp = parse_stamp(written)
    if stamp is None:
        raise UsageProblem(f"{given} is no time", hint=TIME_HINT)
    if not stamp.is_utc and _NAMED_ZONE.search(written):
        raise UsageProblem(f"{given} names a zone that has several meanings", hint=TIME_HINT)
    return WindowTime(given, "utc" if stamp.is_utc else "local", stamp.ns)


def parse_before(text: str, now_s: float) -> WindowTime:
    """Return where the time before a window begins: a duration (``5m``) or a time.

    Raises:
        UsageProblem: it is neither.
    """
    given = text.strip()
    if _DURATION.fullmatch(given):
        length_ns = _length_ns(given)
        if length_ns == 0:
            raise UsageProblem("--before must be longer than nothing", hint="for example: --before 5m")
        return WindowTime(given, "duration", length_ns)
    return parse_time(given, now_s)


def _length_ns(text: str) -> int:
    """Return a duration such as ``1m30s`` in nanoseconds."""
    return sum(int(Decimal(count) * _UNIT_NS[unit]) for count, unit in re.findall(_PART, text))


def _day_ns(match: re.Match[str], text: str) -> int:
    hour, minute, second = int(match["h"]), int(match["m"]), int(match["s"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise UsageProblem(f"{text} is no time of day", hint=TIME_HINT)
    return (hour * 3600 + minute * 60 + second) * NS_PER_S + int((match["f"] or "0").ljust(9, "0"))


def place_window(request: WindowRequest, span: RunSpan) -> RunWindow:
    """Return the part of a run that was asked for, on the run clock and within the run.

    Args:
        request: what is asked for.
        span: when the run was.

    Raises:
        UsageProblem: a time cannot be placed on the run clock, the window is empty, or the run was not then.
    """
    start_ns, end_ns = _edges(request, span)
    hint = "give --from and --to inside the run; for all of it leave them out"
    if end_ns < span.first_ns or start_ns > span.last_ns:
        raise UsageProblem(
            f"the window {span.text(start_ns, end_ns)} lies outside the run, which is {span.extent}",
            hint=hint,
        )
    if request.part == "before":
        end_ns, start_ns = start_ns - 1, _before_ns(request.before, start_ns, end_ns, span)
        if end_ns < span.first_ns:
            raise UsageProblem(
                f"there is nothing to compare with before the window: the run is {span.extent}",
                hint="give --from a later time",
            )
    start_ns, end_ns = max(start_ns, span.first_ns), min(end_ns, span.last_ns)
    return RunWindow(
        request.part,
        start_ns,
        end_ns,
        span.text(start_ns, end_ns),
        (span.option_text(start_ns // _MS * _MS), span.option_text(-(-end_ns // _MS) * _MS)),
        start_ns > span.first_ns,
        end_ns < span.last_ns,
        tuple(_assumptions(request, span)),
    )


def _edges(request: WindowRequest, span: RunSpan) -> tuple[int, int]:
    """Return both edges of the window itself on the run clock; an open one is that of the run's rows.

    Raises:
        UsageProblem: an edge cannot be placed, or the window ends before it begins.
    """
    start_ns = _placed(request.start, span) if request.start is not None else None
    end_ns = _placed(request.end, span) if request.end is not None else None
    if start_ns is None or end_ns is None:
        open_start_ns = span.first_ns if end_ns is None else min(span.first_ns, end_ns)
        open_end_ns = span.last_ns if start_ns is None else max(span.last_ns, start_ns)
        return (
            open_start_ns if start_ns is None else start_ns,
            open_end_ns if end_ns is None else end_ns,
        )
    if end_ns < start_ns:
        raise UsageProblem("the window ends before it begins", hint="give --from an earlier time than --to")
    return start_ns, end_ns


def _placed(time: WindowTime, span: RunSpan) -> int:
    """Return a time on the run clock.

    Raises:
        UsageProblem: the run clock has no such times.
    """
    if time.kind == "start":
        return span.start_ns + time.ns
    if not span.is_absolute:
        raise UsageProblem(
            f"{time.text} cannot be placed: the files of the run state no clock time",
            hint="count from the begin of the run, for example +5m",
        )
    if time.kind == "utc":
        if not span.utc_known:
            raise UsageProblem(
                f"{time.text} cannot be placed: no file of the run says what its clock is in UTC",
                hint=f"give a time of its own clock without a zone ({span.extent}), +5m after its begin, or "
                "time_zone in run.toml",
            )
        return time.ns
    if time.kind == "local":
        return time.ns if span.year_known else _in_year_of(time.ns, span.start_ns)
    at_ns = span.start_ns // _DAY_NS * _DAY_NS + time.ns
    # A run over midnight has times of day of the day after as well.
    is_next_day = at_ns < span.start_ns and at_ns + _DAY_NS <= span.end_ns
    return at_ns + _DAY_NS if is_next_day else at_ns


def _in_year_of(ns: int, reference_ns: int) -> int:
    """Return an instant with the year of another one: the files state none, so that any was taken."""
    seconds, rest_ns = divmod(ns, NS_PER_S)
    year = datetime.fromtimestamp(reference_ns // NS_PER_S, UTC).year
    day = datetime.fromtimestamp(seconds, UTC)
    is_leap_day = (day.month, day.day) == (2, 29)
    moved = day.replace(year=year, day=28 if is_leap_day else day.day)
    return int(moved.timestamp()) * NS_PER_S + rest_ns + (_DAY_NS if is_leap_day else 0)


def _before_ns(before: WindowTime | None, start_ns: int, end_ns: int, span: RunSpan) -> int:
    """Return where the time before a window begins.

    Raises:
        UsageProblem: it begins inside the window or after it.
    """
    if before is None:
        return start_ns - max(end_ns - start_ns, 1)
    if before.kind == "duration":
        return start_ns - before.ns
    begin_ns = _placed(before, span)
    if begin_ns >= start_ns:
        raise UsageProblem(
            f"--before {before.text} is not before the window",
            hint="give the length of the time before it (5m), or an earlier time than --from",
        )
    return begin_ns


def _assumptions(request: WindowRequest, span: RunSpan) -> list[str]:
    """Return what was assumed about times that name no zone."""
    bare = [
        time.text
        for time in (request.start, request.end, request.before if request.part == "before" else None)
        if time is not None and time.kind in ("local", "day")
    ]
    if not bare:
        return []
    clock = "UTC, the run's clock" if span.utc_known else "the run's own local time, whose zone is unknown"
    return [f"{' and '.join(bare)} taken as {clock}"]
