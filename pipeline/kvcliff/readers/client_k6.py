"""Reader of k6 points (``--out csv`` or ``--out json``): one request per ``http_req_duration`` point."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.client_rows import CLIENT_TABLES, ClientRequest, ClientWriter
from kvcliff.readers.csv_text import header_of, is_text, split_row, text_lines
from kvcliff.readers.json_values import members_of, nanoseconds, number
from kvcliff.readers.stamps import epoch_to_ns, parse_stamp

_NEEDED: Final = ("metric_name", "timestamp", "metric_value")
_REQUEST: Final = "http_req_duration"
_USERS: Final = "vus"
_NS_PER_MS: Final = 1_000_000
_BAD_STATUS: Final = 400


@dataclass(frozen=True)
class _Point:
    """One point: the metric, its value, when it was taken (the end of the request), and how it ended."""

    metric: str
    value: float
    time_ns: int
    status: str
    error_code: str


def _sniff(source: Source) -> Sniff:
    """Return how much the head looks like points of k6."""
    head = source.head
    if not is_text(head):
        return NO_MATCH
    if header_of(head)[: len(_NEEDED)] == list(_NEEDED):
        return Sniff(90, "k6 points (CSV)")
    first = head.lstrip().split(b"\n", 1)[0]
    is_point = b'"Metric"' in first or b'"Point"' in first
    if first.startswith(b"{") and is_point and b'"metric"' in first and b'"data"' in first:
        return Sniff(88, "k6 points (JSON lines)")
    return NO_MATCH


def _take(writer: ClientWriter, point: _Point) -> None:
    """Take one point: a request, or how many users there were."""
    if point.metric == _REQUEST:
        duration_ns = nanoseconds(point.value, _NS_PER_MS)
        if duration_ns is None or duration_ns > point.time_ns:
            writer.skip("request has no plain duration")
            return
        writer.add(
            ClientRequest(
                submit_ns=point.time_ns - duration_ns,
                done_ns=point.time_ns,
                latency_ns=duration_ns,
                error_kind=_failure(point),
            )
        )


def _failure(point: _Point) -> str | None:
    """Return why a request failed: k6's error code, else the HTTP status."""
    if point.error_code.isdigit() and point.error_code != "0":
        return f"k6_{point.error_code[:6]}"
    if point.status.isdigit() and (int(point.status[:6]) >= _BAD_STATUS or point.status == "0"):
        return f"http_{point.status[:3]}"
    return None


def _json_point(line: bytes) -> _Point | bool | None:
    """Return one point, ``None`` for a line that declares a metric, ``False`` for a broken one."""
    try:
        entry = members_of(json.loads(line))
    except (ValueError, RecursionError):
        return False
    if entry.get("type") == "Metric":
        return None
    data = members_of(entry.get("data"))
    tags = members_of(data.get("tags"))
    time, value = data.get("time"), number(data.get("value"))
    stamp = parse_stamp(time) if isinstance(time, str) else None
    if stamp is None or value is None or entry.get("type") != "Point":
        return False
    return _Point(
        metric=str(entry.get("metric")),
        value=value,
        time_ns=stamp.ns,
        status=_text(tags, "status"),
        error_code=_text(tags, "error_code"),
    )


def _text(tags: Mapping[str, object], name: str) -> str:
    """Return a tag's text, empty when it is absent."""
    value = tags.get(name)
    return value if isinstance(value, str) else ""


class _CsvPoints:
    """Reads rows of k6's CSV by the titles of its columns."""

    def __init__(self, titles: Sequence[str]) -> None:
        self._places = {title: place for place, title in reversed(list(enumerate(titles)))}
        self._width = len(titles)

    def point(self, line: bytes) -> _Point | bool | None:
        """Return one point, ``False`` for a broken row."""
        cells = split_row(line)
        if len(cells) != self._width:
            return False
        time, value = self._cell(cells, "timestamp"), self._cell(cells, "metric_value")
        time_ns = epoch_to_ns(time)
        if time_ns is None:
            stamp = parse_stamp(time)
            time_ns = None if stamp is None else stamp.ns
        try:
            known = number(float(value))
        except ValueError:
            known = None
        if time_ns is None or known is None:
            return False
        return _Point(
            metric=self._cell(cells, "metric_name"),
            value=known,
            time_ns=time_ns,
            status=self._cell(cells, "status"),
            error_code=self._cell(cells, "error_code"),
        )

    def _cell(self, cells: Sequence[str], title: str) -> str:
        """Return the cell under a title, empty when there is no such column."""
        place = self._places.get(title)
        return "" if place is None else cells[place]


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Stream the points; metrics other than the request's duration are passed over."""
    del context
    writer = ClientWriter(sink)
    is_json = source.head.lstrip()[:1] == b"{"
    read: Callable[[bytes], _Point | bool | None] | None = _json_point if is_json else None
    damage: str | None = None
    users = 0.0
    with source.open() as stream:
        for line, is_ended in text_lines(stream):
            if read is None:
                read = _CsvPoints(split_row(line)).point
                continue
            point = read(line) if line.strip() else None
            if isinstance(point, _Point):
                users = max(users, point.value) if point.metric == _USERS else users
                _take(writer, point)
            elif point is False:
                writer.skip("line is no point with a time and a value")
                damage = damage if is_ended else "the file ends inside a line"
        damage = stream.damage or damage
    writer.total(0, "max_concurrency", users or None)
    notes = ("k6 keeps no token times: only the length of each request is known",)
    return writer.finish("unix", damage, notes if writer.request_count else ())


READER = Reader(
    name="k6",
    title="k6 points (CSV or JSON lines)",
    tables=CLIENT_TABLES,
    sniff=_sniff,
    load=_load,
    role="client",
    tried_on_real_files=False,
)
