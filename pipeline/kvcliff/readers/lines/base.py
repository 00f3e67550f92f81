"""What a line grammar is made of: heads, rules with a cheap byte test, and the rows that they give."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from kvcliff.readers.envelope import Envelope
from kvcliff.units import NS_PER_S

_BIGINT_MAX: Final = (1 << 63) - 1
#: Unsigned decimal as the engines print it; words such as ``nan`` are matched so that they can be told apart.
NUMBER: Final = r"(?:-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|-?nan|-?inf)"


class UnreadableLineError(ValueError):
    """A line of interest that cannot be read; the message is the reason, without any content of the line."""


# Rows are named tuples, not dataclasses: there is one per line, and a log has millions of them.
class StatsRow(NamedTuple):
    """One row of ``raw_log_stats`` (columns and units there)."""

    line_no: int
    src_ns: int | None
    engine: str
    engine_count: int
    kv_semantics: str
    prompt_tokens_per_s: float | None = None
    gen_tokens_per_s: float | None = None
    running_count: int | None = None
    waiting_count: int | None = None
    swapped_count: int | None = None
    deferred_count: int | None = None
    preemption_count: int | None = None
    kv_used_ratio: float | None = None
    host_kv_used_ratio: float | None = None
    prefix_hit_ratio: float | None = None
    external_hit_ratio: float | None = None
    kv_used_tokens: int | None = None
    side_kv_used_ratio: float | None = None
    accept_length: float | None = None
    is_cuda_graph: bool | None = None
    is_action_logged: bool | None = None


class PrefixHit(NamedTuple):
    """A hit rate printed on a line of its own; it belongs to the stats row before it of the same engine."""

    engine: str
    prefix_hit_ratio: float | None


class IterationRow(NamedTuple):
    """One row of ``raw_log_iterations`` (columns and units there)."""

    line_no: int
    src_ns: int | None
    engine: str
    iteration: int | None
    context_requests: int | None
    context_tokens: int | None
    generation_requests: int | None
    generation_tokens: int | None
    elapsed_ms: float | None
    kv_used_ratio: float | None
    is_dummy: bool
    kv_semantics: str | None = None
    previous_device_ms: float | None = None
    is_warmup: bool | None = None


class EventRow(NamedTuple):
    """One row of ``raw_log_events`` (columns and units there)."""

    line_no: int
    src_ns: int | None
    engine: str
    kind: str
    mode: str | None = None
    request_id: str | None = None
    cumulative_count: int | None = None
    tokens: int | None = None
    bytes: int | None = None
    duration_ms: float | None = None
    load_bytes: int | None = None
    load_ms: float | None = None
    event_count: int | None = None


class RequestRow(NamedTuple):
    """One row of ``raw_log_requests`` (columns and units there)."""

    line_no: int
    src_ns: int | None
    engine: str
    request_id: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    retraction_count: int | None = None
    attempt_count: int | None = None
    queue_ms: float | None = None
    prefill_ms: float | None = None
    decode_ms: float | None = None
    run_ms: float | None = None
    total_ms: float | None = None
    token_ms: float | None = None


class Owner(NamedTuple):
    """The request that the following lines without a name belong to."""

    engine: str
    request_id: str


class OwnedRequest(NamedTuple):
    """A part of a request on a line that does not name it: it is the last owner's of the same engine."""

    row: RequestRow


class AccessRow(NamedTuple):
    """One row of ``raw_log_access`` (columns and units there)."""

    line_no: int
    path_class: str
    status: int
    access_count: int
    after_src_ns: int | None
    before_src_ns: int | None


class LookupRow(NamedTuple):
    """One row of ``raw_cache_lookups`` (columns and units there)."""

    line_no: int
    src_ns: int | None
    engine: str
    tier: str
    request_id: str | None
    lookup_tokens: int | None
    hit_tokens: int | None
    engine_tokens: int | None = None
    load_tokens: int | None = None
    is_load_skipped: bool = False


class TierTransferRow(NamedTuple):
    """One row of ``raw_tier_transfers`` (columns and units there)."""

    line_no: int
    src_ns: int | None
    engine: str
    scope: str
    tier: str
    direction: str
    request_id: str | None = None
    tokens: int | None = None
    asked_tokens: int | None = None
    total_tokens: int | None = None
    bytes: int | None = None
    duration_ms: float | None = None
    printed_bytes_per_s: float | None = None


class TierSampleRow(NamedTuple):
    """One row of ``raw_tier_samples`` (columns and units there)."""

    line_no: int
    src_ns: int | None
    tier: str
    used_bytes: int | None
    capacity_bytes: int | None
    used_ratio: float | None
    key_count: int | None
    evictions: float | None
    eviction_tries: float | None
    evicted_keys: float | None
    evicted_bytes: int | None
    failed_allocations: float | None
    is_cumulative: bool


class SettingRow(NamedTuple):
    """One row of ``raw_settings`` (columns and units there)."""

    line_no: int
    scope: str
    name: str
    value: str
    unit: str | None


class RepeatedEvent(NamedTuple):
    """An event that engines state several times (error, traceback, every process); kept once.

    Attributes:
        row: the event.
        reason: what makes two of them the same.
        is_shutdown_noise: whether an orderly shutdown writes it too, so that right after one it says nothing.
        window_ns: [ns] two of them further apart than this are two events.
    """

    row: EventRow
    reason: str
    is_shutdown_noise: bool = False
    window_ns: int = 60 * NS_PER_S


class RankedStats(NamedTuple):
    """A statistics line that several ranks of one engine may write; those of one rank are kept.

    Attributes:
        rank: number of the rank within the engine.
        row: the sample.
        lookup: what the line says about the prefix cache, or ``None``.
    """

    rank: int
    row: StatsRow
    lookup: LookupRow | None = None


