"""What each source of a run says about its own clock, before any comparison."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

import duckdb

from kvcliff.readers.run_config import RunConfig
from kvcliff.units import NS_PER_S

ClockKind = Literal["utc", "zone", "local", "relative", "none"]
#: Times from here on are nanoseconds since 1970 (2001 and later); clocks that start at boot stay below.
_UNIX_FROM_NS = 1_000_000_000_000_000_000
#: Who is believed first when stated clocks disagree.
_PRIORITY = {"trace": 0, "metrics": 1, "client": 2, "log": 4, "device": 5, "counters": 6}
_ZONE_LOG_PRIORITY = 3
#: Raw tables with times: the columns whose least and greatest values bound the source.
_TIMED_TABLES: tuple[tuple[str, str, str], ...] = (
    ("raw_metric_scrapes", "src_ns", "src_ns"),
    ("raw_client_requests", "submit_src_ns", "done_src_ns"),
    ("raw_client_tokens", "src_ns", "src_ns"),
    ("raw_log_stats", "src_ns", "src_ns"),
    ("raw_log_iterations", "src_ns", "src_ns"),
    ("raw_log_events", "src_ns", "src_ns"),
    ("raw_log_requests", "src_ns", "src_ns"),
    ("raw_log_access", "after_src_ns", "before_src_ns"),
    ("raw_cache_lookups", "src_ns", "src_ns"),
    ("raw_tier_transfers", "src_ns", "src_ns"),
    ("raw_tier_samples", "src_ns", "src_ns"),
    ("raw_device_samples", "src_ns", "src_ns"),
    ("raw_gpu_metrics", "src_ns", "src_ns"),
    ("raw_kernels", "start_src_ns", "end_src_ns"),
    ("raw_graph_launches", "start_src_ns", "end_src_ns"),
    ("raw_copies", "start_src_ns", "end_src_ns"),
    ("raw_launches", "start_src_ns", "end_src_ns"),
    ("raw_nvtx_ranges", "start_src_ns", "end_src_ns"),
)


@dataclass(frozen=True)
class ClockSource:
    """One source with times.

    Attributes:
        source_id: the source.
        role: what it is for the diagnosis.
        folder: folder inside the run.
        level: level of a sweep, or ``None``.
        replica: replica, or ``None``.
        kind: what its times are: UTC (``zone``: by the zone of its stamps), local, relative, or none at all.
        stated_ns: [ns] offset to UTC that it states (0 unless its times are relative to a stated instant).
        is_year_known: whether its dates have their real year.
        stamp_ns: [ns] width of its stamps; a stamp is the floor of the event.
        manual_ns: [ns] offset given in run.toml, or ``None``.
        first_ns: [ns] first time on its own clock, ``None`` without times.
        last_ns: [ns] last time.
        result_end_ns: [ns] local time at which a client wrote its result, when stated.
    """

    source_id: int
    role: str
    folder: str
    level: str | None
    replica: str | None
    kind: ClockKind
    stated_ns: int
    is_year_known: bool
    stamp_ns: int
    manual_ns: int | None
    first_ns: int | None
    last_ns: int | None
    result_end_ns: int | None

    @property
    def is_utc(self) -> bool:
        """Return whether the source itself states UTC."""
        return self.kind in ("utc", "zone")

    @property
    def priority(self) -> tuple[int, int]:
        """Return the rank in which the source is believed; lower is first."""
        rank = _ZONE_LOG_PRIORITY if self.role == "log" and self.is_utc else _PRIORITY.get(self.role, 9)
        return rank, self.source_id

    def shares_group_with(self, other: "ClockSource") -> bool:
        """Return whether both may have seen the same events (same level, no different replicas)."""
        return self.level == other.level and (
            None in (self.replica, other.replica) or self.replica == other.replica
        )


def read_clock_sources(con: duckdb.DuckDBPyConnection, config: RunConfig) -> tuple[ClockSource, ...]:
    """Return every source that has times, or a result date, in order of its id."""
    spans = _spans(con)
    ends = _result_ends(con)
    settings = _clock_settings(con)
    epochs = _session_starts(con)
    rows = con.execute(
        "select source_id, path, role, level, replica from temp.sources order by source_id"
    ).fetchall()
    found = []
    for source_id, path, role, level, replica in rows:
        if source_id not in spans and source_id not in ends:
            continue
        first, last = spans.get(source_id, (None, None))
        facts = settings.get(source_id, {})
        kind, stated = _kind(role, first, facts, epochs.get(source_id))
        rule = config.rule_for(path)
        manual_s = rule.clock_offset_s if rule is not None else None
        found.append(
            ClockSource(
                source_id=source_id,
                role=role or "",
                folder=PurePosixPath(path).parent.as_posix(),
                level=level,
                replica=replica,
                kind=kind,
                stated_ns=stated,
                is_year_known=role != "log" or facts.get("log_stamp_year_known") == "true",
                stamp_ns=int(facts.get("log_stamp_resolution_ns", NS_PER_S)) if role == "log" else 0,
                manual_ns=round(manual_s * NS_PER_S) if manual_s is not None else None,
                first_ns=first,
                last_ns=last,
                result_end_ns=ends.get(source_id),
            )
        )
    return tuple(found)


def _kind(
    role: str | None, first_ns: int | None, facts: Mapping[str, str], epoch_ns: int | None
) -> tuple[ClockKind, int]:
    """Return the kind of clock and the offset to UTC that the source states."""
    if first_ns is None:
        return "none", 0
    if role == "log":
        is_zoned = facts.get("log_stamp_zone_known") == "true" and facts.get("log_stamp_year_known") == "true"
        return ("zone" if is_zoned else "local"), 0
    if role == "trace":
        if epoch_ns is not None:
            return "utc", epoch_ns
        return ("utc" if first_ns >= _UNIX_FROM_NS else "relative"), 0
    stated = next(
        (facts[name] for name in ("series_clock", "client_clock", "device_clock") if name in facts), None
    )
    if stated == "unix" or (stated is None and first_ns >= _UNIX_FROM_NS):
        return "utc", 0
    return ("local" if stated == "local" else "relative"), 0


def _spans(con: duckdb.DuckDBPyConnection) -> dict[int, tuple[int | None, int | None]]:
    """Return the first and the last time of each source that has rows which could be timed."""
    parts = " union all ".join(
        f"select source_id, min({first}) as first_ns, max({last}) as last_ns "  # noqa: S608
        f"from temp.{table} group by source_id"
        for table, first, last in _TIMED_TABLES
    )
    rows = con.execute(
        f"select source_id, min(first_ns), max(last_ns) from ({parts}) group by source_id order by source_id"  # noqa: S608
    ).fetchall()
    return {source_id: (first, last) for source_id, first, last in rows}


def _result_ends(con: duckdb.DuckDBPyConnection) -> dict[int, int]:
    rows = con.execute(
        """
        select source_id, max(value) from temp.raw_client_summary
        where name = 'end_local_ns' and value is not null group by source_id order by source_id
        """
    ).fetchall()
    return {source_id: int(value) for source_id, value in rows}


def _clock_settings(con: duckdb.DuckDBPyConnection) -> dict[int, dict[str, str]]:
    """Return the facts about clocks that the readers left in the settings, by source."""
    rows = con.execute(
        """
        select source_id, name, min(value) from temp.raw_settings
        where name in (
            'series_clock', 'client_clock', 'device_clock', 'log_stamp_year_known', 'log_stamp_zone_known',
            'log_stamp_resolution_ns'
        )
        group by source_id, name order by source_id, name
        """
    ).fetchall()
    facts: dict[int, dict[str, str]] = {}
    for source_id, name, value in rows:
        facts.setdefault(source_id, {})[name] = value
    return facts


def _session_starts(con: duckdb.DuckDBPyConnection) -> dict[int, int]:
    """Return the UTC of the session start of each trace that states it."""
    rows = con.execute(
        """
        select source_id, max(try_cast(value as bigint)) from temp.raw_capture_facts
        where name = 'utc_epoch_ns' and scope = '' group by source_id order by source_id
        """
    ).fetchall()
    return {source_id: value for source_id, value in rows if value is not None}
