"""A ``vllm bench serve`` result taken apart: totals under canonical names, and arrays per request.

A result is walked member by member, so that a file that was cut still gives the members before the cut, and
generated texts are dropped as soon as they are passed.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import polars as pl

from kvcliff.readers.gap_rows import finite_number, gaps_of
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

_GAPS_KEY: Final = "itls"

_Item = TypeVar("_Item")
_PLAIN = json.JSONDecoder()
_EXACT = json.JSONDecoder(parse_float=str)


@dataclass(frozen=True)
class BenchResult:
    """One result object: the members that are read, and whether its end was reached."""

    members: Mapping[str, object]
    is_whole: bool


@dataclass(frozen=True)
class GapRows:
    """The gaps of every request where they lie in the text: most of a detailed result, and never all decoded.

    Attributes:
        text: the whole file.
        spans: place of each request's array, without its brackets.
    """

    text: str
    spans: tuple[tuple[int, int], ...]

    def between(self, first: int, end: int) -> pl.Series:
        """Return the gaps of some requests as lists of seconds; what is no ordinary number is left out."""
        return gaps_of([self.text[start:stop] for start, stop in self.spans[first:end]])


def _gap_rows(text: str, position: int) -> tuple[GapRows, int] | None:
    """Return the arrays of an array of arrays and its end; ``None`` when it is cut or is something else."""
    if not text.startswith("[", position):
        return None
    spans: list[tuple[int, int]] = []
    place = position + 1
    while (start := text.find("[", place)) >= 0 and not text[place:start].strip(" \t\r\n,"):
        stop = text.find("]", start)
        if stop < 0 or text.find('"', start, stop) >= 0 or text.find("[", start + 1, stop) >= 0:
            return None
        spans.append((start + 1, stop))
        place = stop + 1
    end = text.find("]", place)
    if end < 0 or text[place:end].strip() or not spans:
        return None
    return GapRows(text, tuple(spans)), end + 1


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
        gaps = _gap_rows(text, member.end()) if key == _GAPS_KEY else None
        if gaps is not None:
            members[key], position = gaps
            continue
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


def _numbers(value: object) -> list[float | None]:
    """Return a JSON array as numbers; empty when it is no array."""
    return [finite_number(item) for item in value] if isinstance(value, list) else []


def bench_totals(members: Mapping[str, object]) -> dict[str, float]:
    """Return the totals of one result under canonical names, sorted by name."""
    totals: dict[str, float] = {}
    for key, value in members.items():
        name = _CANONICAL.get(key) or (key if _LATENCY.fullmatch(key) else None)
        number = finite_number(value) if name else None
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
    gaps_s: GapRows | tuple[tuple[float, ...], ...]
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

    def chunks(self, first: int, end: int) -> pl.DataFrame:
        """Return the chunks of some requests that brought any.

        Args:
            first: number of the first request.
            end: number behind the last one.

        Returns:
            ``index`` (of the request), ``start_ns``, ``chunk_no`` and ``since_ns`` (from its submission).
        """
        gaps = self._gaps(first, min(end, self.count))
        frame = pl.DataFrame(
            {
                "index": pl.Series(range(first, first + len(gaps)), dtype=pl.Int64),
                "start_ns": pl.Series(
                    [self.start_ns(first + place) for place in range(len(gaps))], dtype=pl.Int64
                ),
                "ttft_s": pl.Series(
                    [_at(self.ttfts_s, first + place) for place in range(len(gaps))], dtype=pl.Float64
                ),
                "gaps": gaps,
            }
        )
        # A request that failed states a time of 0 and has no gaps.
        came = frame.filter(
            pl.col("ttft_s").is_not_null() & ((pl.col("ttft_s") != 0) | (pl.col("gaps").list.len() > 0))
        )
        since_s = pl.concat_list("ttft_s", "gaps").list.eval(pl.element().cum_sum())
        # One sort key for all: the rows stay in the order of the file.
        return (
            came.select(
                "index",
                "start_ns",
                pl.int_ranges(0, pl.col("gaps").list.len() + 1, dtype=pl.Int32).alias("chunk_no"),
                since_s.alias("since_s"),
            )
            .explode("chunk_no", "since_s")
            .select(
                "index",
                "start_ns",
                "chunk_no",
                (pl.col("since_s") * NS_PER_S)
                .round(0, mode="half_to_even")
                .cast(pl.Int64, strict=False)
                .alias("since_ns"),
            )
        )

    def _gaps(self, first: int, end: int) -> pl.Series:
        """Return the gaps of some requests, empty lists where the file has none."""
        if isinstance(self.gaps_s, GapRows):
            known = self.gaps_s.between(first, end)
        else:
            known = pl.Series([list(row) for row in self.gaps_s[first:end]], dtype=pl.List(pl.Float64))
        missing = pl.Series([[]] * (end - first - len(known)), dtype=pl.List(pl.Float64))
        return pl.concat([known, missing])

    def latency_ns(self, index: int) -> int | None:
        """Return how long a request took as the file states it."""
        latency_s = _at(self.latencies_s, index)
        return round(latency_s * NS_PER_S) if latency_s else None

    @property
    def has_gaps(self) -> bool:
        """Whether the file has gaps at all, so that the last chunk is the end of a request."""
        return bool(self.gaps_s.spans if isinstance(self.gaps_s, GapRows) else self.gaps_s)

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
    lists = gaps if isinstance(gaps, list | GapRows) else []
    return BenchDetails(
        starts_ns=tuple(_exact_ns(start) for start in starts) if isinstance(starts, list) else (),
        ttfts_s=tuple(_numbers(members.get("ttfts"))),
        gaps_s=(
            lists
            if isinstance(lists, GapRows)
            else tuple(tuple(gap for gap in _numbers(row) if gap is not None) for row in lists)
        ),
        latencies_s=tuple(_numbers(members.get("latencies"))),
        prompt_tokens=tuple(_numbers(members.get("input_lens"))),
        output_tokens=tuple(_numbers(members.get("output_lens"))),
        error_kinds=tuple(_error_kind(error) for error in errors) if isinstance(errors, list) else (),
    )


def _exact_ns(seconds: object) -> int | None:
    """Return decimal seconds as nanoseconds without a detour through binary fractions."""
    is_number = isinstance(seconds, (str, int)) and not isinstance(seconds, bool)
    return scaled_to_ns(str(seconds), NS_PER_S) if is_number else None
