"""Reader of TensorRT-LLM iteration statistics: JSON of the server's ``/metrics``, poll after poll."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, SkipCount, Sniff, Source
from kvcliff.readers.envelope import calendar_ns, fraction_ns
from kvcliff.readers.lines.base import EventRow, IterationRow, SettingRow, StatsRow, TierTransferRow
from kvcliff.readers.log_clock import RESOLUTION, YEAR_KNOWN, ZONE_KNOWN
from kvcliff.readers.log_rows import EVENTS, ITERATIONS, SETTINGS, STATS, TIER_TRANSFERS, LogRows
from kvcliff.units import NS_PER_S

NOTE_LOST: Final = "iterations are missing: the engine's buffer overflowed between two polls"
NOTE_REPEATED: Final = "iterations that were polled twice were counted once"
NOTE_NO_ZONE: Final = "time stamps carry no time zone"
#: Occupancy = blocks that are not free; whether reusable blocks count as free depends on the cache manager.
KV_SEMANTICS: Final = "used_blocks"
_NO_RECORD: Final = "a record is no iteration"
_BAD_JSON: Final = "a poll is no JSON"
_CUT: Final = "the last poll is cut"
_BLOCK_BYTES: Final = 1 << 20
#: A single answer longer than this is no poll of a server.
_LINE_LIMIT: Final = 64 << 20
_STAMP = re.compile(
    rb"(?P<month>\d\d)-(?P<day>\d\d)-(?P<year>\d{4}) (?P<clock>\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?"
)
_MARKS: Final = (b'"iter"', b'"iterLatencyMS"')
_BIGINT_MAX: Final = (1 << 63) - 1


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _count(values: dict[str, object], *keys: str) -> int | None:
    """Return the first of these that is a whole, non-negative number."""
    for key in keys:
        value = values.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _BIGINT_MAX:
            return value
    return None


def _amount(values: dict[str, object], *keys: str) -> float | None:
    """Return the first of these that is a finite, non-negative number."""
    for key in keys:
        value = values.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e300:
            return float(value)
    return None


def _windows(record: dict[str, object]) -> list[dict[str, object]]:
    return [_object(window) for window in _object(record.get("kvCacheIterationStats")).values()]


def _used_ratio(record: dict[str, object]) -> float | None:
    """Return the occupancy of the device's pool: the fullest window where tiers are told apart."""
    found = [
        _ratio(_count(window, "primaryMaxNumBlocks"), _count(window, "primaryFreeNumBlocks"))
        for window in _windows(record)
    ]
    known = [value for value in found if value is not None]
    if known:
        return max(known)
    pool = _object(record.get("kvCacheStats"))
    return _ratio(_count(pool, "maxNumBlocks"), _count(pool, "freeNumBlocks"))


def _ratio(most: int | None, free: int | None) -> float | None:
    return 1 - free / most if most and free is not None and free <= most else None


def _host_ratio(record: dict[str, object]) -> float | None:
    found = []
    for window in _windows(record):
        most, used = _count(window, "secondaryMaxNumBlocks"), _count(window, "secondaryUsedNumBlocks")
        if most and used is not None and used <= most:
            found.append(used / most)
    return max(found, default=None)


@dataclass
class _EngineState:
    """What is carried from iteration to iteration of one rank."""

    last_iteration: int | None = None
    paused_count: int = 0
    was_idle: bool = False


