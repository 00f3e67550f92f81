"""A run as a Perfetto trace: KV occupancy, queue, steps, phases, copies and swap points on one time axis."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Literal

import duckdb
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    BUILTIN_CLOCK_BOOTTIME,
    BUILTIN_CLOCK_REALTIME,
    CounterDescriptor,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
)
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

from kvcliff.errors import CannotAnswerError, StoreError
from kvcliff.findings.marts import query_rows
from kvcliff.findings.run_time import read_run_time
from kvcliff.report.escape import plain
from kvcliff.report.perfetto_rows import Event, Track, Value, read_tracks
from kvcliff.store.database import expose_run
from kvcliff.store.models import mart_names
from kvcliff.store.run_tables import RUN_TABLES

TraceClock = Literal["trace", "run"]
#: All packets come from one writer.
_SEQUENCE = 1
_ROOT_UUID = 1
_CLOCK_SQL = """
select clocks.offset_ns, sources.path
from sources
inner join clocks on sources.source_id = clocks.source_id
where sources.role = 'trace' and clocks.offset_ns is not null and clocks.method <> 'untied'
order by sources.source_id
"""


@dataclass(frozen=True)
class _TraceSource:
    offset_ns: int
    path: str


@dataclass(frozen=True)
class _RunName:
    name: str


@dataclass(frozen=True)
class WrittenTrace:
    """What went into a trace.

    Attributes:
        clock: whose clock its times are on.
        clock_path: the GPU trace whose clock it is, or ``None`` for the run clock.
        track_count: tracks with anything on them.
        event_count: slices, instants and counter values.
        early_count: events before that clock's zero, which a trace cannot hold.
    """

    clock: TraceClock
    clock_path: str | None
    track_count: int
    event_count: int
    early_count: int


def write_perfetto(
    con: duckdb.DuckDBPyConnection, run_id: str, file: IO[bytes], clock: TraceClock | None = None
) -> WrittenTrace:
    """Write a stored run as a Perfetto trace and return what went into it.

    Args:
        con: connection to the store.
        run_id: id of a stored run.
        file: where the trace goes.
        clock: ``trace`` puts times on the own clock of the run's GPU trace, so that they equal those of the
            original; ``run`` leaves them on the run clock. ``None`` is ``trace`` when the run holds exactly
            one GPU trace.

    Raises:
        CannotAnswerError: ``trace`` was asked for, and the run holds none or several.
        StoreError: the store holds no such run.
    """
    expose_run(con, run_id, (*mart_names(), *RUN_TABLES))
    names = query_rows(con, ("runs",), _RunName, "select name from runs")
    if not names:
        raise StoreError(f"the database holds no run {run_id}", hint="see the stored runs: kvcliff runs list")
    source = _clock_source(con, clock)
    offset_ns = source.offset_ns if source is not None else 0
    writer = _Writer(file, offset_ns)
    run_time = read_run_time(con)
    writer.begin(f"kvcliff: {names[0].name}", run_time.started_at_ns, is_utc=bool(run_time.utc_known))
    for track in read_tracks(con):
        writer.track(track)
    return WrittenTrace(
        "trace" if source is not None else "run",
        source.path if source is not None else None,
        writer.track_count,
        writer.event_count,
        writer.early_count,
    )


def _clock_source(con: duckdb.DuckDBPyConnection, clock: TraceClock | None) -> _TraceSource | None:
    """Return the GPU trace whose clock is used, or ``None`` for the run clock.

    Raises:
        CannotAnswerError: a trace's clock was asked for, and it is not clear whose.
    """
    if clock == "run":
        return None
    sources = query_rows(con, ("sources", "clocks"), _TraceSource, _CLOCK_SQL)
    if len(sources) == 1:
        return sources[0]
    if clock == "trace":
        count = "no GPU trace" if not sources else f"{len(sources)} GPU traces"
        raise CannotAnswerError(
            f"the run holds {count}: there is no one clock to use", hint="add --clock run"
        )
    return None


class _Writer:
    """Writes packets; ids are counted, so that the same run gives the same bytes."""

    def __init__(self, file: IO[bytes], offset_ns: int) -> None:
        self._builder = StreamingTraceProtoBuilder(file)
        self._offset_ns = offset_ns
        self._groups: dict[str, int] = {}
        self._last_uuid = _ROOT_UUID
        self.track_count = 0
        self.event_count = 0
        self.early_count = 0

    def begin(self, name: str, started_at_ns: int | None, *, is_utc: bool) -> None:
        """Write the clocks and the root of all tracks."""
        packet = self._packet()
        packet.sequence_flags = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        if is_utc and started_at_ns is not None and started_at_ns > self._offset_ns:
            # Lets the viewer show the time of day beside the trace's own time.
            snapshot = packet.clock_snapshot
            snapshot.clocks.add(clock_id=BUILTIN_CLOCK_BOOTTIME, timestamp=started_at_ns - self._offset_ns)
            snapshot.clocks.add(clock_id=BUILTIN_CLOCK_REALTIME, timestamp=started_at_ns)
            snapshot.primary_trace_clock = BUILTIN_CLOCK_BOOTTIME
        self._builder.write_packet(packet)
        self._describe(
            TrackDescriptor(uuid=_ROOT_UUID, name=_name(name), child_ordering=TrackDescriptor.EXPLICIT)
        )

    def track(self, track: Track) -> None:
        """Write one track with all that lies on it; slices that overlap get lanes, which the viewer joins."""
        kept = [event for event in track.events if event.start_ns >= self._offset_ns]
        self.early_count += len(track.events) - len(kept)
        if not kept:
            return
        self.track_count += 1
        self.event_count += len(kept)
        parent = self._group(track.group)
        for lane in _lanes(kept) if track.kind == "slices" else (kept,):
            uuid = self._new_track(parent, track)
            for event in lane:
                self._write(event, track, uuid)

    def _packet(self) -> TracePacket:
        packet = self._builder.create_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        return packet

    def _describe(self, descriptor: TrackDescriptor) -> None:
        packet = self._packet()
        packet.track_descriptor.CopyFrom(descriptor)
        self._builder.write_packet(packet)

    def _next_uuid(self) -> int:
        self._last_uuid += 1
        return self._last_uuid

    def _group(self, name: str) -> int:
        if name not in self._groups:
            uuid = self._groups[name] = self._next_uuid()
            self._describe(
                TrackDescriptor(
                    uuid=uuid,
                    parent_uuid=_ROOT_UUID,
                    name=_name(name),
                    child_ordering=TrackDescriptor.EXPLICIT,
                    sibling_order_rank=len(self._groups),
                )
            )
        return self._groups[name]

    def _new_track(self, parent: int, track: Track) -> int:
        uuid = self._next_uuid()
        descriptor = TrackDescriptor(
            uuid=uuid, parent_uuid=parent, name=_name(track.name), sibling_order_rank=self.track_count
        )
        if track.kind == "counter":
            descriptor.counter.CopyFrom(CounterDescriptor(unit_name=track.unit))
        self._describe(descriptor)
        return uuid

    def _write(self, event: Event, track: Track, uuid: int) -> None:
        kinds = {
            "slices": TrackEvent.TYPE_SLICE_BEGIN,
            "instants": TrackEvent.TYPE_INSTANT,
            "counter": TrackEvent.TYPE_COUNTER,
        }
        packet = self._packet()
        packet.timestamp = event.start_ns - self._offset_ns
        packet.track_event.type = kinds[track.kind]
        packet.track_event.track_uuid = uuid
        if event.value is not None:
            packet.track_event.double_counter_value = event.value
        else:
            packet.track_event.name = _name(event.name)
            packet.track_event.categories.append("kvcliff")
            _annotate(packet.track_event, event.notes)
        self._builder.write_packet(packet)
        if event.end_ns is not None:
            end = self._packet()
            end.timestamp = event.end_ns - self._offset_ns
            end.track_event.type = TrackEvent.TYPE_SLICE_END
            end.track_event.track_uuid = uuid
            self._builder.write_packet(end)


def _annotate(event: TrackEvent, notes: Iterable[tuple[str, Value]]) -> None:
    for title, value in notes:
        note = event.debug_annotations.add(name=title)
        if isinstance(value, bool):
            note.bool_value = value
        elif isinstance(value, int):
            note.int_value = value
        elif isinstance(value, float):
            note.double_value = value
        else:
            note.string_value = _name(str(value))


def _lanes(events: list[Event]) -> Iterator[list[Event]]:
    """Yield the slices in as few rows as it takes that none overlaps another in its row."""
    lanes: list[list[Event]] = []
    for event in events:
        for lane in lanes:
            if (lane[-1].end_ns or 0) <= event.start_ns:
                lane.append(event)
                break
        else:
            lanes.append([event])
    yield from lanes


def _name(text: str) -> str:
    """Return text of inputs without characters that a viewer should not get."""
    return plain(text)
