"""Reader of SGLang ``bench_serving`` results: one JSON object per run, with or without details."""

from typing import Final

import polars as pl

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.client_rows import CLIENT_TABLES, ClientRequest, ClientWriter
from kvcliff.readers.client_totals import LATENCY_STATISTICS, latency_total
from kvcliff.readers.gap_rows import GAP_BATCH, gaps_of
from kvcliff.readers.json_stream import JsonCursor, JsonDamage
from kvcliff.readers.json_values import (
    count,
    elements_of,
    error_kind,
    label,
    members_of,
    nanoseconds,
    number,
)
from kvcliff.units import NS_PER_S

_TOTALS: Final = {
    "duration": "duration_s",
    "completed": "completed",
    "total_input_tokens": "total_input_tokens",
    "total_output_tokens": "total_output_tokens",
    "request_throughput": "request_throughput_per_s",
    "input_throughput": "input_tokens_per_s",
    "output_throughput": "output_tokens_per_s",
    "max_concurrency": "max_concurrency",
    "request_rate": "request_rate",
    "concurrency": "mean_concurrency",
    "accept_length": "spec_decode_acceptance_length",
    "max_output_tokens_per_s": "max_output_tokens_per_s",
    "max_concurrent_requests": "max_concurrent_requests",
}
_LATENCIES: Final = (("ttft", "ttft"), ("tpot", "tpot"), ("itl", "itl"), ("e2e_latency", "e2el"))
_ARRAYS: Final = ("input_lens", "output_lens", "ttfts", "errors", "cached_tokens")
_SIZES: Final = ("input_lens", "output_lens", "ttfts")
_FIRSTS: Final = "ttfts"
_GAPS: Final = "itls"


def _latency_keys() -> dict[str, str]:
    """Return the keys of latency statistics and their canonical names."""
    return {
        f"{statistic}_{key}_ms": latency_total(statistic, short)
        for statistic in LATENCY_STATISTICS
        for key, short in _LATENCIES
    }


_KEYS: Final = {**_TOTALS, **_latency_keys()}


def _sniff(source: Source) -> Sniff:
    """Return how much the first object looks like a result of bench_serving."""
    head = source.head
    if head.lstrip()[:1] != b"{" or b'"model_id"' in head.split(b"\n", 1)[0]:
        return NO_MATCH
    marks = (b'"backend"', b'"dataset_name"', b'"request_rate"', b'"total_output_tokens"')
    if all(mark in head for mark in marks) and b'"tokenizer_id"' not in head:
        return Sniff(90, "SGLang bench_serving results")
    return NO_MATCH


class _Run:
    """One run of the benchmark while its object is walked.

    The gaps are written as soon as they come when the times to the first token are known by then, as in every
    file that SGLang writes; else they wait for them.
    """

    def __init__(self, writer: ClientWriter, load_no: int) -> None:
        self._writer = writer
        self._load_no = load_no
        self._first_no = writer.request_count
        self._arrays: dict[str, list[object]] = {}
        self._waiting: list[tuple[int, list[str]]] = []
        self._tag: str | None = None
        self._concurrency: int | None = None

    def take(self, cursor: JsonCursor) -> None:
        """Walk the object: totals as they pass, requests at its end (also at an early one).

        Raises:
            JsonDamage: the object breaks off.
        """
        try:
            for key in cursor.members():
                if key == _GAPS:
                    self._take_gaps(cursor)
                elif key in _ARRAYS:
                    self._arrays[key] = elements_of(cursor.value())
                elif key == "tag":
                    self._tag = label(cursor.value())
                elif key == "server_info":
                    self._writer.setting("model_name", members_of(cursor.value()).get("model_path"))
                elif key in _KEYS:
                    value = cursor.value()
                    self._writer.total(self._load_no, _KEYS[key], number(value))
                    self._concurrency = count(value) if key == "max_concurrency" else self._concurrency
        finally:
            for first, rows in self._waiting:
                self._write_gaps(first, rows)
            size = max((len(self._arrays.get(name, ())) for name in _SIZES), default=0)
            for index in range(size):
                self._writer.add(self._request(index))

    def _take_gaps(self, cursor: JsonCursor) -> None:
        """Take the gaps of all requests, some at a time (those before a cut as well)."""
        rows: list[str] = []
        first = 0
        try:
            for _ in cursor.items():
                rows.append(cursor.numbers())
                if len(rows) >= GAP_BATCH:
                    self._place_gaps(first, rows)
                    first, rows = first + len(rows), []
        finally:
            self._place_gaps(first, rows)

    def _place_gaps(self, first: int, rows: list[str]) -> None:
        """Write gaps, or keep their text until the times to the first token are known."""
        if _FIRSTS in self._arrays:
            self._write_gaps(first, rows)
        else:
            self._waiting.append((first, rows))

    def _write_gaps(self, first: int, rows: list[str]) -> None:
        """Write the time to the first chunk and the gaps behind it of some requests."""
        firsts = [number(value) for value in self._arrays.get(_FIRSTS, [])[first : first + len(rows)]]
        frame = pl.DataFrame(
            {
                "request_no": pl.int_range(first, first + len(rows), eager=True) + self._first_no,
                "first_s": pl.Series(firsts + [None] * (len(rows) - len(firsts)), dtype=pl.Float64),
                "gaps": gaps_of(rows),
            }
        )
        # A request that failed states a time of 0 and has no gaps.
        came = frame.filter(
            (pl.col("first_s") >= 0) & ((pl.col("first_s") > 0) | (pl.col("gaps").list.len() > 0))
        )
        self._writer.add_gaps(came.select("request_no", pl.concat_list("first_s", "gaps").alias("gaps_s")))

    def _request(self, index: int) -> ClientRequest:
        """Return one request of the arrays, which may be of different lengths."""

        def at(name: str) -> object:
            values = self._arrays.get(name, [])
            return values[index] if index < len(values) else None

        failed = error_kind(at("errors"))
        first_ns = nanoseconds(at(_FIRSTS), NS_PER_S)
        return ClientRequest(
            tag=self._tag,
            ttft_ns=first_ns or None,
            prompt_tokens=count(at("input_lens")),
            output_tokens=count(at("output_lens")),
            cached_tokens=count(at("cached_tokens")),
            concurrency=self._concurrency,
            error_kind=failed,
        )


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Read every run of the file; a broken line is counted and passed."""
    del context
    writer = ClientWriter(sink)
    damage: str | None = None
    load_no = 0
    with source.open() as stream:
        cursor = JsonCursor(stream)
        while cursor.peek():
            if not cursor.starts_object():
                writer.skip("line is no JSON object")
                cursor.next_line()
                continue
            try:
                _Run(writer, load_no).take(cursor)
                damage = None
            except JsonDamage as problem:
                writer.skip("a result object ends or breaks before its closing brace")
                damage = str(problem)
                cursor.rest_of_line()
            load_no += 1
        damage = stream.damage or damage
    return writer.finish("none", damage)


READER = Reader(
    name="sglang_bench",
    title="SGLang bench_serving results (JSON lines)",
    tables=CLIENT_TABLES,
    sniff=_sniff,
    load=_load,
    role="client",
    tried_on_real_files=False,
)
