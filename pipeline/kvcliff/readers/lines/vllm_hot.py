"""The lines of which a vLLM log is full, read from the bytes as they lie: for speed alone.

Each function gives exactly the row that the rule of the same kind gives, or nothing; what it does not take
goes to the rules. A test reads the same lines both ways. Events are plain tuples of what an ``EventRow``
holds:
there are millions of them, and making a named tuple takes longer than reading the line.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from kvcliff.readers.lines.base import IterationRow, StatsRow
from kvcliff.readers.lines.vllm import KV_SEMANTICS

_NUMBER: Final = rb"\d{1,15}(?:\.\d{1,15})?"
_COUNT: Final = rb"\d{1,18}"
#: Ids that are longer, or have other than printable ASCII characters, are left to the rules.
ID_LIMIT: Final = 256
#: What follows an id is mostly the same text in many lines; one with a prompt in it is longer than this.
_TAIL_LIMIT: Final = 512
EventValues = tuple[int, int | None, str, str, None, str, None, int | None, None, None, None, None, None]
HotRow = StatsRow | IterationRow | EventValues
HotReader = Callable[[int, int | None, str, bytes, int], HotRow | None]
STATS = re.compile(
    rb"Engine (\d{1,9}): Avg prompt throughput: (" + _NUMBER + rb") tokens/s, "
    rb"Avg generation throughput: (" + _NUMBER + rb") tokens/s, "
    rb"Running: (" + _COUNT + rb") reqs, Waiting: (" + _COUNT + rb") reqs, "
    rb"[A-Z]{1,8} KV cache usage: (" + _NUMBER + rb")%"
    rb"(?:, Prefix cache hit rate: (" + _NUMBER + rb")%)?"
)
ITERATION = re.compile(
    rb"(?:Engine (\d{1,9}): )?Iteration\((" + _COUNT + rb")\): (" + _COUNT + rb") context requests, "
    rb"(" + _COUNT + rb") context tokens, (" + _COUNT + rb") generation requests, "
    rb"(" + _COUNT + rb") generation tokens, iteration elapsed time: (" + _NUMBER + rb") ms"
    rb"(?:, [A-Z]{1,8} KV cache usage: (" + _NUMBER + rb")%)?"
)
_RECEIVED, _ADDED = b"Received request ", b"Added request "
_MAX_TOKENS: Final = b" max_tokens="
_LIMIT = re.compile(rb"(" + _COUNT + rb")[,)]")
_PARAMETERS: Final = b"SamplingParams("


def _ratio(text: bytes | None) -> float | None:
    value = None if text is None else float(text)
    return value / 100 if value is not None and value <= 100 else None


def _read_stats(line_no: int, src_ns: int | None, engine: str, text: bytes, start: int) -> HotRow | None:
    """Return the row of a statistics line of vLLM V1 with the fields that it usually has."""
    match = STATS.fullmatch(text, start)
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


def _read_iteration(line_no: int, src_ns: int | None, engine: str, text: bytes, start: int) -> HotRow | None:
    """Return the row of an iteration line without further fields."""
    match = ITERATION.fullmatch(text, start)
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


def _id_of(text: bytes) -> str | None:
    """Return an id without blanks if the rules would read the same, else ``None``."""
    name = text.decode("latin-1")
    return name if name.isascii() and name.isprintable() and 0 < len(name) <= ID_LIMIT else None


def limit_in(tail: bytes) -> int | None:
    """Return the token limit among what follows the id of a request."""
    # The parameters follow the prompt, which may hold the same words: only the last ones are the engine's.
    at = tail.find(_MAX_TOKENS, max(tail.rfind(_PARAMETERS), 0))
    limit = _LIMIT.match(tail, at + len(_MAX_TOKENS)) if at >= 0 else None
    return None if limit is None else int(limit[1])


_remembered_limit_in = lru_cache(maxsize=256)(limit_in)


def _read_received(line_no: int, src_ns: int | None, engine: str, text: bytes, start: int) -> HotRow | None:
    """Return id and token limit of a request; the line holds the prompt, nothing else of it is read."""
    id_at = start + len(_RECEIVED)
    end = text.find(b" ", id_at) - 1
    if not text.startswith(_RECEIVED, start) or not text.startswith(b":", max(end, id_at)):
        return None
    name = _id_of(text[id_at:end])
    if name is None:
        return None
    tail = text[end + 2 :]
    limit = _remembered_limit_in(tail) if len(tail) <= _TAIL_LIMIT else limit_in(tail)
    if limit is None:
        return None
    return (
        line_no, src_ns, engine, "request_received", None, name, None, limit, None, None, None, None, None
    )  # fmt: skip


def _read_added(line_no: int, src_ns: int | None, engine: str, text: bytes, start: int) -> HotRow | None:
    """Return a request that entered the engine."""
    if not text.startswith(_ADDED, start):
        return None
    rest = text[start + len(_ADDED) :].removesuffix(b".")
    name = None if b" " in rest else _id_of(rest)
    if name is None:
        return None
    return line_no, src_ns, engine, "request_added", None, name, None, None, None, None, None, None, None


#: What reads a message (line number, time, engine, whole line, place of the message), by its first bytes.
HOT_START_BYTES: Final = 7
HOT_READERS: Final[Mapping[bytes, HotReader]] = MappingProxyType(
    {
        b"Engine ": _read_stats,
        b"Iterati": _read_iteration,
        b"Receive": _read_received,
        b"Added r": _read_added,
    }
)
