"""The runs of a store as a list: filters, verdicts, and how latency moved since the run before."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

import duckdb

from kvcliff.store.database import stored_table, table_names


@dataclass(frozen=True)
class ListedRun:
    """One run of the list.

    Attributes:
        run_id: the run.
        name: its name.
        labels: its labels as ``key=value`` with commas.
        status: ok or partial.
        is_utc_known: whether the run clock is tied to UTC.
        started_at_ns: first time on the run clock.
        ended_at_ns: last time on the run clock.
        level_count: levels of a sweep.
        file_count: files looked at.
        kvcliff_version: version that read it.
        ingested_at_ns: when it was read.
        gravest: severity of the gravest finding that was found (critical, warning), else ``ok``.
        gate: verdict of the nightly gate, ``None`` when it did not judge the run.
        latency_ms: indicator of token latency.
        latency_change_ratio: that over the one of the run before with the same name and labels, minus 1.
        kv_used_ratio: indicator of KV occupancy.
        swap_point_count: indicator of swap points.
        has_raw: whether its raw rows are still there.
    """

    run_id: str
    name: str
    labels: str | None
    status: str
    is_utc_known: bool
    started_at_ns: int | None
    ended_at_ns: int | None
    level_count: int
    file_count: int
    kvcliff_version: str
    ingested_at_ns: int
    gravest: str
    gate: str | None
    latency_ms: float | None
    latency_change_ratio: float | None
    kv_used_ratio: float | None
    swap_point_count: float | None
    has_raw: bool


@dataclass(frozen=True)
class RunFilter:
    """Which runs of the list are wanted; every given filter must hold.

    Attributes:
        labels: ``key=value`` or ``key``, each of which the run must have.
        name: pattern of the name.
        since_ns: runs that began (or were read, without a clock) no earlier.
        verdicts: words of ``gravest`` or ``gate``, one of which the run must have.
    """

    labels: tuple[str, ...] = ()
    name: str | None = None
    since_ns: int | None = None
    verdicts: tuple[str, ...] = ()

    def accepts(self, run: ListedRun) -> bool:
        """Return whether a run is wanted."""
        if self.name is not None and not fnmatchcase(run.name, self.name):
            return False
        if self.since_ns is not None and _when_ns(run) < self.since_ns:
            return False
        if self.verdicts and run.gravest not in self.verdicts and run.gate not in self.verdicts:
            return False
        return all(_has_label(run.labels, label) for label in self.labels)


def _when_ns(run: ListedRun) -> int:
    return run.started_at_ns if run.started_at_ns is not None else run.ingested_at_ns


def _has_label(labels: str | None, wanted: str) -> bool:
    """Return whether a label stands in the text between commas; values may hold commas themselves."""
    text = f", {labels}, " if labels else ""
    return f", {wanted}, " in text or ("=" not in wanted and f", {wanted}=" in text)


def list_with_trends(
    con: duckdb.DuckDBPyConnection, wanted: RunFilter, *, limit: int | None = None
) -> tuple[ListedRun, ...]:
    """Return the wanted runs by name and then oldest first; with ``limit`` only the newest of them.

    Args:
        con: connection to the store.
        wanted: which runs.
        limit: how many at most.
    """
    if "runs" not in table_names(con):
        return ()
    rows = con.execute(_query(con)).fetchall()
    found = [run for run in (ListedRun(*row) for row in rows) if wanted.accepts(run)]
    if limit is not None and len(found) > limit:
        newest = sorted(found, key=lambda run: (_when_ns(run), run.run_id))[-limit:]
        kept = {run.run_id for run in newest}
        found = [run for run in found if run.run_id in kept]
    return tuple(found)


def _query(con: duckdb.DuckDBPyConnection) -> str:
    """Return the query; tables that an older or empty store lacks read as no rows."""
    present = table_names(con)

    def table(name: str, columns: str) -> str:
        if name in present:
            return f"(select {columns} from {stored_table(con, name)})"  # noqa: S608
        empty = ", ".join(f"null as {column}" for column in columns.split(", "))
        return f"(select {empty} where false)"

    return f"""
        with

        gravest_findings as (

            select
                run_id,
                min(case severity when 'critical' then 1 when 'warning' then 2 else 3 end) as rank
            from {table("findings", "run_id, verdict, severity")}
            where verdict = 'found'
            group by run_id

        ),

        values_by_run as (

            select
                run_id,
                max(value) filter (where indicator = 'token_latency') as latency_ms,
                max(value) filter (where indicator = 'kv_occupancy') as kv_used_ratio,
                max(value) filter (where indicator = 'swap_count') as swap_point_count
            from {table("indicators", "run_id, indicator, value")}
            group by run_id

        ),

        with_neighbours as (

            select
                runs.run_id,
                values_by_run.latency_ms,
                lag(values_by_run.latency_ms) over (
                    partition by runs.name, runs.labels
                    order by coalesce(runs.started_at_ns, runs.ingested_at_ns), runs.run_id
                ) as earlier_latency_ms,
                values_by_run.kv_used_ratio,
                values_by_run.swap_point_count
            from {stored_table(con, "runs")} as runs
            left join values_by_run on runs.run_id = values_by_run.run_id

        )

        select
            runs.run_id,
            runs.name,
            runs.labels,
            runs.status,
            runs.utc_known,
            runs.started_at_ns,
            runs.ended_at_ns,
            runs.level_count,
            runs.file_count,
            runs.kvcliff_version,
            runs.ingested_at_ns,
            case gravest_findings.rank when 1 then 'critical' when 2 then 'warning' else 'ok' end as gravest,
            verdicts.verdict as gate,
            values.latency_ms,
            values.latency_ms / nullif(values.earlier_latency_ms, 0) - 1 as latency_change_ratio,
            values.kv_used_ratio,
            values.swap_point_count,
            retention.run_id is null as has_raw
        from {stored_table(con, "runs")} as runs
        inner join with_neighbours as values on runs.run_id = values.run_id
        left join gravest_findings on runs.run_id = gravest_findings.run_id
        left join {table("nightly_verdicts", "run_id, verdict")} as verdicts on runs.run_id = verdicts.run_id
        left join {table("retention", "run_id")} as retention on runs.run_id = retention.run_id
        order by runs.name, runs.ingested_at_ns, runs.run_id
    """  # noqa: S608
