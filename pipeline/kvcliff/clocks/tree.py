"""The offset of every source to the run clock: reference, most certain chain of ties, contradictions."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kvcliff.clocks.anchors import Tie
from kvcliff.clocks.sources import ClockSource
from kvcliff.clocks.ties import year_shift_ns
from kvcliff.units import NS_PER_S

#: Hosts that state UTC are kept within this by NTP; used where no shared events check it.
STATED_UTC_UNCERTAINTY_NS = 100_000_000
#: A result file is written some time after the last token.
_RESULT_WRITE_NS = 10 * NS_PER_S
_ZONE_STEP_NS = 900 * NS_PER_S
_DAY_NS = 86_400 * NS_PER_S
_ZONE_LIMIT_NS = 14 * 3600 * NS_PER_S
#: Roles of the files that show the engine itself.
_ENGINE_ROLES = frozenset({"log", "metrics", "trace"})
_NOTE_STRANGER = "it states UTC, but the engine's files do not, and they share no events with it"


@dataclass(frozen=True)
class PlacedClock:
    """The clock of one source on the run clock: one row of the table ``clocks``.

    Attributes:
        source_id: the source.
        offset_ns: what to add to its times.
        uncertainty_ns: relative to the run clock; ``None`` when it is not tied to it.
        method: how it was tied (closed list).
        reference_source_id: source that it was tied to, ``None`` for the run clock's own.
        residual_ns: by how much shared events contradict the tie.
        note: what a reader of the report should know, in closed wording.
    """

    source_id: int
    offset_ns: int
    uncertainty_ns: int | None
    method: str
    reference_source_id: int | None = None
    residual_ns: int | None = None
    note: str | None = None


#: Uncertainty, source, source it hangs on, and the place: the least uncertain offer is taken first.
_Offer = tuple[int, int, int, PlacedClock]


def place_clocks(sources: Sequence[ClockSource], ties: Iterable[Tie]) -> tuple[PlacedClock, ...]:
    """Return the place of every source on the run clock, in order of source id.

    The run clock is UTC when any source states it, else the local clock of a log, else the zero of a series.

    Args:
        sources: all sources with times or a result date.
        ties: ties between pairs of them.
    """
    known = tuple(ties)
    places = _Placing(sources, known).run()
    strangers = _strangers(sources, places)
    if not strangers:
        return places
    # The engine's clock is the run clock where its client's cannot be compared with it.
    unstated = (
        replace(source, kind="relative") if source.source_id in strangers else source for source in sources
    )
    return tuple(
        replace(place, note=_NOTE_STRANGER)
        if place.source_id in strangers and place.uncertainty_ns is None
        else place
        for place in _Placing(tuple(unstated), known).run()
    )


def _strangers(sources: Sequence[ClockSource], places: Sequence[PlacedClock]) -> frozenset[int]:
    """Return the clients that state UTC while no file of the engine is tied to it."""
    tied_ids = {place.source_id for place in places if place.uncertainty_ns is not None}
    engines = [source for source in sources if source.role in _ENGINE_ROLES and source.first_ns is not None]
    found = set()
    for client in sources:
        if client.role != "client" or not client.is_utc or client.manual_ns is not None:
            continue
        partners = [engine for engine in engines if engine.shares_group_with(client)]
        if partners and not any(engine.source_id in tied_ids for engine in partners):
            found.add(client.source_id)
    return frozenset(found)


class _Placing:
    """One placement: the sources, their ties, and what is placed so far."""

    def __init__(self, sources: Sequence[ClockSource], ties: Iterable[Tie]) -> None:
        self.sources = {source.source_id: source for source in sources}
        self.ties: dict[int, list[Tie]] = {source.source_id: [] for source in sources}
        for tie in ties:
            # Stored as seen from the source that is already placed: its clock is the right one.
            self.ties[tie.right_id].append(tie)
            self.ties[tie.left_id].append(tie.reversed())
        self.placed: dict[int, PlacedClock] = {}
        self.is_utc = any(source.is_utc or source.manual_ns is not None for source in sources)
        self.has_plain_utc = any(source.kind == "utc" and source.manual_ns is None for source in sources)

    def run(self) -> tuple[PlacedClock, ...]:
        """Return the finished placement."""
        self._place_manual()
        self._place_by_utc()
        if self.is_utc:
            self._spread(
                [source_id for source_id in self.placed if self.sources[source_id].manual_ns is not None]
            )
        else:
            self._place_by_local_log()
            self._place_by_zero()
        self._place_by_result_date()
        self._place_rest()
        return tuple(self.placed[source_id] for source_id in sorted(self.placed))

    def _open(self) -> list[ClockSource]:
        """Return the sources that have times and no place yet, most trusted first."""
        rest = (source for source in self.sources.values() if source.source_id not in self.placed)
        return sorted(
            (source for source in rest if source.first_ns is not None), key=lambda source: source.priority
        )

    # ---- roots

    def _place_manual(self) -> None:
        method = (
            "manual"
            if any(source.is_utc and source.manual_ns is None for source in self.sources.values())
            else "manual_utc"
        )
        for source in self.sources.values():
            if source.manual_ns is not None:
                self.placed[source.source_id] = PlacedClock(
                    source.source_id, source.manual_ns, 0, method, note="offset given in run.toml"
                )

    def _place_by_utc(self) -> None:
        reference_id: int | None = None
        for source in self._open():
            if source.source_id in self.placed or not source.is_utc:
                continue
            method = (
                "stated_utc"
                if source.kind == "utc"
                else ("stated_zone" if self.has_plain_utc else "stated_zone_utc")
            )
            place = PlacedClock(source.source_id, source.stated_ns, 0, method)
            if reference_id is None:
                reference_id = source.source_id
            else:
                place = replace(
                    place,
                    uncertainty_ns=STATED_UTC_UNCERTAINTY_NS,
                    reference_source_id=reference_id,
                    note=_unchecked(source, self.sources[reference_id]),
                )
            self.placed[source.source_id] = place
            self._spread([source.source_id])

    def _place_by_local_log(self) -> None:
        local = [source for source in self._open() if source.kind == "local"]
        for source in sorted(local, key=lambda one: (not one.is_year_known, one.priority)):
            if source.source_id in self.placed:
                continue
            shift_ns, year_note = self._year_of(source)
            note = f"local time, zone unknown{year_note}"
            self.placed[source.source_id] = PlacedClock(source.source_id, shift_ns, 0, "log_local", note=note)
            self._spread([source.source_id])

    def _year_of(self, source: ClockSource) -> tuple[int, str]:
        """Return the shift from the nominal year of stamps to the real one, and what to say about it."""
        if source.is_year_known:
            return 0, ""
        dated = [other for other in self.sources.values() if other.result_end_ns is not None]
        for other in sorted(dated, key=lambda one: (not one.shares_group_with(source), one.source_id)):
            shift_ns = year_shift_ns(source, other.result_end_ns or 0)
            if shift_ns is not None:
                return shift_ns, "; year from the date of a client's result"
        return 0, "; year unknown"

    def _place_by_zero(self) -> None:
        """Let relative times stand where a level has nothing better; its second clock stays untied."""
        for source in self._open():
            taken = any(self.sources[placed].shares_group_with(source) for placed in self.placed)
            if source.source_id in self.placed or taken:
                continue
            self.placed[source.source_id] = PlacedClock(
                source.source_id, 0, 0, "relative_zero", note="times count from the start of the recording"
            )
            self._spread([source.source_id])

    # ---- ties

    def _spread(self, root_ids: Sequence[int]) -> None:
        """Place everything that hangs on the roots, along the chain of ties with the least uncertainty."""
        queue: list[_Offer] = []
        for root_id in root_ids:
            self._offer(queue, self.placed[root_id])
        while queue:
            _, source_id, _, place = heapq.heappop(queue)
            if source_id in self.placed:
                continue
            self.placed[source_id] = self._checked(self.sources[source_id], place)
            self._offer(queue, self.placed[source_id])

    def _offer(self, queue: list[_Offer], base: PlacedClock) -> None:
        for tie in self.ties[base.source_id]:
            if tie.left_id in self.placed:
                continue
            uncertainty_ns = (base.uncertainty_ns or 0) + tie.fit.uncertainty_ns
            place = PlacedClock(
                tie.left_id,
                base.offset_ns + tie.fit.difference_ns,
                uncertainty_ns,
                tie.method,
                base.source_id,
                tie.fit.residual_ns,
            )
            heapq.heappush(queue, (uncertainty_ns, tie.left_id, base.source_id, place))

    def _checked(self, source: ClockSource, place: PlacedClock) -> PlacedClock:
        """Return the place by events, or by the source's own statement where no event contradicts it."""
        uncertainty_ns = place.uncertainty_ns or 0
        if source.is_utc:
            ahead_ns = source.stated_ns - place.offset_ns
            if abs(ahead_ns) > uncertainty_ns:
                return replace(place, note=f"stated UTC contradicted by shared events: {_ahead(ahead_ns)}")
            return replace(
                place,
                offset_ns=source.stated_ns,
                # Events as sharp as clocks are kept count in full; blunt ones do not widen what is stated.
                uncertainty_ns=uncertainty_ns
                + (abs(ahead_ns) if uncertainty_ns < STATED_UTC_UNCERTAINTY_NS else 0),
                method="stated_utc" if source.kind == "utc" else "stated_zone",
                note="stated UTC, not contradicted by shared events",
            )
        if source.kind == "local" and self.is_utc:
            zone_ns = _zone_of(place.offset_ns)
            year_ns = 0 if source.is_year_known else round((place.offset_ns + zone_ns) / _DAY_NS) * _DAY_NS
            ahead_ns = year_ns - zone_ns - place.offset_ns
            note = f"local time is {_zone_name(zone_ns)}" + (
                "" if source.is_year_known else "; year from shared events"
            )
            if abs(ahead_ns) > uncertainty_ns:
                note += f"; {_ahead(ahead_ns)}"
            return replace(place, note=note)
        return place

    # ---- leftovers

    def _place_by_result_date(self) -> None:
        """Place clients that only say when their result was written, where the local zone is known."""
        for source in self.sources.values():
            if source.source_id in self.placed or source.result_end_ns is None:
                continue
            log = self._local_log_of(source)
            if log is None:
                continue
            place = self.placed[log.source_id]
            zone_ns = _zone_of(place.offset_ns) if self.is_utc else 0
            end_ns = source.result_end_ns - zone_ns
            if source.last_ns is not None:
                offset_ns, uncertainty_ns = end_ns - source.last_ns, _RESULT_WRITE_NS
            else:
                offset_ns = -zone_ns
                uncertainty_ns = min(abs(end_ns - (log.last_ns or 0) - place.offset_ns) + NS_PER_S, _DAY_NS)
            self.placed[source.source_id] = PlacedClock(
                source.source_id,
                offset_ns,
                uncertainty_ns + (place.uncertainty_ns or 0),
                "result_date",
                log.source_id,
                note="placed by the date of the result, which is written after the load",
            )

    def _local_log_of(self, source: ClockSource) -> ClockSource | None:
        """Return a placed log in local time of the same level."""
        logs = (self.sources[placed] for placed in sorted(self.placed))
        return next(
            (
                log
                for log in logs
                if log.kind == "local"
                and log.role == "log"
                and log.shares_group_with(source)
                and "year unknown" not in (self.placed[log.source_id].note or "")
            ),
            None,
        )

    def _place_rest(self) -> None:
        """Leave the others untied, those that hang together at least relative to each other."""
        for source in self._open():
            if source.source_id in self.placed:
                continue
            before = set(self.placed)
            self.placed[source.source_id] = PlacedClock(source.source_id, source.stated_ns, None, "untied")
            self._spread([source.source_id])
            for placed_id in set(self.placed) - before:
                self.placed[placed_id] = replace(
                    self.placed[placed_id],
                    uncertainty_ns=None,
                    method="untied",
                    note=_why_untied(self.sources[placed_id]),
                )
        for source in self.sources.values():
            if source.source_id not in self.placed:
                self.placed[source.source_id] = PlacedClock(
                    source.source_id, 0, None, "untied", note=_why_untied(source)
                )


