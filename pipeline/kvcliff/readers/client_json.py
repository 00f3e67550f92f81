"""The JSON shape that several load clients share: a list of requests in one file, one report in another."""

from collections.abc import Callable, Mapping

from kvcliff.readers.base import LoadReport, Sink, Source
from kvcliff.readers.client_rows import ClientClock, ClientRequest, ClientWriter
from kvcliff.readers.json_stream import JsonCursor, JsonDamage
from kvcliff.readers.json_values import members_of


def load_requests_or_report(
    source: Source,
    sink: Sink,
    *,
    request: Callable[[Mapping[str, object]], ClientRequest | None],
    skip_reason: str,
    report: Callable[[Mapping[str, object], ClientWriter], None],
    clock: ClientClock,
) -> LoadReport:
    """Read a list of requests, or the one object that is the client's report, into the client tables.

    Args:
        source: the file.
        sink: where rows go.
        request: makes the row of one element; ``None`` when it is no request.
        skip_reason: why such an element is skipped.
        report: takes totals and settings of the report.
        clock: clock of the requests' times.
    """
    writer = ClientWriter(sink)
    damage: str | None = None
    with source.open() as stream:
        cursor = JsonCursor(stream)
        try:
            if cursor.peek() == "[":
                for _ in cursor.items():
                    writer.add_or_skip(request(members_of(cursor.value())), skip_reason)
            else:
                report(members_of(cursor.value()), writer)
        except JsonDamage as problem:
            damage = str(problem)
        damage = stream.damage or damage
    return writer.finish(clock, damage)