@dataclass
class _Loader(SkipCount):
    """Turns records into rows, numbered by their place in the file.

    Attributes:
        rows: where they go.
        context: what is known about the file.
        record_no: records so far.
        is_stamped: whether a record has a time.
        has_gaps: whether numbers of iterations are missing.
        has_repeats: whether an iteration came twice.
    """

    rows: LogRows
    context: ReadContext
    record_no: int = 0
    is_stamped: bool = False
    has_gaps: bool = False
    has_repeats: bool = False
    _engines: dict[str, _EngineState] = field(default_factory=dict)
    _seen: set[tuple[str, int]] = field(default_factory=set)

    def poll(self, text: bytes) -> bool:
        """Take one answer, a list of records or one record; false when it is no whole JSON value."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return False
        for record in value if isinstance(value, list) else [value]:
            self.record_no += 1
            iteration = _count(_object(record), "iter")
            if iteration is None or not isinstance(record, dict):
                self.skip(_NO_RECORD)
            else:
                self._take(record, iteration)
        return True

    def _take(self, record: dict[str, object], iteration: int) -> None:
        rank = _count(record, "attentionDpRank", "rank") or 0
        engine = str(rank)
        state = self._engines.setdefault(engine, _EngineState())
        if (engine, iteration) in self._seen:
            self.has_repeats = True
            return
        self._seen.add((engine, iteration))
        last = state.last_iteration
        self.has_gaps |= last is not None and iteration > last + 1
        state.last_iteration = iteration
        src_ns = self._src_ns(record.get("timestamp"))
        batch = _object(record.get("inflightBatchingStats"))
        self._iteration(record, batch, engine, iteration, src_ns, was_idle=state.was_idle)
        self._sample(record, batch, engine, src_ns)
        self._moves(record, engine, src_ns)
        self._pause(_count(batch, "numPausedRequests"), state, engine, src_ns)
        state.was_idle = _count(batch, "numScheduledRequests") == 0

    def _src_ns(self, stamp: object) -> int | None:
        match = _STAMP.fullmatch(stamp.encode("utf-8", "replace")) if isinstance(stamp, str) else None
        if match is None:
            return None
        local = calendar_ns(b"%s-%s-%s %s" % (match["year"], match["month"], match["day"], match["clock"]))
        if local is None:
            return None
        self.is_stamped = True
        offset_s = self.context.time_zone_offset_s or 0
        return local + fraction_ns(match["fraction"]) - offset_s * NS_PER_S

    def _iteration(
        self,
        record: dict[str, object],
        batch: dict[str, object],
        engine: str,
        iteration: int,
        src_ns: int | None,
        *,
        was_idle: bool,
    ) -> None:
        generation = _count(batch, "numGenRequests")
        mean_tokens = _amount(batch, "avgNumDecodedTokensPerIter")
        self.rows.add(
            IterationRow(
                self.record_no,
                src_ns,
                engine,
                iteration,
                _count(batch, "numContextRequests"),
                _count(batch, "numCtxTokens"),
                generation,
                # With speculation the number of tokens is only known as a mean of requests.
                generation if mean_tokens == 1 else None,
                # The latency of the loop may span two iterations; the other two do not.
                _amount(record, "gpuForwardTimeMS", "hostStepTimeMS", "iterLatencyMS"),
                _used_ratio(record),
                is_dummy=False,
                kv_semantics=KV_SEMANTICS,
                # Behind an idle iteration it holds the wait for work.
                previous_device_ms=None if was_idle else _amount(record, "prevDeviceStepTimeMS"),
                is_warmup=iteration <= 1,
            )
        )

    def _sample(
        self, record: dict[str, object], batch: dict[str, object], engine: str, src_ns: int | None
    ) -> None:
        pool = _object(record.get("kvCacheStats"))
        hit_ratio = _amount(pool, "cacheHitRate")
        self.rows.add(
            StatsRow(
                self.record_no,
                src_ns,
                engine,
                1,
                KV_SEMANTICS,
                running_count=_count(batch, "numScheduledRequests"),
                waiting_count=_count(record, "numQueuedRequests"),
                swapped_count=_count(batch, "numPausedRequests"),
                kv_used_ratio=_used_ratio(record),
                host_kv_used_ratio=_host_ratio(record),
                prefix_hit_ratio=hit_ratio if hit_ratio is not None and hit_ratio <= 1 else None,
                is_action_logged="numPausedRequests" in batch,
            )
        )

    def _moves(self, record: dict[str, object], engine: str, src_ns: int | None) -> None:
        """Add what went between device and host since the last poll of these counters."""
        for key, direction in (("iterOffloadBytes", "store"), ("iterOnboardBytes", "load")):
            sizes = [size for window in _windows(record) if (size := _count(window, key)) is not None]
            moved = sum(sizes)
            if 0 < moved <= _BIGINT_MAX:
                self.rows.add(
                    TierTransferRow(self.record_no, src_ns, engine, "", "host", direction, bytes=moved)
                )

    def _pause(self, paused: int | None, state: _EngineState, engine: str, src_ns: int | None) -> None:
        """Add an event where more requests are paused than before: they lost their KV blocks."""
        if paused is None:
            return
        risen = paused - state.paused_count
        state.paused_count = paused
        if risen > 0:
            self.rows.add(EventRow(self.record_no, src_ns, engine, "pause", event_count=risen))

    def finish(self) -> None:
        """Add the facts that hold for the whole file and write what is still open."""
        zone_known = self.is_stamped and self.context.time_zone_offset_s is not None
        facts = (
            ("engine", "tensorrt_llm"),
            (YEAR_KNOWN, str(self.is_stamped).lower()),
            (ZONE_KNOWN, str(zone_known).lower()),
            (RESOLUTION, "1000"),
        )
        for name, value in facts if self.rows_seen else ():
            self.rows.add(SettingRow(1, "", name, value, None))
        self.rows.finish()

    @property
    def rows_seen(self) -> bool:
        """Whether any iteration was read."""
        return bool(self._seen)

    def notes(self) -> tuple[str, ...]:
        """Return what a reader of a report should know about the file, in closed wording."""
        found = (
            (NOTE_NO_ZONE, self.is_stamped and self.context.time_zone_offset_s is None),
            (NOTE_LOST, self.has_gaps),
            (NOTE_REPEATED, self.has_repeats),
        )
        return tuple(note for note, is_true in found if is_true)


def _lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield each line; a line longer than any answer ends the file."""
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
        if len(rest) > _LINE_LIMIT:
            break
    yield rest


