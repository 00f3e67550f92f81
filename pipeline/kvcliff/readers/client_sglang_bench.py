"""Reader of SGLang ``bench_serving`` results: one JSON object per run, with or without details."""

from collections.abc import Mapping
from typing import Final

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.client_rows import CLIENT_TABLES, ClientRequest, ClientWriter
from kvcliff.readers.client_totals import LATENCY_STATISTICS, latency_total
from kvcliff.readers.json_stream import JsonCursor, JsonDamage
from kvcliff.readers.json_values import (
    count,
    elements_of,
    error_kind,
    label,
    members_of,
    nanosecond_list,
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


def _request(
    arrays: Mapping[str, list[object]],
    gaps_ns: list[list[int]],
    index: int,
    tag: str | None,
    concurrency: int | None,
) -> ClientRequest:
    """Return one request of the arrays, which may be of different lengths."""

    def at(name: str) -> object:
        values = arrays.get(name, [])
        return values[index] if index < len(values) else None

    first_ns = nanoseconds(at("ttfts"), NS_PER_S)
    later = gaps_ns[index] if index < len(gaps_ns) else []
    gaps = [first_ns, *later] if first_ns is not None and (first_ns or later) else []
    return ClientRequest(
        tag=tag,
        prompt_tokens=count(at("input_lens")),
        output_tokens=count(at("output_lens")),
        cached_tokens=count(at("cached_tokens")),
        concurrency=concurrency,
        error_kind=error_kind(at("errors")),
        gaps_ns=gaps,
    )


def _take_run(cursor: JsonCursor, writer: ClientWriter, load_no: int) -> None:
    """Take one run: totals as they pass, details at its end (also at an early one)."""
    arrays: dict[str, list[object]] = {}
    gaps_ns: list[list[int]] = []
    tag: str | None = None
    concurrency: int | None = None
    try:
        for key in cursor.members():
            if key == _GAPS:
                # By far the largest member: never decoded as one value.
                for _ in cursor.items():
                    gaps_ns.append(nanosecond_list(elements_of(cursor.value()), NS_PER_S))
            elif key in _ARRAYS:
                arrays[key] = elements_of(cursor.value())
            elif key == "tag":
                tag = label(cursor.value())
            elif key == "server_info":
                writer.setting("model_name", members_of(cursor.value()).get("model_path"))
            elif key in _KEYS:
                value = cursor.value()
                writer.total(load_no, _KEYS[key], number(value))
                concurrency = count(value) if key == "max_concurrency" else concurrency
    finally:
        size = max((len(arrays.get(name, ())) for name in ("input_lens", "output_lens", "ttfts")), default=0)
        for index in range(size):
            writer.add(_request(arrays, gaps_ns, index, tag, concurrency))


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
                _take_run(cursor, writer, load_no)
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
