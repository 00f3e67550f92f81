"""Rows of load clients on their way to the raw tables: requests, token times, totals and the clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import polars as pl

from kvcliff.readers.base import LoadReport, RowCounter, Sink, SkipCount
from kvcliff.readers.settings import Setting, settings_frame, without_folders
from kvcliff.units import NS_PER_S

ClientClock = Literal["unix", "monotonic", "none"]
CLIENT_TABLES: Final = (
    "raw_client_summary",
    "raw_client_requests",
    "raw_client_tokens",
    "raw_settings",
)
_FLUSH_REQUESTS: Final = 20_000
_FLUSH_TOKENS: Final = 500_000
_TEXT_LIMIT: Final = 200
_INT64_LIMIT: Final = 1 << 63
_GAP_LIMIT_S: Final = 1e9
_REQUEST_SCHEMA: Final = pl.Schema(
    {
        "request_no": pl.Int64(),
        "request_id": pl.String(),
        "tag": pl.String(),
        "submit_src_ns": pl.Int64(),
        "first_token_src_ns": pl.Int64(),
        "last_token_src_ns": pl.Int64(),
        "done_src_ns": pl.Int64(),
        "ttft_ns": pl.Int64(),
        "latency_ns": pl.Int64(),
        "prompt_tokens": pl.Int64(),
        "output_tokens": pl.Int64(),
        "max_tokens": pl.Int64(),
        "cached_tokens": pl.Int64(),
        "concurrency": pl.Int64(),
        "is_error": pl.Boolean(),
        "is_warmup": pl.Boolean(),
        "error_kind": pl.String(),
    }
)


@dataclass(frozen=True)
class ClientRequest:
    """One request as a client wrote it down; times are on the client's own clock.

    Attributes:
        submit_ns: when it was sent; ``None`` when the client keeps no times.
        ttft_ns: time to first token as the client states it; else it follows from ``chunks_ns``.
        first_token_ns: first token, for clients that keep no token times.
        last_token_ns: last token, for the same.
        done_ns: end of the stream or of the failure.
        latency_ns: whole request as the client states it.
        chunks_ns: arrival of each chunk.
        gaps_ns: where no times are known: time to the first chunk, then the gap before each other.
        error_kind: class of the failure; ``None`` when it succeeded.
    """

    request_id: str | None = None
    tag: str | None = None
    submit_ns: int | None = None
    ttft_ns: int | None = None
    first_token_ns: int | None = None
    last_token_ns: int | None = None
    done_ns: int | None = None
    latency_ns: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    max_tokens: int | None = None
    cached_tokens: int | None = None
    concurrency: int | None = None
    is_warmup: bool = False
    error_kind: str | None = None
    chunks_ns: Sequence[int] = ()
    gaps_ns: Sequence[int] = ()


class ClientWriter(SkipCount):
    """Collects rows and writes them in chunks.

    Attributes:
        request_count: requests taken so far.
        unstarted_count: those without a start time.
    """

    def __init__(self, sink: Sink) -> None:
        self._rows = RowCounter(sink)
        self._requests: list[tuple[int | str | bool | None, ...]] = []
        self._token_numbers: list[int] = []
        self._token_chunks: list[int] = []
        self._token_times: list[int | None] = []
        self._token_gaps: list[int | None] = []
        self._totals: dict[tuple[int, str], float] = {}
        self._settings: dict[str, str] = {}
        self.request_count = 0
        self.unstarted_count = 0

    def add_or_skip(self, request: ClientRequest | None, reason: str) -> None:
        """Take one request, or count one that could not be read."""
        if request is None:
            self.skip(reason)
        else:
            self.add(request)

    def add(self, request: ClientRequest) -> None:
        """Take one request and its chunks."""
        number = self.request_count
        first_ns = request.first_token_ns
        if request.chunks_ns:
            first_ns = request.chunks_ns[0]
        elif first_ns is None and request.submit_ns is not None and request.ttft_ns is not None:
            first_ns = request.submit_ns + request.ttft_ns
        ttft_ns = request.ttft_ns
        if ttft_ns is None and request.gaps_ns:
            ttft_ns = request.gaps_ns[0]
        elif ttft_ns is None and first_ns is not None and request.submit_ns is not None:
            ttft_ns = first_ns - request.submit_ns
        row = (
            number,
            request.request_id,
            request.tag,
            request.submit_ns,
            _int64(first_ns),
            request.last_token_ns,
            _int64(request.done_ns),
            _int64(ttft_ns),
            request.latency_ns,
            request.prompt_tokens,
            request.output_tokens,
            request.max_tokens,
            request.cached_tokens,
            request.concurrency,
            request.error_kind is not None,
            request.is_warmup,
            request.error_kind,
        )
        self._requests.append(row)
        self._take_chunks(number, request.chunks_ns, request.gaps_ns)
        self.request_count += 1
        self.unstarted_count += request.submit_ns is None
        if len(self._requests) >= _FLUSH_REQUESTS or len(self._token_numbers) >= _FLUSH_TOKENS:
            self._flush()

    def _take_chunks(self, number: int, chunks_ns: Sequence[int], gaps_ns: Sequence[int]) -> None:
        """Take the chunks of one request: times where they are known, else gaps."""
        size = len(chunks_ns) or len(gaps_ns)
        self._token_numbers.extend([number] * size)
        self._token_chunks.extend(range(size))
        self._token_times.extend(_all_int64(chunks_ns) or [None] * size)
        self._token_gaps.extend([None] * size if chunks_ns else _all_int64(gaps_ns))

    def add_gaps(self, requests: pl.DataFrame) -> None:
        """Write the gaps of requests that are added without them.

        Args:
            requests: ``request_no`` and ``gaps_s``: seconds to the first chunk, then before each other.
        """
        is_gap = pl.element().is_between(0, _GAP_LIMIT_S, closed="left")
        if not requests.select(pl.col("gaps_s").list.explode().is_between(0, _GAP_LIMIT_S).all()).item():
            requests = requests.with_columns(pl.col("gaps_s").list.eval(pl.element().filter(is_gap)))
        gap_ns = (pl.col("gaps_s") * NS_PER_S).round(0, mode="half_to_even").cast(pl.Int64, strict=False)
        tokens = (
            requests.with_columns(
                pl.int_ranges(0, pl.col("gaps_s").list.len(), dtype=pl.Int32).alias("chunk_no")
            )
            .explode("chunk_no", "gaps_s")
            .select(
                "request_no",
                "chunk_no",
                pl.lit(None, pl.Int64).alias("src_ns"),
                gap_ns.alias("gap_ns"),
                pl.lit(1, pl.Int32).alias("tokens"),
            )
        )
        self._rows.append("raw_client_tokens", tokens)

    def total(self, load_no: int, name: str, value: float | None) -> None:
        """Take a total of one load under its canonical name; the first of a name stays."""
        if value is not None:
            self._totals.setdefault((load_no, name), value)

    def setting(self, name: str, value: object) -> None:
        """Take a fact about model or engine; a model name loses its folders, the first of a name stays."""
        if isinstance(value, bool) or not isinstance(value, (str, int, float)) or value == "":
            return
        text = without_folders(value) if isinstance(value, str) and name == "model_name" else str(value)
        if text:
            self._settings.setdefault(name, text[:_TEXT_LIMIT])

    def _flush(self) -> None:
        """Write the requests and chunks collected so far."""
        self._rows.append("raw_client_requests", pl.DataFrame(self._requests, _REQUEST_SCHEMA, orient="row"))
        tokens = pl.DataFrame(
            {
                "request_no": pl.Series(self._token_numbers, dtype=pl.Int64),
                "chunk_no": pl.Series(self._token_chunks, dtype=pl.Int32),
                "src_ns": pl.Series(self._token_times, dtype=pl.Int64),
                "gap_ns": pl.Series(self._token_gaps, dtype=pl.Int64),
                "tokens": pl.Series([1] * len(self._token_numbers), dtype=pl.Int32),
            }
        )
        self._rows.append("raw_client_tokens", tokens)
        self._requests.clear()
        for column in (self._token_numbers, self._token_chunks):
            column.clear()
        self._token_times.clear()
        self._token_gaps.clear()

    def finish(self, clock: ClientClock, damage: str | None = None, notes: Sequence[str] = ()) -> LoadReport:
        """Write what is left and return what the load brought.

        Args:
            clock: clock of the start times, when there are any.
            damage: why the file counts as cut or broken.
            notes: what the reader of a report should know.
        """
        self._flush()
        keys = sorted(self._totals)
        summary = pl.DataFrame(
            {
                "load_no": pl.Series([load_no for load_no, _ in keys], dtype=pl.Int32),
                "name": pl.Series([name for _, name in keys], dtype=pl.String),
                "value": pl.Series([self._totals[key] for key in keys], dtype=pl.Float64),
            }
        )
        self._rows.append("raw_client_summary", summary)
        if self.request_count:
            has_times = self.unstarted_count < self.request_count
            self._settings["client_clock"] = clock if has_times else "none"
        self._rows.append("raw_settings", _settings(self._settings))
        return LoadReport(
            self._rows.row_count,
            self.skipped_count,
            self.first_skip_reason,
            damage,
            (*self._clock_notes(), *notes),
        )

    def _clock_notes(self) -> tuple[str, ...]:
        """Return what is to be said about requests without a start time."""
        if not self.unstarted_count:
            return ()
        return (f"{self.unstarted_count} requests have no start time: only gaps and lengths are known",)


def _settings(settings: Mapping[str, str]) -> pl.DataFrame:
    """Return the rows of ``raw_settings``, in order of their names."""
    return settings_frame([Setting(1, "", name, settings[name]) for name in sorted(settings)])


def _all_int64(values: Sequence[int]) -> Sequence[int | None]:
    """Return numbers with ``None`` for each that does not fit the column; mostly all fit."""
    if not values or (max(values) < _INT64_LIMIT and min(values) > -_INT64_LIMIT):
        return values
    return [_int64(value) for value in values]


def _int64(value: int | None) -> int | None:
    """Return a number that fits the column, else ``None``."""
    return value if value is not None and -_INT64_LIMIT < value < _INT64_LIMIT else None
