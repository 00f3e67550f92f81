"""``kvcliff runs``: the runs of the database: list, show, remove, prune, compact, accept."""

import re
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvcliff.cli.options import db_option, example, format_option, option
from kvcliff.cli.output import Envelope, format_table, note, say, say_lines, say_raw
from kvcliff.errors import UsageProblem
from kvcliff.units import (
    NS_PER_S,
    format_bytes,
    format_count,
    format_duration_ns,
    format_instant,
    format_ms,
    format_pct,
)

if TYPE_CHECKING:
    from kvcliff.store.run_list import ListedRun

#: Words that ``--verdict`` accepts: of the gravest finding, then of the nightly gate.
VERDICTS = (
    "critical",
    "warning",
    "ok",
    "failed",
    "inconclusive",
    "warned",
    "passed",
    "learning",
    "set_aside",
)
_LIST_HEADINGS = (
    "run",
    "status",
    "verdict",
    "began",
    "length",
    "latency",
    "change",
    "KV",
    "swap points",
    "files",
    "labels",
)
_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([hdw])")
_AGE_NS = {"h": 3600 * NS_PER_S, "d": 24 * 3600 * NS_PER_S, "w": 7 * 24 * 3600 * NS_PER_S}


@click.group(epilog=example("kvcliff ingest sample_traces/steady", "kvcliff runs list"))
def runs() -> None:
    """List, show and remove the runs of the database."""


@runs.command(
    "list",
    epilog=example(
        "kvcliff ingest sample_traces/steady",
        "kvcliff runs list",
        "kvcliff runs list --label model=llama --since 30d --verdict failed",
    ),
)
@option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY[=VALUE]",
    help="Only runs with this label; may be repeated.",
)
@option("--name", default=None, metavar="PATTERN", help="Only runs whose name matches (* and ? are wild).")
@option(
    "--since",
    default=None,
    metavar="WHEN",
    help="Only runs that began at or after this UTC date (2026-11-30, 2026-11-30T18:00) or age (7d, 12h).",
)
@option(
    "--verdict",
    "verdicts",
    multiple=True,
    type=click.Choice(VERDICTS),
    help="Only runs with this verdict of the nightly gate or this gravest finding; may be repeated.",
)
@option("--limit", type=click.IntRange(min=1), default=None, help="Only this many, the newest.")
@db_option
@format_option("text", "json")
def list_command(
    labels: tuple[str, ...],
    name: str | None,
    since: str | None,
    verdicts: tuple[str, ...],
    limit: int | None,
    db_path: Path,
    output_format: str,
) -> None:
    """List the runs of the database, with their verdicts and trends."""
    from kvcliff.store.database import open_store
    from kvcliff.store.run_list import RunFilter, list_with_trends

    since_ns = _since_ns(since, time.time_ns()) if since is not None else None
    wanted = RunFilter(labels, name, since_ns, verdicts)
    with open_store(db_path, read_only=True) as con:
        found = list_with_trends(con, wanted, limit=limit)
    if output_format == "json":
        say_raw(Envelope("runs list", {"runs": [asdict(run) for run in found]}).to_json())
        return
    if not found:
        say("the database holds no runs" if wanted == RunFilter() else "no run matches")
        return
    say_lines(format_table(_LIST_HEADINGS, [_list_row(run) for run in found]))


def _list_row(run: "ListedRun") -> tuple[str, ...]:
    change = run.latency_change_ratio
    return (
        run.run_id,
        run.status,
        run.gravest if run.gate is None else f"{run.gravest}, {run.gate}",
        format_instant(run.started_at_ns, decimals=0),
        _length(run.started_at_ns, run.ended_at_ns),
        format_ms(run.latency_ms),
        "" if change is None else f"{'+' if change >= 0 else '-'}{format_pct(abs(change))}",
        format_pct(run.kv_used_ratio),
        format_count(run.swap_point_count),
        format_count(run.file_count),
        run.labels or "",
    )


