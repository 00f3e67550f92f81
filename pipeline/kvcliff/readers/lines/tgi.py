"""The grammar of Text Generation Inference logs: limits at start, and the times of each request."""

import re
from typing import Final

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
    times = {name: duration_ms_of(match[name]) for name in ("total", "queue", "run", "token")}
    if times["total"] is None:
        raise UnreadableLineError("a request line has a duration of unknown form")
    row = RequestRow(
        record.line_no,
        record.src_ns,
        record.engine(),
        queue_ms=times["queue"],
        run_ms=times["run"],
        total_ms=times["total"],
        token_ms=times["token"],
    )
    return (event_of(record, "request_finished")._replace(duration_ms=times["total"]), row)


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
    heads=(Head(b"IWED", _HEAD),),
    rules=(
        Rule("request", "raw_log_requests", parse_request, starts=_SPANS),
        Rule("limits", "raw_settings", parse_limits, starts=(b"text_generation",)),
    ),
    interest=((b' inference_time="', "a request line has no complete head"),),
    content_starts=_SPANS,
    engine="tgi",
)
