"""A ``vllm bench serve`` result taken apart: totals under canonical names, and arrays per request.

A result is walked member by member, so that a file that was cut still gives the members before the cut, and
generated texts are dropped as soon as they are passed.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, TypeVar

from kvcliff.readers.stamps import parse_stamp, scaled_to_ns
from kvcliff.units import NS_PER_S

#: Result keys and the canonical names of their values; a colon at the end of a key (0.8.5) is cut off.
_TOTALS: Final = (
    ("duration", "duration_s"),
    ("completed", "completed"),
    ("failed", "failed"),
    ("num_prompts", "requests"),
    ("total_input_tokens", "total_input_tokens"),
    ("total_output_tokens", "total_output_tokens"),
    ("request_throughput", "request_throughput_per_s"),
    ("request_goodput", "request_goodput_per_s"),
    ("output_throughput", "output_tokens_per_s"),
    ("total_token_throughput", "total_tokens_per_s"),
    ("max_output_tokens_per_s", "max_output_tokens_per_s"),
    ("max_concurrency", "max_concurrency"),
    ("max_concurrent_requests", "max_concurrent_requests"),
    ("request_rate", "request_rate"),
    ("burstiness", "burstiness"),
    ("spec_decode_acceptance_length", "spec_decode_acceptance_length"),
)
_CANONICAL: Final = dict(_TOTALS)
_LATENCY: Final = re.compile(r"(?:mean|median|std|p\d{1,2}(?:\.\d+)?)_(?:ttft|tpot|itl|e2el)_ms")
_ARRAYS: Final = ("input_lens", "output_lens", "ttfts", "itls", "latencies", "errors")
_MEMBER: Final = re.compile(r'[\s,]*"((?:[^"\\]|\\.)*)"\s*:\s*')
_OPEN: Final = re.compile(r"\s*\{")
_CLOSE: Final = re.compile(r"\s*\}")
_ERROR_CLASS: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.]{0,79})\s*(?=[:(]|$)")
_LIMIT: Final = 1e15

_Item = TypeVar("_Item")
_PLAIN = json.JSONDecoder()
_EXACT = json.JSONDecoder(parse_float=str)


@dataclass(frozen=True)
class BenchResult:
    """One result object: the members that are read, and whether its end was reached."""

    members: Mapping[str, object]
    is_whole: bool


def bench_results(text: str) -> tuple[list[BenchResult], str]:
    """Return the result objects of a text (the last may be cut) and what follows them."""
    results: list[BenchResult] = []
    position = 0
    while opening := _OPEN.match(text, position):
        members: dict[str, object] = {}
        position = _walk(text, opening.end(), members)
        closing = _CLOSE.match(text, position)
        results.append(BenchResult(members, closing is not None))
        if closing is None:
            return results, ""
        position = closing.end()
    return results, text[position:].strip()


def _walk(text: str, position: int, members: dict[str, object]) -> int:
    """Collect the members of one object and return where they end or break."""
    while member := _MEMBER.match(text, position):
        key = member[1].rstrip(":")
        decoder = _EXACT if key == "start_times" else _PLAIN
        try:
            value, position = decoder.raw_decode(text, member.end())
        except (ValueError, RecursionError):
            break
        if _is_kept(key):
            members[key] = value
    return position


def _is_kept(key: str) -> bool:
    """Return whether a member is read at all."""
    return (
        key in _CANONICAL
        or key in _ARRAYS
        or key in {"start_times", "date", "model_id"}
        or bool(_LATENCY.fullmatch(key))
    )


def _number(value: object) -> float | None:
    """Return a JSON value as a finite number (numbers may be quoted), else ``None``."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < _LIMIT else None


def _numbers(value: object) -> list[float | None]:
    """Return a JSON array as numbers; empty when it is no array."""
    return [_number(item) for item in value] if isinstance(value, list) else []


