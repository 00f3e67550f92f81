"""What the nightly job remembers, in tables of the store: folders, verdicts and what was told to whom."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb

from kvcliff import __version__
from kvcliff.errors import StoreError
from kvcliff.nightly.gate import Check, Judgement
from kvcliff.store.database import roll_back, stored_table

FolderStatus = Literal["begun", "stored", "set_aside"]


@dataclass(frozen=True)
class FolderState:
    """What became of a run folder.

    Attributes:
        folder: its path relative to the root.
        fingerprint: what it held when it was looked at.
        state: ``begun`` (a pass died while reading it), ``stored`` or ``set_aside``.
        stored_run_id: the run it became, or ``None``.
        attempt_count: how often reading it was begun without an end.
        reason: why it was set aside.
        hint: what to do about it.
        kvcliff_version: version that looked at it.
        changed_at_ns: when this was written, unix ns.
        announced_at_ns: when a finished pass told of it, or ``None``.
    """

    folder: str
    fingerprint: str
    state: FolderStatus
    stored_run_id: str | None
    attempt_count: int
    reason: str | None
    hint: str | None
    kvcliff_version: str
    changed_at_ns: int
    announced_at_ns: int | None = None


@dataclass(frozen=True)
class StoredJudgement:
    """A judgement as it is stored.

    Attributes:
        judgement: what the gate said.
        order_ns: time that orders runs in a series.
        announced_at_ns: when a finished pass told of it, or ``None``.
        accepted_at_ns: when somebody accepted the run as the new normal, or ``None``.
    """

    judgement: Judgement
    order_ns: int
    announced_at_ns: int | None
    accepted_at_ns: int | None


def root_id(root: Path) -> str:
    """Return the id that stands for a root in the store, where no folder path belongs."""
    return hashlib.sha256(str(root.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:8]


@contextmanager
def one_transaction(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Do what the block does in one transaction.

    Raises:
        StoreError: the database cannot be written; nothing of the block is stored then.
    """
    try:
        con.execute("begin transaction")
        yield
        con.execute("commit")
    except duckdb.Error as exc:
        roll_back(con)
        raise StoreError(
            f"the database could not be written: {str(exc).splitlines()[0]}",
            hint="check free disk space and permissions; the next pass goes on from here",
        ) from exc
    except BaseException:
        roll_back(con)
        raise


def folder_states(con: duckdb.DuckDBPyConnection, root: str) -> dict[str, FolderState]:
    """Return what became of the folders of a root, by folder."""
    rows = con.execute(
        f"""
        select folder, fingerprint, state, stored_run_id, attempt_count, reason, hint, kvcliff_version,
            changed_at_ns, announced_at_ns
        from {stored_table(con, "nightly_folders")} where root_id = ? order by folder
        """,  # noqa: S608
        [root],
    ).fetchall()
    return {row[0]: FolderState(*row) for row in rows}


def remember_folder(con: duckdb.DuckDBPyConnection, root: str, state: FolderState) -> None:
    """Write what became of a folder in place of what was known.

    Raises:
        StoreError: the database cannot be written.
    """
    table = stored_table(con, "nightly_folders")
    with one_transaction(con):
        con.execute(f"delete from {table} where root_id = ? and folder = ?", [root, state.folder])  # noqa: S608
        con.execute(
            f"insert into {table} values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            [
                root,
                state.folder,
                state.fingerprint,
                state.state,
                state.stored_run_id,
                state.attempt_count,
                state.reason,
                state.hint,
                state.kvcliff_version,
                state.changed_at_ns,
                state.announced_at_ns,
            ],
        )


def is_used_elsewhere(con: duckdb.DuckDBPyConnection, root: str, folder: str, run_id: str) -> bool:
    """Return whether another folder became the same run (same name, same content)."""
    table = stored_table(con, "nightly_folders")
    row = con.execute(
        f"select 1 from {table} where stored_run_id = ? and (root_id <> ? or folder <> ?) limit 1",  # noqa: S608
        [run_id, root, folder],
    ).fetchone()
    return row is not None


