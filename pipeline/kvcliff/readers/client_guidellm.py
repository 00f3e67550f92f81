"""Reader of GuideLLM results (JSON): requests with first and last token, statistics of each benchmark."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.client_rows import CLIENT_TABLES, ClientRequest, ClientWriter
from kvcliff.readers.client_totals import LATENCY_STATISTICS, latency_total
from kvcliff.readers.json_stream import JsonCursor, JsonDamage
from kvcliff.readers.json_values import (
    count,
    error_kind,
    label,
    members_of,
    nanoseconds,
    number,
)
from kvcliff.units import NS_PER_S

_NS_PER_MS: Final = 1_000_000
#: Lists of requests; what they say about how a request ended.
_LISTS: Final = ("successful", "errored", "incomplete", "completed", "total")
#: Distributions of a benchmark: canonical short name and factor to milliseconds. GuideLLM's
#: ``time_per_output_token_ms`` includes the time to first token, so it is not the TPOT of other clients.
_LATENCIES: Final = (
    ("time_to_first_token_ms", "ttft", 1.0),
    ("inter_token_latency_ms", "itl", 1.0),
    ("time_per_output_token_ms", "latency_per_token", 1.0),
    ("request_latency", "e2el", 1000.0),
)
_RATES: Final = (
    ("requests_per_second", "request_throughput_per_s"),
    ("output_tokens_per_second", "output_tokens_per_s"),
    ("tokens_per_second", "total_tokens_per_s"),
)
#: Percentiles that GuideLLM spells with a leading zero.
_SPELLINGS: Final = {"p0.1": "p001", "p1": "p01", "p5": "p05"}
_COUNTS: Final = (("successful", "completed"), ("errored", "failed"), ("incomplete", "incomplete"))


def _sniff(source: Source) -> Sniff:
    """Return how much the head looks like a GuideLLM report."""
    head = source.head
    if head.lstrip()[:1] != b"{":
        return NO_MATCH
    if b'"guidellm_version"' in head or (b'"benchmarks"' in head and b'"generative_benchmark"' in head):
        return Sniff(93, "GuideLLM report")
    return NO_MATCH


def _seconds_ns(*values: object) -> int | None:
    """Return the first of several instants in seconds that is one, in nanoseconds."""
    found = (nanoseconds(value, NS_PER_S) for value in values)
    return next((value for value in found if value is not None), None)


def _token_count(request: Mapping[str, object], own: str, metrics: str) -> int | None:
    """Return a number of tokens: the request's own, else the one of its metrics."""
    stated = count(request.get(own))
    return stated if stated is not None else count(members_of(request.get(metrics)).get("total_tokens"))


def _failure(request: Mapping[str, object], info: Mapping[str, object], ended: str) -> str | None:
    """Return why a request failed: by the list it is in, its status or its error."""
    status = label(info.get("status"))
    if ended in {"successful", "completed"} or status == "completed":
        return None
    if status in {"cancelled", "incomplete"} or ended == "incomplete":
        return "incomplete"
    return error_kind(info.get("error") or request.get("error")) or "error"