def _unchecked(source: ClockSource, reference: ClockSource) -> str:
    """Return the note on a stated UTC that nothing confirms."""
    note = "stated UTC, not checked: no events shared with the other sources"
    times = [source.first_ns, source.last_ns, reference.first_ns, reference.last_ns]
    first, last, reference_first, reference_last = (time or 0 for time in times)
    is_apart = (
        last + source.stated_ns < reference_first + reference.stated_ns
        or first + source.stated_ns > reference_last + reference.stated_ns
    )
    return f"{note}; its times do not overlap those of the reference" if is_apart else note


def _why_untied(source: ClockSource) -> str:
    reasons: Mapping[str, str] = {
        "none": "the file states no times",
        "local": "local time, zone unknown; no events shared with the other sources",
        "relative": "times count from an unknown moment; no events shared with the other sources",
    }
    year = "; year unknown" if source.kind == "local" and not source.is_year_known else ""
    return reasons.get(source.kind, "no events shared with the other sources") + year


def _ahead(ahead_ns: int) -> str:
    """Return by how much a clock was off, in words."""
    side = "ahead of" if ahead_ns > 0 else "behind"
    return f"its clock was {abs(ahead_ns) / NS_PER_S:.3f} s {side} the run clock"


def _zone_of(offset_ns: int) -> int:
    """Return how far east of UTC local stamps lie, in quarter hours, whatever their day."""
    east_ns = round(-offset_ns / _ZONE_STEP_NS) * _ZONE_STEP_NS % _DAY_NS
    return east_ns if east_ns <= _ZONE_LIMIT_NS else east_ns - _DAY_NS


def _zone_name(zone_ns: int) -> str:
    minutes = zone_ns // (60 * NS_PER_S)
    return f"UTC{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
