"""The clock differences under which two sources saw the same load: requests first, KV never alone."""

from typing import Final

import duckdb
import polars as pl

from kvcliff.clocks.events import query_frame
from kvcliff.clocks.fit import RIVAL_RATIO, Fit, Interval, merged

#: Samples miss what happens between them, so a shape is no better known than this.
_RESIDUAL_NS: Final = 500_000_000
#: Gauges are refreshed by the engine, not at the moment when they are read.
_SLACK_NS: Final = 100_000_000
#: Occupancies of one moment differ by no more than this between log and gauge.
_KV_TOLERANCE: Final = 0.02
#: Between two samples a large batch loses and regains this share of its requests; a queue is steadier.
_TOLERANCES: Final = {"running": 0.02}
_MIN_SAMPLES: Final = 10
#: A load that changes less often than this has no shape.
_MIN_CHANGES: Final = 4
_MAX_VIOLATED_SHARE: Final = 0.25
_RIVAL_VIOLATED_SHARE: Final = 0.03
_PAIR_BUDGET: Final = 600_000
_PAIRS_AT_ONCE: Final = 200_000
_MIN_KEPT_SAMPLES: Final = 60
#: Curves that must agree, the first set that both sides have; KV never decides alone.
_CURVES: Final = (("running", "waiting"), ("unfinished",))


def log_samples(con: duckdb.DuckDBPyConnection, source_id: int, stamp_ns: int) -> pl.DataFrame:
    """Return the load in the statistics lines of a log of one engine.

    Args:
        con: connection with the raw tables.
        source_id: the log.
        stamp_ns: [ns] width of its stamps.
    """
    return query_frame(
        con,
        """
        select
            src_ns as lo_ns, src_ns + ? as hi_ns, cast(running_count as double) as running,
            cast(waiting_count as double) as waiting,
            cast(running_count + waiting_count + coalesce(swapped_count, 0) as double) as unfinished,
            kv_used_ratio as kv
        from temp.raw_log_stats
        where source_id = ? and src_ns is not null and running_count is not null and waiting_count is not null
            -- the line of a prefill counts its own new requests neither as running nor as waiting
            and (kv_semantics is distinct from 'live_tokens' or gen_tokens_per_s is not null)
            and (select count(distinct engine) from temp.raw_log_stats where source_id = ?) = 1
        order by line_no
        """,
        [stamp_ns, source_id, source_id],
    )


def gauge_samples(con: duckdb.DuckDBPyConnection, source_id: int) -> pl.DataFrame:
    """Return the load in the gauges of a series of scrapes, summed over engines (the fullest one for KV)."""
    names = (
        ("running", "num_requests_running"),
        ("running", "num_running_reqs"),
        ("waiting", "num_requests_waiting"),
        ("waiting", "num_queue_reqs"),
        ("kv", "kv_cache_usage_perc"),
        ("kv", "gpu_cache_usage_perc"),
        ("kv", "token_usage"),
    )
    return query_frame(
        con,
        """
        with
        gauges as (
            select m.series_id, s.curve
            from temp.raw_metric_series as m
            inner join (select unnest(?::varchar[]) as curve, unnest(?::varchar[]) as name) as s
                on regexp_replace(m.name, '^[^:]*:', '') = s.name
            where m.source_id = ? and m.le is null
        ),
        loads as (
            select
                v.scrape_no,
                sum(v.value) filter (where g.curve = 'running') as running,
                sum(v.value) filter (where g.curve = 'waiting') as waiting,
                max(v.value) filter (where g.curve = 'kv') as kv
            from temp.raw_metric_samples as v
            inner join gauges as g on v.series_id = g.series_id
            where v.source_id = ?
            group by v.scrape_no
        )
        select
            s.src_ns as lo_ns, coalesce(s.end_src_ns, s.src_ns) as hi_ns, l.running, l.waiting,
            l.running + l.waiting as unfinished, l.kv
        from loads as l
        inner join temp.raw_metric_scrapes as s on l.scrape_no = s.scrape_no
        where s.source_id = ? and coalesce(s.is_timed, true) and s.src_ns is not null
            and l.running is not null and l.waiting is not null
        order by s.scrape_no
        """,
        [[curve for curve, _ in names], [name for _, name in names], source_id, source_id, source_id],
    )


def client_samples(con: duckdb.DuckDBPyConnection, source_id: int) -> pl.DataFrame:
    """Return the number of a client's unfinished requests, before and after each change."""
    return query_frame(
        con,
        """
        with
        moves as (
            select request_no, unnest([submit_src_ns, done_src_ns]) as at_ns, unnest([1, -1]) as step
            from temp.raw_client_requests
            where source_id = ? and submit_src_ns is not null and done_src_ns is not null
        ),
        levels as (
            select
                at_ns, sum(step) over (order by at_ns, step, request_no) as level, step,
                row_number() over (order by at_ns, step, request_no) as position
            from moves
        )
        select
            at_ns as lo_ns, at_ns as hi_ns, null::double as running, null::double as waiting,
            cast(unnest([level - step, level]) as double) as unfinished, null::double as kv
        from levels
        order by position, unnest([0, 1])
        """,
        [source_id],
    )


