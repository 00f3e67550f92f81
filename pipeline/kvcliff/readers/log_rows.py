"""Rows of the log tables on their way to the sink: buffered, and without repetitions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import polars as pl

from kvcliff.readers.base import Sink
from kvcliff.readers.lines.base import (
    AccessRow,
    EventRow,
    IterationRow,
    LookupRow,
    OwnedRequest,
    Owner,
    PrefixHit,
    RankedStats,
    RepeatedEvent,
    RequestRow,
    Row,
    SettingRow,
    StatsRow,
    TierSampleRow,
    TierTransferRow,
)
from kvcliff.units import GIB, NS_PER_S

STATS, ITERATIONS, EVENTS = "raw_log_stats", "raw_log_iterations", "raw_log_events"
SETTINGS, ACCESS = "raw_settings", "raw_log_access"
REQUESTS, LOOKUPS = "raw_log_requests", "raw_cache_lookups"
TIER_TRANSFERS, TIER_SAMPLES = "raw_tier_transfers", "raw_tier_samples"
_CHUNK_ROWS: Final = 50_000
#: The last stats rows stay in memory: a hit rate on a line of its own still belongs to them.
_HELD_STATS_ROWS: Final = 256
_REPEAT_NS: Final = 60 * NS_PER_S
#: Memory is printed with two decimals of GiB: a value this near to the known one is the same, less exact.
_SAME_BYTES: Final = GIB // 100
_SAME_RATIO: Final = 0.0051
_TEXT, _INT, _REAL = pl.String(), pl.Int64(), pl.Float64()


_WORDS: Final = frozenset(
    {"engine", "scope", "kv_semantics", "kind", "mode", "request_id", "tier", "direction", "path_class"}
)
#: Amounts that a producer prints with decimals although they count something.
_AMOUNTS: Final = frozenset(
    {
        "accept_length",
        "evictions",
        "eviction_tries",
        "evicted_keys",
        "failed_allocations",
    }
)


def _type_of(name: str) -> pl.DataType:
    """Return the type of a column by its name; names end with their unit."""
    if name in _WORDS:
        return _TEXT
    if name.startswith("is_"):
        return pl.Boolean()
    if name in {"engine_count", "status"}:
        return pl.Int32()
    return _REAL if name in _AMOUNTS or name.endswith(("_ratio", "_ms", "_per_s")) else _INT


_TYPES: Mapping[str, Mapping[str, pl.DataType]] = MappingProxyType(
    {
        SETTINGS: {name: _INT if name == "line_no" else _TEXT for name in SettingRow._fields},
        **{
            table: {name: _type_of(name) for name in fields}
            for table, fields in (
                (STATS, StatsRow._fields),
                (ITERATIONS, IterationRow._fields),
                (EVENTS, EventRow._fields),
                (REQUESTS, RequestRow._fields),
                (LOOKUPS, LookupRow._fields),
                (TIER_TRANSFERS, TierTransferRow._fields),
                (TIER_SAMPLES, TierSampleRow._fields),
                (ACCESS, AccessRow._fields),
            )
        },
    }
)
#: Rows that go to their table as they are.
_PLAIN: Mapping[type, str] = MappingProxyType(
    {
        IterationRow: ITERATIONS,
        EventRow: EVENTS,
        RequestRow: REQUESTS,
        LookupRow: LOOKUPS,
        TierTransferRow: TIER_TRANSFERS,
        TierSampleRow: TIER_SAMPLES,
        AccessRow: ACCESS,
    }
)
#: Repeatable events remembered; older ones are forgotten first.
_EVENT_LIMIT: Final = 4096


@dataclass
class LogRows:
    """Collects rows and hands them to the sink in chunks.

    Attributes:
        sink: where the rows go.
        row_count: rows handed over so far.
    """

    sink: Sink
    row_count: int = 0
    _buffers: dict[str, list[tuple[object, ...]]] = field(
        default_factory=lambda: {name: [] for name in _TYPES}
    )
    _frames: dict[str, list[pl.DataFrame]] = field(default_factory=lambda: {name: [] for name in _TYPES})
    _stats_index: dict[str, int] = field(default_factory=dict)
    _stats_flushed: int = 0
    _facts: dict[tuple[str, str], str] = field(default_factory=dict)
    _events: dict[tuple[str, str, str], int | None] = field(default_factory=dict)
    _owners: dict[str, str] = field(default_factory=dict)
    _leaders: dict[str, tuple[int, int | None]] = field(default_factory=dict)

    def add(self, row: Row) -> bool:
        """Take one row; false when it is a hit rate that has no stats row to belong to."""
        table = _PLAIN.get(type(row))
        if table is not None:
            self._append(table, row)
        elif isinstance(row, StatsRow):
            self._stats_index[row.engine] = self._stats_flushed + len(self._buffers[STATS])
            self._append(STATS, row)
        elif isinstance(row, RankedStats):
            self._add_ranked(row)
        elif isinstance(row, RepeatedEvent):
            self._add_once(row)
        elif isinstance(row, SettingRow):
            self._add_fact(row)
        elif isinstance(row, PrefixHit):
            return self._attach(row)
        elif isinstance(row, Owner):
            self._owners[row.engine] = row.request_id
        elif isinstance(row, OwnedRequest):
            part = row.row
            self._append(REQUESTS, part._replace(request_id=self._owners.get(part.engine)))
        return True

    @property
    def events(self) -> list[tuple[object, ...]]:
        """Rows of events not handed over yet; who appends an event's values to it calls :meth:`trim`."""
        return self._buffers[EVENTS]

    def trim(self) -> None:
        """Hand over the events when there are many."""
        if len(self.events) >= _CHUNK_ROWS:
            self._flush(EVENTS, held=0)

    def add_access(self, row: tuple[object, ...]) -> None:
        """Take the values of an :class:`AccessRow`."""
        self._append(ACCESS, row)

    def add_frame(self, table: str, frame: pl.DataFrame) -> None:
        """Take rows as the columns of their table; not for statistics, some of which change afterwards."""
        buffer, frames = self._buffers[table], self._frames[table]
        if buffer:
            frames.append(_frame_of(table, buffer))
            buffer.clear()
        frames.append(frame)
        if sum(part.height for part in frames) >= _CHUNK_ROWS:
            self._flush(table, held=0)

    def finish(self) -> None:
        """Hand over everything that is left."""
        for table in _TYPES:
            self._flush(table, held=0)

    def _append(self, table: str, row: tuple[object, ...]) -> None:
        buffer = self._buffers[table]
        buffer.append(row)
        if len(buffer) >= _CHUNK_ROWS:
            self._flush(table, held=_HELD_STATS_ROWS if table == STATS else 0)

    def _flush(self, table: str, *, held: int) -> None:
        buffer, frames = self._buffers[table], self._frames[table]
        if frames:
            self.row_count += self.sink.append(table, pl.concat(frames))
            frames.clear()
        ready = buffer[: len(buffer) - held]
        if not ready:
            return
        self.row_count += self.sink.append(table, _frame_of(table, ready))
        del buffer[: len(ready)]
        if table == STATS:
            self._stats_flushed += len(ready)

    def _attach(self, hit: PrefixHit) -> bool:
        place = self._stats_index.get(hit.engine, -1) - self._stats_flushed
        if place < 0:
            return False
        stats = self._buffers[STATS][place]
        if isinstance(stats, StatsRow):
            self._buffers[STATS][place] = stats._replace(prefix_hit_ratio=hit.prefix_hit_ratio)
        return True

    def _add_fact(self, row: SettingRow) -> None:
        """Keep a fact once per rank, and again only when its value changes."""
        known = self._facts.get((row.scope, row.name))
        if known == row.value or (known is not None and _is_same_amount(known, row.value, row.unit)):
            return
        self._facts[row.scope, row.name] = row.value
        self._append(SETTINGS, row)

    def _add_once(self, event: RepeatedEvent) -> None:
        row = event.row
        replica = row.engine.rpartition("/")[0]
        key = (replica, row.kind, event.reason)
        if self._is_recent(key, row.src_ns, event.window_ns):
            return
        if event.is_shutdown_noise and self._is_recent(
            (replica, "shutdown", "shutdown"), row.src_ns, event.window_ns
        ):
            return
        if len(self._events) >= _EVENT_LIMIT:
            self._events.pop(next(iter(self._events)))
        self._events.pop(key, None)
        self._events[key] = row.src_ns
        self._append(EVENTS, row)

    def _is_recent(self, key: tuple[str, str, str], src_ns: int | None, window_ns: int) -> bool:
        """Say whether such an event was there within the window (without stamps: at all)."""
        if key not in self._events:
            return False
        last_ns = self._events[key]
        return src_ns is None or last_ns is None or abs(src_ns - last_ns) <= window_ns

    def _add_ranked(self, ranked: RankedStats) -> None:
        """Keep the lines of the rank that wrote first, until it has been silent for a minute."""
        row = ranked.row
        leader, last_ns = self._leaders.get(row.engine, (ranked.rank, row.src_ns))
        is_leading = (
            leader == ranked.rank
            or row.src_ns is None
            or last_ns is None
            or abs(row.src_ns - last_ns) > _REPEAT_NS
        )
        if not is_leading:
            return
        self._leaders[row.engine] = (ranked.rank, row.src_ns)
        self.add(row)
        if ranked.lookup is not None:
            self.add(ranked.lookup)


def _frame_of(table: str, rows: list[tuple[object, ...]]) -> pl.DataFrame:
    columns = zip(*rows, strict=True)
    types = _TYPES[table].items()
    return pl.DataFrame([_column(name, kind, c) for (name, kind), c in zip(types, columns, strict=True)])


def _column(name: str, kind: pl.DataType, values: tuple[object, ...]) -> pl.Series:
    """Return a column; one without any value, which most are, is not built value by value."""
    if values[0] is None and values.count(None) == len(values):
        return pl.Series(name, [None], kind).new_from_index(0, len(values))
    return pl.Series(name, values, kind)


def _is_same_amount(known: str, value: str, unit: str | None) -> bool:
    if unit == "bytes":
        return abs(int(known) - int(value)) <= _SAME_BYTES
    return unit == "ratio" and abs(float(known) - float(value)) <= _SAME_RATIO
