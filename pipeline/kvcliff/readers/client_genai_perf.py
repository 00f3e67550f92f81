"""Reader of genai-perf / perf_analyzer profile exports: wall-clock times of every response."""

from collections.abc import Mapping
from typing import Final

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.client_rows import CLIENT_TABLES, ClientRequest, ClientWriter
from kvcliff.readers.json_stream import JsonCursor, JsonDamage
from kvcliff.readers.json_values import (
    count,
    elements_of,
    error_kind,
    first_count,
    label,
    members_of,
    nanoseconds,
    number,
)
from kvcliff.readers.sse import has_content, is_end_mark, usage_of

_MODES: Final = {"concurrency": "max_concurrency", "request_rate": "request_rate"}


def _sniff(source: Source) -> Sniff:
    """Return how much the head looks like a profile export."""
    head = source.head
    if head.lstrip()[:1] != b"{" or b'"experiments"' not in head:
        return NO_MATCH
    has_requests = b'"response_timestamps"' in head or b'"request_inputs"' in head
    if b'"service_kind"' in head or (b'"requests"' in head and has_requests):
        return Sniff(93, "genai-perf profile export")
    return NO_MATCH


def _events(text: object) -> list[str]:
    """Return the server-sent events of one response; a chunk may hold several."""
    return [event for event in text.split("\n\n") if event.strip()] if isinstance(text, str) else []


def _chunks(request: Mapping[str, object], times: list[int | None]) -> tuple[list[int], Mapping[str, object]]:
    """Return when chunks with text arrived, and the usage that the server stated.

    End marks and empty responses are no tokens; a response without an event stream counts as text.
    """
    outputs = elements_of(request.get("response_outputs"))
    chunks: list[int] = []
    usage: Mapping[str, object] = {}
    for number_of, time in enumerate(times):
        text = members_of(outputs[number_of]).get("response") if number_of < len(outputs) else "?"
        events = _events(text)
        usage = next((found for event in events if (found := usage_of(event))), usage)
        is_text = any(has_content(event) or "{" not in event for event in events if not is_end_mark(event))
        if time is not None and is_text:
            chunks.append(time)
    return chunks, usage


def _request(request: Mapping[str, object], tag: str | None, concurrency: int | None) -> ClientRequest | None:
    """Return one request, ``None`` when it has no time."""
    submit_ns = nanoseconds(request.get("timestamp"), 1)
    if submit_ns is None:
        return None
    times = [nanoseconds(value, 1) for value in elements_of(request.get("response_timestamps"))]
    chunks, usage = _chunks(request, times)
    known = [time for time in times if time is not None]
    failed = error_kind(request.get("error") or request.get("response_errors"))
    return ClientRequest(
        tag=tag,
        submit_ns=submit_ns,
        done_ns=known[-1] if known else None,
        prompt_tokens=first_count(usage.get("prompt_tokens"), _payload_count(request, "prompt")),
        output_tokens=first_count(usage.get("completion_tokens"), len(chunks)),
        concurrency=concurrency,
        error_kind=failed or (None if chunks else "no_response"),
        chunks_ns=chunks,
    )


def _payload_count(request: Mapping[str, object], what: str) -> int | None:
    """Return a number of tokens that a request states about itself, when it does."""
    return count(members_of(request.get("request_inputs")).get(f"{what}_tokens"))


class _Experiment:
    """One experiment (one load level)."""

    def __init__(self, writer: ClientWriter, load_no: int) -> None:
        self._writer = writer
        self._load_no = load_no
        self._tag: str | None = None
        self._concurrency: int | None = None

    def read(self, cursor: JsonCursor) -> None:
        """Take the members; the experiment's own description stands in front of its requests."""
        for key in cursor.members():
            if key == "experiment":
                self._describe(members_of(cursor.value()))
            elif key == "window_boundaries":
                self._window(elements_of(cursor.value()))
            elif key == "requests":
                for _ in cursor.items():
                    self._take(members_of(cursor.value()))

    def _describe(self, experiment: Mapping[str, object]) -> None:
        """Take mode and value of the load."""
        mode, value = label(experiment.get("mode")), number(experiment.get("value"))
        if mode is None or value is None:
            return
        self._tag = f"{mode}@{value:g}"
        self._concurrency = int(value) if mode == "concurrency" and value >= 0 else None
        if mode in _MODES:
            self._writer.total(self._load_no, _MODES[mode], value)

    def _window(self, boundaries: list[object]) -> None:
        """Take the length of the measurement."""
        known = [time for value in boundaries if (time := nanoseconds(value, 1)) is not None]
        if len(known) >= 2:
            self._writer.total(self._load_no, "duration_s", (max(known) - min(known)) / 1e9)

    def _take(self, request: Mapping[str, object]) -> None:
        """Take one request."""
        row = _request(request, self._tag, self._concurrency)
        self._writer.add_or_skip(row, "request has no time stamp")


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Walk the export; payloads and responses are dropped as they pass."""
    del context
    writer = ClientWriter(sink)
    damage: str | None = None
    with source.open() as stream:
        cursor = JsonCursor(stream)
        load_no = 0
        try:
            for key in cursor.members():
                if key != "experiments":
                    continue
                for _ in cursor.items():
                    _Experiment(writer, load_no).read(cursor)
                    load_no += 1
        except JsonDamage as problem:
            damage = str(problem)
        damage = stream.damage or damage
    return writer.finish("unix", damage)


READER = Reader(
    name="genai_perf",
    title="genai-perf / perf_analyzer profile export (JSON)",
    tables=CLIENT_TABLES,
    sniff=_sniff,
    load=_load,
    role="client",
    tried_on_real_files=False,
)
