"""Which events tie two sources to each other, and the best tie that they give."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from kvcliff.clocks.events import AnyEventStream, EventKind
from kvcliff.clocks.fit import Fit, fit_events, is_affordable, merged, shifts_within
from kvcliff.clocks.shape import fit_load

TieMethod = Literal[
    "access_order", "counter_steps", "step_sequence", "token_curve", "shape", "same_clock", "result_date"
]
#: A delay that is normal on a busy host: a client reads late, a line is written late.
_DELAY_NS = 10_000_000
#: A clock that runs too fast or too slow by a thousandth is off by this at the ends of a two-minute run.
_DRIFT_NS = 60_000_000
#: A tie as exact as this is not worth a costly further look.
_GOOD_ENOUGH_NS = 30_000_000
#: A cheap fit sharper than this limits what a costly one has to try (a shape never is that sharp).
_SHARP_HINT_NS = 500_000_000
#: Counted events come first; the order of requests assumes that no line is missing, a shape proves least.
_TRUST: Mapping[TieMethod, int] = {"access_order": 1, "shape": 2}
#: An error bar above this says nothing about a load test.
MAX_UNCERTAINTY_NS = 30_000_000_000
#: Beyond this multiple of the scrapes, their log lines come from a second scraper: order says nothing then.
_MAX_EXTRA_SCRAPES = 1.1
#: Steps that are compared at once when a sequence of steps is looked up in another.
_WINDOW_STEPS = 8
_MAX_WINDOW_REPEATS = 4
_KEPT_SHIFTS = 24


@dataclass(frozen=True)
class Tie:
    """How the clocks of two sources lie to each other.

    Attributes:
        left_id: source whose clock is moved.
        right_id: source whose clock it is moved to.
        fit: the clock difference.
        method: the kind of event that ties them best.
    """

    left_id: int
    right_id: int
    fit: Fit
    method: TieMethod

    def reversed(self) -> "Tie":
        """Return the same tie seen from the right source."""
        return Tie(self.right_id, self.left_id, self.fit.reversed(), self.method)


ShiftRule = Callable[[AnyEventStream, AnyEventStream], Sequence[int] | None]


def _any_shift(left: AnyEventStream, right: AnyEventStream) -> Sequence[int] | None:
    """Return nothing: every shift with enough overlap is possible."""
    return None


@dataclass(frozen=True)
class Anchor:
    """One kind of shared event.

    Attributes:
        kind: the event.
        left_role: role of the source with fewer rows of it.
        right_role: role of the other.
        method: what a tie by it is called.
        shifts: which shifts of the numbering are possible; none: no tie by this event.
        is_costly: only looked at when the cheaper ones leave a doubt.
        prefers_last: of equally good shifts, the largest is likeliest.
    """

    kind: EventKind
    left_role: str
    right_role: str
    method: TieMethod
    shifts: ShiftRule = _any_shift
    is_costly: bool = False
    prefers_last: bool = False


def _no_shift(left: AnyEventStream, right: AnyEventStream) -> Sequence[int]:
    """Return the one shift of events that both sides number from the start of the engine."""
    return (0,)


def _extra_lines_first(scrapes: AnyEventStream, lines: AnyEventStream) -> Sequence[int] | None:
    """Return the shifts with which each scrape has its line; further lines are probes, mostly before."""
    extra_count = int(lines.frame["ordinal"].max()) - scrapes.frame.height  # type: ignore[arg-type]
    if extra_count < 0:
        return None
    return (
        range(extra_count + 1) if extra_count <= (_MAX_EXTRA_SCRAPES - 1) * scrapes.frame.height + 8 else ()
    )


def _same_steps(left: AnyEventStream, right: AnyEventStream) -> Sequence[int] | None:
    """Return the shifts under which the steps of both sides do the same work, the best ones only.

    Runs of steps whose work is rare vote for a shift; a long uniform stretch says nothing.
    """
    columns = ("context_requests", "context_tokens", "generation_requests", "generation_tokens")
    if left.work is None or right.work is None:
        return None
    windows = [
        side.select(
            pl.col("ordinal"),
            pl.concat_str(
                [pl.concat_str(columns, separator=",").shift(-n) for n in range(_WINDOW_STEPS)], separator=";"
            ).alias("window"),
        )
        .drop_nulls()
        .filter(pl.len().over("window") <= _MAX_WINDOW_REPEATS)
        for side in (left.work, right.work)
    ]
    votes = (
        windows[0]
        .join(windows[1], on="window", how="inner", suffix="_right")
        .group_by((pl.col("ordinal_right") - pl.col("ordinal")).alias("shift"))
        .len()
        .sort(["len", "shift"], descending=[True, False])
        .head(_KEPT_SHIFTS)
    )
    if votes.height == 0:
        return None
    most = int(votes["len"][0])
    return sorted(votes.filter(pl.col("len") * 2 > most)["shift"].to_list())


#: Tried in this order; a costly one profits from what the cheap ones before it leave possible.
ANCHORS: tuple[Anchor, ...] = (
    Anchor("first_token", "client", "metrics", "counter_steps"),
    Anchor("finish", "client", "metrics", "counter_steps"),
    Anchor("load", "metrics", "client", "shape"),
    Anchor("token", "metrics", "client", "counter_steps", is_costly=True),
    Anchor("first_token", "metrics", "log", "counter_steps"),
    Anchor("preemption", "log", "metrics", "counter_steps", _no_shift),
    Anchor("load", "log", "metrics", "shape"),
    Anchor("step", "metrics", "log", "counter_steps", is_costly=True),
    Anchor("scrape", "metrics", "log", "access_order", _extra_lines_first, prefers_last=True),
    Anchor("step", "trace", "log", "step_sequence", _same_steps),
    Anchor("first_token", "client", "log", "token_curve"),
    Anchor("request", "client", "log", "access_order"),
    Anchor("load", "log", "client", "shape"),
    Anchor("first_token", "trace", "metrics", "counter_steps"),
    Anchor("step", "metrics", "trace", "counter_steps", is_costly=True),
    Anchor("first_token", "trace", "client", "token_curve"),
)


def tie_by_events(
    left: Mapping[EventKind, AnyEventStream],
    right: Mapping[EventKind, AnyEventStream],
    roles: tuple[str, str],
) -> Tie | None:
    """Return the best tie of two sources by their shared events, or ``None`` when there is none.

    All kinds of event that fit are put together: the most exact one leads, the others rule out its rivals.

    Args:
        left: event streams of one source.
        right: event streams of the other.
        roles: roles of the two.
    """
    found: list[tuple[Fit, TieMethod]] = []
    for anchor in ANCHORS:
        if {anchor.left_role, anchor.right_role} != set(roles):
            continue
        if anchor.is_costly and found and min(fit.uncertainty_ns for fit, _ in found) <= _GOOD_ENOUGH_NS:
            continue
        is_swapped = roles[0] != anchor.left_role
        first, second = (
            (right if is_swapped else left).get(anchor.kind),
            (left if is_swapped else right).get(anchor.kind),
        )
        if first is None or second is None:
            continue
        hint = _hint(found) if anchor.is_costly else None
        fit = _fit(anchor, first, second, hint.reversed() if hint is not None and is_swapped else hint)
        if fit is not None:
            found.append((fit.reversed() if is_swapped else fit, anchor.method))
    if not found:
        return None
    found.sort(key=lambda entry: (_TRUST.get(entry[1], 0), entry[0].uncertainty_ns))
    fit, method = found[0]
    for other, _ in found[1:]:
        fit = fit.narrowed_by(other)
    if fit.uncertainty_ns > MAX_UNCERTAINTY_NS:
        return None
    return Tie(_source_of(left), _source_of(right), fit, method)


def _hint(found: Sequence[tuple[Fit, TieMethod]]) -> Fit | None:
    """Return the best fit so far; one by shape only when there is no other."""
    ranked = sorted(found, key=lambda entry: (entry[1] == "shape", entry[0].uncertainty_ns))
    return ranked[0][0] if ranked else None


def _fit(anchor: Anchor, left: AnyEventStream, right: AnyEventStream, hint: Fit | None) -> Fit | None:
    """Return the fit by one kind of event; a fit by cheaper kinds spares it shifts that cannot be."""
    if anchor.kind == "load":
        return fit_load(left.frame, right.frame)
    shifts = anchor.shifts(left, right)
    is_sharp = hint is not None and hint.uncertainty_ns < _SHARP_HINT_NS
    if shifts is None and hint is not None and (is_sharp or not is_affordable(left.frame, right.frame)):
        reach_ns = hint.uncertainty_ns
        possible = (hint.difference_ns - reach_ns, hint.difference_ns + reach_ns)
        shifts = shifts_within(left.frame, right.frame, possible)
    fits = (
        fit_events(
            left.frame, right.frame, slack_ns=slack_ns, shifts=shifts, prefers_last=anchor.prefers_last
        )
        for slack_ns in (_DELAY_NS, _DRIFT_NS)
    )
    return next((fit for fit in fits if fit is not None), None)


def _source_of(streams: Mapping[EventKind, AnyEventStream]) -> int:
    return next(iter(streams.values())).source_id


def exact_tie(left_id: int, right_id: int, difference_ns: int, uncertainty_ns: int, method: TieMethod) -> Tie:
    """Return a tie that does not come from counting events."""
    around = (difference_ns - uncertainty_ns, difference_ns + uncertainty_ns)
    return Tie(left_id, right_id, Fit(around, merged([around]), 0, 0, 0, 0), method)
