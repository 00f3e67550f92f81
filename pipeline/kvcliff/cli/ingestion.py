"""A run folder into the store, findings included: the work that ``ingest`` and ``diagnose`` share."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import duckdb

from kvcliff import __version__
from kvcliff.cli.policy import read_policy
from kvcliff.errors import InputError, KvcliffError, StoreError, UsageProblem
from kvcliff.findings.diagnosis import run_findings
from kvcliff.store.catalog import StoredRun, find_run, list_runs, list_sources, stored_policy, threshold_names
from kvcliff.store.database import open_store
from kvcliff.store.ingest import drop_staged, stage_run, store_run
from kvcliff.store.plan import RunPlan, plan_run
from kvcliff.store.window import WindowRequest
from kvcliff.timing import stage


@dataclass(frozen=True)
class IngestOptions:
    """How runs are read: database, configuration, what counts as an error, and which part of them."""

    db_path: Path
    config_path: Path | None = None
    policy_path: Path | None = None
    memory_limit: str | None = None
    is_strict: bool = False
    is_kept: bool = False
    window: WindowRequest | None = None

    @cached_property
    def policy(self) -> dict[str, float]:
        """The threshold values of the policy file."""
        return read_policy(self.policy_path, threshold_names()) if self.policy_path is not None else {}

    def open(self, runs: Iterable[Path]) -> duckdb.DuckDBPyConnection:
        """Return a connection to the database, which is created when absent.

        What is wrong with the arguments is said first, so that it leaves no empty database behind.

        Raises:
            UsageProblem: a run does not exist, or the policy cannot be used.
            StoreError: the database cannot be opened.
        """
        for path in runs:
            if not path.exists():
                raise UsageProblem(
                    f"there is no run at {path}", hint="give a folder with the files of one load test"
                )
        _ = self.policy
        return open_store(self.db_path, memory_limit=self.memory_limit)


@dataclass(frozen=True)
class Ingested:
    """A run that is in the store now, whether it had been there before, and what was assumed of a window."""

    run: StoredRun
    was_stored: bool
    notes: tuple[str, ...] = ()


def ingest_run(con: duckdb.DuckDBPyConnection, path: Path, options: IngestOptions) -> Ingested:
    """Read, judge and store one run; the same content under the same thresholds is not read again.

    Args:
        con: connection to the store.
        path: folder or file of the run.
        options: how to read it.

    Raises:
        UsageProblem: the path, run.toml or the policy cannot be used.
        InputError: nothing is readable, or ``--strict`` and something is damaged.
        StoreError: the database cannot take the run; nothing of it is stored then.
    """
    with stage(f"look at {path}"):
        plan = plan_run(path, config_path=options.config_path, window=options.window)
    stored = _same_content(con, plan, options.policy)
    if stored is not None:
        _check_strict(con, stored, options)
        return Ingested(stored, was_stored=True)
    try:
        staged = stage_run(con, plan, strict=options.is_strict, policy=options.policy)
        with stage("findings"):
            run_findings(con)
        store_run(con, staged, keep=options.is_kept)
    except KvcliffError:
        drop_staged(con)
        raise
    except duckdb.Error as exc:
        raise StoreError(
            f"the database engine stopped while reading {path}: {str(exc).splitlines()[0]}",
            hint="check free disk space and --memory-limit; nothing of the run was stored",
        ) from exc
    notes = staged.window.notes if staged.window is not None else ()
    return Ingested(find_run(con, staged.run_id), was_stored=False, notes=notes)


def _same_content(
    con: duckdb.DuckDBPyConnection, plan: RunPlan, policy: dict[str, float]
) -> StoredRun | None:
    """Return the stored run with this very content, read by this version under these thresholds."""
    for run in list_runs(con):
        if (
            run.run_id == plan.run_id
            and run.kvcliff_version == __version__
            and stored_policy(con, run.run_id) == policy
        ):
            return run
    return None


def _check_strict(con: duckdb.DuckDBPyConnection, run: StoredRun, options: IngestOptions) -> None:
    if not options.is_strict:
        return
    for source in list_sources(con, run.run_id):
        if source.status in ("damaged", "refused"):
            raise InputError(
                f"{source.path}: {source.reason}", hint="run without --strict to use the rest of the run"
            )
