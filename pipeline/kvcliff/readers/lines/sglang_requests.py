"""Request lines of SGLang: requests that came and ended, their token counts, waits and retractions."""

import json
import re
from typing import Final

from kvcliff.readers.envelope import calendar_ns, fraction_ns
from kvcliff.readers.lines.base import (
    Record,
    RequestRow,
    Row,
    Rule,
    UnreadableLineError,
    amount_of,
    count_of,
    event_of,
)
from kvcliff.units import NS_PER_S

_EVENTS: Final = "raw_log_events"
_REQUEST = re.compile(r"(?P<what>Receive|Finish): obj=\w{1,64}\(rid='(?P<id>[^'\s]{1,256})'")
_META: Final = "'meta_info': {"
_VALUE = re.compile(
    r"'(?P<key>prompt_tokens|completion_tokens|cached_tokens|total_retractions|e2e_latency|queue_time)': "
    r"(?P<value>[\d.eE+-]{1,32})(?=[,}])"
)
_TIME_STATS = re.compile(
    r"Req ?Time ?Stats\(rid=(?P<id>[^,\s]{1,256}), (?:bootstrap_room=[^,]{1,64}, )?"
    r"input[ _]len=(?P<prompt>\d+)(?:, cached_input_len=(?P<cached>\d+))?, output[ _]len=(?P<output>\d+)"
    r"(?:, attempts=(?P<attempts>\d+))?, type=\w{1,32}\): (?P<rest>.*)"
)
_DURATION = re.compile(r"\b(?P<key>queue|forward)_duration=(?P<ms>[\d.]{1,32})ms")
_STAMP = re.compile(rb"(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?")


def _request_row(record: Record, request_id: str, values: dict[str, str]) -> RequestRow:
    seconds = {key: amount_of(values.get(key)) for key in ("queue_time", "e2e_latency")}
    queue_s, total_s = seconds["queue_time"], seconds["e2e_latency"]
    return RequestRow(
        record.line_no,
        record.src_ns,
        record.engine(),
        request_id,
        count_of(values.get("prompt_tokens")),
        count_of(values.get("cached_tokens")),
        count_of(values.get("completion_tokens")),
        count_of(values.get("total_retractions")),
        queue_ms=queue_s * 1e3 if queue_s is not None else None,
        total_ms=total_s * 1e3 if total_s is not None else None,
    )


def _rows(record: Record, request_id: str, values: dict[str, str] | None) -> tuple[Row, ...]:
    """Return the event of a request, and its counts once it ended."""
    if values is None:
        return (event_of(record, "request_received", request_id=request_id),)
    row = _request_row(record, request_id, values)
    event = event_of(record, "request_finished", request_id=request_id)
    return (event._replace(tokens=row.output_tokens, duration_ms=row.total_ms), row)


def parse_request(record: Record) -> tuple[Row, ...]:
    """Return id and counts of a request; the line holds the prompt and the answer, which are never read."""
    match = _REQUEST.match(record.message)
    if match is None:
        raise UnreadableLineError("a request line has another form than known")
    if match["what"] == "Receive":
        return _rows(record, match["id"], None)
    # The text of the answer stands before the counts and may hold the same words: the last ones count.
    at = record.message.rfind(_META)
    if at < 0:
        raise UnreadableLineError("the end of a request has no counts")
    found = {value["key"]: value["value"] for value in _VALUE.finditer(record.message, at)}
    return _rows(record, match["id"], found)


def parse_json_request(record: Record) -> tuple[Row, ...]:
    """Return the request of a line of ``--log-requests-format json``."""
    try:
        entry = json.loads(record.message)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        raise UnreadableLineError("a JSON request line is cut")
    event, request_id = entry.get("event"), entry.get("rid")
    if not isinstance(event, str) or not isinstance(request_id, str) or not 0 < len(request_id) <= 256:
        return ()
    record = _with_fraction(record, entry.get("timestamp"))
    if event.startswith("request.received"):
        return _rows(record, request_id, None)
    if event != "request.finished":
        return ()
    out = entry.get("out")
    meta = out.get("meta_info") if isinstance(out, dict) else None
    values = meta if isinstance(meta, dict) else {}
    numbers = {str(key): str(value) for key, value in values.items() if type(value) in (int, float)}
    return _rows(record, request_id, numbers)


def _with_fraction(record: Record, stamp: object) -> Record:
    """Return the record with the fraction of the JSON stamp, when that is of the same second as the head."""
    match = _STAMP.match(stamp.encode("utf-8", "replace")) if isinstance(stamp, str) else None
    local_ns = calendar_ns(match["second"]) if match is not None else None
    if match is None or local_ns is None or record.src_ns is None or record.src_ns % NS_PER_S:
        return record
    is_same = (local_ns - record.src_ns) // NS_PER_S % 60 == 0
    return record._replace(src_ns=record.src_ns + fraction_ns(match["fraction"])) if is_same else record


def parse_time_stats(record: Record) -> tuple[Row, ...]:
    """Return lengths and times of a request that ended."""
    match = _TIME_STATS.match(record.message)
    if match is None:
        raise UnreadableLineError("a time-stats line has another form than known")
    times = {found["key"]: amount_of(found["ms"]) for found in _DURATION.finditer(match["rest"])}
    return (
        RequestRow(
            record.line_no,
            record.src_ns,
            record.engine(),
            match["id"],
            count_of(match["prompt"]),
            count_of(match["cached"]),
            count_of(match["output"]),
            attempt_count=count_of(match["attempts"]),
            queue_ms=times.get("queue"),
            run_ms=times.get("forward"),
        ),
    )


REQUEST_RULES: Final = (
    Rule("request", _EVENTS, parse_request, starts=(b"Receive: obj=", b"Finish: obj=")),
    Rule("json_request", _EVENTS, parse_json_request, starts=(b'{"timestamp"',)),
    Rule(
        "request_time_stats",
        "raw_log_requests",
        parse_time_stats,
        starts=(b"Req Time Stats(", b"ReqTimeStats("),
    ),
)
