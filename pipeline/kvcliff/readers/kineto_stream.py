"""Events of a Chrome trace (Kineto) as a stream: blocks of whole events, whatever the size of the file."""

import re
from collections.abc import Iterator
from itertools import islice

import msgspec

from kvcliff.readers.decompression import Stream

_BLOCK_BYTES = 4 << 20
#: A piece of this size that cannot be read as a whole is read event by event.
_BROKEN_PIECE_BYTES = 2 * _BLOCK_BYTES
#: Beyond this a piece without any event boundary counts as damage.
_LONGEST_PIECE_BYTES = 64 << 20
_LONGEST_HEADER_BYTES = 16 << 20
_TRIED_BOUNDARIES = 48
_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_EVENT_START = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|cat|name|pid|args|ts)"\s*:)')
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_WHITE = b" \t\r\n"


class RawEvent(msgspec.Struct):
    """One event; what is rarely needed stays unparsed.

    Attributes:
        ph: kind of event (``X`` is a span).
        cat: category (``kernel``, ``user_annotation`` ...).
        name: what happened.
        pid: process, a number or a text.
        tid: thread or stream, a number or a text.
        ts: start in microseconds, as written.
        dur: length in microseconds, as written.
        args: the event's details, as written.
    """

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: msgspec.Raw = msgspec.Raw(b"")
    args: msgspec.Raw = msgspec.Raw(b"")


_EVENTS = msgspec.json.Decoder(list[RawEvent])
_EVENT = msgspec.json.Decoder(RawEvent)


class EventStream:
    """The events of one trace, read once.

    Attributes:
        header: bytes before the array of events.
        tail: bytes after it (empty when the file is cut).
        skipped_count: events that could not be read.
        damage: why the events end early, or ``None``; valid after reading to the end.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.header = b""
        self.tail = b""
        self.skipped_count = 0
        self.damage: str | None = None
        self._rest = self._after_header()

    def blocks(self) -> Iterator[list[RawEvent]]:
        """Yield the events in file order, some thousands at a time."""
        rest = self._rest
        while True:
            block = self._stream.read(_BLOCK_BYTES)
            rest += block
            events, rest, is_done = self._split(rest, is_last=not block)
            if events:
                yield events
            if is_done:
                return

    def _after_header(self) -> bytes:
        """Read up to the first event; a file that is nothing but an array has no header."""
        buffer = self._stream.read(_BLOCK_BYTES)
        if buffer.lstrip(_WHITE).startswith(b"["):
            return buffer.lstrip(_WHITE)[1:]
        while True:
            match = _ARRAY.search(buffer)
            if match:
                self.header = buffer[: match.start()]
                return buffer[match.end() :]
            block = self._stream.read(_BLOCK_BYTES)
            buffer += block
            if not block or len(buffer) > _LONGEST_HEADER_BYTES:
                self.header = buffer
                return b""

    def _split(self, piece: bytes, *, is_last: bool) -> tuple[list[RawEvent], bytes, bool]:
        """Return the events at the start of a piece, what is left of it, and whether that was the end."""
        if is_last:
            return self._last(piece)
        for end, start in islice(_boundaries(piece), _TRIED_BOUNDARIES):
            found = self._decode(piece[:end] + b"]")
            if isinstance(found, list):
                return found, piece[start:], False
            if found is not None:
                return self._finish(piece, found)
        cut = next(_boundaries(piece), None)
        if cut is not None and len(piece) > _BROKEN_PIECE_BYTES:
            return self._one_by_one(piece[: cut[0]]), piece[cut[1] :], False
        if len(piece) > _LONGEST_PIECE_BYTES:
            self.damage = "no whole event in the next 64 MiB"
            return [], b"", True
        return [], piece, False

    def _last(self, piece: bytes) -> tuple[list[RawEvent], bytes, bool]:
        found = self._decode(piece)
        if isinstance(found, list):
            return found, b"", True
        if found is not None:
            return self._finish(piece, found)
        self.damage = self._stream.damage or "the trace ends inside its events"
        cut = next(_boundaries(piece), None)
        if cut is None:
            return [], b"", True
        events = self._decode(piece[: cut[0]] + b"]")
        return events if isinstance(events, list) else self._one_by_one(piece[: cut[0]]), b"", True

    def _finish(self, piece: bytes, end: int) -> tuple[list[RawEvent], bytes, bool]:
        """Take the array's last events and keep what follows the array."""
        events = self._decode(piece[:end])
        self.tail = piece[end:] + self._stream.read(_LONGEST_HEADER_BYTES)
        if not isinstance(events, list):
            events = self._one_by_one(piece[: end - 1])
        return events, b"", True

    def _decode(self, events: bytes) -> list[RawEvent] | int | None:
        """Return the events; or where their array ended earlier; or ``None`` when they are not whole."""
        try:
            return _EVENTS.decode(b"[" + events)
        except (msgspec.ValidationError, RecursionError):
            return self._one_by_one(events.rstrip(_WHITE).removesuffix(b"]"))
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            match = _TRAILING.search(str(exc))
            # The position is near the first byte behind the array; the array itself ends at a bracket.
            return events.rfind(b"]", 0, int(match.group(1))) + 1 if match else None

    def _one_by_one(self, events: bytes) -> list[RawEvent]:
        """Read events apart, so that one bad event costs itself only."""
        texts = _EVENT_START.split(events)
        found: list[RawEvent] = []
        for number, text in enumerate(texts):
            whole = text if number == len(texts) - 1 else text + b"}"
            try:
                found.append(_EVENT.decode(whole.decode("utf-8", "replace")))
            except (msgspec.DecodeError, RecursionError):
                self.skipped_count += 1
        return found


def _boundaries(piece: bytes) -> Iterator[tuple[int, int]]:
    """Yield places between two objects from the back: the end of the one and the start of the next."""
    start = len(piece)
    while (start := piece.rfind(b"{", 0, start)) > 0:
        before = piece[max(0, start - 64) : start].rstrip(_WHITE)
        if not before.endswith(b","):
            continue
        end = before[:-1].rstrip(_WHITE)
        if end.endswith(b"}"):
            yield max(0, start - 64) + len(end), start
