"""Reader of inference-perf reports: the lifecycle of each request, the totals of stages and of the run."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.client_rows import CLIENT_TABLES, ClientRequest, ClientWriter
from kvcliff.readers.client_totals import LATENCY_STATISTICS, latency_total
from kvcliff.readers.json_stream import JsonCursor, JsonDamage
from kvcliff.readers.json_values import (
    elements_of,
    error_kind,
    first_count,
    members_of,
    nanosecond_list,
    nanoseconds,
    number,
)
from kvcliff.units import NS_PER_S

_STAGE: Final = re.compile(r"stage_(\d{1,4})_lifecycle_metrics\.json")
_LATENCIES: Final = (
    ("time_to_first_token", "ttft"),
    ("inter_token_latency", "itl"),
    ("time_per_output_token", "tpot"),
    ("request_latency", "e2el"),
    ("normalized_time_per_output_token", "latency_per_token"),
)
_RATES: Final = (
    ("requests_per_sec", "request_throughput_per_s"),
    ("input_tokens_per_sec", "input_tokens_per_s"),
    ("output_tokens_per_sec", "output_tokens_per_s"),
    ("total_tokens_per_sec", "total_tokens_per_s"),
)
_LOAD: Final = (
    ("count", "requests"),
    ("requested_rate", "request_rate"),
    ("achieved_rate", "achieved_rate_per_s"),
    ("send_duration", "send_duration_s"),
    ("concurrency", "max_concurrency"),
)
#: A client that sends later than planned by more than this share of the planned rate is the limit itself.
_BEHIND_RATIO: Final = 0.95
_BEHIND_NOTE: Final = (
    "the client sent fewer requests per second than planned: its latencies leave out how long requests "
    "waited in the client (schedule delay)"
)


def _sniff(source: Source) -> Sniff:
    """Return how much the head looks like a lifecycle report; reports of its metrics server are not read."""
    head = source.head
    start = head.lstrip()[:1]
    if start == b"[" and b'"start_time"' in head and b'"request_metrics"' in head:
        return Sniff(92, "inference-perf requests")
    if start == b"[" and b'"start_time"' in head and b'"output_token_times"' in head:
        return Sniff(90, "inference-perf requests (older layout)")
    if start == b"{" and b'"load_summary"' in head and b'"successes"' in head and b'"latency"' in head:
        stage = _STAGE.fullmatch(source.name)
        level = None if stage is None else f"stage_{int(stage[1])}"
        return Sniff(92, "inference-perf totals of a stage or run", level)
    return NO_MATCH


def _token_counts(info: Mapping[str, object]) -> tuple[int | None, int | None]:
    """Return prompt and output tokens, the server's own count first; older files keep them flat."""
    response = members_of(info.get("response_metrics"))
    usage = members_of(response.get("server_usage"))
    text = members_of(members_of(info.get("request_metrics")).get("text"))
    prompts = (usage.get("prompt_tokens"), text.get("input_tokens"), info.get("input_tokens"))
    outputs = (
        usage.get("completion_tokens"),
        response.get("output_tokens"),
        info.get("output_tokens"),
    )
    return first_count(*prompts), first_count(*outputs)


def _request(entry: Mapping[str, object]) -> ClientRequest | None:
    """Return one request, ``None`` when it has no start time."""
    start_ns = nanoseconds(entry.get("start_time"), NS_PER_S)
    if start_ns is None:
        return None
    info = members_of(entry.get("info"))
    response = members_of(info.get("response_metrics")) or info
    times = elements_of(response.get("output_token_times")) or elements_of(response.get("chunk_times"))
    prompt_tokens, output_tokens = _token_counts(info)
    chunks = nanosecond_list(times, NS_PER_S)
    failed = error_kind(entry.get("error"))
    return ClientRequest(
        submit_ns=start_ns,
        done_ns=nanoseconds(entry.get("end_time"), NS_PER_S),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        error_kind=failed,
        chunks_ns=chunks,
    )


def _totals(report: Mapping[str, object]) -> Iterator[tuple[str, float | None]]:
    """Yield the totals of a stage or run under canonical names; seconds become milliseconds."""
    load = members_of(report.get("load_summary"))
    successes, failures = members_of(report.get("successes")), members_of(report.get("failures"))
    for key, name in _LOAD:
        yield name, number(load.get(key))
    yield "completed", number(successes.get("count"))
    yield "failed", number(failures.get("count"))
    latency = members_of(successes.get("latency"))
    distributions = [(members_of(latency.get(key)), short) for key, short in _LATENCIES]
    distributions.append((members_of(load.get("schedule_delay")), "schedule_delay"))
    for values, short in distributions:
        for statistic in LATENCY_STATISTICS:
            seconds = number(values.get(statistic))
            yield latency_total(statistic, short), None if seconds is None else seconds * 1000
    for key, name in _RATES:
        yield name, number(members_of(successes.get("throughput")).get(key))
    for key, name in (("prompt_len", "mean_prompt_tokens"), ("output_len", "mean_output_tokens")):
        yield name, number(members_of(successes.get(key)).get("mean"))


def _load_totals(cursor: JsonCursor, writer: ClientWriter) -> tuple[str, ...]:
    """Take the totals of one report and return what is to be said about them."""
    report = members_of(cursor.value())
    for name, value in _totals(report):
        writer.total(0, name, value)
    load = members_of(report.get("load_summary"))
    wanted, achieved = number(load.get("requested_rate")), number(load.get("achieved_rate"))
    if wanted and achieved is not None and achieved < _BEHIND_RATIO * wanted:
        return (_BEHIND_NOTE,)
    return ()


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Read requests or totals into the client tables."""
    del context
    writer = ClientWriter(sink)
    notes: tuple[str, ...] = ()
    damage: str | None = None
    with source.open() as stream:
        cursor = JsonCursor(stream)
        try:
            if cursor.peek() == "[":
                for _ in cursor.items():
                    writer.add_or_skip(_request(members_of(cursor.value())), "request has no start time")
            else:
                notes = _load_totals(cursor, writer)
        except JsonDamage as problem:
            damage = str(problem)
        damage = stream.damage or damage
    return writer.finish("monotonic", damage, notes)


READER = Reader(
    name="inference_perf",
    title="inference-perf lifecycle reports (JSON)",
    tables=CLIENT_TABLES,
    sniff=_sniff,
    load=_load,
    role="client",
    tried_on_real_files=True,
)
