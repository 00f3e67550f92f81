"""``kvcliff export``: a stored run as a bundle for a ticket, or as a Perfetto trace."""

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvcliff.cli.options import db_option, example, force_option, format_option, option
from kvcliff.cli.output import Envelope, note, say, say_raw
from kvcliff.errors import OutputError, UsageProblem

if TYPE_CHECKING:
    import duckdb

    from kvcliff.report.perfetto_trace import TraceClock

_STDOUT = Path("-")


@click.command(
    epilog=example(
        "kvcliff diagnose sample_traces/gpu_story",
        "kvcliff export gpu_story --bundle gpu_story.zip",
        "kvcliff export gpu_story --perfetto gpu_story.pftrace",
    )
)
@click.argument("run", metavar="RUN_ID|NAME")
@option(
    "--bundle",
    "bundle_path",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Zip file to write: marts as Parquet and the report, without names of files, hosts, models or "
    "requests; '-' writes to standard output.",
)
@option(
    "--perfetto",
    "perfetto_path",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Perfetto trace to write (open it at ui.perfetto.dev); '-' writes to standard output.",
)
@option(
    "--clock",
    type=click.Choice(("trace", "run")),
    default=None,
    help="Times of the Perfetto trace: the own clock of the run's GPU trace, so that they equal those of the "
    "original, or the run clock. Without it: trace when the run holds exactly one GPU trace.",
)
@db_option
@force_option
@format_option("text", "json")
def export(
    run: str,
    bundle_path: Path | None,
    perfetto_path: Path | None,
    clock: "TraceClock | None",
    db_path: Path,
    force: bool,
    output_format: str,
) -> None:
    """Write a stored run for others: a bundle for a ticket, a Perfetto trace."""
    from kvcliff.cli.progress import progress
    from kvcliff.store.catalog import find_run
    from kvcliff.store.database import open_store

    targets = [path for path in (bundle_path, perfetto_path) if path is not None]
    _check_targets(targets, is_forced=force)
    data: dict[str, Any] = {}
    with open_store(db_path, read_only=True) as con, progress():
        stored = find_run(con, run)
        data["run_id"] = stored.run_id
        # The bundle comes last: it replaces the tables that the trace is read from.
        if perfetto_path is not None:
            data["perfetto"] = _write_trace(con, stored.run_id, perfetto_path, clock)
        if bundle_path is not None:
            data["bundle"] = _write_bundle(con, stored.run_id, bundle_path)
    if _STDOUT not in targets:
        _show(data, output_format)


def _check_targets(targets: list[Path], *, is_forced: bool) -> None:
    """Refuse to begin without a target, with two of them in one place, or over a file that is there.

    Raises:
        UsageProblem: nothing was asked for, or two things in one place.
        OutputError: a file is there and ``--force`` is absent.
    """
    if not targets:
        raise UsageProblem("nothing to export", hint="add --bundle FILE.zip or --perfetto FILE.pftrace")
    if len(set(targets)) < len(targets):
        raise UsageProblem("bundle and trace cannot go to the same place", hint="give two file names")
    for path in targets:
        if path != _STDOUT and path.exists() and not is_forced:
            raise OutputError(
                f"{path} is there already", hint="overwrite it with --force, or choose another name"
            )


def _write_trace(
    con: "duckdb.DuckDBPyConnection", run_id: str, path: Path, clock: "TraceClock | None"
) -> dict[str, Any]:
    from kvcliff.report.perfetto_trace import write_perfetto

    buffer = io.BytesIO()
    written = write_perfetto(con, run_id, buffer, clock)
    _write(path, buffer.getvalue())
    if written.early_count:
        whose = written.clock_path or "the run"
        note(
            f"{written.early_count} events lie before the zero of the clock of {whose} and were left out; "
            "--clock run keeps them"
        )
    return {
        "file": path.as_posix(),
        "clock": written.clock,
        "clock_path": written.clock_path,
        "track_count": written.track_count,
        "event_count": written.event_count,
        "early_count": written.early_count,
    }


def _write_bundle(con: "duckdb.DuckDBPyConnection", run_id: str, path: Path) -> dict[str, Any]:
    from kvcliff.report.bundle import build_bundle

    bundle = build_bundle(con, run_id)
    _write(path, bundle.data)
    return {
        "file": path.as_posix(),
        "size_bytes": len(bundle.data),
        "table_count": len(bundle.tables),
        "row_count": sum(bundle.row_counts.values()),
    }


def _write(path: Path, data: bytes) -> None:
    """Write a file in one step, so that nobody finds half of it.

    Raises:
        OutputError: it cannot be written.
    """
    if path == _STDOUT:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        os.replace(part, path)
    except OSError as exc:
        # What cannot be removed stays; the first error is the one to tell.
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise OutputError(
            f"cannot write {path}: {exc.strerror or exc}",
            hint="check free disk space and permissions, or choose another place",
        ) from exc
    note(f"wrote {path}")


def _show(data: dict[str, Any], output_format: str) -> None:
    if output_format == "json":
        say_raw(Envelope("export", data).to_json())
        return
    if (trace := data.get("perfetto")) is not None:
        whose = f"the clock of {trace['clock_path']}" if trace["clock_path"] else "the run clock"
        say(f"{trace['file']}: {trace['track_count']} tracks, {trace['event_count']} events, on {whose}")
    if (bundle := data.get("bundle")) is not None:
        say(
            f"{bundle['file']}: {bundle['table_count']} tables, {bundle['row_count']} rows, and the report; "
            "without names of files, hosts, models and requests"
        )
