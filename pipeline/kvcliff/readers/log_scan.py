"""Lines of one log in their order: out of the envelope, to the grammar that knows them, onto a clock."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from kvcliff.readers.base import ReadContext
from kvcliff.readers.envelope import MAX_LAYERS, Envelope, EnvelopeReader, strip_colours
from kvcliff.readers.lines import GRAMMARS
from kvcliff.readers.lines.base import (
    EventRow,
    Grammar,
    IterationRow,
    StatsRow,
    UnreadableLineError,
)
from kvcliff.readers.lines.vllm_hot import HOT_READERS, HOT_START_BYTES, HotReader
from kvcliff.readers.log_access import ACCESS_HEAD, ACCESS_MARK, ADDRESS_LIMIT, AccessCounter
from kvcliff.readers.log_clock import ClockFacts, StreamClock
from kvcliff.readers.log_dispatch import dispatch_of
from kvcliff.readers.log_messages import MessageReader
from kvcliff.readers.log_rows import LogRows
from kvcliff.readers.log_stream import StreamState

NOTE_NO_STAMPS: Final = "lines carry no time stamp"
NOTE_NO_YEAR: Final = "time stamps carry no year"
NOTE_NO_ZONE: Final = "time stamps carry no time zone"
NOTE_SEGMENTS: Final = "time goes back by more than 12 hours: several recordings in one file"
NOTE_REPLICAS: Final = "lines of several replicas in one file"

#: Of a longer line only so much is looked at.
LINE_LIMIT: Final = 128 * 1024
_STREAM_LIMIT: Final = 256
_PARENTHESIS: Final = ord("(")
_BRACKET: Final = ord("[")
_DIGITS: Final = frozenset(b"0123456789")
#: A head behind a progress bar (or another carriage return) on the same physical line.
_GLUED = re.compile(
    rb"[\]\r]\s{0,8}(?P<head>(?:\([^()\r]{1,80}\) )*"
    rb"(?:(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\s+\d\d-\d\d \d\d:\d\d:\d\d "
    rb"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d))"
)
_HOT_PRODUCER, _HOT_RULE = "vllm", "hot"
_HOT_READERS: Final = dict(HOT_READERS)
#: What those readers give, but for the plain tuples of events.
_NAMED_ROWS: Final = (StatsRow, IterationRow)
#: Lines of these kinds are most of a log: level, where the stamp lies, and where the source line begins.
_HOT_LEVEL: Final = b"INFO "
_STAMP_AT, _SOURCE_AT = len(_HOT_LEVEL), len(_HOT_LEVEL) + len(b"MM-DD HH:MM:SS")
_STAMP = re.compile(rb"\d\d-\d\d \d\d:\d\d:\d\d")
_SOURCE_LIMIT: Final = 80
_SOURCES_LIMIT: Final = 256
_PROFILER_KINDS: Mapping[str, str] = MappingProxyType(
    {"start_profile": "profiler_start", "stop_profile": "profiler_stop"}
)


def _engine_of(envelope: Envelope) -> str:
    return envelope.process.engine_no if envelope.process else "0"


class LogScan:
    """Reads the lines of one log in their order and collects rows."""

    def __init__(self, rows: LogRows, context: ReadContext, grammars: tuple[Grammar, ...] = GRAMMARS) -> None:
        self._rows = rows
        self._context = context
        self._dispatch = dispatch_of(grammars)
        self._messages = MessageReader(rows, self._dispatch)
        self.counts = self._messages.counts
        self._envelopes = EnvelopeReader()
        self._bare = Envelope(b"")
        self._clock_facts = ClockFacts()
        self._streams: dict[str, StreamState] = {}
        self._access = AccessCounter(rows)
        self._pieces: dict[tuple[str, str], tuple[int, Envelope]] = {}
        #: What stood between stamp and message in heads of vLLM that were read by their pattern.
        self._hot_sources: set[bytes] = set()
        #: The reader of a message by what stands before it (behind the stamp) and its first bytes.
        self._hot_readers: dict[bytes, HotReader] = {}

    def read(self, line_no: int, lines: Iterable[bytes]) -> int:
        """Take physical lines without their line ends.

        Args:
            line_no: number of the line before them.
            lines: the lines; empty ones only count.

        Returns:
            The number of the last line.
        """
        # Logs are mostly access lines whose text came before, and frequent lines of the process and second
        # of the line before: those take the short way out of this loop, which calls little for them.
        access, bare, of_process = self._access, self._bare, self._envelopes.of_process
        slots, readers, add_event = access.slots, self._hot_readers, self._rows.events.append
        known, prefix = None, b"\n"
        access_head, access_at = b"\n", 0
        hot_head, hot_at, engine, src_ns, hot_count = b"\n", 0, "", None, 0
        for line in lines:
            line_no += 1
            if line.startswith(hot_head):
                message_at = line.find(b"] ", hot_at, hot_at + _SOURCE_LIMIT) + 2
                reader = readers.get(line[hot_at : message_at + HOT_START_BYTES])
                row = None if reader is None else reader(line_no, src_ns, engine, line, message_at)
                if row is not None:
                    hot_count += 1
                    if isinstance(row, _NAMED_ROWS):
                        self._rows.add(row)
                    else:
                        add_event(row)
                    continue
            elif line.startswith(access_head):
                slot = slots.get(line[line.find(ACCESS_MARK, access_at) :])
                if slot is not None and not access.has_own_stamps:
                    slot[0] += 1
                    continue
            elif not line:
                continue
            start, envelope, first = 0, bare, line[0]
            if first == _PARENTHESIS:
                if not line.startswith(prefix):
                    known = of_process(line)
                    prefix = b"\n" if known is None else line[: known[0]]
                if known is not None:
                    start, envelope = known
            if line.startswith(ACCESS_HEAD, start):
                access_head, access_at = line[: start + len(ACCESS_HEAD)], start
                if access.take(line, start, line_no):
                    continue
            elif line.startswith(_HOT_LEVEL, start):
                if self._is_hot(line_no, envelope, line, start):
                    hot_at = start + _SOURCE_AT
                    hot_head = line[:hot_at]
                    engine, src_ns = _engine_of(envelope), self._streams[""].last_ns
                    hot_count += 1
                    continue
            elif (first in _DIGITS and access.repeat_stamped(line)) or (
                first == _BRACKET and access.repeat_bracketed(line)
            ):
                continue
            # Any other line may move the clock.
            hot_head = b"\n"
            head = None if b"\x1b" in line else self._head(line, start)
            if head is not None:
                self._headed(line_no, envelope, head, line, line)
            else:
                self._wrapped(line_no, Envelope(strip_colours(line)), line)
        self._rows.trim()
        self.counts.heads += access.begun_count
        self.counts.access += access.begun_count
        access.begun_count = 0
        self.count_frequent(hot_count)
        return line_no

    @property
    def rows(self) -> LogRows:
        """Where rows go."""
        return self._rows

    @property
    def access(self) -> AccessCounter:
        """Counts the access lines of the file, or of no replica in it."""
        return self._access

    def bulk_state(self) -> StreamState | None:
        """Return what is carried from line to line, if that is all that frequent lines need."""
        state = self._streams.get("")
        if state is None or not state.is_plain_noted:
            return None
        return None if self._access.has_own_stamps else state

    def process_prefix(self, line: bytes) -> tuple[bytes, str] | None:
        """Return the process prefix that the line begins with, and the engine that it names."""
        known = self._envelopes.of_process(line)
        return None if known is None else (line[: known[0]], _engine_of(known[1]))

    def count_frequent(self, count: int) -> None:
        """Count rows of frequent lines that were read elsewhere."""
        if count:
            self.counts.heads += count
            self.counts.rows[_HOT_RULE] = self.counts.rows.get(_HOT_RULE, 0) + count

    def _is_hot(self, line_no: int, envelope: Envelope, line: bytes, start: int) -> bool:
        """Take a line of a frequent kind whose head came before; false for any other."""
        state = self._streams.get("")
        source_at = start + _SOURCE_AT
        message_at = line.find(b"] ", source_at, source_at + _SOURCE_LIMIT) + 2
        if state is None or line[source_at:message_at] not in self._hot_sources:
            return False
        stamp = line[start + _STAMP_AT : source_at]
        if stamp != state.last_stamp:
            # The envelope holds no stamp: it is the bare one, or names a process.
            if not state.is_plain_noted or _STAMP.fullmatch(stamp) is None:
                return False
            src_ns = state.clock.resolve_plain(stamp)
            if src_ns is None:
                return False
            state.last_stamp, state.last_ns = stamp, src_ns
            state.access.observe(src_ns)
        read = _HOT_READERS.get(line[message_at : message_at + HOT_START_BYTES])
        if read is None:
            return False
        row = read(line_no, state.last_ns, _engine_of(envelope), line, message_at)
        if row is None:
            return False
        self._hot_readers[line[source_at : message_at + HOT_START_BYTES]] = read
        if isinstance(row, _NAMED_ROWS):
            self._rows.add(row)
        else:
            self._rows.events.append(row)
        return True

    def _note_source(self, head: re.Match[bytes]) -> None:
        """Remember what a head of vLLM has behind its stamp, so that the next such line is known by it."""
        text = head[0]
        if text.startswith(_HOT_LEVEL) and head.start(2) - head.start() == _STAMP_AT and text.endswith(b"] "):
            if len(self._hot_sources) >= _SOURCES_LIMIT:
                self._hot_sources.clear()
                self._hot_readers.clear()
            self._hot_sources.add(text[_SOURCE_AT:])

    def finish(self) -> None:
        """Write what is still open; call once after the last line."""
        for line_no, envelope in self._pieces.values():
            self._closed(line_no, envelope, None, b"")
        for state in self._streams.values():
            state.access.flush(None)
        if self.counts.heads:
            for row in self._clock_facts.rows():
                self._rows.add(row)
        self._rows.finish()

    def notes(self) -> tuple[str, ...]:
        """Return what a reader of a report should know about the file, in closed wording."""
        facts = self._clock_facts
        if not self.counts.heads:
            return ()
        found = (
            (NOTE_NO_STAMPS, not facts.line_no),
            (NOTE_NO_YEAR, facts.line_no and not facts.is_year_known),
            (NOTE_NO_ZONE, facts.line_no and not facts.is_zone_known),
            (NOTE_SEGMENTS, any(state.clock.segment_count > 1 for state in self._streams.values())),
            (NOTE_REPLICAS, len(self._streams) > 1),
        )
        return tuple(note for note, is_true in found if is_true)

    def _head(self, text: bytes, start: int = 0) -> re.Match[bytes] | None:
        if len(text) > start:
            for pattern in self._dispatch.heads.get(text[start], ()):
                match = pattern.match(text, start)
                if match is not None:
                    return match
        return None

    def _wrapped(self, line_no: int, envelope: Envelope, line: bytes) -> None:
        """Take the layers off until a head stands in front; a head is looked for before each layer."""
        head = None
        for _ in range(MAX_LAYERS):
            if not self._envelopes.peel(envelope):
                break
            if envelope.stream:
                joined = self._joined(line_no, envelope)
                if joined is None:
                    return
                line_no, envelope = joined
            head = self._head(envelope.text)
            if head is not None or envelope.is_record:
                break
        self._closed(line_no, envelope, head, line)

    def _closed(self, line_no: int, envelope: Envelope, head: re.Match[bytes] | None, line: bytes) -> None:
        """Take a line whose layers are off."""
        text = envelope.text
        if envelope.is_record:
            self._headed(line_no, envelope, None, text, line)
            return
        if head is None and (b"%|" in text or b"\r" in text):
            head = self._glued(envelope)
        if head is None:
            # A line that had nothing but colours around it has its head in front now.
            head = self._head(text)
        if head is None:
            self._headless(line_no, envelope)
        else:
            self._headed(line_no, envelope, head, envelope.text, line)

    def _glued(self, envelope: Envelope) -> re.Match[bytes] | None:
        """Return a head in the middle of the line, behind a progress bar."""
        match = _GLUED.search(envelope.text)
        if match is None:
            return None
        envelope.text = envelope.text[match.start("head") :]
        while envelope.text.startswith(b"(") and self._envelopes.peel(envelope):
            pass
        return self._head(envelope.text)

    def _joined(self, line_no: int, envelope: Envelope) -> tuple[int, Envelope] | None:
        """Return the whole line once its last piece is there, with number and stamp of its first piece."""
        key = (envelope.replica, envelope.stream)
        held = self._pieces.pop(key, None)
        is_partial = envelope.is_partial
        envelope.stream, envelope.is_partial = "", False
        if held is not None:
            held[1].text = (held[1].text + envelope.text)[:LINE_LIMIT]
            line_no, envelope = held
        if not is_partial:
            return line_no, envelope
        self._pieces[key] = (line_no, envelope)
        return None

    def _stream(self, replica: str) -> StreamState:
        state = self._streams.get(replica)
        if state is None:
            if len(self._streams) >= _STREAM_LIMIT:
                return next(iter(self._streams.values()))
            access = AccessCounter(self._rows) if replica else self._access
            state = StreamState(StreamClock(self._context), access)
            self._streams[replica] = state
        return state

    def _headed(
        self, line_no: int, envelope: Envelope, head: re.Match[bytes] | None, text: bytes, line: bytes
    ) -> None:
        """Take a line with a head; the record of a JSON log (``head`` is ``None``) is a message as it is.

        Args:
            line_no: line in the file.
            envelope: what the layers around the text said.
            head: the head that the text begins with.
            text: head and message.
            line: the whole line as it stands in the file.
        """
        self.counts.heads += 1
        start, stamp, rules = 0, None, None
        if head is not None:
            start = head.end()
            rules = self._dispatch.of_head[head.re.pattern]
            if rules.unwrap is not None:
                envelope = rules.unwrap(head, envelope)
            elif head.re.groups > 1:
                # Group 2 of a head is its stamp, and heads that have none have no such group.
                stamp = head[2]
                if rules.producer == _HOT_PRODUCER:
                    self._note_source(head)
        state = self._stream(envelope.replica)
        is_stamped = stamp is not None
        if stamp is None or stamp != state.last_stamp or envelope.is_stamped:
            is_stamped = self._take_stamp(line_no, state, envelope, stamp)
        at = text.find(ACCESS_MARK, start, start + ADDRESS_LIMIT)
        if at > start and b" " not in text[start:at]:
            stamp_ns = state.last_ns if is_stamped else None
            kind = state.access.kind_of(text[at:])
            if kind is not None:
                self.counts.access += 1
                state.access.count(text[at:], kind, line_no, stamp_ns, line)
                if kind[0] in _PROFILER_KINDS and kind[1] < 400:
                    self._messages.add(
                        "access", self._profiler_event(line_no, state.last_ns, envelope, kind[0])
                    )
                return
        if len(text) > start:
            self._messages.read(line_no, state.last_ns, envelope, head, text, rules, line)
        else:
            self._messages.miss(text)

    def _take_stamp(self, line_no: int, state: StreamState, envelope: Envelope, stamp: bytes | None) -> bool:
        """Move the stream's clock to the line's stamp; false when it has none."""
        if stamp is None and not envelope.is_stamped:
            return False
        instant = state.clock.resolve(envelope, stamp)
        state.last_stamp = None if envelope.is_stamped else stamp
        if instant is None:
            return False
        state.last_ns = instant.src_ns
        state.access.observe(instant.src_ns)
        is_outer = stamp is None or envelope.outer_ns is not None
        state.is_plain_noted |= not is_outer and not envelope.is_stamped
        self._clock_facts.note(instant, line_no, is_outer=is_outer)
        return True

    def _profiler_event(
        self, line_no: int, src_ns: int | None, envelope: Envelope, path_class: str
    ) -> EventRow:
        engine = self._messages.record_of(line_no, src_ns, envelope, "", b"").engine()
        return EventRow(line_no, src_ns, engine, _PROFILER_KINDS[path_class])

    def _headless(self, line_no: int, envelope: Envelope) -> None:
        """Look for failures in a line without a head (traceback); it belongs to the stamp before it."""
        text = envelope.text
        state = self._streams.get(envelope.replica)
        try:
            if any(literal in text for literal, _ in self._dispatch.contains):
                instant = state.clock.resolve(envelope, None) if state else None
                src_ns = instant.src_ns if instant else state.last_ns if state else None
                if self._messages.search(line_no, src_ns, envelope, "", text):
                    return
        except UnreadableLineError as problem:
            self._messages.skip(str(problem))
            return
        self._messages.miss(text)