class Handled(NamedTuple):
    """A line that is understood and says nothing that is kept."""

    reason: str


Row = (
    StatsRow
    | Handled
    | RankedStats
    | PrefixHit
    | IterationRow
    | EventRow
    | RepeatedEvent
    | RequestRow
    | Owner
    | OwnedRequest
    | AccessRow
    | LookupRow
    | TierTransferRow
    | TierSampleRow
    | SettingRow
)


class Record(NamedTuple):
    """One log message with what its head and its envelope say.

    Attributes:
        line_no: line in the file, from 1.
        src_ns: time on the file's own clock; of a line without a stamp, that of the stamp before it.
        level: ``INFO``, ``ERROR`` ... or empty.
        message: the text after the head.
        replica: service or pod that wrote the line, or empty.
        engine_no: data-parallel number of the process that wrote it, ``0`` when none.
        scope: rank of the process, for facts that each rank states.
        process: name of the process, or empty.
    """

    line_no: int
    src_ns: int | None
    level: str
    message: str
    replica: str = ""
    engine_no: str = "0"
    scope: str = ""
    process: str = ""

    def engine(self, stated: str | None = None) -> str:
        """Return the engine's name: the number stated by line or process, below the replica's name."""
        number = self.engine_no if stated is None else str(int(stated))
        return f"{self.replica}/{number}" if self.replica else number

    def settings_scope(self) -> str:
        """Return the scope of a fact in this line: replica and rank, empty for a fact of the engine."""
        return "/".join(part for part in (self.replica, self.scope) if part)


@dataclass(frozen=True)
class Head:
    """How a producer begins its lines.

    Attributes:
        first_bytes: the bytes that a head may begin with (the cheap test).
        pattern: group 1 is the level, group 2 (if any) the stamp ``MM-DD HH:MM:SS``; the message follows.
        unwrap: for heads whose stamp has another form: the envelope with stamp, rank and level of the head.
            The envelope given belongs to other lines as well and may not be changed.
    """

    first_bytes: bytes
    pattern: re.Pattern[bytes]
    unwrap: Callable[[re.Match[bytes], Envelope], Envelope] | None = None


@dataclass(frozen=True)
class Rule:
    """One kind of line.

    Attributes:
        name: what it is, for tests and documentation.
        table: raw table of its rows.
        parse: rows of a record; empty when the record is of another kind.
        starts: the cheap test: a message of this kind starts with one of these.
        contains: also tried where one of these occurs in a warning, an error or a line without a head.
    """

    name: str
    table: str
    parse: Callable[[Record], tuple[Row, ...]]
    starts: tuple[bytes, ...] = ()
    contains: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Grammar:
    """All lines of one producer.

    Attributes:
        name: stable id of the producer.
        title: the producer as people write it.
        heads: how its lines begin.
        rules: its kinds of lines, tried in this order.
        interest: literals that no other text of a log has, each with the reason under which a line that holds
            it and fits no rule is counted as skipped.
        content_starts: messages that carry what users sent; never searched for anything.
        engine: value of the setting ``engine`` that a line of this producer stands for; empty when it is none
            or when its own lines say so.
        tried_on_real_files: whether recordings of the real producer were read with it.
    """

    name: str
    title: str
    heads: tuple[Head, ...]
    rules: tuple[Rule, ...]
    interest: tuple[tuple[bytes, str], ...] = ()
    content_starts: tuple[bytes, ...] = ()
    engine: str = ""
    tried_on_real_files: bool = False


def event_of(record: Record, kind: str, mode: str | None = None, request_id: str | None = None) -> EventRow:
    """Return an event of the record's time and engine; further columns by ``_replace``."""
    return EventRow(record.line_no, record.src_ns, record.engine(), kind, mode, request_id)


def count_of(text: str | None) -> int | None:
    """Return a non-negative integer that fits a BIGINT, else ``None``."""
    if text is None or len(text) > 19 or not text.isdecimal() or not text.isascii():
        return None
    value = int(text)
    return value if value <= _BIGINT_MAX else None


def amount_of(text: str | None) -> float | None:
    """Return a finite, non-negative number, else ``None``."""
    # Python's float also takes underscores and the digits of other scripts, which no engine prints.
    if text is None or "_" in text or not text.isascii():
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)(ns|µs|μs|us|ms|s|m|h)")
_UNIT_MS: Final = MappingProxyType(
    {"ns": 1e-6, "µs": 1e-3, "μs": 1e-3, "us": 1e-3, "ms": 1.0, "s": 1e3, "m": 60e3, "h": 3600e3}
)


def duration_ms_of(text: str) -> float | None:
    """Return a duration as Rust and Go print it (``4.06s``, ``94.2µs``, ``1m2.5s``) in ms, else ``None``."""
    parts = _DURATION.findall(text[:64])
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    # Rounded, since 4.06 s are not 4059.9999999999995 ms.
    return round(sum(float(number) * _UNIT_MS[unit] for number, unit in parts), 9)


def ratio_of_pct(text: str | None) -> float | None:
    """Return a percentage within 0-100 as a 0-1 ratio, else ``None``."""
    value = amount_of(text)
    return value / 100 if value is not None and value <= 100 else None


def scaled_bytes(text: str | None, unit_bytes: int) -> int | None:
    """Return a number of units (GiB ...) as whole bytes, or ``None`` when it is no sane amount."""
    value = amount_of(text)
    return round(value * unit_bytes) if value is not None and value * unit_bytes <= _BIGINT_MAX else None