@dataclass
class _Answers:
    """Puts the lines of a file together to answers: mostly one a line, some printed over many lines.

    Attributes:
        loader: takes the answers.
    """

    loader: _Loader
    _held: list[bytes] = field(default_factory=list)
    _held_bytes: int = 0

    def line(self, text: bytes) -> None:
        """Take one line."""
        stripped = text.strip()
        if not stripped:
            return
        # Only the outermost bracket stands at the beginning of a line.
        begins = text.startswith((b"[", b"{"))
        if begins:
            self.give_up()
            if self.loader.poll(stripped):
                return
        elif not self._held:
            self.loader.skip(_BAD_JSON)
            return
        self._held.append(text)
        self._held_bytes += len(text)
        if text[:1] in (b"]", b"}") and self.loader.poll(b"\n".join(self._held)):
            self._held.clear()
        elif self._held_bytes > _LINE_LIMIT:
            self.give_up()

    def give_up(self) -> bool:
        """Count what is held as an answer that is cut; false when nothing is held."""
        if not self._held:
            return False
        self._held.clear()
        self._held_bytes = 0
        self.loader.skip(_BAD_JSON)
        return True


def sniff(source: Source) -> Sniff:
    """Return how sure it is that the source holds iteration statistics."""
    if source.is_dir:
        return NO_MATCH
    head = source.head.lstrip()
    if head[:1] not in (b"[", b"{") or not all(mark in head for mark in _MARKS):
        return NO_MATCH
    return Sniff(95, "iteration statistics of TensorRT-LLM")


def load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Load all polls into the raw tables and return what was read.

    Raises:
        InputError: the file cannot be opened.
    """
    loader = _Loader(LogRows(sink), context)
    answers = _Answers(loader)
    with source.open() as stream:
        for text in _lines(iter(lambda: stream.read(_BLOCK_BYTES), b"")):
            answers.line(text)
        damage = stream.damage or (_CUT if answers.give_up() else None)
    loader.finish()
    return LoadReport(
        row_count=loader.rows.row_count,
        skipped_count=loader.skipped_count,
        first_skip_reason=loader.first_skip_reason,
        damage=damage,
        notes=loader.notes(),
    )


READER: Final = Reader(
    name="tensorrt_llm_stats",
    title="iteration statistics of TensorRT-LLM (/metrics polls)",
    tables=(STATS, ITERATIONS, EVENTS, TIER_TRANSFERS, SETTINGS),
    sniff=sniff,
    load=load,
    role="log",
    tried_on_real_files=False,
)