def fit_load(samples: pl.DataFrame, curve: pl.DataFrame) -> Fit | None:
    """Return the clock differences under which the samples lie on the curve, or ``None`` when none do.

    A sample lies on the curve where each of its values is between those of two neighbours on the curve.
    Samples that the curve does not reach say nothing; those off the curve count against the difference.

    Args:
        samples: times (``lo_ns``, ``hi_ns``) and values of the load; the side with fewer rows.
        curve: the same, denser.
    """
    names = next((names for names in _CURVES if all(_has(side, names) for side in (samples, curve))), None)
    if names is None or samples.height < _MIN_SAMPLES:
        return None
    if min(_change_count(side, names) for side in (samples, curve)) < _MIN_CHANGES:
        return None
    room = max(_PAIR_BUDGET // curve.height, _MIN_KEPT_SAMPLES)
    thinned = samples.gather_every(-(-samples.height // room)).with_row_index("sample_no")
    pieces = _pieces(curve, (*names, "kv"))
    hits = _hits(thinned, pieces, names)
    whole = (int(pieces["from_ns"].min()), int(pieces["until_ns"].max()))  # type: ignore[arg-type]
    return _decide(_scores(thinned, hits, whole))


def _has(side: pl.DataFrame, names: tuple[str, ...]) -> bool:
    return side.height > 0 and all(side[name].null_count() == 0 for name in names)


def _change_count(side: pl.DataFrame, names: tuple[str, ...]) -> int:
    changed = pl.any_horizontal(pl.col(name) != pl.col(name).shift(1) for name in names)
    return int(side.select(changed.sum()).item() or 0)


def _pieces(curve: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
    """Return the curve between each two neighbours: the time and the range of each value."""
    ranges = [
        bound
        for name in names
        for bound in (
            pl.min_horizontal(name, pl.col(name).shift(-1)).alias(f"{name}_least"),
            pl.max_horizontal(name, pl.col(name).shift(-1)).alias(f"{name}_most"),
        )
    ]
    times = (pl.col("lo_ns").alias("from_ns"), pl.col("hi_ns").shift(-1).alias("until_ns"))
    return curve.select(*times, *ranges).head(-1)


def _hits(samples: pl.DataFrame, pieces: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
    """Return, per sample, the disjoint ranges of differences that put it on the curve."""
    fits = pl.all_horizontal(
        pl.col(name).is_between(
            pl.col(f"{name}_least") - _TOLERANCES.get(name, 0.0) * pl.col(f"{name}_most"),
            pl.col(f"{name}_most") * (1 + _TOLERANCES.get(name, 0.0)),
        )
        for name in names
    )
    near = pl.col("kv").is_between(pl.col("kv_least") - _KV_TOLERANCE, pl.col("kv_most") + _KV_TOLERANCE)
    # A cross join is held in memory, so that it is made for a few samples at a time.
    batch_size = max(_PAIRS_AT_ONCE // max(pieces.height, 1), 1)
    parts = [
        batch.join(pieces, how="cross")
        .filter(fits & near.fill_null(value=True))
        .select(
            "sample_no",
            (pl.col("from_ns") - pl.col("hi_ns") - _SLACK_NS).alias("low"),
            (pl.col("until_ns") - pl.col("lo_ns") + _SLACK_NS).alias("high"),
        )
        for batch in samples.iter_slices(batch_size)
    ]
    ranges = pl.concat(parts).sort("sample_no", "low", "high")
    reach = pl.col("high").cum_max().over("sample_no").shift(1).over("sample_no")
    islands = ranges.with_columns(
        (pl.col("low") > reach).fill_null(value=True).cum_sum().alias("island"),
    )
    return islands.group_by("island").agg(pl.col("low").min(), pl.col("high").max())


def _scores(samples: pl.DataFrame, hits: pl.DataFrame, whole: Interval) -> pl.DataFrame:
    """Return the pieces of the line of differences: how many samples are reached, how many on the curve."""
    reached = samples.select(
        (whole[0] - pl.col("lo_ns")).alias("low"),
        (whole[1] - pl.col("hi_ns")).alias("high"),
    ).filter(pl.col("low") < pl.col("high"))
    edges = [
        side.select(pl.col(end).alias("at_ns"), pl.lit(hit).alias("hit"), pl.lit(reach).alias("reach"))
        for side, end, hit, reach in (
            (hits, "low", 1, 0),
            (hits, "high", -1, 0),
            (reached, "low", 0, 1),
            (reached, "high", 0, -1),
        )
    ]
    line = pl.concat(edges).group_by("at_ns").agg(pl.col("hit").sum(), pl.col("reach").sum()).sort("at_ns")
    return line.select(
        "at_ns",
        pl.col("at_ns").shift(-1).alias("until_ns"),
        pl.col("hit").cum_sum().alias("hit_count"),
        pl.col("reach").cum_sum().alias("reached_count"),
    ).drop_nulls()


def _most(counts: pl.Series) -> int:
    return int(counts.max() or 0)  # type: ignore[arg-type]


def _decide(line: pl.DataFrame) -> Fit | None:
    """Return the best differences and all that are nearly as good."""
    scored = line.with_columns((pl.col("reached_count") - pl.col("hit_count")).clip(0).alias("missed_count"))
    likely = scored.filter(
        (pl.col("reached_count") >= max(_MIN_SAMPLES, 0.5 * _most(scored["reached_count"])))
        & (pl.col("missed_count") <= _MAX_VIOLATED_SHARE * pl.col("reached_count"))
    )
    if likely.height == 0:
        return None
    ranked = likely.with_columns((pl.col("hit_count") - pl.col("missed_count")).alias("score"))
    best = ranked.sort(["score", "at_ns"], descending=[True, False]).row(0, named=True)
    allowance = pl.max_horizontal(_RIVAL_VIOLATED_SHARE * pl.col("reached_count"), 1)
    rivals = ranked.filter(
        (pl.col("hit_count") * RIVAL_RATIO >= best["hit_count"])
        & (pl.col("missed_count") <= best["missed_count"] * RIVAL_RATIO + allowance)
    )
    allowed = merged(rivals.select("at_ns", "until_ns").rows())
    core = (int(best["at_ns"]), int(best["until_ns"]))
    return Fit(core, allowed, _SLACK_NS, _RESIDUAL_NS, int(best["reached_count"]), int(best["missed_count"]))
