"""Blocks of a large vLLM log whose lines are nearly all of a few frequent kinds, read as columns.

Only speed is meant: what :class:`~kvcliff.readers.log_scan.LogScan` reads line by line gives the same rows,
and every line that is not certainly of these kinds goes there. A test reads the same logs both ways.
"""

import re
from bisect import bisect_left
from collections.abc import Callable
from typing import Final, NamedTuple

import polars as pl

from kvcliff.readers.log_access import ACCESS_HEAD, ACCESS_MARK, PathClass, is_next_period, is_profile
from kvcliff.readers.log_columns import events_of, iterations_of, messages_of, stats_of, stats_rows
from kvcliff.readers.log_rows import ACCESS as ACCESS_TABLE
from kvcliff.readers.log_rows import EVENTS, ITERATIONS
from kvcliff.readers.log_scan import LogScan
from kvcliff.readers.log_stream import StreamState

#: In smaller blocks and runs, columns cost more than lines.
LEAST_BLOCK_LINES: Final = 2000
LEAST_RUN_LINES: Final = 200
#: More other lines in a block make its runs too short; then the next blocks are not tried either.
OTHERS_SHARE: Final = 1 / 400
_PAUSE_BLOCKS: Final = 7
_SAMPLED_LINES: Final = 64
_PREFIX_LIMIT: Final = 8
_ADDRESS_LIMIT: Final = 100
_HEAD: Final = "INFO "
_STAMP = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d")


class _Block(NamedTuple):
    """What the lines of a block say, each frame with the place of the line in the block as ``place``.

    Attributes:
        others: places of the lines of no frequent kind.
        stamp_places: places of the lines whose stamp differs from that of the stamped line before.
        stamps: those stamps.
        stamped: places of all stamped lines.
        events: requests that came in.
        iterations: iteration lines.
        stats: statistics lines.
        access: access lines and the number of their kind.
        kinds: the kinds.
    """

    others: list[int]
    stamp_places: list[int]
    stamps: list[str]
    stamped: pl.Series
    events: pl.DataFrame
    iterations: pl.DataFrame
    stats: pl.DataFrame
    access: pl.DataFrame
    kinds: list[PathClass]


