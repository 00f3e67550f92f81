"""Reader of ``vllm bench serve`` results (``benchmark_serving.py`` before it), with or without details."""

from typing import Final

import polars as pl

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, RowCounter, Sink, Sniff, Source
from kvcliff.readers.gap_rows import GAP_BATCH
from kvcliff.readers.settings import Setting, settings_frame, without_folders
from kvcliff.readers.vllm_bench_result import (
    BenchDetails,
    BenchResult,
    bench_details,
    bench_results,
    bench_totals,
)

_HEAD_MARKS: Final = (b'"model_id"', b'"tokenizer_id"', b'"num_prompts"', b'"request_rate"')
_TEXT_LIMIT: Final = 200
_REQUEST_SCHEMA: Final = pl.Schema(
    {
        "submit_src_ns": pl.Int64(),
        "first_token_src_ns": pl.Int64(),
        "done_src_ns": pl.Int64(),
        "ttft_ns": pl.Int64(),
        "prompt_tokens": pl.Int64(),
        "output_tokens": pl.Int64(),
        "is_error": pl.Boolean(),
        "error_kind": pl.String(),
    }
)


def _sniff(source: Source) -> Sniff:
    """Return how much the head looks like a benchmark result."""
    head = source.head
    if head.lstrip()[:1] == b"{" and all(mark in head for mark in _HEAD_MARKS):
        return Sniff(90, "vllm bench serve result")
    return NO_MATCH


def _request(
    details: BenchDetails, index: int, ends_ns: tuple[int, int] | None
) -> tuple[int | bool | str | None, ...]:
    """Return one request in the order of the request schema.

    Args:
        details: arrays of the result.
        index: number of the request in it.
        ends_ns: when its first and its last chunk came, counted from its submission.
    """
    start_ns, latency_ns = details.start_ns(index), details.latency_ns(index)
    if latency_ns is None and ends_ns is not None and details.has_gaps:
        latency_ns = ends_ns[1]
    ttft_ns = ends_ns[0] if ends_ns is not None else None
    error_kind = details.error_kind(index)
    return (
        start_ns,
        start_ns + ttft_ns if start_ns is not None and ttft_ns is not None else None,
        start_ns + latency_ns if start_ns is not None and latency_ns is not None else None,
        ttft_ns,
        details.prompt_count(index),
        details.output_count(index),
        error_kind is not None,
        error_kind,
    )


class _Loader:
    """State of one load: numbers given so far."""

    def __init__(self, sink: Sink) -> None:
        self.rows = RowCounter(sink)
        self.request_count = 0
        self.unstarted_count = 0
        self.load_count = 0
        self.settings: list[Setting] = []

    def take(self, result: BenchResult) -> None:
        """Write one result."""
        totals = bench_totals(result.members)
        summary = pl.DataFrame(
            {
                "load_no": pl.Series([self.load_count] * len(totals), dtype=pl.Int32),
                "name": pl.Series(list(totals), dtype=pl.String),
                "value": pl.Series(list(totals.values()), dtype=pl.Float64),
            }
        )
        self.rows.append("raw_client_summary", summary)
        self.load_count += 1
        model = result.members.get("model_id")
        if isinstance(model, str) and model:
            self.settings.append(
                Setting(self.load_count, "", "model_name", without_folders(model)[:_TEXT_LIMIT])
            )
        details = bench_details(result.members)
        concurrency = totals.get("max_concurrency")
        for first in range(0, details.count, GAP_BATCH):
            end = min(first + GAP_BATCH, details.count)
            chunks = details.chunks(first, end)
            self.rows.append("raw_client_requests", self._requests(details, first, end, chunks, concurrency))
            self.rows.append("raw_client_tokens", self._tokens(chunks))
        self.request_count += details.count

    def _requests(
        self, details: BenchDetails, first: int, end: int, chunks: pl.DataFrame, concurrency: float | None
    ) -> pl.DataFrame:
        """Return rows of ``raw_client_requests``."""
        spans = chunks.group_by("index", maintain_order=True).agg(
            pl.col("since_ns").first().alias("first"), pl.col("since_ns").last().alias("last")
        )
        ends_ns = {index: (begun, ended) for index, begun, ended in spans.iter_rows()}
        rows = [_request(details, index, ends_ns.get(index)) for index in range(first, end)]
        self.unstarted_count += sum(row[0] is None for row in rows)
        frame = pl.DataFrame(rows, schema=_REQUEST_SCHEMA, orient="row")
        return frame.with_row_index("request_no", self.request_count + first).with_columns(
            pl.col("request_no").cast(pl.Int64),
            pl.lit(None if concurrency is None else int(concurrency), dtype=pl.Int64).alias("concurrency"),
            pl.lit(False).alias("is_warmup"),
        )

    def _tokens(self, chunks: pl.DataFrame) -> pl.DataFrame:
        """Return rows of ``raw_client_tokens``: times where starts are known, gaps where they are not."""
        gap_ns = pl.col("since_ns") - pl.col("since_ns").shift(1).over("index").fill_null(0)
        return chunks.select(
            (pl.col("index") + self.request_count).alias("request_no"),
            "chunk_no",
            (pl.col("start_ns") + pl.col("since_ns")).alias("src_ns"),
            pl.when(pl.col("start_ns").is_null()).then(gap_ns).alias("gap_ns"),
            pl.lit(1, dtype=pl.Int32).alias("tokens"),
        )


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Read every result of the file into the client tables."""
    with source.open() as stream:
        text = stream.read().decode("utf-8", "replace")
        damage = stream.damage
    loader = _Loader(sink)
    results, rest = bench_results(text)
    for result in results:
        loader.take(result)
        if not result.is_whole:
            damage = damage or "a result object ends or breaks before its closing brace"
    if not results:
        damage = damage or "the file holds no result object"
    notes: tuple[str, ...] = ()
    if loader.request_count:
        clock = "none" if loader.unstarted_count == loader.request_count else "monotonic"
        loader.settings.append(Setting(1, "", "client_clock", clock))
        if loader.unstarted_count:
            notes = (
                f"{loader.unstarted_count} requests have no start time: only gaps and lengths are known",
            )
    if loader.settings:
        loader.rows.append("raw_settings", settings_frame(loader.settings))
    has_rest = bool(rest and results)
    reason = "text after the last result object" if has_rest else None
    return LoadReport(loader.rows.row_count, int(has_rest), reason, damage, notes)


READER = Reader(
    name="vllm_bench",
    title="vllm bench serve result (JSON)",
    tables=("raw_client_summary", "raw_client_requests", "raw_client_tokens", "raw_settings"),
    sniff=_sniff,
    load=_load,
    role="client",
    tried_on_real_files=True,
)
