"""``kvcliff runs``: the runs of the database: list, show, remove, prune."""

import time
from dataclasses import asdict
from pathlib import Path

import click

from kvcliff.cli.options import db_option, example, format_option, option
from kvcliff.cli.output import Envelope, format_table, note, say, say_raw
from kvcliff.errors import UsageProblem
from kvcliff.units import format_count, format_duration_ns, format_instant


@click.group(epilog=example("kvcliff ingest sample_traces/steady", "kvcliff runs list"))
def runs() -> None:
    """List, show and remove the runs of the database."""


@runs.command("list", epilog=example("kvcliff ingest sample_traces/steady", "kvcliff runs list"))
@db_option
@format_option("text", "json")
def list_command(db_path: Path, output_format: str) -> None:
    """List the runs of the database."""
    from kvcliff.store.catalog import list_runs
    from kvcliff.store.database import open_store

    with open_store(db_path, read_only=True) as con:
        found = list_runs(con)
    if output_format == "json":
        say_raw(Envelope("runs list", {"runs": [asdict(run) for run in found]}).to_json())
        return
    if not found:
        say("the database holds no runs")
        return
    rows = [
        (
            run.run_id,
            run.status,
            format_instant(run.started_at_ns, decimals=0),
            _length(run.started_at_ns, run.ended_at_ns),
            format_count(run.file_count),
            run.labels or "",
        )
        for run in found
    ]
    say(format_table(("run", "status", "began", "length", "files", "labels"), rows))


@runs.command(epilog=example("kvcliff ingest sample_traces/steady", "kvcliff runs show steady"))
@click.argument("run", metavar="RUN_ID|NAME")
@db_option
@format_option("text", "json")
def show(run: str, db_path: Path, output_format: str) -> None:
    """Show the files, findings and row counts of one run."""
    from kvcliff.store.catalog import count_rows, find_run, list_findings, list_sources
    from kvcliff.store.database import open_store

    with open_store(db_path, read_only=True) as con:
        stored = find_run(con, run)
        sources = list_sources(con, stored.run_id)
        findings = list_findings(con, stored.run_id)
        counts = count_rows(con, stored.run_id)
    if output_format == "json":
        data = {
            "run": asdict(stored),
            "sources": [asdict(source) for source in sources],
            "findings": [asdict(finding) for finding in findings],
            "row_counts": counts,
        }
        say_raw(Envelope("runs show", data, "partial" if stored.status == "partial" else "ok").to_json())
        return
    say(stored.run_id, bold=True)
    began = format_instant(stored.started_at_ns)
    clock = "UTC" if stored.is_utc_known else "local time, zone unknown"
    say(f"{stored.status}, {began} ({clock}), {_length(stored.started_at_ns, stored.ended_at_ns)}")
    say("")
    file_rows = [
        (source.path, source.reader or "", source.status, format_count(source.row_count), source.reason or "")
        for source in sources
    ]
    say(format_table(("file", "format", "status", "rows", "why"), file_rows))
    say("")
    say(
        format_table(
            ("finding", "verdict", "summary"),
            [(item.finding, item.verdict, item.summary) for item in findings],
        )
    )
    say("")
    say(format_table(("table", "rows"), [(name, format_count(count)) for name, count in counts.items()]))


@runs.command(epilog=example("kvcliff ingest sample_traces/steady", "kvcliff runs remove steady"))
@click.argument("run_names", metavar="RUN_ID|NAME...", nargs=-1, required=True)
@db_option
@format_option("text", "json")
def remove(run_names: tuple[str, ...], db_path: Path, output_format: str) -> None:
    """Remove runs from the database. Reports and input files stay."""
    from kvcliff.store.catalog import find_run, remove_runs
    from kvcliff.store.database import open_store

    _require_database(db_path)
    with open_store(db_path) as con:
        run_ids = tuple(find_run(con, name).run_id for name in run_names)
        remove_runs(con, run_ids)
    _tell_removed("runs remove", run_ids, output_format, is_dry=False)


@runs.command(
    epilog=example("kvcliff ingest sample_traces/steady", "kvcliff runs prune --newest 3 --dry-run")
)
@option("--newest", type=click.IntRange(min=1), default=None, help="Keep this many runs of each name.")
@option(
    "--older-than",
    type=click.FloatRange(min=0),
    default=None,
    help="Remove only runs ingested more than this many days ago.",
)
@option("--dry-run", is_flag=True, help="Say what would be removed and remove nothing.")
@db_option
@format_option("text", "json")
def prune(
    newest: int | None, older_than: float | None, dry_run: bool, db_path: Path, output_format: str
) -> None:
    """Remove old runs from the database by number or age."""
    from kvcliff.store.catalog import list_runs, remove_runs, runs_to_prune
    from kvcliff.store.database import open_store

    if newest is None and older_than is None:
        raise UsageProblem(
            "say what to keep: --newest N, --older-than DAYS or both", hint="try it with --dry-run first"
        )
    _require_database(db_path)
    with open_store(db_path, read_only=dry_run) as con:
        doomed = runs_to_prune(
            list_runs(con), newest=newest, older_than_days=older_than, now_ns=time.time_ns()
        )
        run_ids = tuple(run.run_id for run in doomed)
        if run_ids and not dry_run:
            remove_runs(con, run_ids)
    _tell_removed("runs prune", run_ids, output_format, is_dry=dry_run)


def _require_database(db_path: Path) -> None:
    """Refuse a database that is not there, instead of creating an empty one."""
    from kvcliff.errors import StoreError

    if not db_path.exists():
        raise StoreError(
            f"there is no database at {db_path}", hint="ingest a run first: kvcliff ingest RUN --db PATH"
        )


def _tell_removed(command: str, run_ids: tuple[str, ...], output_format: str, *, is_dry: bool) -> None:
    if output_format == "json":
        say_raw(Envelope(command, {"run_ids": list(run_ids), "is_dry_run": is_dry}).to_json())
        return
    for run_id in run_ids:
        say(f"{'would remove' if is_dry else 'removed'} {run_id}")
    if not run_ids:
        note("nothing to remove")


def _length(started_ns: int | None, ended_ns: int | None) -> str:
    return "n/a" if started_ns is None or ended_ns is None else format_duration_ns(ended_ns - started_ns)
