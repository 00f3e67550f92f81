"""Messages of a Nsight Compute report: protobuf fields, and the blocks that hold them, read in order."""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from kvcliff.readers.decompression import Stream

MAGIC: Final = b"NVR\x00"
VERSION: Final = 7
#: Larger messages are no report: the largest known entry holds all sources of an application.
_ENTRY_LIMIT_BYTES: Final = 1 << 30
_HEADER_LIMIT_BYTES: Final = 1 << 26
_VARINT_BITS: Final = 64
#: A value of nine bytes that is a double, and the shortest metric result that has one.
_DOUBLE: Final = b"\x12\x09\x19"
_DOUBLE_BYTES: Final = 13
_read_double = struct.Struct("<d").unpack_from

#: Value of one field: an integer for a varint, bytes for everything else.
FieldValue = int | bytes


class WireError(ValueError):
    """A message that does not follow the wire format."""


class CutError(ValueError):
    """The file ends where more was announced."""


def fields(message: bytes) -> Iterator[tuple[int, FieldValue]]:
    """Yield number and value of each field of a message.

    Raises:
        WireError: the message does not follow the wire format.
    """
    place, end = 0, len(message)
    while place < end:
        key, place = _varint(message, place)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, place = _varint(message, place)
            yield number, value
            continue
        if wire == 2:
            size, place = _varint(message, place)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise WireError(f"field type {wire}")
        if place + size > end:
            raise WireError("a field is longer than its message")
        yield number, message[place : place + size]
        place += size


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """Return an integer of variable length and the place behind it."""
    result = shift = 0
    while place < len(message) and shift < _VARINT_BITS:
        byte = message[place]
        place += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, place
        shift += 7
    raise WireError("an integer does not end")


def first_of(message: bytes, number: int) -> FieldValue | None:
    """Return the first value of a field, or ``None``."""
    return next((value for found, value in fields(message) if found == number), None)


def text_of(value: FieldValue | None) -> str:
    """Return the text of a field, '' when it is absent or no text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def number_of(value: FieldValue | None) -> int | None:
    """Return the integer of a varint field as a signed one, or ``None``."""
    if not isinstance(value, int):
        return None
    return value - (1 << 64) if value >= 1 << 63 else value


class MetricValue(NamedTuple):
    """One value of a metric, as stored: a number, a text, or neither (no aggregate)."""

    name_id: int
    number: float | None
    text: str | None


def metric_value(message: bytes) -> MetricValue:
    """Return a metric result without its instances.

    Raises:
        WireError: the message does not follow the wire format.
    """
    if len(message) >= _DOUBLE_BYTES and message[0] == 8:
        # Nearly all results: an id of at most two bytes, then a double.
        start, name_id = 2, message[1]
        if name_id >= 0x80:
            start, name_id = 3, name_id & 0x7F | message[2] << 7
        if message[start : start + 3] == _DOUBLE and message[start - 1] < 0x80 and len(message) >= start + 11:
            return MetricValue(name_id, _read_double(message, start + 3)[0], None)
    name_id = 0
    number: float | None = None
    text: str | None = None
    for field, value in fields(message):
        if field == 1 and isinstance(value, int):
            name_id = value
        elif field == 2 and isinstance(value, bytes):
            number, text = _value(value)
    return MetricValue(name_id, number, text)


def _value(message: bytes) -> tuple[float | None, str | None]:
    """Return the number or the text of a value: text, float, double, or one of two unsigned integers."""
    for field, value in fields(message):
        if field == 1:
            return None, text_of(value)
        if isinstance(value, int):
            return float(value), None
        if len(value) == 4:
            return float(struct.unpack("<f", value)[0]), None
        if len(value) == 8:
            return float(struct.unpack("<d", value)[0]), None
    return None, None


class BlockReader:
    """Reads lengths and messages from a report; knows when the file ends too early."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def exactly(self, size: int) -> bytes:
        """Return exactly ``size`` bytes.

        Raises:
            CutError: the file ends before.
        """
        data = self._stream.read(size)
        if len(data) < size:
            raise CutError
        return data

    def message(self, limit_bytes: int = _ENTRY_LIMIT_BYTES) -> tuple[bytes, int]:
        """Return a message that its length precedes, and how many bytes both take.

        Raises:
            CutError: the file ends before.
            WireError: the length cannot be true.
        """
        size = int.from_bytes(self.exactly(4), "little")
        if size > limit_bytes:
            raise WireError("a message is too long to be true")
        return self.exactly(size), size + 4

    def block_header(self) -> bytes | None:
        """Return the header of the next block, ``None`` at the end of the file.

        Raises:
            CutError: the file ends inside the header.
            WireError: the length cannot be true.
        """
        start = self._stream.read(4)
        if not start:
            return None
        if len(start) < 4:
            raise CutError
        size = int.from_bytes(start, "little")
        if size > _HEADER_LIMIT_BYTES:
            raise WireError("a block header is too long to be true")
        return self.exactly(size)
