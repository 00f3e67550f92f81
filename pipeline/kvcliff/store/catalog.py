"""The runs of a store: listing, finding one by id or name, showing its files, removing and pruning."""

from dataclasses import dataclass

import duckdb

from kvcliff.errors import StoreError, UsageProblem
from kvcliff.store.database import stored_table, table_names
from kvcliff.store.models import load_seeds

NS_PER_DAY = 24 * 3600 * 1_000_000_000


@dataclass(frozen=True)
class StoredRun:
    """One run of the store, as its ``runs`` row says."""

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


@dataclass(frozen=True)
class StoredSource:
    """One file of a stored run and what came of it."""

    path: str
    reader: str | None
    role: str | None
    level: str | None
    replica: str | None
    status: str
    reason: str | None
    row_count: int
    skipped_count: int
    first_skip_reason: str | None
    offset_ns: int | None
    uncertainty_ns: int | None
    clock_method: str | None


@dataclass(frozen=True)
class StoredFinding:
    """One finding of a stored run; ``evidence`` is JSON text."""

    finding_no: int
    finding: str
    verdict: str
    severity: str
    confidence: float | None
    summary: str
    action: str | None
    capture: str | None
    evidence: str | None


def list_runs(con: duckdb.DuckDBPyConnection) -> tuple[StoredRun, ...]:
    """Return all runs, by name and then oldest first."""
    if "runs" not in table_names(con):
        return ()
    rows = con.execute(
        f"""
        select run_id, name, labels, status, utc_known, started_at_ns, ended_at_ns, level_count, file_count,
            kvcliff_version, ingested_at_ns
        from {stored_table(con, "runs")}
        order by name, ingested_at_ns, run_id
        """  # noqa: S608
    ).fetchall()
    return tuple(StoredRun(*row) for row in rows)


def find_run(con: duckdb.DuckDBPyConnection, id_or_name: str) -> StoredRun:
    """Return the run with this id, or the only run with this name.

    Raises:
        UsageProblem: no run or more than one run answers to it.
    """
    runs = list_runs(con)
    matches = [run for run in runs if run.run_id == id_or_name] or [
        run for run in runs if run.name == id_or_name
    ]
    if not matches:
        raise UsageProblem(f"the database holds no run {id_or_name}", hint="see the runs: kvcliff runs list")
    if len(matches) > 1:
        ids = ", ".join(run.run_id for run in matches)
        raise UsageProblem(
            f"the database holds {len(matches)} runs named {id_or_name}", hint=f"give one id: {ids}"
        )
    return matches[0]


def list_sources(con: duckdb.DuckDBPyConnection, run_id: str) -> tuple[StoredSource, ...]:
    """Return the files of a run in path order, with their clocks."""
    rows = con.execute(
        f"""
        select sources.path, sources.reader, sources.role, sources.level, sources.replica, sources.status,
            sources.reason, sources.row_count, sources.skipped_count, sources.first_skip_reason,
            clocks.offset_ns, clocks.uncertainty_ns, clocks.method
        from {stored_table(con, "sources")} as sources
        left join {stored_table(con, "clocks")} as clocks
            on sources.run_id = clocks.run_id and sources.source_id = clocks.source_id
        where sources.run_id = ?
        order by sources.path, sources.source_id
        """,  # noqa: S608
        [run_id],
    ).fetchall()
    return tuple(StoredSource(*row) for row in rows)


def list_findings(con: duckdb.DuckDBPyConnection, run_id: str) -> tuple[StoredFinding, ...]:
    """Return the findings of a run in the order of its report."""
    rows = con.execute(
        f"""
        select finding_no, finding, verdict, severity, confidence, summary, action, capture, evidence
        from {stored_table(con, "findings")} where run_id = ? order by finding_no
        """,  # noqa: S608
        [run_id],
    ).fetchall()
    return tuple(StoredFinding(*row) for row in rows)


def count_rows(con: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, int]:
    """Return how many rows each stored table holds for a run; tables without any are left out."""
    counts: dict[str, int] = {}
    for name in sorted(run_table_names(con)):
        table = stored_table(con, name)
        row = con.execute(f"select count(*) from {table} where run_id = ?", [run_id]).fetchone()  # noqa: S608
        if row is not None and row[0]:
            counts[name] = row[0]
    return counts


def remove_runs(con: duckdb.DuckDBPyConnection, run_ids: tuple[str, ...]) -> None:
    """Delete runs with all their rows in one transaction.

    Raises:
        StoreError: the database cannot be written.
    """
    try:
        con.execute("begin transaction")
        for name in sorted(run_table_names(con)):
            table = stored_table(con, name)
            con.execute(f"delete from {table} where run_id in (select unnest(?))", [list(run_ids)])  # noqa: S608
        con.execute("commit")
        con.execute("checkpoint")
    except duckdb.Error as exc:
        raise StoreError(
            f"the runs could not be removed: {str(exc).splitlines()[0]}",
            hint="check free disk space and permissions",
        ) from exc


def runs_to_prune(
    runs: tuple[StoredRun, ...], *, newest: int | None, older_than_days: float | None, now_ns: int
) -> tuple[StoredRun, ...]:
    """Return the runs that a prune would remove.

    Args:
        runs: all runs.
        newest: keep this many of each name, by time of ingest.
        older_than_days: remove only what was ingested longer ago than this.
        now_ns: the present, unix ns.
    """
    doomed = []
    for run in runs:
        newer = [other for other in runs if other.name == run.name and _age_key(other) > _age_key(run)]
        if newest is not None and len(newer) < newest:
            continue
        if older_than_days is not None and now_ns - run.ingested_at_ns <= older_than_days * NS_PER_DAY:
            continue
        doomed.append(run)
    return tuple(doomed)


def _age_key(run: StoredRun) -> tuple[int, str]:
    return run.ingested_at_ns, run.run_id


def stored_policy(con: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, float]:
    """Return the thresholds that a policy had changed when the run was stored."""
    if "thresholds" not in table_names(con):
        return {}
    rows = con.execute(
        f"""
        select name, value from {stored_table(con, "thresholds")}
        where run_id = ? and source = 'policy' order by name
        """,  # noqa: S608
        [run_id],
    ).fetchall()
    return dict(rows)


def threshold_names() -> frozenset[str]:
    """Return the names of all thresholds that a policy may change."""
    with duckdb.connect() as con:
        load_seeds(con)
        return frozenset(row[0] for row in con.execute("select name from thresholds").fetchall())


def run_table_names(con: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Return the names of the stored tables whose rows belong to runs."""
    rows = con.execute(
        """
        select table_name from duckdb_columns()
        where column_name = 'run_id' and schema_name = 'main' and database_name = current_database()
        """
    ).fetchall()
    return table_names(con) & frozenset(row[0] for row in rows)