def bench_totals(members: Mapping[str, object]) -> dict[str, float]:
    """Return the totals of one result under canonical names, sorted by name."""
    totals: dict[str, float] = {}
    for key, value in members.items():
        name = _CANONICAL.get(key) or (key if _LATENCY.fullmatch(key) else None)
        number = _number(value) if name else None
        if name and number is not None:
            totals[name] = number
    date = members.get("date")
    stamp = parse_stamp(date) if isinstance(date, str) else None
    if stamp is not None:
        totals["end_local_ns"] = float(stamp.ns)
    return dict(sorted(totals.items()))


def _at(values: Sequence[_Item], index: int) -> _Item | None:
    """Return a value of an array that may be shorter than the others."""
    return values[index] if index < len(values) else None


def _count(value: float | None) -> int | None:
    """Return a number of tokens as an integer."""
    return None if value is None else int(value)


def _error_kind(text: object) -> str | None:
    """Return the class of an error from its last line, never its text; ``None`` when there is no error."""
    if not isinstance(text, str) or not text.strip():
        return None
    found = _ERROR_CLASS.match(text.strip().rsplit("\n", 1)[-1].strip())
    return found[1] if found else "error"


@dataclass(frozen=True)
class BenchDetails:
    """The per-request arrays of one result, in its own order."""

    starts_ns: tuple[int | None, ...]
    ttfts_s: tuple[float | None, ...]
    gaps_s: tuple[tuple[float, ...], ...]
    latencies_s: tuple[float | None, ...]
    prompt_tokens: tuple[float | None, ...]
    output_tokens: tuple[float | None, ...]
    error_kinds: tuple[str | None, ...]

    @property
    def count(self) -> int:
        """Requests that at least one array knows."""
        return max(len(self.ttfts_s), len(self.prompt_tokens), len(self.output_tokens))

    def start_ns(self, index: int) -> int | None:
        """Return when a request was sent, on the client's monotonic clock."""
        return _at(self.starts_ns, index)

    def chunks_ns(self, index: int) -> list[int]:
        """Return when each chunk of a request arrived, counted from its submission; empty when none did."""
        ttft_s = _at(self.ttfts_s, index)
        gaps_s = _at(self.gaps_s, index) or ()
        if ttft_s is None or (ttft_s == 0 and not gaps_s):
            return []
        return [round(since_s * NS_PER_S) for since_s in accumulate(gaps_s, initial=ttft_s)]

    def latency_ns(self, index: int) -> int | None:
        """Return how long a request took, ``None`` when it brought nothing."""
        latency_s = _at(self.latencies_s, index)
        if latency_s:
            return round(latency_s * NS_PER_S)
        chunks_ns = self.chunks_ns(index) if self.gaps_s else []
        return chunks_ns[-1] if chunks_ns else None

    def prompt_count(self, index: int) -> int | None:
        """Return the prompt tokens of a request."""
        return _count(_at(self.prompt_tokens, index))

    def output_count(self, index: int) -> int | None:
        """Return the generated tokens of a request."""
        return _count(_at(self.output_tokens, index))

    def error_kind(self, index: int) -> str | None:
        """Return the class of a request's error."""
        return _at(self.error_kinds, index)


def bench_details(members: Mapping[str, object]) -> BenchDetails:
    """Return the per-request arrays of a result; empty without ``--save-detailed``."""
    starts, gaps, errors = members.get("start_times"), members.get("itls"), members.get("errors")
    lists = gaps if isinstance(gaps, list) else []
    return BenchDetails(
        starts_ns=tuple(_exact_ns(start) for start in starts) if isinstance(starts, list) else (),
        ttfts_s=tuple(_numbers(members.get("ttfts"))),
        gaps_s=tuple(tuple(gap for gap in _numbers(row) if gap is not None) for row in lists),
        latencies_s=tuple(_numbers(members.get("latencies"))),
        prompt_tokens=tuple(_numbers(members.get("input_lens"))),
        output_tokens=tuple(_numbers(members.get("output_lens"))),
        error_kinds=tuple(_error_kind(error) for error in errors) if isinstance(errors, list) else (),
    )


def _exact_ns(seconds: object) -> int | None:
    """Return decimal seconds as nanoseconds without a detour through binary fractions."""
    is_number = isinstance(seconds, (str, int)) and not isinstance(seconds, bool)
    return scaled_to_ns(str(seconds), NS_PER_S) if is_number else None
