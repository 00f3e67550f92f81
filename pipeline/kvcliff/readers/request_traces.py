"""Reader of published request traces: arrivals, lengths and prefix blocks of requests."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.csv_text import header_of, is_text, split_row, text_lines
from kvcliff.readers.json_values import count, elements_of, label, members_of, nanoseconds
from kvcliff.readers.stamps import parse_stamp, scaled_to_ns
from kvcliff.units import NS_PER_S

_FLUSH_ROWS: Final = 50_000
_LINE_LIMIT_BYTES: Final = 64 << 20
_NS_PER_MS: Final = 1_000_000
_MOONCAKE_BLOCK_TOKENS: Final = 512
_INT64_LIMIT: Final = 1 << 63
_JSON_MARKS: Final = (b'"timestamp"', b'"input_length"', b'"output_length"')
_SCHEMA: Final = pl.Schema(
    {
        "request_no": pl.Int64(),
        "model": pl.String(),
        "arrival_src_ns": pl.Int64(),
        "input_tokens": pl.Int64(),
        "output_tokens": pl.Int64(),
        "block_tokens": pl.Int32(),
        "block_ids": pl.List(pl.Int64),
        "is_failed": pl.Boolean(),
    }
)
_Row = tuple[str | None, int, int, int, int | None, list[int] | None, bool]


def _seconds(cell: str) -> int | None:
    """Return a number of seconds in nanoseconds."""
    return scaled_to_ns(cell, NS_PER_S)


def _date(cell: str) -> int | None:
    """Return a written date without a zone in nanoseconds, counted as if it were UTC."""
    stamp = parse_stamp(cell)
    return None if stamp is None else stamp.ns


@dataclass(frozen=True)
class _CsvKind:
    """One CSV layout: titles of its columns (lower case) and how its time is written.

    Attributes:
        title: what the trace is called.
        time: title of the arrival time.
        prompt: title of the prompt length.
        output: title of the output length.
        model: title of the model, when there is one.
        read_time: cell to nanoseconds.
        is_zero_failure: whether an output of 0 marks a failed request.
    """

    title: str
    time: str
    prompt: str
    output: str
    read_time: Callable[[str], int | None]
    model: str | None = None
    is_zero_failure: bool = False


_KINDS: Final = (
    _CsvKind("Azure LLM inference trace", "timestamp", "contexttokens", "generatedtokens", _date),
    _CsvKind(
        "BurstGPT trace",
        "timestamp",
        "request tokens",
        "response tokens",
        _seconds,
        model="model",
        is_zero_failure=True,
    ),
    _CsvKind("vidur trace", "arrived_at", "num_prefill_tokens", "num_decode_tokens", _seconds),
    _CsvKind("splitwise-sim trace", "arrival_timestamp", "prompt_size", "token_size", _seconds),
)


def _kind_of(titles: Sequence[str]) -> _CsvKind | None:
    """Return the layout that a header has, or ``None``."""
    known = {title.lower() for title in titles}
    return next((kind for kind in _KINDS if {kind.time, kind.prompt, kind.output} <= known), None)


def _sniff(source: Source) -> Sniff:
    """Return how much the head looks like a request trace."""
    head = source.head
    if not is_text(head):
        return NO_MATCH
    first = head.lstrip().split(b"\n", 1)[0]
    if (
        first.startswith(b"{")
        and all(mark in first for mark in _JSON_MARKS)
        and len(first) < _LINE_LIMIT_BYTES
    ):
        return Sniff(90, "request trace with prefix blocks (Mooncake)")
    kind = _kind_of(header_of(head)) if b"," in first else None
    return NO_MATCH if kind is None else Sniff(90, f"request trace ({kind.title})")


class _Loader:
    """State of one load: rows not yet written."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._rows: list[tuple[object, ...]] = []
        self.request_count = 0
        self.failed_count = 0
        self.row_count = 0
        self.skipped_count = 0
        self.first_skip_reason: str | None = None

    def take(self, row: _Row | None) -> None:
        """Take one request, or count that it could not be read."""
        if row is None:
            self.skipped_count += 1
            self.first_skip_reason = self.first_skip_reason or "row has no arrival time or no plain lengths"
            return
        self._rows.append((self.request_count, *row))
        self.request_count += 1
        self.failed_count += row[-1]
        if len(self._rows) >= _FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the rows collected so far."""
        if self._rows:
            frame = pl.DataFrame(self._rows, schema=_SCHEMA, orient="row")
            self.row_count += self._sink.append("raw_request_arrivals", frame)
            self._rows.clear()


def _json_row(line: bytes) -> _Row | None:
    """Return one line of a JSON trace; block ids that are no small integers end the list."""
    try:
        entry = members_of(json.loads(line))
    except (ValueError, RecursionError):
        return None
    arrival_ns = nanoseconds(entry.get("timestamp"), _NS_PER_MS)
    prompt, output = count(entry.get("input_length")), count(entry.get("output_length"))
    if arrival_ns is None or prompt is None or output is None:
        return None
    given = elements_of(entry.get("hash_ids"))
    blocks = [value for value in given if type(value) is int and -_INT64_LIMIT <= value < _INT64_LIMIT]
    if len(blocks) < len(given):
        return None
    return None, arrival_ns, prompt, output, _MOONCAKE_BLOCK_TOKENS if blocks else None, blocks or None, False


class _CsvRows:
    """Reads rows of one CSV layout."""

    def __init__(self, kind: _CsvKind, titles: Sequence[str]) -> None:
        places = {title.lower(): place for place, title in reversed(list(enumerate(titles)))}
        self._kind = kind
        self._places = [places[title] for title in (kind.time, kind.prompt, kind.output)]
        self._model_place = places.get(kind.model or "")
        self.width = len(titles)

    def read(self, cells: Sequence[str]) -> _Row | None:
        """Return one row, ``None`` when it cannot be used."""
        if len(cells) != self.width:
            return None
        time, prompt_cell, output_cell = (cells[place] for place in self._places)
        arrival_ns = self._kind.read_time(time)
        prompt, output = _length(prompt_cell), _length(output_cell)
        if arrival_ns is None or prompt is None or output is None:
            return None
        model = None if self._model_place is None else label(cells[self._model_place])
        return model, arrival_ns, prompt, output, None, None, self._kind.is_zero_failure and output == 0


def _length(cell: str) -> int | None:
    """Return a number of tokens; a trailing ``.0`` is allowed, a sign or a fraction is not."""
    whole = cell.removesuffix(".0")
    return int(whole) if whole.isascii() and whole.isdigit() and len(whole) < 16 else None


def _csv_rows(lines: Iterator[tuple[bytes, bool]], loader: _Loader) -> str | None:
    """Take every row behind the header and return the damage, ``None`` when the file is whole."""
    rows: _CsvRows | None = None
    for line, is_ended in lines:
        cells = split_row(line)
        if rows is None:
            kind = _kind_of(cells)
            if kind is None:
                return "the file holds no header of a known trace"
            rows = _CsvRows(kind, cells)
        elif not is_ended and len(cells) != rows.width:
            return "the file ends inside a row"
        elif line.strip():
            loader.take(rows.read(cells))
    return None


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Stream the trace into the table of arrivals."""
    del context
    loader = _Loader(sink)
    damage: str | None = None
    with source.open() as stream:
        if source.head.lstrip().startswith(b"{"):
            while line := stream.readline(_LINE_LIMIT_BYTES):
                row = _json_row(line) if line.strip() else None
                if row is None and not line.endswith(b"\n"):
                    damage = "the file ends inside a line"
                if line.strip():
                    loader.take(row)
        else:
            damage = _csv_rows(text_lines(stream), loader)
        damage = stream.damage or damage
    loader.flush()
    failed = (f"{loader.failed_count} requests failed (no output) and are left out of the lengths",)
    notes = failed if loader.failed_count else ()
    return LoadReport(loader.row_count, loader.skipped_count, loader.first_skip_reason, damage, notes)


READER = Reader(
    name="request_trace",
    title="request traces (Mooncake, Azure, BurstGPT, vidur, splitwise-sim)",
    tables=("raw_request_arrivals",),
    sniff=_sniff,
    load=_load,
    role="arrivals",
    tried_on_real_files=True,
)
