"""How many seconds of token streams each reason costs that can make a run slow although prefixes are hit."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.marts import has_rows, query_rows
from kvcliff.units import format_number

PREEMPTION = "preemption"
DECODE_BYTES = "bytes of decode"
TIER_LOADS = "loads from slower tiers"
BATCH = "prefills in the batch"


@dataclass(frozen=True)
class Share:
    """Seconds that streams lose to one reason, summed over streams.

    Attributes:
        name: the reason in words.
        seconds: time of all streams together, ``None`` when it cannot be told.
        missing: what would tell it.
    """

    name: str
    seconds: float | None
    missing: str = ""


@dataclass(frozen=True)
class _Preempted:
    point_count: int
    unmeasured_count: int
    lost_s: float | None


@dataclass(frozen=True)
class _Seconds:
    value: float | None


_PREEMPTED_SQL = """
select
    count(*), count(*) filter (where lost_s is null and victim_count is distinct from 0), fsum(lost_s)
from swap_points
where "class" in ('confirmed', 'probable')
"""
#: Every token waits for what its step has to read: the floor of a decode step.
_DECODE_SQL = """
with tokens as (
    select level, replica_id, sum(coalesce(token_count, tokens_per_s * bucket_ns / 1e9)) as token_count
    from token_latency
    group by level, replica_id
)

select fsum(ledger.time_ms * tokens.token_count) / 1e3
from bandwidth_ledger as ledger
inner join tokens
    on ledger.replica_id = tokens.replica_id and ledger.level is not distinct from tokens.level
where ledger.step_class = 'decode' and ledger.line = 'floor'
"""
#: A request waits at least for its own copy; others in the batch may wait with it.
_LOADS_SQL = """
select sum(copy_ns - coalesce(hidden_ns, 0)) / 1e9
from transfers
where is_kv_swap and kind = 'htod'
"""
#: All that run wait for a step that also computes a prompt, as far as it is longer than a plain one.
_BATCH_SQL = """
with plain as (
    select level, replica_id, origin, elapsed_p50_ms
    from step_times
    where step_class = 'decode'
)

select
    fsum(
        greatest(mixed.elapsed_total_s - mixed.step_count * plain.elapsed_p50_ms / 1e3, 0)
        * mixed.sequence_count
    )
from step_times as mixed
inner join plain
    on
        mixed.replica_id = plain.replica_id
        and mixed.level is not distinct from plain.level
        and mixed.origin = plain.origin
where
    mixed.step_class = 'mixed'
    and mixed.origin = (select min(origin) from step_times)
"""


def read_shares(con: duckdb.DuckDBPyConnection) -> tuple[Share, ...]:
    """Return the seconds of each reason, the most expensive first, those that cannot be told last."""
    shares = [look(con) for look in (_preemption, _decode_bytes, _tier_loads, _batch)]
    return tuple(sorted(shares, key=lambda share: (share.seconds is None, -(share.seconds or 0.0))))


def share_words(shares: tuple[Share, ...]) -> str:
    """Return the ranking in words: ``time that streams lose in all: preemption 88 s, ...``."""
    told = [f"{share.name} {format_number(share.seconds)} s" for share in shares if share.seconds is not None]
    open_ones = [f"{share.name} ({share.missing})" for share in shares if share.seconds is None]
    parts = [f"time of all streams together: {', '.join(told)}"] if told else []
    if open_ones:
        parts.append(f"cannot tell: {', '.join(open_ones)}")
    return "; ".join(parts)


def _preemption(con: duckdb.DuckDBPyConnection) -> Share:
    rows = query_rows(con, ("swap_points",), _Preempted, _PREEMPTED_SQL)
    if not rows or rows[0].point_count == 0:
        is_known = has_rows(con, "kv_occupancy")
        return Share(PREEMPTION, 0.0) if is_known else Share(PREEMPTION, None, "no KV occupancy")
    # What was measured of some swap points would understate all of them.
    is_measured = rows[0].unmeasured_count == 0
    return (
        Share(PREEMPTION, rows[0].lost_s or 0.0) if is_measured else Share(PREEMPTION, None, "no token times")
    )


def _decode_bytes(con: duckdb.DuckDBPyConnection) -> Share:
    missing = "needs the model's shape, the GPU's bandwidth and token counts"
    return _summed(con, DECODE_BYTES, ("bandwidth_ledger", "token_latency"), _DECODE_SQL, missing)


def _tier_loads(con: duckdb.DuckDBPyConnection) -> Share:
    if not has_rows(con, "transfers"):
        return Share(TIER_LOADS, None, "no trace of copies")
    rows = query_rows(con, ("transfers",), _Seconds, _LOADS_SQL)
    return Share(TIER_LOADS, rows[0].value or 0.0 if rows else 0.0)


def _batch(con: duckdb.DuckDBPyConnection) -> Share:
    return _summed(con, BATCH, ("step_times",), _BATCH_SQL, "no times of mixed steps")


def _summed(
    con: duckdb.DuckDBPyConnection, name: str, marts: tuple[str, ...], sql: str, missing: str
) -> Share:
    rows = query_rows(con, marts, _Seconds, sql)
    seconds = rows[0].value if rows else None
    return Share(name, seconds, "" if seconds is not None else missing)
