"""``kvcliff report``: write the report of a run that is already in the database."""

from pathlib import Path

import click

from kvcliff.cli.options import db_option, example, fail_on_option, force_option, format_option, output_option
from kvcliff.errors import GateTripped


@click.command(epilog=example("kvcliff ingest sample_traces/steady", "kvcliff report steady"))
@click.argument("run", metavar="RUN_ID|NAME")
@output_option
@db_option
@force_option
@fail_on_option
@format_option("text", "json", "md")
def report(
    run: str, output: Path | None, db_path: Path, force: bool, fail_on: str | None, output_format: str
) -> int:
    """Write the report of a stored run again."""
    from kvcliff.cli.progress import progress
    from kvcliff.cli.reporting import ReportTarget, check_writable, gate_problem, present, write_run_report
    from kvcliff.store.catalog import find_run
    from kvcliff.store.database import open_store

    check_writable(output, is_forced=force, is_only_run=True)
    with open_store(db_path, read_only=True) as con:
        stored = find_run(con, run)
        target = ReportTarget.choose(output, stored.name, is_forced=force, is_only_run=True)
        with progress():
            written = write_run_report(con, stored, target)
    gate = gate_problem([written], fail_on)
    present("report", [written], [gate] if gate is not None else [], output_format)
    return GateTripped.exit_code if gate is not None else 0
