"""Frequent lines of a vLLM log as columns: stamps and messages, and what the messages say."""

import re
from collections.abc import Iterator
from itertools import repeat
from typing import Final

import polars as pl

from kvcliff.readers.lines.base import StatsRow
from kvcliff.readers.lines.vllm import KV_SEMANTICS
from kvcliff.readers.lines.vllm_hot import ID_LIMIT, ITERATION, STATS, limit_in

_SOURCES_LIMIT: Final = 256
_STAMP_LENGTH: Final = len("MM-DD HH:MM:SS")
_SOURCE = re.compile(r" \[?[\w./-]+\.py:\d+")
_RECEIVED, _ADDED = "Received request ", "Added request "
_STATS, _ITERATION = (f"^(?:{pattern.pattern.decode()})$" for pattern in (STATS, ITERATION))
_PRINTABLE: Final = "^[!-~]+$"


def messages_of(heads: pl.DataFrame) -> pl.DataFrame | None:
    """Return stamp and message of lines given from their stamp on; those of other heads are left out."""
    parts = heads["text"].str.slice(_STAMP_LENGTH).str.splitn("] ", 2).struct.unnest()
    sources = parts["field_0"].unique().drop_nulls().to_list()
    if len(sources) > _SOURCES_LIMIT:
        return None
    known = [source for source in sources if _SOURCE.fullmatch(source)]
    return (
        heads.with_columns(pl.col("text").str.slice(0, _STAMP_LENGTH).alias("stamp"))
        .hstack(parts)
        .filter(pl.col("field_0").is_in(known) & pl.col("field_1").is_not_null())
        .select("place", "engine", "stamp", pl.col("field_1").alias("message"))
    )


def events_of(headed: pl.DataFrame) -> pl.DataFrame:
    """Return the requests that came in, as :mod:`~kvcliff.readers.lines.vllm_hot` reads them."""
    message, name = pl.col("message"), pl.col("name")
    received = headed.filter(message.str.starts_with(_RECEIVED))
    parts = received["message"].str.slice(len(_RECEIVED)).str.splitn(" ", 2).struct.unnest()
    tails = parts["field_1"].unique(maintain_order=True).drop_nulls().to_list()
    limits = [limit_in(tail.encode()) for tail in tails]
    received = (
        received.select("place", "engine")
        .hstack(parts)
        .filter(pl.col("field_0").str.ends_with(":"))
        .select(
            "place",
            "engine",
            pl.lit("request_received").alias("kind"),
            pl.col("field_0").str.head(-1).alias("name"),
            pl.col("field_1")
            .replace_strict(tails, limits, return_dtype=pl.Int64, default=None)
            .alias("tokens"),
        )
        .filter(pl.col("tokens").is_not_null())
    )
    added = headed.filter(message.str.starts_with(_ADDED)).select(
        "place",
        "engine",
        pl.lit("request_added").alias("kind"),
        message.str.slice(len(_ADDED)).str.strip_suffix(".").alias("name"),
        pl.lit(None, pl.Int64).alias("tokens"),
    )
    events = pl.concat([received, added]).sort("place")
    events = events.filter(name.str.contains(_PRINTABLE) & (name.str.len_bytes() <= ID_LIMIT))
    text, number, real = (pl.lit(None, kind) for kind in (pl.String, pl.Int64, pl.Float64))
    return events.select(
        "place",
        "engine",
        "kind",
        text.alias("mode"),
        name.alias("request_id"),
        number.alias("cumulative_count"),
        "tokens",
        number.alias("bytes"),
        real.alias("duration_ms"),
        number.alias("load_bytes"),
        real.alias("load_ms"),
        number.alias("event_count"),
    )


def _extracted_from(headed: pl.DataFrame, starts: tuple[str, ...], pattern: str) -> pl.DataFrame:
    """Return the groups of the messages that the pattern takes."""
    found = headed.filter(pl.any_horizontal(pl.col("message").str.starts_with(start) for start in starts))
    groups = found["message"].str.extract_groups(pattern).struct.unnest()
    return found.select("place", "engine").hstack(groups)


def _ratio(percentages: pl.Series) -> pl.Series:
    """Return percentages within 0-100 as 0-1 ratios, rounded as Python rounds."""
    values = percentages.cast(pl.Float64)
    # A column of divisors: division by one number is a multiplication by its rounded inverse there.
    ratios = values / pl.Series([100.0]).new_from_index(0, len(values))
    return pl.select(pl.when(values <= 100).then(ratios)).to_series()


def stats_of(headed: pl.DataFrame) -> pl.DataFrame:
    """Return the statistics lines with the fields that they usually have."""
    found = _extracted_from(headed, ("Engine ",), _STATS).filter(pl.col("1").is_not_null())
    return found.select(
        "place",
        pl.col("1").cast(pl.Int64).cast(pl.String).alias("engine"),
        pl.col("2").cast(pl.Float64).alias("prompt"),
        pl.col("3").cast(pl.Float64).alias("generation"),
        pl.col("4").cast(pl.Int64).alias("running"),
        pl.col("5").cast(pl.Int64).alias("waiting"),
        _ratio(found["6"]).alias("used"),
        _ratio(found["7"]).alias("hit"),
    )


def stats_rows(part: pl.DataFrame) -> Iterator[StatsRow]:
    """Yield the rows of statistics lines: objects, since a hit rate on a later line may belong to one."""
    none: Iterator[None] = repeat(None)
    given = {name: iter(part[name].to_list()) for name in part.columns}
    columns: dict[str, Iterator[object]] = {
        "line_no": given["line_no"],
        "src_ns": given["src_ns"],
        "engine": given["engine"],
        "engine_count": repeat(1),
        "kv_semantics": repeat(KV_SEMANTICS),
        "prompt_tokens_per_s": given["prompt"],
        "gen_tokens_per_s": given["generation"],
        "running_count": given["running"],
        "waiting_count": given["waiting"],
        "kv_used_ratio": given["used"],
        "prefix_hit_ratio": given["hit"],
    }
    return map(StatsRow._make, zip(*(columns.get(name, none) for name in StatsRow._fields), strict=False))


def iterations_of(headed: pl.DataFrame) -> pl.DataFrame:
    """Return the iteration lines without further fields."""
    found = _extracted_from(headed, ("Iteration(", "Engine "), _ITERATION).filter(pl.col("2").is_not_null())
    counts = ("iteration", "context_requests", "context_tokens", "generation_requests", "generation_tokens")
    stated = pl.col("1").cast(pl.Int64).cast(pl.String)
    return found.select(
        "place",
        pl.coalesce(stated, pl.col("engine")).alias("engine"),
        *(pl.col(str(group)).cast(pl.Int64).alias(name) for group, name in enumerate(counts, start=2)),
        pl.col("7").cast(pl.Float64).alias("elapsed_ms"),
        _ratio(found["8"]).alias("kv_used_ratio"),
        pl.lit(False).alias("is_dummy"),
        pl.lit(None, pl.String).alias("kv_semantics"),
        pl.lit(None, pl.Float64).alias("previous_device_ms"),
        pl.lit(None, pl.Boolean).alias("is_warmup"),
    )