class _Benchmark:
    """One benchmark (one load level) while its members pass by."""

    def __init__(self, writer: ClientWriter, load_no: int) -> None:
        self._writer = writer
        self._load_no = load_no
        self._rows: list[ClientRequest] = []
        self._strategy: Mapping[str, object] = {}
        self._made: Mapping[str, object] = {}

    def read(self, cursor: JsonCursor) -> None:
        """Take the members; requests are kept until the load's own description is known."""
        try:
            for key in cursor.members():
                if key == "requests":
                    self._requests(cursor)
                elif key in {"config", "args", "scheduler_metrics", "run_stats", "metrics"}:
                    self._describe(key, members_of(cursor.value()))
                elif key == "duration":
                    self._writer.total(self._load_no, "duration_s", number(cursor.value()))
        finally:
            self._finish()

    def _describe(self, key: str, members: Mapping[str, object]) -> None:
        """Take what describes the load, or its statistics."""
        if key in {"config", "args"}:
            self._strategy = members_of(members.get("strategy")) or self._strategy
            backend = members_of(members.get("backend"))
            self._writer.setting("model_name", backend.get("model"))
        elif key == "metrics":
            self._statistics(members)
        else:
            self._made = members_of(members.get("requests_made")) or self._made

    def _statistics(self, metrics: Mapping[str, object]) -> None:
        """Take the distributions over successful requests."""
        for name, short, factor in _LATENCIES:
            values = members_of(members_of(metrics.get(name)).get("successful"))
            spelled = {**members_of(values.get("percentiles")), **values}
            for statistic in LATENCY_STATISTICS:
                value = number(spelled.get(_SPELLINGS.get(statistic, statistic)))
                scaled = None if value is None else value * factor
                self._writer.total(self._load_no, latency_total(statistic, short), scaled)
            self._writer.total(self._load_no, f"{short}_count", number(values.get("count")))
        for name, canonical in _RATES:
            values = members_of(members_of(metrics.get(name)).get("successful"))
            self._writer.total(self._load_no, canonical, number(values.get("mean")))

    def _requests(self, cursor: JsonCursor) -> None:
        """Take the lists of requests, each under how its requests ended."""
        if cursor.peek() == "[":
            self._list(cursor, "")
            return
        for ended in cursor.members():
            if ended in _LISTS:
                self._list(cursor, "" if ended == "total" and not self._rows else ended)

    def _list(self, cursor: JsonCursor, ended: str) -> None:
        """Take one list of requests; the list of all is passed over when the others were there."""
        for _ in cursor.items():
            request = members_of(cursor.value())
            if ended == "total":
                continue
            row = _request(request, ended)
            if row is None:
                self._writer.skip("request is no object with a start time or token counts")
            else:
                self._rows.append(row)

    def _finish(self) -> None:
        """Write the requests with the level they belong to."""
        streams = count(self._strategy.get("streams") or self._strategy.get("max_concurrency"))
        rate = number(self._strategy.get("rate"))
        kind = label(self._strategy.get("type_"))
        level = streams if streams is not None else rate
        tag = None if kind is None else kind if level is None else f"{kind}@{level:g}"
        for row in self._rows:
            self._writer.add(replace(row, tag=tag, concurrency=streams))
        self._writer.total(self._load_no, "max_concurrency", number(streams))
        self._writer.total(self._load_no, "request_rate", rate)
        for made, name in _COUNTS:
            self._writer.total(self._load_no, name, number(self._made.get(made)))

    def missing_count(self) -> int:
        """Return how many requests the load made beyond those that the file lists."""
        made = [count(self._made.get(key)) for key, _ in _COUNTS[:2]]
        listed = sum(row.error_kind != "incomplete" for row in self._rows)
        return max(0, sum(value or 0 for value in made) - listed)


def _request(request: Mapping[str, object], ended: str) -> ClientRequest | None:
    """Return one request, of the newer family (``info.timings``) or the older one (flat times)."""
    info = members_of(request.get("info")) or members_of(request.get("scheduler_info"))
    timings = members_of(info.get("timings")) or members_of(request.get("request_timings"))
    start_ns = _seconds_ns(
        timings.get("request_start"), request.get("request_start_time"), request.get("start_time")
    )
    prompt = _token_count(request, "prompt_tokens", "input_metrics")
    output = _token_count(request, "output_tokens", "output_metrics")
    if start_ns is None and prompt is None and output is None:
        return None
    input_metrics = members_of(request.get("input_metrics"))
    return ClientRequest(
        request_id=label(request.get("request_id")),
        submit_ns=start_ns,
        ttft_ns=nanoseconds(request.get("time_to_first_token_ms"), _NS_PER_MS),
        first_token_ns=_seconds_ns(
            timings.get("first_token_iteration"),
            timings.get("first_iteration"),
            request.get("first_token_time"),
        ),
        last_token_ns=_seconds_ns(
            timings.get("last_token_iteration"),
            timings.get("last_iteration"),
            request.get("last_token_time"),
        ),
        done_ns=_seconds_ns(
            timings.get("request_end"), request.get("request_end_time"), request.get("end_time")
        ),
        latency_ns=nanoseconds(request.get("request_latency"), NS_PER_S),
        prompt_tokens=prompt,
        output_tokens=output,
        cached_tokens=count(request.get("cached_tokens") or input_metrics.get("cached_tokens")),
        error_kind=_failure(request, info, ended),
    )


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Walk the report; texts are dropped as they pass."""
    del context
    writer = ClientWriter(sink)
    benchmarks: list[_Benchmark] = []
    damage: str | None = None
    with source.open() as stream:
        cursor = JsonCursor(stream)
        try:
            for key in cursor.members():
                if key != "benchmarks":
                    continue
                for _ in cursor.items():
                    benchmarks.append(_Benchmark(writer, len(benchmarks)))
                    benchmarks[-1].read(cursor)
        except JsonDamage as problem:
            damage = str(problem)
        damage = stream.damage or damage
    missing = sum(benchmark.missing_count() for benchmark in benchmarks)
    notes = [f"the request lists are samples: {missing} requests that were made are not in them"]
    notes = notes if missing and damage is None else []
    if writer.request_count:
        notes.append("GuideLLM keeps no token times: only first token, end and counts are known")
    return writer.finish("unix", damage, notes)


READER = Reader(
    name="guidellm",
    title="GuideLLM report (JSON)",
    tables=CLIENT_TABLES,
    sniff=_sniff,
    load=_load,
    role="client",
    tried_on_real_files=True,
)
