"""Reader of AIPerf results: records per request, raw records with every chunk, and the summary."""

import json
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Final

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.client_rows import CLIENT_TABLES, ClientRequest, ClientWriter
from kvcliff.readers.client_totals import LATENCY_STATISTICS, latency_total
from kvcliff.readers.decompression import Stream
from kvcliff.readers.json_values import (
    UNIT_NS,
    count,
    elements_of,
    error_kind,
    label,
    members_of,
    nanosecond_list,
    nanoseconds,
    number,
)
from kvcliff.readers.sse import has_content, usage_of

_LINE_LIMIT_BYTES: Final = 256 << 20
_HTTP_OK: Final = 200
#: Metrics of the summary: one value, or a distribution, and their canonical names.
_TOTALS: Final = (
    ("request_count", "avg", "completed"),
    ("error_request_count", "avg", "failed"),
    ("benchmark_duration", "avg", "duration_s"),
    ("request_throughput", "avg", "request_throughput_per_s"),
    ("output_token_throughput", "avg", "output_tokens_per_s"),
    ("total_token_throughput", "avg", "total_tokens_per_s"),
    ("total_isl", "avg", "total_input_tokens"),
    ("total_osl", "avg", "total_output_tokens"),
    ("total_usage_prompt_tokens", "avg", "usage_input_tokens"),
    ("total_usage_completion_tokens", "avg", "usage_output_tokens"),
)
_LATENCIES: Final = (
    ("time_to_first_token", "ttft"),
    ("inter_chunk_latency", "itl"),
    ("inter_token_latency", "tpot"),
    ("request_latency", "e2el"),
)


def _sniff(source: Source) -> Sniff:
    """Return how much the head looks like one of AIPerf's files."""
    head = source.head
    if head.lstrip()[:1] != b"{":
        return NO_MATCH
    if b'"request_start_ns"' in head and b'"benchmark_phase"' in head:
        if b'"start_perf_ns"' in head:
            return Sniff(94, "AIPerf raw records (every chunk)")
        if b'"metrics"' in head or b'"error"' in head:
            return Sniff(94, "AIPerf records per request")
    if b'"aiperf_version"' in head and b'"request_throughput"' in head and b'"timeslices"' not in head:
        return Sniff(92, "AIPerf summary")
    return NO_MATCH


def _duration_ns(metrics: Mapping[str, object], name: str) -> int | None:
    """Return a metric of one record in nanoseconds, by its own unit."""
    metric = members_of(metrics.get(name))
    unit_ns = UNIT_NS.get(str(metric.get("unit")))
    return None if unit_ns is None else nanoseconds(metric.get("value"), unit_ns)


def _gaps_ns(metrics: Mapping[str, object]) -> list[int]:
    """Return the gaps between chunks; a gap that is no duration ends them."""
    metric = members_of(metrics.get("inter_chunk_latency"))
    unit_ns = UNIT_NS.get(str(metric.get("unit")), 0)
    values = elements_of(metric.get("value")) if unit_ns else []
    gaps = nanosecond_list(values, unit_ns)
    if len(gaps) < len(values):
        first_bad = next(place for place, value in enumerate(values) if nanoseconds(value, unit_ns) is None)
        return gaps[:first_bad]
    return gaps


def _tokens(metrics: Mapping[str, object], *names: str) -> int | None:
    """Return the first of several counts that a record has; the server's own comes first."""
    values = (count(members_of(metrics.get(name)).get("value")) for name in names)
    return next((value for value in values if value is not None), None)


def _failure(record: Mapping[str, object], metadata: Mapping[str, object]) -> str | None:
    """Return why a request failed, ``None`` when it did not."""
    if metadata.get("was_cancelled") is True:
        return "cancelled"
    status = count(record.get("status"))
    failed = error_kind(record.get("error"))
    return failed or (f"http_{status}" if status is not None and status != _HTTP_OK else None)


def _request(record: Mapping[str, object], metadata: Mapping[str, object], start_ns: int) -> ClientRequest:
    """Return one record: position from the wall clock, latency from the metrics."""
    metrics = members_of(record.get("metrics"))
    ttft_ns = _duration_ns(metrics, "time_to_first_token")
    latency_ns = _duration_ns(metrics, "request_latency")
    end_ns = nanoseconds(metadata.get("request_end_ns"), 1)
    if end_ns is None and latency_ns is not None:
        end_ns = start_ns + latency_ns
    chunks = () if ttft_ns is None else tuple(accumulate(_gaps_ns(metrics), initial=start_ns + ttft_ns))
    return ClientRequest(
        request_id=label(metadata.get("x_request_id")),
        tag=label(metadata.get("benchmark_phase")),
        submit_ns=start_ns,
        ttft_ns=ttft_ns,
        done_ns=end_ns,
        latency_ns=latency_ns,
        prompt_tokens=_tokens(metrics, "usage_prompt_tokens", "input_sequence_length"),
        output_tokens=_tokens(metrics, "usage_completion_tokens", "output_sequence_length"),
        cached_tokens=_tokens(metrics, "usage_prompt_cache_read_tokens"),
        is_warmup=metadata.get("benchmark_phase") == "warmup",
        error_kind=_failure(record, metadata),
        chunks_ns=chunks,
    )


