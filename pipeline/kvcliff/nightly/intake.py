"""Taking a run folder into the store, once, and telling a broken run from a broken machine."""

import errno
import os
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import duckdb

from kvcliff.errors import InputError, KvcliffError, OutputError, StoreError, StoreLockedError
from kvcliff.findings.diagnosis import run_findings
from kvcliff.nightly.discovery import RunFolder
from kvcliff.store.database import quote
from kvcliff.store.ingest import drop_staged, is_stored, stage_run, store_run
from kvcliff.store.plan import plan_run
from kvcliff.timing import stage

#: Failures of the machine, which the next folder would meet too. A plain error of the store is none: a table
#: of another version, say, concerns the one run.
_MACHINE_ERRORS = (
    StoreLockedError,
    duckdb.IOException,
    duckdb.FatalException,
    duckdb.TransactionException,
    duckdb.ConnectionException,
)
_MACHINE_ERROR_NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE)


class FolderChangedError(InputError):
    """A folder changed while it was being read: it is not complete yet."""

    code = "folder_changed"


@dataclass(frozen=True)
class Refusal:
    """Why something could not be done for one run, what to do about it, and whether kvcliff is to blame."""

    reason: str
    hint: str | None
    is_bug: bool = False


def take_in(
    con: duckdb.DuckDBPyConnection,
    run: RunFolder,
    thresholds: Mapping[str, float],
    *,
    is_unchanged: Callable[[RunFolder], bool],
) -> str:
    """Return the id of the run in the store; a run whose content is already there is not read again.

    Args:
        con: connection to the store.
        run: the folder.
        thresholds: threshold values of the policy.
        is_unchanged: asked after reading whether the folder still is what it was.

    Raises:
        FolderChangedError: it is not; nothing of it is stored then.
        KvcliffError: nothing in it can be read, or the store cannot take it.
    """
    with stage(f"look at {run.folder}"):
        plan = plan_run(run.path)
    if is_stored(con, plan.run_id):
        return plan.run_id
    staged = stage_run(con, plan, policy=thresholds)
    with stage("findings"):
        run_findings(con)
    if not is_unchanged(run):
        raise FolderChangedError(
            f"{run.folder} changed while it was being read", hint="the next pass looks at it again"
        )
    store_run(con, staged, keep=True)
    return staged.run_id


def clear_away(con: duckdb.DuckDBPyConnection) -> None:
    """Drop what reading or showing a run left in the temporary schema, so that the next run finds it empty.

    Raises:
        StoreError: the database does not answer any more.
    """
    try:
        drop_staged(con)
        views = con.execute(
            "select view_name from duckdb_views() where temporary and not internal"
        ).fetchall()
        for (name,) in views:
            con.execute(f"drop view if exists temp.{quote(name)}")
    except duckdb.Error as exc:
        raise StoreError(
            f"the database stopped: {str(exc).splitlines()[0]}",
            hint="check free disk space; the next pass goes on from here",
        ) from exc


def is_machine_error(error: BaseException) -> bool:
    """Return whether an error says that the machine failed (disk, permissions), not this one run."""
    links = list(_chain(error))
    is_output = any(isinstance(link, OutputError) for link in links)
    return any(
        isinstance(link, _MACHINE_ERRORS)
        or (isinstance(link, OSError) and (is_output or link.errno in _MACHINE_ERROR_NUMBERS))
        for link in links
    )


def is_interrupt(error: BaseException) -> bool:
    """Return whether an error is somebody's wish to stop; a running query reports it in its own way."""
    return any(
        isinstance(link, KeyboardInterrupt | duckdb.InterruptException)
        or (isinstance(link, RuntimeError) and str(link) == "Query interrupted")
        for link in _chain(error)
    )


def end_of_pass(error: BaseException) -> BaseException | None:
    """Return what ends the pass: a wish to stop, a failing machine; ``None`` for an error of one run."""
    if is_interrupt(error):
        return KeyboardInterrupt()
    return machine_problem(error) if is_machine_error(error) else None


def machine_problem(error: BaseException) -> KvcliffError:
    """Return the error that ends a pass when the machine failed."""
    if isinstance(error, StoreError | OutputError):
        return error
    # A database that failed once answers "invalidated" from then on: the first failure tells why.
    first = list(_history(error))[-1]
    if isinstance(first, StoreError):
        return first
    return StoreError(
        f"the pass stopped: {(str(first).splitlines() or [type(first).__name__])[0]}",
        hint="check free disk space and permissions; the next pass goes on from here",
    )


def _history(error: BaseException) -> Iterator[BaseException]:
    """Yield an error of the machine and those before it that it came from, the latest first."""
    link: BaseException | None = error
    while link is not None:
        if link is error or isinstance(link, StoreError | duckdb.Error | OSError):
            yield link
        link = link.__cause__ or link.__context__


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__


def refusal_of(error: BaseException, command: str = "diagnose FOLDER") -> Refusal:
    """Return why a run was refused, in words; an error that nobody meant is called a bug.

    Args:
        error: what came out.
        command: what does the same for the one run alone.
    """
    if isinstance(error, KvcliffError):
        return Refusal(error.message.splitlines()[0], error.hint)
    if isinstance(error, MemoryError | duckdb.OutOfMemoryException):
        return Refusal(
            "there is not enough memory for it", "raise --memory-limit, or run it on a larger machine"
        )
    kind = type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return Refusal(
        f"kvcliff failed on something it did not expect ({kind}{where}): this is a bug",
        f"repeat it alone for the traceback: kvcliff --debug {command}",
        is_bug=True,
    )
