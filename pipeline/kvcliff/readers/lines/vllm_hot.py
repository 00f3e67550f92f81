"""The lines of which a vLLM log is full, read from the bytes as they lie: for speed alone.

Each function gives exactly the row that the rule of the same kind gives, or nothing; what it does not take
goes to the rules. A test reads the same lines both ways.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from kvcliff.readers.lines.base import EventRow, IterationRow, Row, StatsRow
from kvcliff.readers.lines.vllm import KV_SEMANTICS

_NUMBER: Final = rb"\d{1,15}(?:\.\d{1,15})?"
_COUNT: Final = rb"\d{1,18}"
#: Ids with other than printable ASCII characters are left to the rules.
_ID: Final = rb"([!-~]{1,256}?)"
_STATS = re.compile(
    rb"Engine (\d{1,9}): Avg prompt throughput: (" + _NUMBER + rb") tokens/s, "
    rb"Avg generation throughput: (" + _NUMBER + rb") tokens/s, "
    rb"Running: (" + _COUNT + rb") reqs, Waiting: (" + _COUNT + rb") reqs, "
    rb"[A-Z]{1,8} KV cache usage: (" + _NUMBER + rb")%"
    rb"(?:, Prefix cache hit rate: (" + _NUMBER + rb")%)?"
)
_ITERATION = re.compile(
    rb"(?:Engine (\d{1,9}): )?Iteration\((" + _COUNT + rb")\): (" + _COUNT + rb") context requests, "
    rb"(" + _COUNT + rb") context tokens, (" + _COUNT + rb") generation requests, "
    rb"(" + _COUNT + rb") generation tokens, iteration elapsed time: (" + _NUMBER + rb") ms"
    rb"(?:, [A-Z]{1,8} KV cache usage: (" + _NUMBER + rb")%)?"
)
_RECEIVED = re.compile(rb"Received request " + _ID + rb": ")
_MAX_TOKENS: Final = b" max_tokens="
_LIMIT = re.compile(rb"(" + _COUNT + rb")[,)]")
_ADDED = re.compile(rb"Added request " + _ID + rb"\.?")
_PARAMETERS: Final = b"SamplingParams("


def _ratio(text: bytes | None) -> float | None:
    value = None if text is None else float(text)
    return value / 100 if value is not None and value <= 100 else None


def _read_stats(line_no: int, src_ns: int | None, engine: str, text: bytes, start: int) -> Row | None:
    """Return the row of a statistics line of vLLM V1 with the fields that it usually has."""
    match = _STATS.fullmatch(text, start)
    if match is None:
        return _read_iteration(line_no, src_ns, engine, text, start)
    stated, prompt, generation, running, waiting, used, hit = match.groups()
    return StatsRow(
        line_no,
        src_ns,
        str(int(stated)),
        1,
        KV_SEMANTICS,
        float(prompt),
        float(generation),
        int(running),
        int(waiting),
        None,
        None,
        None,
        _ratio(used),
        None,
        _ratio(hit),
    )


def _read_iteration(line_no: int, src_ns: int | None, engine: str, text: bytes, start: int) -> Row | None:
    """Return the row of an iteration line without further fields."""
    match = _ITERATION.fullmatch(text, start)
    if match is None:
        return None
    stated, number, cr, ct, gr, gt, elapsed, used = match.groups()
    return IterationRow(
        line_no,
        src_ns,
        engine if stated is None else str(int(stated)),
        int(number),
        int(cr),
        int(ct),
        int(gr),
        int(gt),
        float(elapsed),
        _ratio(used),
        False,
    )


def _read_received(line_no: int, src_ns: int | None, engine: str, text: bytes, start: int) -> Row | None:
    """Return id and token limit of a request; the line holds the prompt, nothing else of it is read."""
    match = _RECEIVED.match(text, start)
    if match is None:
        return None
    # The parameters follow the prompt, which may hold the same words: only the last ones are the engine's.
    at = text.find(_MAX_TOKENS, max(text.rfind(_PARAMETERS), match.end()))
    limit = _LIMIT.match(text, at + len(_MAX_TOKENS)) if at > 0 else None
    if limit is None:
        return None
    return EventRow(line_no, src_ns, engine, "request_received", None, match[1].decode(), None, int(limit[1]))


def _read_added(line_no: int, src_ns: int | None, engine: str, text: bytes, start: int) -> Row | None:
    """Return a request that entered the engine."""
    match = _ADDED.fullmatch(text, start)
    if match is None:
        return None
    return EventRow(line_no, src_ns, engine, "request_added", None, match[1].decode())


#: What reads a message (line number, time, engine, whole line, place of the message), by its first bytes.
HOT_START_BYTES: Final = 7
HOT_READERS: Final[Mapping[bytes, Callable[[int, int | None, str, bytes, int], Row | None]]] = (
    MappingProxyType(
        {
            b"Engine ": _read_stats,
            b"Iterati": _read_iteration,
            b"Receive": _read_received,
            b"Added r": _read_added,
        }
    )
)