def _raw_request(
    record: Mapping[str, object], metadata: Mapping[str, object], start_ns: int
) -> ClientRequest:
    """Return one raw record: chunks with content at their monotonic distance from the start."""
    start_perf_ns = nanoseconds(record.get("start_perf_ns"), 1)
    chunks: list[int] = []
    usage: Mapping[str, object] = {}
    for response in elements_of(record.get("responses")):
        at_ns = nanoseconds(members_of(response).get("perf_ns"), 1)
        texts = [
            members_of(packet).get("value") for packet in elements_of(members_of(response).get("packets"))
        ]
        usage = next((found for text in texts if (found := usage_of(text))), usage)
        if at_ns is not None and start_perf_ns is not None and any(has_content(text) for text in texts):
            chunks.append(start_ns + at_ns - start_perf_ns)
    details = members_of(usage.get("prompt_tokens_details"))
    return ClientRequest(
        request_id=label(metadata.get("x_request_id")),
        tag=label(metadata.get("benchmark_phase")),
        submit_ns=start_ns,
        done_ns=nanoseconds(metadata.get("request_end_ns"), 1),
        latency_ns=chunks[-1] - start_ns if chunks and chunks[-1] >= start_ns else None,
        prompt_tokens=count(usage.get("prompt_tokens")),
        output_tokens=count(usage.get("completion_tokens")),
        cached_tokens=count(details.get("cached_tokens")),
        max_tokens=_max_tokens(members_of(record.get("payload"))),
        is_warmup=metadata.get("benchmark_phase") == "warmup",
        error_kind=_failure(record, metadata),
        chunks_ns=chunks,
    )


def _max_tokens(payload: Mapping[str, object]) -> int | None:
    """Return how many tokens a request asked for."""
    values = (count(payload.get(name)) for name in ("max_completion_tokens", "max_tokens"))
    return next((value for value in values if value is not None), None)


def _take_line(writer: ClientWriter, line: bytes) -> bool:
    """Take one record; return whether the line is one."""
    try:
        record = members_of(json.loads(line))
    except (ValueError, RecursionError):
        return False
    metadata = members_of(record.get("metadata"))
    start_ns = nanoseconds(metadata.get("request_start_ns"), 1)
    if start_ns is None:
        return False
    make = _raw_request if "start_perf_ns" in record else _request
    writer.add(make(record, metadata, start_ns))
    return True


def _load_records(stream: Stream, writer: ClientWriter) -> str | None:
    """Take every line and return the damage of the file."""
    is_cut = False
    while line := stream.readline(_LINE_LIMIT_BYTES):
        if line.strip() and not _take_line(writer, line):
            writer.skip("line is no record with a start time")
            is_cut = not line.endswith(b"\n")
    return stream.damage or ("the file ends inside a line" if is_cut else None)


def _summary_totals(summary: Mapping[str, object]) -> Iterator[tuple[str, float | None]]:
    """Yield the totals of a summary under canonical names."""
    for metric, statistic, name in _TOTALS:
        yield name, number(members_of(summary.get(metric)).get(statistic))
    for metric, short in _LATENCIES:
        values = members_of(summary.get(metric))
        unit_ns = UNIT_NS.get(str(values.get("unit")))
        for statistic in LATENCY_STATISTICS if unit_ns else ():
            yield latency_total(statistic, short), _milliseconds(values.get(statistic), unit_ns or 0)


def _milliseconds(value: object, unit_ns: int) -> float | None:
    """Return a statistic in milliseconds."""
    known = number(value)
    return None if known is None else known * unit_ns / 1e6


def _load_summary(stream: Stream, writer: ClientWriter) -> str | None:
    """Take the totals of a summary and return the damage of the file."""
    try:
        summary = members_of(json.loads(stream.read(_LINE_LIMIT_BYTES)))
    except (ValueError, RecursionError):
        return stream.damage or "the summary ends or breaks before its closing brace"
    for name, value in _summary_totals(summary):
        writer.total(0, name, value)
    config = members_of(summary.get("input_config"))
    phases = [members_of(phase) for phase in elements_of(config.get("phases"))]
    measured = [phase for phase in phases if phase.get("kind") != "warmup"]
    for load in (members_of(config.get("loadgen")), *measured):
        writer.total(0, "max_concurrency", number(load.get("concurrency")))
        writer.total(0, "request_rate", number(load.get("request_rate")))
    models = elements_of(members_of(config.get("models")).get("items"))
    writer.setting("model_name", members_of(models[0]).get("name") if models else None)
    return stream.damage


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Read records or the summary into the client tables."""
    del context
    writer = ClientWriter(sink)
    is_summary = b'"request_start_ns"' not in source.head and b'"aiperf_version"' in source.head
    with source.open() as stream:
        damage = _load_summary(stream, writer) if is_summary else _load_records(stream, writer)
    return writer.finish("unix", damage)


READER = Reader(
    name="aiperf",
    title="AIPerf records, raw records and summary (JSON)",
    tables=CLIENT_TABLES,
    sniff=_sniff,
    load=_load,
    role="client",
    tried_on_real_files=True,
)
