"""The grammar of Text Generation Inference logs: limits at start, and the times of each request."""

import re
from dataclasses import replace
from typing import Final

from kvcliff.readers.envelope import Envelope, moment_ns, stamp_step_ns
from kvcliff.readers.lines.base import (
    Grammar,
    Head,
    Record,
    RequestRow,
    Row,
    Rule,
    UnreadableLineError,
    duration_ms_of,
    event_of,
)
from kvcliff.readers.lines.facts import count_fact, setting_rows

_SPANS: Final = (
    b"generate{",
    b"generate_stream{",
    b"chat_completions{",
    b"completions{",
    b"compat_generate{",
    b"vertex_compatibility{",
    b"sagemaker_compatibility{",
)
#: The stamp in front is an RFC 3339 one, which the envelope takes off.
_HEAD = re.compile(
    rb"(INFO|WARN|ERROR|DEBUG)\s+(?=text_generation|"
    rb"(?:compat_)?generate(?:_stream)?\{|(?:chat_)?completions\{|(?:vertex|sagemaker)_compatibility\{)"
)
_TIMES = re.compile(
    r'total_time="(?P<total>[^"]{1,32})" validation_time="[^"]{1,32}" queue_time="(?P<queue>[^"]{1,32})" '
    r'inference_time="(?P<run>[^"]{1,32})" time_per_token="(?P<token>[^"]{1,32})"'
)
#: The same as JSON: level and message stand in front, the span with the times behind.
_JSON_HEAD = re.compile(
    rb'\{"timestamp":"(?P<stamp>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?Z",'
    rb'"level":"(?P<level>[A-Z]{4,5})",(?=.{0,400}"target":"text_generation)'
)
_JSON_TIME = re.compile(r'"(total|queue|inference)_time":"([^"]{1,32})"|"(time_per_token)":"([^"]{1,32})"')
_JSON_FACT = re.compile(
    r'"message":"(?:Setting max batch total tokens to (?P<limit>\d+)'
    r'|KV-cache blocks: (?P<blocks>\d+), size: (?P<size>\d+))"'
)
_PLACE = r"text_generation\w{0,40}(?:::\w+){0,4}: (?:[^:]{1,80}:\d+: )?"
_LIMIT = re.compile(_PLACE + r"Setting max batch total tokens to (\d+)")
_BLOCKS = re.compile(_PLACE + r"KV-cache blocks: (?P<blocks>\d+), size: (?P<size>\d+)")


def parse_request(record: Record) -> tuple[Row, ...]:
    """Return the times of a request; the parameters in the line are not read."""
    # Parameters come first and hold text of the user: the times behind them are the engine's.
    at = record.message.rfind('total_time="')
    match = _TIMES.match(record.message, at) if at >= 0 else None
    if match is None:
        # A span whose request failed has no times; only one that began to state them is cut.
        if at >= 0:
            raise UnreadableLineError("a request line has another form than known")
        return ()
    return _request_rows(
        record, *(duration_ms_of(match[name]) for name in ("total", "queue", "run", "token"))
    )


def _request_rows(
    record: Record,
    total_ms: float | None,
    queue_ms: float | None,
    run_ms: float | None,
    token_ms: float | None,
) -> tuple[Row, ...]:
    if total_ms is None:
        raise UnreadableLineError("a request line has a duration of unknown form")
    row = RequestRow(
        record.line_no,
        record.src_ns,
        record.engine(),
        queue_ms=queue_ms,
        run_ms=run_ms,
        total_ms=total_ms,
        token_ms=token_ms,
    )
    return (event_of(record, "request_finished")._replace(duration_ms=total_ms), row)


def unwrap_json(match: re.Match[bytes], envelope: Envelope) -> Envelope:
    """Return the envelope with stamp and level of a JSON record."""
    return replace(
        envelope,
        outer_ns=moment_ns(match["stamp"], match["fraction"]),
        outer_resolution_ns=stamp_step_ns(match["fraction"]),
        level=match["level"].decode(),
    )


def parse_json(record: Record) -> tuple[Row, ...]:
    """Return what a JSON record says: times of a request, or a limit at start."""
    fact = _JSON_FACT.search(record.message)
    if fact is not None:
        return setting_rows(
            record,
            [
                count_fact("kv_cache_tokens", fact["limit"], "tokens"),
                count_fact("num_gpu_blocks", fact["blocks"], "blocks"),
                count_fact("block_size", fact["size"], "tokens"),
            ],
        )
    # The span is written last; parameters in it have their quotes escaped, so that they look different.
    found = {(m[1] or m[3]): duration_ms_of(m[2] or m[4]) for m in _JSON_TIME.finditer(record.message)}
    if not found:
        return ()
    return _request_rows(
        record, found.get("total"), found.get("queue"), found.get("inference"), found.get("time_per_token")
    )


def parse_limits(record: Record) -> tuple[Row, ...]:
    """Return the token budget of all running requests and the KV blocks behind it."""
    limit, blocks = _LIMIT.match(record.message), _BLOCKS.match(record.message)
    if limit is not None:
        return setting_rows(record, [count_fact("kv_cache_tokens", limit[1], "tokens")])
    if blocks is None:
        return ()
    facts = [
        count_fact("num_gpu_blocks", blocks["blocks"], "blocks"),
        count_fact("block_size", blocks["size"], "tokens"),
    ]
    return setting_rows(record, facts)


TGI: Final = Grammar(
    name="tgi",
    title="TGI",
    heads=(Head(b"IWED", _HEAD), Head(b"{", _JSON_HEAD, unwrap_json)),
    rules=(
        Rule("request", "raw_log_requests", parse_request, starts=_SPANS),
        Rule("json", "raw_log_requests", parse_json, starts=(b'"',)),
        Rule("limits", "raw_settings", parse_limits, starts=(b"text_generation",)),
    ),
    interest=(
        (b' inference_time="', "a request line has no complete head"),
        (b'"inference_time":"', "a request record has no complete head"),
    ),
    content_starts=_SPANS,
    engine="tgi",
)
