"""A cursor over JSON text that is read in pieces: large arrays are walked, only small values are decoded."""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Final

from kvcliff.readers.decompression import Stream

_CHUNK_BYTES: Final = 1 << 18
#: A single value (a request with its texts, a series with its points) is never longer than this.
_VALUE_LIMIT: Final = 64 << 20
_LINE_LIMIT: Final = 1 << 20
#: The decoder reports a value that is cut near the end of the text; an error farther away is damage.
_CUT_MARGIN: Final = 32
_BLANK: Final = re.compile(r"[ \t\r\n\ufeff]*")
_DECODER: Final = json.JSONDecoder()


class JsonDamage(ValueError):
    """The text is no JSON from here on; carries the reason, never the text."""


class JsonCursor:
    """Walks JSON text without holding it: one value at a time is in memory.

    ``members`` and ``items`` yield once per member or element; the caller then takes the value with
    ``value``, ``members`` or ``items``, or leaves it, and it is passed over.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._place = 0
        self._taken = 0  # end of the last token: blanks behind it are not taken yet
        self._is_ended = False
        self._is_pending = False

    def peek(self) -> str:
        """Return the next character that is not blank without taking it; empty at the end."""
        while True:
            match = _BLANK.match(self._text, self._place)
            self._place = match.end() if match else self._place
            if self._place < len(self._text):
                return self._text[self._place]
            if self._is_ended:
                return ""
            self._fill(_CHUNK_BYTES)

    def starts_object(self) -> bool:
        """Return whether a JSON object begins here (a metric's label set begins with a brace as well)."""
        if self.peek() != "{":
            return False
        while len(self._text) - self._place < 2 * _CUT_MARGIN and not self._is_ended:
            self._fill(_CHUNK_BYTES)
        return self._text[self._place + 1 : self._place + _CUT_MARGIN].lstrip()[:1] in {'"', "}"}

    def value(self) -> object:
        """Return the next value.

        Raises:
            JsonDamage: no complete value follows.
        """
        self._is_pending = False
        self.peek()
        wanted = _CHUNK_BYTES
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._place)
            except json.JSONDecodeError as exc:
                is_cut = exc.msg.startswith("Unterminated") or exc.pos >= len(self._text) - _CUT_MARGIN
            except (ValueError, RecursionError):
                is_cut = False
            else:
                if end < len(self._text) or self._is_ended:
                    self._take_to(end)
                    return value
                is_cut = True
            if not is_cut or self._is_ended or len(self._text) - self._place > _VALUE_LIMIT:
                raise JsonDamage("the text ends or breaks inside a value")
            self._fill(wanted)
            wanted = 2 * wanted

    def numbers(self) -> str:
        """Return the text between the brackets of the array of numbers that follows, without decoding it.

        Raises:
            JsonDamage: no complete value follows.
        """
        self._is_pending = False
        end = self._flat_end()
        if end is None:
            value = self.value()
            return json.dumps(value)[1:-1] if isinstance(value, list) else ""
        text = self._text[self._place + 1 : end]
        self._take_to(end + 1)
        return text

    def _flat_end(self) -> int | None:
        """Return where the array that follows ends; ``None`` unless it holds plain values without quotes."""
        if self.peek() != "[":
            return None
        wanted = _CHUNK_BYTES
        while (end := self._text.find("]", self._place)) < 0 and not self._is_ended:
            if self._text.find('"', self._place) >= 0 or len(self._text) - self._place > _VALUE_LIMIT:
                return None
            self._fill(wanted)
            wanted = 2 * wanted
        is_flat = end >= 0 and not any(
            self._text.find(mark, self._place + 1, end) >= 0 for mark in ('"', "[", "{")
        )
        return end if is_flat else None

    def members(self) -> Iterator[str]:
        """Yield the keys of the object that follows; none when something else follows.

        Raises:
            JsonDamage: the object breaks off.
        """
        self._is_pending = False
        if self.peek() != "{":
            self.value()
            return
        for _ in self._elements("}"):
            key = self.value()
            if not isinstance(key, str) or self.peek() != ":":
                raise JsonDamage("a member of an object has no name")
            self._take_to(self._place + 1)
            self._is_pending = True
            yield key

    def items(self) -> Iterator[None]:
        """Yield once for each element of the array that follows; never when something else follows.

        Raises:
            JsonDamage: the array breaks off.
        """
        self._is_pending = False
        if self.peek() != "[":
            self.value()
            return
        yield from self._elements("]")

    def _elements(self, closing: str) -> Iterator[None]:
        """Yield once in front of each element up to the closing bracket."""
        self._take_to(self._place + 1)
        is_first = True
        while (char := self.peek()) != closing:
            if not is_first:
                if char != ",":
                    raise JsonDamage("the text ends or breaks between two values")
                self._take_to(self._place + 1)
            is_first = False
            self._is_pending = True
            yield
            if self._is_pending:
                self._pass_over()
        self._take_to(self._place + 1)

    def _pass_over(self) -> None:
        """Pass the value that follows; of a long array (texts of many requests) one element at a time."""
        if self.peek() != "[":
            self.value()
            return
        end = self._flat_end()
        if end is not None:
            self._is_pending = False
            self._take_to(end + 1)
            return
        for _ in self.items():
            self.value()

    def next_line(self) -> str:
        """Return the text from the next character that is not blank to the end of its line, and pass it."""
        self.peek()
        self._taken = self._place
        return self.rest_of_line()

    def rest_of_line(self) -> str:
        """Return what is left of the line in which the last value ended (or broke), and pass it.

        A line that breaks off does not take the next one with it.
        """
        while (end := self._text.find("\n", self._taken)) < 0 and not self._is_ended:
            if len(self._text) - self._taken > _LINE_LIMIT:
                self._taken = len(self._text)
            self._place = self._taken
            self._fill(_CHUNK_BYTES)
        line = self._text[self._taken : end if end >= 0 else len(self._text)]
        self._take_to(end + 1 if end >= 0 else len(self._text))
        return line

    def _take_to(self, place: int) -> None:
        """Take the text up to a place."""
        self._place = self._taken = place

    def _fill(self, byte_count: int) -> None:
        """Read more text behind what is left."""
        chunk = self._stream.read(byte_count)
        self._text = self._text[self._taken :] + self._bytes.decode(chunk, final=not chunk)
        self._place, self._taken = self._place - self._taken, 0
        self._is_ended = not chunk