def _since_ns(text: str, now_ns: int) -> int:
    """Return the moment that ``--since`` means."""
    if match := _AGE.fullmatch(text.strip()):
        return now_ns - int(float(match[1]) * _AGE_NS[match[2]])
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError as exc:
        raise UsageProblem(
            f"--since {text} is neither a date nor an age",
            hint="for example --since 2026-11-30, or --since 7d",
        ) from exc
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return int(when.timestamp()) * NS_PER_S


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
    say_lines(format_table(("file", "format", "status", "rows", "why"), file_rows))
    say("")
    say_lines(
        format_table(
            ("finding", "verdict", "summary"),
            [(item.finding, item.verdict, item.summary) for item in findings],
        )
    )
    say("")
    say_lines(
        format_table(("table", "rows"), [(name, format_count(count)) for name, count in counts.items()])
    )


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
@option(
    "--raw-older-than",
    type=click.FloatRange(min=0),
    default=None,
    help="Remove the raw rows of runs ingested more than this many days ago; marts and verdicts stay.",
)
@option("--dry-run", is_flag=True, help="Say what would be removed and remove nothing.")
@db_option
@format_option("text", "json")
def prune(
    newest: int | None,
    older_than: float | None,
    raw_older_than: float | None,
    dry_run: bool,
    db_path: Path,
    output_format: str,
) -> None:
    """Remove old runs, or their raw rows, by number or age."""
    from kvcliff.store.catalog import list_runs, remove_runs, runs_to_prune
    from kvcliff.store.database import open_store
    from kvcliff.store.retention import remove_raw, runs_with_old_raw

    if newest is None and older_than is None and raw_older_than is None:
        raise UsageProblem(
            "say what to keep: --newest N, --older-than DAYS, --raw-older-than DAYS, or several of them",
            hint="try it with --dry-run first",
        )
    _require_database(db_path)
    now_ns = time.time_ns()
    run_ids: tuple[str, ...] = ()
    raw_ids: tuple[str, ...] = ()
    with open_store(db_path, read_only=dry_run) as con:
        if newest is not None or older_than is not None:
            doomed = runs_to_prune(list_runs(con), newest=newest, older_than_days=older_than, now_ns=now_ns)
            run_ids = tuple(run.run_id for run in doomed)
        if raw_older_than is not None:
            old = runs_with_old_raw(con, older_than_days=raw_older_than, now_ns=now_ns)
            raw_ids = tuple(run_id for run_id in old if run_id not in run_ids)
        if run_ids and not dry_run:
            remove_runs(con, run_ids)
        if raw_ids and not dry_run:
            remove_raw(con, raw_ids, now_ns=now_ns)
    _tell_removed("runs prune", run_ids, output_format, is_dry=dry_run, raw_ids=raw_ids)


@runs.command(epilog=example("kvcliff ingest sample_traces/steady", "kvcliff runs compact"))
@db_option
@format_option("text", "json")
def compact(db_path: Path, output_format: str) -> None:
    """Rewrite the database file without the room that removed runs left."""
    from kvcliff.store.compaction import compact as compact_file

    _require_database(db_path)
    done = compact_file(db_path)
    if output_format == "json":
        say_raw(Envelope("runs compact", asdict(done)).to_json())
        return
    say(f"{format_bytes(done.before_bytes)} -> {format_bytes(done.after_bytes)}")


@runs.command(
    epilog=example(
        "kvcliff nightly sample_traces --quiet 0 --db nightly.duckdb",
        "kvcliff runs accept steady --db nightly.duckdb",
    )
)
@click.argument("run", metavar="RUN_ID|NAME")
@db_option
@format_option("text", "json")
def accept(run: str, db_path: Path, output_format: str) -> None:
    """Make a run the new normal: the nightly job compares later runs with it, not with those before."""
    from kvcliff.nightly.state import accept as accept_run
    from kvcliff.store.catalog import find_run
    from kvcliff.store.database import open_store

    _require_database(db_path)
    with open_store(db_path) as con:
        run_id = find_run(con, run).run_id
        if not accept_run(con, run_id, now_ns=time.time_ns()):
            raise UsageProblem(
                f"the nightly job has not judged {run_id}",
                hint="let it see the run first: kvcliff nightly ROOT",
            )
    if output_format == "json":
        say_raw(Envelope("runs accept", {"run_id": run_id}).to_json())
        return
    say(f"accepted {run_id}: later runs of its series are compared with it")


def _require_database(db_path: Path) -> None:
    """Refuse a database that is not there, instead of creating an empty one."""
    from kvcliff.errors import StoreError

    if not db_path.exists():
        raise StoreError(
            f"there is no database at {db_path}", hint="ingest a run first: kvcliff ingest RUN --db PATH"
        )


def _tell_removed(
    command: str,
    run_ids: tuple[str, ...],
    output_format: str,
    *,
    is_dry: bool,
    raw_ids: tuple[str, ...] = (),
) -> None:
    if output_format == "json":
        data = {"run_ids": list(run_ids), "is_dry_run": is_dry}
        if command == "runs prune":
            data["raw_run_ids"] = list(raw_ids)
        say_raw(Envelope(command, data).to_json())
        return
    verb = "would remove" if is_dry else "removed"
    for run_id in run_ids:
        say(f"{verb} {run_id}")
    for run_id in raw_ids:
        say(f"{verb} the raw rows of {run_id}")
    if not run_ids and not raw_ids:
        note("nothing to remove")
    elif not is_dry:
        note("the file keeps its size for later runs; to make it small: kvcliff runs compact")


def _length(started_ns: int | None, ended_ns: int | None) -> str:
    return "n/a" if started_ns is None or ended_ns is None else format_duration_ns(ended_ns - started_ns)
