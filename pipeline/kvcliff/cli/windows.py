"""The part of a run that the options of a command name."""

import time
from dataclasses import replace
from pathlib import Path

import duckdb

from kvcliff.cli.ingestion import IngestOptions, ingest_run
from kvcliff.cli.output import note
from kvcliff.cli.window_options import AS_LONG, WindowTexts
from kvcliff.errors import UsageProblem
from kvcliff.nightly.comparison.compare import ComparePolicy
from kvcliff.nightly.window_report import compare_with_before
from kvcliff.report.document import Section
from kvcliff.store.catalog import StoredRun
from kvcliff.store.window import WindowRequest, WindowTime, parse_before, parse_time


def window_request(texts: WindowTexts | None) -> WindowRequest | None:
    """Return the part of a run to read, ``None`` for all of it.

    Raises:
        UsageProblem: an edge is no time.
    """
    if texts is None:
        return None
    now_s = time.time()
    start, end = (parse_time(text, now_s) if text is not None else None for text in (texts.start, texts.end))
    return WindowRequest(start, end)


def request_before(window: WindowRequest | None, before: str | None) -> WindowRequest | None:
    """Return the time before a window to compare with, ``None`` when nothing is to be compared.

    Args:
        window: the window that was asked for.
        before: value of ``--before``.

    Raises:
        UsageProblem: there is no window with a begin, or the value is neither a length nor a time.
    """
    if before is None:
        return None
    if window is None or window.start is None:
        raise UsageProblem(
            "--before needs a window of the run, and --from where it begins",
            hint="for example: kvcliff diagnose RUN --from 14:05:00 --to 14:10:00 --before 5m",
        )
    begin: WindowTime | None = parse_before(before, time.time()) if before != AS_LONG else None
    return window.time_before(begin)


def opening_sections(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    window: StoredRun,
    options: IngestOptions,
    earlier: WindowRequest | None,
) -> tuple[Section, ...]:
    """Return what a window differs in from the time before it, which is read and stored as a run of its own.

    Args:
        con: connection to the store.
        path: folder or file of the run.
        window: the stored window.
        options: how runs are read.
        earlier: the time before, or ``None`` when nothing is to be compared.

    Raises:
        UsageProblem: there is no time before the window.
    """
    if earlier is None:
        return ()
    done = ingest_run(con, path, replace(options, window=earlier))
    note(f"{done.run.run_id}: the time before the window ({done.run.labels})")
    report = compare_with_before(con, done.run, window, ComparePolicy(options.policy))
    return report.sections
