"""Reader of kvcliff's own client format: one JSON object per request, with the time of every token.

The fields are documented in ``README.md`` beside this module. A typed column reader takes whole chunks; a
chunk with a damaged line is halved until the line stands alone.
"""

import re
from typing import Final

import polars as pl

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.settings import Setting, settings_frame

_CHUNK_BYTES: Final = 8 << 20
_LINE_LIMIT_BYTES: Final = 256 << 20
_HTTP_OK: Final = 200
_TAG_LIMIT: Final = 100
_WARMUP: Final = "warmup"
_CLASS_NAME = r"^\s*([A-Za-z_][A-Za-z0-9_.]{0,79})\s*(?:\(|:|$)"
_USAGE: Final = pl.Struct(
    {
        "prompt_tokens": pl.Int64,
        "completion_tokens": pl.Int64,
        "prompt_tokens_details": pl.Struct({"cached_tokens": pl.Int64}),
    }
)
#: Every field that is read; anything else in a line is passed over.
_SCHEMA: Final = pl.Schema(
    {
        "id": pl.String(),
        "tag": pl.String(),
        "submit_ns": pl.Int64(),
        "prompt_tokens": pl.Int64(),
        "max_tokens": pl.Int64(),
        "concurrency": pl.Int64(),
        "token_ns": pl.List(pl.Int64),
        "chunk_tokens": pl.List(pl.Int64),
        "done_ns": pl.Int64(),
        "usage": _USAGE,
        "error": pl.String(),
        "status": pl.Int64(),
    }
)
_FIRST_FIELD: Final = re.compile(rb'\s*\{\s*"[a-z_]+"\s*:')


def _sniff(source: Source) -> Sniff:
    """Return how much the head looks like request lines with token times."""
    if _FIRST_FIELD.match(source.head) and b'"submit_ns"' in source.head and b'"token_ns"' in source.head:
        return Sniff(95, "request lines with token times (kvcliff's client format)")
    return NO_MATCH


class _Loader:
    """State of one load: how many requests are written, and what could not be read."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.request_count = 0
        self.row_count = 0
        self.skipped_count = 0
        self.first_skip_reason: str | None = None

    def take(self, lines: list[bytes]) -> None:
        """Read whole lines; halve them until a damaged one stands alone."""
        text = b"\n".join(lines)
        if not text.strip():
            return
        try:
            # An empty line in front: text that begins like a compressed file would be unpacked without limit.
            frame = pl.read_ndjson(b"\n" + text, schema=_SCHEMA)
        except pl.exceptions.PolarsError:
            if len(lines) == 1:
                self._skip("line is no JSON object with the documented fields", 1)
                return
            middle = len(lines) // 2
            self.take(lines[:middle])
            self.take(lines[middle:])
            return
        self._write(frame)

    def _skip(self, reason: str, count: int) -> None:
        """Count requests that could not be read."""
        if count:
            self.skipped_count += count
            self.first_skip_reason = self.first_skip_reason or reason

    def _write(self, frame: pl.DataFrame) -> None:
        """Write requests and their tokens."""
        dated = frame.filter(pl.col("submit_ns").is_not_null())
        self._skip("request without submit_ns", frame.height - dated.height)
        if not dated.height:
            return
        numbered = dated.with_row_index("request_no", self.request_count).with_columns(
            pl.col("request_no").cast(pl.Int64),
            pl.col("token_ns").fill_null(pl.lit([], dtype=pl.List(pl.Int64))),
        )
        self.request_count += numbered.height
        self.row_count += self._sink.append("raw_client_requests", _requests(numbered))
        tokens = _tokens(numbered)
        if tokens.height:
            self.row_count += self._sink.append("raw_client_tokens", tokens)


def _requests(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of ``raw_client_requests``."""
    usage = pl.col("usage").struct
    counted = pl.coalesce(pl.col("chunk_tokens").list.sum(), pl.col("token_ns").list.len().cast(pl.Int64))
    first_ns = pl.col("token_ns").list.first()
    error_kind = _error_kind()
    return frame.select(
        "request_no",
        pl.col("id").str.slice(0, _TAG_LIMIT).alias("request_id"),
        pl.col("tag").str.slice(0, _TAG_LIMIT),
        pl.col("submit_ns").alias("submit_src_ns"),
        first_ns.alias("first_token_src_ns"),
        pl.col("done_ns").alias("done_src_ns"),
        (first_ns - pl.col("submit_ns")).alias("ttft_ns"),
        pl.coalesce(usage.field("prompt_tokens"), pl.col("prompt_tokens")).alias("prompt_tokens"),
        pl.coalesce(usage.field("completion_tokens"), counted).alias("output_tokens"),
        "max_tokens",
        usage.field("prompt_tokens_details").struct.field("cached_tokens").alias("cached_tokens"),
        "concurrency",
        error_kind.is_not_null().alias("is_error"),
        (pl.col("tag") == _WARMUP).fill_null(False).alias("is_warmup"),
        error_kind.alias("error_kind"),
    )