class BulkLines:
    """Reads blocks of lines, as columns where that pays.

    Args:
        scan: reads the other lines, and keeps what is carried from line to line.
        clip: shortens lines that are too long.
        line_limit: length of a line from which on ``clip`` does.
    """

    def __init__(self, scan: LogScan, clip: Callable[[bytes], bytes], line_limit: int) -> None:
        self._scan = scan
        self._clip = clip
        self._line_limit = line_limit
        self._pause_blocks = 0

    def read(self, line_no: int, text: bytes) -> int | None:
        """Take the lines of a block.

        Args:
            line_no: number of the line before them.
            text: the lines, without the end of the last one.

        Returns:
            The number of the last line; ``None``, with nothing read, when lines should be taken singly.
        """
        state = self._scan.bulk_state()
        if state is None or not text.isascii() or b"\x1b" in text or b"\r" in text:
            return None
        if self._pause_blocks:
            self._pause_blocks -= 1
            return None
        lines = pl.Series("line", [text.decode("ascii")]).str.split("\n").explode()
        if len(lines) < LEAST_BLOCK_LINES:
            return None
        block = self._block_of(lines)
        if block is None or len(block.others) > len(lines) * OTHERS_SHARE:
            self._pause_blocks = _PAUSE_BLOCKS
            return None
        begin = 0
        for place in [*block.others, len(lines)]:
            while place - begin >= LEAST_RUN_LINES and self._scan.bulk_state() is not None:
                end = self._take(state, line_no, block, begin, place)
                if end < place:
                    # A stamp that is no date: that line is not of a frequent kind after all.
                    end += 1
                    self._one_by_one(line_no, lines, end - 1, end)
                begin = end
            end = min(place + 1, len(lines))
            self._one_by_one(line_no, lines, begin, end)
            begin = end
        return line_no + len(lines)

    def _one_by_one(self, line_no: int, lines: pl.Series, begin: int, end: int) -> None:
        if begin < end:
            texts = [self._clip(line.encode()) for line in lines.slice(begin, end - begin).to_list()]
            self._scan.read(line_no + begin, texts)

    def _block_of(self, lines: pl.Series) -> _Block | None:
        """Return what the lines say, or ``None`` when their sources are too many."""
        frame = lines.to_frame().with_row_index("place")
        heads: list[pl.DataFrame] = []
        access: list[pl.DataFrame] = []
        for prefix, engine in self._prefixes(lines).items():
            for start, kept in ((prefix + _HEAD, heads), (prefix + ACCESS_HEAD.decode(), access)):
                found = frame.filter(pl.col("line").str.starts_with(start))
                kept.append(
                    found.select(
                        "place",
                        pl.col("line").str.slice(len(start)).alias("text"),
                        pl.lit(engine).alias("engine"),
                    )
                )
        headed = messages_of(pl.concat(heads).sort("place"))
        if headed is None:
            return None
        events, stats, iterations = events_of(headed), stats_of(headed), iterations_of(headed)
        requests, kinds = self._requests(pl.concat(access).sort("place"))
        taken = pl.concat([part["place"] for part in (events, stats, iterations, requests)])
        empty = frame.filter(pl.col("line") == "")["place"]
        long = frame.filter(pl.col("line").str.len_bytes() > self._line_limit)["place"]
        places = frame["place"]
        is_other = ~places.is_in(taken.append(empty).implode()) | places.is_in(long.implode())
        stamped = headed.filter(pl.col("place").is_in(taken.implode()))
        changes = stamped.filter(pl.col("stamp").ne_missing(pl.col("stamp").shift()))
        return _Block(
            places.filter(is_other).to_list(),
            changes["place"].to_list(),
            changes["stamp"].to_list(),
            stamped["place"],
            events,
            iterations,
            stats,
            requests,
            kinds,
        )

    def _prefixes(self, lines: pl.Series) -> dict[str, str]:
        """Return process prefixes of some lines of the block, each with the engine of the process."""
        found = {"": "0"}
        step = max(len(lines) // _SAMPLED_LINES, 1)
        for line in lines.gather_every(step).to_list():
            known = self._scan.process_prefix(line[:256].encode()) if line.startswith("(") else None
            if known is not None and len(found) < _PREFIX_LIMIT:
                found[known[0].decode()] = known[1]
        return found

    def _requests(self, access: pl.DataFrame) -> tuple[pl.DataFrame, list[PathClass]]:
        """Return access lines with the numbers of their kinds, and the kinds."""
        mark = ACCESS_MARK.decode()
        parts = access["text"].str.splitn(mark, 2).struct.unnest()
        address, asked = pl.col("field_0"), pl.col("field_1")
        frame = access.select("place").hstack(parts)
        frame = frame.filter(
            asked.is_not_null()
            & ~address.str.contains(" ", literal=True)
            & address.str.len_bytes().is_between(1, _ADDRESS_LIMIT)
        )
        texts = frame["field_1"].unique(maintain_order=True).to_list()
        kinds: list[PathClass] = []
        numbers: list[int | None] = []
        for text in texts:
            kind = self._scan.access.kind_of((mark + text).encode())
            if kind is None or is_profile(kind):
                numbers.append(None)
                continue
            if kind not in kinds:
                kinds.append(kind)
            numbers.append(kinds.index(kind))
        number = asked.replace_strict(texts, numbers, return_dtype=pl.Int64, default=None)
        return frame.select("place", number.alias("kind")).drop_nulls(), kinds

    def _take(self, state: StreamState, line_no: int, block: _Block, begin: int, end: int) -> int:
        """Take a run of lines of frequent kinds; return where it really ended."""
        clock, access = state.clock, self._scan.access
        first = block.stamped.search_sorted(begin)
        places, stamps = [], []
        low, high = bisect_left(block.stamp_places, begin), bisect_left(block.stamp_places, end)
        begins_changed = low < high and block.stamp_places[low] == block.stamped[first]
        if first < len(block.stamped) and block.stamped[first] < end and not begins_changed:
            # The first stamp of the run is that of the run before, but other lines may have moved the clock.
            places, stamps = [block.stamped[first]], [block.stamps[low - 1]]
        places += block.stamp_places[low:high]
        stamps += block.stamps[low:high]
        runs, run_ns = [begin], [state.last_ns]
        period_places, period_ns, after_ns = [], [], access.after_ns
        last = state.last_stamp
        for place, stamp in zip(places, stamps, strict=True):
            if (written := stamp.encode()) == last:
                continue
            src_ns = clock.resolve_plain(written) if _STAMP.fullmatch(stamp) else None
            if src_ns is None:
                end = place
                break
            last = written
            runs.append(place)
            run_ns.append(src_ns)
            if is_next_period(after_ns, src_ns):
                period_places.append(place)
                period_ns.append(src_ns)
                after_ns = src_ns
        state.last_stamp, state.last_ns = last, run_ns[-1]
        self._add_rows(line_no, block, begin, end, runs, run_ns)
        self._add_access(line_no, block, begin, end, period_places, period_ns)
        return end

    def _add_rows(
        self, line_no: int, block: _Block, begin: int, end: int, runs: list[int], run_ns: list[int | None]
    ) -> None:
        """Add events, iterations and statistics of a run of lines."""
        rows, count = self._scan.rows, 0
        run_places, times = pl.Series(runs, dtype=pl.UInt32), pl.Series(run_ns, dtype=pl.Int64)
        for table, all_rows in ((EVENTS, block.events), (ITERATIONS, block.iterations), ("", block.stats)):
            part = _between(all_rows, begin, end)
            if not part.height:
                continue
            run = run_places.search_sorted(part["place"], side="right") - 1
            part = part.select(
                (pl.col("place").cast(pl.Int64) + line_no + 1).alias("line_no"),
                times.gather(run).alias("src_ns"),
                pl.exclude("place"),
            )
            count += part.height
            if table:
                rows.add_frame(table, part)
            else:
                for row in stats_rows(part):
                    rows.add(row)
        self._scan.count_frequent(count)

    def _add_access(
        self, line_no: int, block: _Block, begin: int, end: int, places: list[int], times: list[int]
    ) -> None:
        """Count access lines between the stamps around them; those before the first join what is open."""
        access = self._scan.access
        part = _between(block.access, begin, end)
        period = pl.Series("period", places, dtype=pl.UInt32).search_sorted(part["place"], side="right")
        groups = (
            part.with_columns(period.alias("period"), (pl.col("place").cast(pl.Int64) + line_no + 1))
            .group_by("period", "kind", maintain_order=True)
            .agg(pl.col("place").first(), pl.len().cast(pl.Int64).alias("count"))
        )
        self._scan.counts.heads += part.height
        last = len(places)

        def join(which: int) -> None:
            for kind, first, count in (
                groups.filter(pl.col("period") == which).select("kind", "place", "count").iter_rows()
            ):
                access.add(block.kinds[kind], first, count)

        join(0)
        if not last:
            return
        access.observe(times[0])
        inner = groups.filter(pl.col("period").is_between(1, last - 1))
        if inner.height:
            kind, ns = inner["kind"], pl.Series(times, dtype=pl.Int64)
            self._scan.rows.add_frame(
                ACCESS_TABLE,
                pl.DataFrame(
                    {
                        "line_no": inner["place"],
                        "path_class": pl.Series([name for name, _ in block.kinds], dtype=pl.String).gather(
                            kind
                        ),
                        "status": pl.Series([status for _, status in block.kinds], dtype=pl.Int32).gather(
                            kind
                        ),
                        "access_count": inner["count"],
                        "after_src_ns": ns.gather(inner["period"] - 1),
                        "before_src_ns": ns.gather(inner["period"]),
                    }
                ),
            )
        access.move_to(times[-1])
        join(last)


def _between(frame: pl.DataFrame, begin: int, end: int) -> pl.DataFrame:
    """Return the rows of places in ``[begin, end)``; the frame is sorted by place."""
    low, high = frame["place"].search_sorted(begin), frame["place"].search_sorted(end)
    return frame.slice(low, high - low)
