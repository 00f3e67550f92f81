"""Arrow IPC streams, one or many in a file: the table's name and its record batches, each readable alone."""

import io
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

_CONTINUATION = b"\xff\xff\xff\xff"
_END = _CONTINUATION + b"\x00\x00\x00\x00"
_SCHEMA, _DICTIONARY, _RECORDS = 1, 2, 3
_NAME_KEY = "table_name"
#: Slots of the flat tables of the Arrow format (Message.fbs, Schema.fbs).
_MESSAGE_KIND, _MESSAGE_HEADER, _MESSAGE_BODY = 1, 2, 3
_SCHEMA_METADATA, _KEY, _VALUE = 2, 0, 1
_LONGEST_METADATA_BYTES = 64 << 20


class ArrowDamage(ValueError):
    """The bytes are no Arrow stream, or they end inside one."""


@dataclass(frozen=True)
class ArrowBatch:
    """One record batch of a table.

    Attributes:
        table: ``table_name`` of the stream's metadata, ``None`` when it has none.
        content: a whole IPC stream with this one batch; without a batch it holds the columns only.
    """

    table: str | None
    content: bytes

    def frame(self, columns: Sequence[str]) -> pl.DataFrame:
        """Return those of ``columns`` that the table has.

        Raises:
            ArrowDamage: the batch is not what its columns say.
        """
        try:
            # Chosen afterwards: the choice while reading fails on streams of Arrow 5, which nsys writes.
            frame = pl.read_ipc_stream(io.BytesIO(self.content))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as exc:
            raise ArrowDamage(f"a record batch cannot be read ({type(exc).__name__})") from exc
        return frame.select([name for name in columns if name in frame.columns])


@dataclass(frozen=True)
class _Message:
    kind: int
    end: int
    name: str | None


def read_batches(data: memoryview) -> Iterator[ArrowBatch]:
    """Yield the record batches of all streams in file order; a stream without one yields its columns.

    Raises:
        ArrowDamage: the bytes are no Arrow stream, or they end inside one.
    """
    at = 0
    while at < len(data):
        start = at
        first = _message(data, at)
        if first is None or first.kind != _SCHEMA:
            raise ArrowDamage(f"no Arrow schema at byte {at}")
        schema, count = bytes(data[start : first.end]), 0
        at = first.end
        # A file may end with its last batch: the end mark of a stream is optional in the format.
        while at < len(data) and (message := _message(data, at)) is not None:
            if message.kind == _SCHEMA:
                break
            part = bytes(data[at : message.end])
            at = message.end
            if message.kind == _DICTIONARY:
                schema += part
            elif message.kind == _RECORDS:
                count += 1
                yield ArrowBatch(first.name, schema + part + _END)
        else:
            at += len(_END) if at < len(data) else 0
        if count == 0:
            yield ArrowBatch(first.name, schema + _END)


def _message(data: memoryview, at: int) -> _Message | None:
    """Return the message at a byte; ``None`` at the end mark of a stream."""
    if bytes(data[at : at + 4]) != _CONTINUATION:
        raise ArrowDamage(f"no Arrow message at byte {at}")
    try:
        (length,) = struct.unpack_from("<i", data, at + 4)
        if length == 0:
            return None
        if not 0 < length <= _LONGEST_METADATA_BYTES:
            raise ArrowDamage(f"no Arrow message at byte {at}")
        head = _FlatTable.root(bytes(data[at + 8 : at + 8 + length]))
        kind, body = head.number(_MESSAGE_KIND, "<B"), head.number(_MESSAGE_BODY, "<q")
        name = head.table(_MESSAGE_HEADER).metadata(_NAME_KEY) if kind == _SCHEMA else None
    except (struct.error, IndexError, UnicodeDecodeError) as exc:
        raise ArrowDamage(f"broken Arrow message at byte {at}") from exc
    end = at + 8 + length + body
    if body < 0 or end > len(data):
        raise ArrowDamage(f"the Arrow stream ends inside the message at byte {at}")
    return _Message(kind, end, name)


@dataclass(frozen=True)
class _FlatTable:
    """A table of the FlatBuffers encoding, as far as Arrow messages need it."""

    data: bytes
    at: int

    @classmethod
    def root(cls, data: bytes) -> "_FlatTable":
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def _slot(self, slot: int) -> int | None:
        """Return where a field lies, ``None`` when it has its default."""
        offsets = self.at - struct.unpack_from("<i", self.data, self.at)[0]
        place = 4 + 2 * slot
        if place >= struct.unpack_from("<H", self.data, offsets)[0]:
            return None
        offset = struct.unpack_from("<H", self.data, offsets + place)[0]
        return self.at + offset if offset else None

    def number(self, slot: int, form: str) -> int:
        where = self._slot(slot)
        return 0 if where is None else int(struct.unpack_from(form, self.data, where)[0])

    def table(self, slot: int) -> "_FlatTable":
        where = self._slot(slot)
        if where is None:
            raise IndexError(slot)
        return _FlatTable(self.data, _follow(self.data, where))

    def text(self, slot: int) -> str:
        where = self._slot(slot)
        if where is None:
            return ""
        start = _follow(self.data, where)
        length = struct.unpack_from("<I", self.data, start)[0]
        return self.data[start + 4 : start + 4 + length].decode()

    def metadata(self, key: str) -> str | None:
        """Return the value of a key of a schema's metadata."""
        where = self._slot(_SCHEMA_METADATA)
        if where is None:
            return None
        start = _follow(self.data, where)
        for number in range(struct.unpack_from("<I", self.data, start)[0]):
            pair = _FlatTable(self.data, _follow(self.data, start + 4 + 4 * number))
            if pair.text(_KEY) == key:
                return pair.text(_VALUE)
        return None


def _follow(data: bytes, where: int) -> int:
    return where + int(struct.unpack_from("<I", data, where)[0])