def _error_kind() -> pl.Expr:
    """Return the class of a request's failure, null when it succeeded; never the error's text."""
    named = pl.coalesce(pl.col("error").str.extract(_CLASS_NAME), pl.lit("error"))
    return (
        pl.when(pl.col("error").is_not_null())
        .then(named)
        .when(pl.col("status").is_not_null() & (pl.col("status") != _HTTP_OK))
        .then(pl.concat_str(pl.lit("http_"), pl.col("status").cast(pl.String)))
        .when(pl.col("done_ns").is_null())
        .then(pl.lit("incomplete"))
    )


def _tokens(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of ``raw_client_tokens``: one per chunk, with the tokens that came in it.

    ``token_ns`` has one time per token (tokens of one chunk repeat it) or one per chunk; ``chunk_tokens``
    that fits neither is left aside.
    """
    times, counts = pl.col("token_ns"), pl.col("chunk_tokens")
    first_places = counts.list.eval(pl.element().cum_sum() - pl.element())
    is_per_chunk = (counts.list.len() == times.list.len()).fill_null(False)
    is_per_token = (counts.list.sum() == times.list.len()).fill_null(False) & ~is_per_chunk
    chunk_times = (
        pl.when(is_per_token).then(times.list.gather(first_places, null_on_oob=True)).otherwise(times)
    )
    ones = pl.lit(1, dtype=pl.Int64).repeat_by(times.list.len())
    return (
        frame.filter(times.list.len() > 0)
        .select(
            "request_no",
            chunk_times.alias("src_ns"),
            pl.when(is_per_chunk | is_per_token).then(counts).otherwise(ones).alias("tokens"),
        )
        .with_columns(pl.int_ranges(0, pl.col("src_ns").list.len(), dtype=pl.Int32).alias("chunk_no"))
        .explode("src_ns", "tokens", "chunk_no")
        .filter(pl.col("src_ns").is_not_null())
        .with_columns(pl.col("tokens").fill_null(1).cast(pl.Int32, strict=False))
    )


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Stream the lines into the client tables."""
    loader = _Loader(sink)
    rest = b""
    with source.open() as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()[:_LINE_LIMIT_BYTES]
            loader.take(lines)
        damage = stream.damage
    skipped_before = loader.skipped_count
    loader.take([rest])
    if damage is None and rest.strip() and loader.skipped_count > skipped_before:
        damage = "the file ends inside a line"
    if loader.request_count:
        clock = settings_frame([Setting(1, "", "client_clock", "unix")])
        loader.row_count += sink.append("raw_settings", clock)
    return LoadReport(loader.row_count, loader.skipped_count, loader.first_skip_reason, damage)


READER = Reader(
    name="kvcliff_client",
    title="kvcliff client requests (JSON lines)",
    tables=("raw_client_requests", "raw_client_tokens", "raw_settings"),
    sniff=_sniff,
    load=_load,
    role="client",
    tried_on_real_files=True,
)