def remember_judgement(
    con: duckdb.DuckDBPyConnection, judgement: Judgement, *, order_ns: int, now_ns: int
) -> None:
    """Write a judgement with its checks in one transaction, in place of an earlier one of the run.

    Raises:
        StoreError: the database cannot be written.
    """
    verdicts, checks = stored_table(con, "nightly_verdicts"), stored_table(con, "nightly_checks")
    with one_transaction(con):
        for table in (verdicts, checks):
            con.execute(f"delete from {table} where run_id = ?", [judgement.run_id])  # noqa: S608
        con.execute(
            f"insert into {verdicts} values (?, ?, ?, ?, ?, ?, ?, ?, ?, null, null)",  # noqa: S608
            [
                judgement.run_id,
                judgement.series,
                judgement.verdict,
                judgement.summary,
                judgement.cause,
                json.dumps(judgement.base_run_ids),
                order_ns,
                __version__,
                now_ns,
            ],
        )
        for number, check in enumerate(judgement.checks, 1):
            con.execute(
                f"insert into {checks} values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
                [
                    judgement.run_id,
                    number,
                    check.metric,
                    check.title,
                    check.unit,
                    check.level,
                    check.outcome,
                    check.severity,
                    check.base_value,
                    check.run_value,
                    check.change_ratio,
                    check.minimum_change_ratio,
                    check.message,
                    check.is_gating,
                ],
            )


def unannounced_judgements(con: duckdb.DuckDBPyConnection) -> tuple[StoredJudgement, ...]:
    """Return the judgements that no finished pass has told of yet, in the order of their runs."""
    return _judgements(con, "announced_at_ns is null", [])


def judgements_of_series(
    con: duckdb.DuckDBPyConnection, series: str, *, limit: int
) -> tuple[StoredJudgement, ...]:
    """Return the newest judgements of a series, oldest first."""
    newest = (
        f"run_id in (select run_id from {stored_table(con, 'nightly_verdicts')} "  # noqa: S608
        "where series = ? order by order_ns desc, run_id desc limit ?)"
    )
    return _judgements(con, newest, [series, limit])


def series_names(con: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Return the names of all series that have a judgement."""
    table = stored_table(con, "nightly_verdicts")
    rows = con.execute(f"select distinct series from {table} order by series").fetchall()  # noqa: S608
    return tuple(row[0] for row in rows)


def _judgements(
    con: duckdb.DuckDBPyConnection, condition: str, parameters: Sequence[object]
) -> tuple[StoredJudgement, ...]:
    rows = con.execute(
        f"""
        select run_id, series, verdict, summary, cause, base_run_ids, order_ns, announced_at_ns,
            accepted_at_ns
        from {stored_table(con, "nightly_verdicts")} where {condition} order by order_ns, run_id
        """,  # noqa: S608
        list(parameters),
    ).fetchall()
    checks = _checks(con, [row[0] for row in rows])
    return tuple(
        StoredJudgement(
            Judgement(
                run_id=row[0],
                series=row[1],
                verdict=row[2],
                summary=row[3],
                cause=row[4],
                base_run_ids=tuple(json.loads(row[5])),
                checks=tuple(checks.get(row[0], ())),
            ),
            order_ns=row[6],
            announced_at_ns=row[7],
            accepted_at_ns=row[8],
        )
        for row in rows
    )


def _checks(con: duckdb.DuckDBPyConnection, run_ids: list[str]) -> dict[str, list[Check]]:
    rows = con.execute(
        f"""
        select run_id, metric, title, unit, level, outcome, severity, base_value, run_value, change_ratio,
            minimum_change_ratio, message, is_gating
        from {stored_table(con, "nightly_checks")}
        where run_id in (select unnest(?::varchar[])) order by run_id, check_no
        """,  # noqa: S608
        [run_ids],
    ).fetchall()
    found: dict[str, list[Check]] = {}
    for run_id, *columns in rows:
        found.setdefault(run_id, []).append(Check(*columns))
    return found


def announce(con: duckdb.DuckDBPyConnection, root: str, run_ids: Sequence[str], *, now_ns: int) -> None:
    """Note that a pass has told of these runs and of the folders that were set aside.

    Until then every pass tells of them again, so that an alarm cannot get lost with a killed process.

    Raises:
        StoreError: the database cannot be written.
    """
    with one_transaction(con):
        con.execute(
            f"update {stored_table(con, 'nightly_verdicts')} set announced_at_ns = ? "  # noqa: S608
            "where run_id in (select unnest(?::varchar[]))",
            [now_ns, list(run_ids)],
        )
        con.execute(
            f"update {stored_table(con, 'nightly_folders')} set announced_at_ns = ? "  # noqa: S608
            "where root_id = ? and state = 'set_aside' and announced_at_ns is null",
            [now_ns, root],
        )


def accept(con: duckdb.DuckDBPyConnection, run_id: str, *, now_ns: int) -> bool:
    """Note that a run is the new normal of its series and return whether it had a verdict.

    Raises:
        StoreError: the database cannot be written.
    """
    table = stored_table(con, "nightly_verdicts")
    known = con.execute(f"select 1 from {table} where run_id = ?", [run_id]).fetchone()  # noqa: S608
    if known is None:
        return False
    with one_transaction(con):
        con.execute(f"update {table} set accepted_at_ns = ? where run_id = ?", [now_ns, run_id])  # noqa: S608
    return True
