"""Interval voting: the clock differences that most shared events allow, whatever their numbering."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

#: A fit rests on at least this many events that both sides know.
MIN_EVENT_COUNT = 6
#: A second fit with more votes than the best divided by this is nearly as good.
RIVAL_RATIO = 1.3
#: Share of events that may contradict a fit (lost lines, swapped order) before it is refused.
MAX_VIOLATED_SHARE = 0.25
#: With fewer events than this, chance alone finds a fit in a periodic load: then the stricter limits hold.
FEW_EVENTS = 40
_FEW_RIVAL_RATIO = 2.0
_FEW_VIOLATED_SHARE = 0.1
#: Further contradicted share that a rival fit may have and still count as nearly as good.
RIVAL_VIOLATED_SHARE = 0.02
#: Pairs of events looked at in one round; more are thinned evenly and looked at again for the best shifts.
_PAIR_BUDGET = 100_000
_KEPT_SHIFTS = 24
#: Drift is told by the first and the last of so many parts; parts with too few events say nothing about it.
_PART_COUNTS = (8, 4, 2)
_MIN_PART_EVENTS = 10
_MIN_SAMPLE = 40
_PROBE_COUNT = 32
#: Numberings so long that even a thin sample would cost more than this are not compared.
_MAX_PAIRS = 2_000_000

Interval = tuple[int, int]


@dataclass(frozen=True)
class Fit:
    """The clock differences between two sources that their shared events allow.

    A difference is what to add to the left clock to get the right one.

    Attributes:
        core: [ns] the differences that fit best.
        allowed: [ns] all differences that fit nearly as well, as disjoint intervals in order.
        slack_ns: delay between the two sides' view of one event that is normal.
        residual_ns: by how much events contradict the middle of the core (95th percentile over all events).
        event_count: events that both sides know.
        violated_count: how many of them contradict the middle of the core.
        ends: [ns] least and greatest of the differences at the two ends of the run; ``None`` when both halves
            of the run allow one difference, or there are too few events to tell.
    """

    core: Interval
    allowed: tuple[Interval, ...]
    slack_ns: int
    residual_ns: int
    event_count: int
    violated_count: int
    ends: Interval | None = None

    @property
    def difference_ns(self) -> int:
        """Return the best single difference."""
        return (self.core[0] + self.core[1]) // 2

    @property
    def uncertainty_ns(self) -> int:
        """Return how far from the best difference the truth may lie."""
        at = self.difference_ns
        low, high = self.ends or (at, at)
        reach = max(at - self.allowed[0][0], self.allowed[-1][1] - at, at - low, high - at)
        # A delay on one side shifts all events alike: a sharp intersection may hide one more slack.
        return max(reach, self.slack_ns) + self.slack_ns + self.residual_ns

    def reversed(self) -> "Fit":
        """Return the same fit seen from the right source."""
        allowed = tuple((-high, -low) for low, high in reversed(self.allowed))
        ends = None if self.ends is None else (-self.ends[1], -self.ends[0])
        return replace(self, core=(-self.core[1], -self.core[0]), allowed=allowed, ends=ends)

    def narrowed_by(self, other: "Fit") -> "Fit":
        """Return what both fits allow; this one unchanged when they have nothing in common."""
        possible = merged(
            [(low - other.residual_ns, high + other.residual_ns) for low, high in other.allowed]
        )
        allowed = _common(self.allowed, possible)
        if not allowed:
            return self
        cores = (
            _common((self.core,), (other.core,))
            or _common((self.core,), allowed)
            or _common((other.core,), allowed)
            or allowed
        )
        known = [end for ends in (self.ends, other.ends) if ends is not None for end in ends]
        ends = (min(known), max(known)) if known else None
        return replace(self, core=_nearest(cores, self.difference_ns), allowed=allowed, ends=ends)


def _nearest(intervals: tuple[Interval, ...], at_ns: int) -> Interval:
    return min(intervals, key=lambda interval: (max(interval[0] - at_ns, at_ns - interval[1], 0), interval))


def _common(left: tuple[Interval, ...], right: tuple[Interval, ...]) -> tuple[Interval, ...]:
    """Return the intersection of two sets of intervals."""
    pieces = ((max(a[0], b[0]), min(a[1], b[1])) for a in left for b in right)
    return tuple(sorted(piece for piece in pieces if piece[0] <= piece[1]))


def merged(intervals: list[Interval]) -> tuple[Interval, ...]:
    """Return the union of intervals as disjoint ones in order."""
    result: list[Interval] = []
    for low, high in sorted(intervals):
        if result and low <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], high))
        else:
            result.append((low, high))
    return tuple(result)


def fit_events(
    left: pl.DataFrame,
    right: pl.DataFrame,
    *,
    slack_ns: int,
    shifts: Sequence[int] | None = None,
    prefers_last: bool = False,
) -> Fit | None:
    """Return the clock differences that most events of both sides allow, or ``None`` when none fits well.

    Each side lists numbered events with the earliest and latest time of each on its own clock. Event ``n`` of
    the left is event ``n + shift`` of the right; the shift is unknown, so each one is tried and all that
    are nearly as good as the best stay allowed.

    Args:
        left: columns ``ordinal``, ``lo_ns``, ``hi_ns``; the side with fewer rows.
        right: the same.
        slack_ns: delay between the two sides' view of one event that is normal.
        shifts: shifts to try; by default all with which at least half of the shorter side overlaps.
        prefers_last: among shifts that are nearly as good take the largest, not the one with most votes.
    """
    tried = _all_shifts(left, right) if shifts is None else shifts
    if left.height < MIN_EVENT_COUNT or right.height < MIN_EVENT_COUNT or len(tried) == 0:
        return None
    candidates = pl.DataFrame({"shift": pl.Series(tried, dtype=pl.Int64)})
    if not is_affordable(left, right, len(tried)):
        return None
    while (
        left.height * min(candidates.height, right.height) > _PAIR_BUDGET and candidates.height > _KEPT_SHIFTS
    ):
        sample_size = max(_MIN_SAMPLE, _PAIR_BUDGET // min(candidates.height, right.height))
        thinned = left.gather_every(max(-(-left.height // sample_size), 1))
        bounds = _bounds(thinned, right, candidates, slack_ns)
        candidates = _promising(
            _votes(_depths(bounds), bounds, least_count=1), max(candidates.height // 4, _KEPT_SHIFTS)
        )
    return _decide(_bounds(left, right, candidates, slack_ns), slack_ns, prefers_last=prefers_last)


def is_affordable(left: pl.DataFrame, right: pl.DataFrame, shift_count: int | None = None) -> bool:
    """Return whether the two sides can be compared at all within reason; by default with every shift."""
    tried = len(_all_shifts(left, right)) if shift_count is None else shift_count
    return min(tried, right.height) * min(_MIN_SAMPLE, left.height) <= _MAX_PAIRS


def _promising(votes: pl.DataFrame, kept_count: int) -> pl.DataFrame:
    """Return the shifts with most votes; of those that tie for the last places, an even choice."""
    ranked = votes.sort(["best_count", "shift"], descending=[True, False])
    if ranked.height <= kept_count:
        return ranked.select("shift").sort("shift")
    least = ranked["best_count"][kept_count - 1]
    better = ranked.filter(pl.col("best_count") > least).select("shift")
    tied = ranked.filter(pl.col("best_count") == least).select("shift").sort("shift")
    room = kept_count - better.height
    rows = [number * (tied.height - 1) // max(room - 1, 1) for number in range(room)]
    return pl.concat([better, tied[rows]]).unique().sort("shift")


def _all_shifts(left: pl.DataFrame, right: pl.DataFrame) -> range:
    """Return the shifts with which at least half of the shorter numbering overlaps the other."""
    if left.height == 0 or right.height == 0:
        return range(0)
    (left_first, left_last), (right_first, right_last) = (_span(side) for side in (left, right))
    overlap = max(min(left_last - left_first, right_last - right_first) // 2, 1)
    return range(right_first - left_last + overlap, right_last - left_first - overlap + 1)


def shifts_within(left: pl.DataFrame, right: pl.DataFrame, possible: Interval) -> range:
    """Return the shifts that a known range of clock differences leaves possible.

    Args:
        left: numbered events, as for :func:`fit_events`.
        right: the same; every event is listed.
        possible: [ns] least and greatest difference.
    """
    known = right.select("lo_ns", pl.col("ordinal").alias("right_ordinal")).sort("lo_ns", "right_ordinal")
    probes = left.gather_every(max(left.height // _PROBE_COUNT, 1))
    low_at = probes.select("ordinal", (pl.col("lo_ns") + possible[0]).alias("lo_ns")).sort("lo_ns")
    high_at = probes.select("ordinal", (pl.col("hi_ns") + possible[1]).alias("lo_ns")).sort("lo_ns")
    least = low_at.join_asof(known, on="lo_ns", strategy="backward")
    most = high_at.join_asof(known, on="lo_ns", strategy="forward")
    both = least.join(most, on="ordinal", how="inner", suffix="_most").drop_nulls()
    if both.height == 0:
        return range(0)
    low, high = both.select(
        (pl.col("right_ordinal") - pl.col("ordinal")).quantile(0.5, "lower").alias("low"),
        (pl.col("right_ordinal_most") - pl.col("ordinal")).quantile(0.5, "higher").alias("high"),
    ).row(0)
    return range(int(low) - 1, int(high) + 2)


def _span(side: pl.DataFrame) -> tuple[int, int]:
    first, last = side.select(
        pl.col("ordinal").min().alias("first"), pl.col("ordinal").max().alias("last")
    ).row(0)
    return int(first), int(last)


def _bounds(left: pl.DataFrame, right: pl.DataFrame, shifts: pl.DataFrame, slack_ns: int) -> pl.DataFrame:
    """Return one row per shift and common event: the clock differences that it allows."""
    side = left.select(
        pl.col("ordinal").alias("left_ordinal"),
        pl.col("lo_ns").alias("left_lo_ns"),
        pl.col("hi_ns").alias("left_hi_ns"),
    )
    if shifts.height <= right.height:
        moved = side.join(shifts, how="cross").with_columns(
            (pl.col("left_ordinal") + pl.col("shift")).alias("ordinal")
        )
        pairs = moved.join(right, on="ordinal", how="inner")
    else:
        moved = side.join(right, how="cross").with_columns(
            (pl.col("ordinal") - pl.col("left_ordinal")).alias("shift")
        )
        pairs = moved.join(shifts, on="shift", how="semi")
    return pairs.select(
        "shift",
        (pl.col("lo_ns") - pl.col("left_hi_ns") - slack_ns).alias("lo_ns"),
        (pl.col("hi_ns") - pl.col("left_lo_ns") + slack_ns).alias("hi_ns"),
        pl.col("left_lo_ns").alias("left_ns"),
    )


def _depths(bounds: pl.DataFrame) -> pl.DataFrame:
    """Return the pieces of the time line of each shift with the number of events that allow them."""
    edges = pl.concat(
        [
            bounds.select("shift", pl.col("lo_ns").alias("at_ns"), pl.lit(1, dtype=pl.Int32).alias("step")),
            bounds.select("shift", pl.col("hi_ns").alias("at_ns"), pl.lit(-1, dtype=pl.Int32).alias("step")),
        ]
    ).sort(["shift", "at_ns", "step"], descending=[False, False, True])
    return edges.with_columns(
        pl.col("step").cum_sum().over("shift").alias("vote_count"),
        pl.col("at_ns").shift(-1).over("shift").alias("until_ns"),
    ).filter(pl.col("until_ns").is_not_null())


def _votes(depths: pl.DataFrame, bounds: pl.DataFrame, *, least_count: int = MIN_EVENT_COUNT) -> pl.DataFrame:
    """Return one row per shift: how many events agree at best, how many there are, how many contradict."""
    counts = bounds.group_by("shift").agg(pl.len().cast(pl.Int32).alias("event_count"))
    votes = (
        depths.group_by("shift").agg(pl.col("vote_count").max().alias("best_count")).join(counts, on="shift")
    )
    return votes.filter(pl.col("event_count") >= least_count).with_columns(
        (1 - pl.col("best_count") / pl.col("event_count")).alias("violated_share"),
        (pl.col("event_count") - pl.col("best_count")).alias("violated_count"),
    )


def _decide(bounds: pl.DataFrame, slack_ns: int, *, prefers_last: bool) -> Fit | None:
    """Return the best differences and all that are nearly as good."""
    depths = _depths(bounds)
    votes = _votes(depths, bounds)
    if votes.height == 0:
        return None
    order = [True, False, prefers_last]
    best = votes.sort(["best_count", "violated_share", "shift"], descending=order).row(0, named=True)
    is_few = best["event_count"] < FEW_EVENTS
    if best["violated_share"] > (_FEW_VIOLATED_SHARE if is_few else MAX_VIOLATED_SHARE):
        return None
    rivals = votes.filter(
        (pl.col("best_count") * (_FEW_RIVAL_RATIO if is_few else RIVAL_RATIO) > best["best_count"])
        & (
            pl.col("violated_count")
            <= pl.col("event_count") * best["violated_share"] * RIVAL_RATIO
            + pl.max_horizontal(pl.col("event_count") * RIVAL_VIOLATED_SHARE, 1)
        )
    )
    if prefers_last:
        best = rivals.sort("shift", descending=True).row(0, named=True)
    # Where the best differences violate some events, those that violate twice as many are nearly as good.
    tolerated = pl.max_horizontal(
        (RIVAL_VIOLATED_SHARE / 2 * pl.col("event_count")).floor(), pl.col("violated_count")
    )
    enough = pl.col("best_count") - tolerated
    near = depths.join(rivals, on="shift").filter(pl.col("vote_count") >= enough)
    top = near.filter((pl.col("shift") == best["shift"]) & (pl.col("vote_count") == best["best_count"]))
    core = (_ns(top, pl.col("at_ns").min()), _ns(top, pl.col("until_ns").max()))
    chosen = bounds.filter(pl.col("shift") == best["shift"])
    residual_ns, violated_count = _residual(chosen, (core[0] + core[1]) // 2)
    allowed = merged(near.select("at_ns", "until_ns").rows())
    return Fit(core, allowed, slack_ns, residual_ns, int(best["event_count"]), violated_count, _ends(chosen))


def _ends(bounds: pl.DataFrame) -> Interval | None:
    """Return the differences at the ends of the run, least first, when its halves allow no common one.

    The middle of a part lies half a part from the end: from there the line through both middles goes on.
    """
    ordered = bounds.sort("left_ns", "lo_ns", "hi_ns")
    if ordered.height < 2 * _MIN_PART_EVENTS or _common(*((part,) for part in _outer_parts(ordered, 2))):
        return None
    part_count = next(n for n in _PART_COUNTS if ordered.height // n >= _MIN_PART_EVENTS)
    early, late = (sum(part) // 2 for part in _outer_parts(ordered, part_count))
    more = (late - early) // (2 * (part_count - 1))
    return min(early - more, late + more), max(early - more, late + more)


def _outer_parts(ordered: pl.DataFrame, part_count: int) -> tuple[Interval, Interval]:
    """Return the differences that the first and the last of so many parts of the run allow best."""
    size = ordered.height // part_count
    return _best_interval(ordered[:size]), _best_interval(ordered[-size:])


def _best_interval(bounds: pl.DataFrame) -> Interval:
    """Return the differences that most of these events allow, from the first such to the last."""
    depths = _depths(bounds)
    top = depths.filter(pl.col("vote_count") == pl.col("vote_count").max())
    return _ns(top, pl.col("at_ns").min()), _ns(top, pl.col("until_ns").max())


def _ns(frame: pl.DataFrame, expression: pl.Expr) -> int:
    return int(frame.select(expression).item())


def _residual(bounds: pl.DataFrame, difference_ns: int) -> tuple[int, int]:
    """Return how far the difference lies outside the bounds (95th percentile), and of how many events."""
    outside = bounds.select(
        pl.max_horizontal(
            pl.col("lo_ns") - difference_ns, difference_ns - pl.col("hi_ns"), pl.lit(0, dtype=pl.Int64)
        ).alias("ns")
    )
    return (
        _ns(outside, pl.col("ns").quantile(0.95, interpolation="higher")),
        _ns(outside, (pl.col("ns") > 0).sum()),
    )
