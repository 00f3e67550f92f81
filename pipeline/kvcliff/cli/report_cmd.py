"""``kvcliff report``: write the report of a run that is already in the database."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvcliff.cli.options import (
    audience_option,
    db_option,
    example,
    fail_on_option,
    force_option,
    format_option,
    option,
    output_option,
    self_contained_option,
)
from kvcliff.cli.output import say_raw
from kvcliff.errors import GateTripped
from kvcliff.resources import report_schema_text

if TYPE_CHECKING:
    from kvcliff.report.audience import Audience


def _print_schema(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    """Print the JSON Schema of ``report.json`` and end the command."""
    if is_asked and not ctx.resilient_parsing:
        say_raw(report_schema_text())
        ctx.exit()


@click.command(
    epilog=example(
        "kvcliff ingest sample_traces/steady",
        "kvcliff report steady",
        "kvcliff report steady --audience incident --self-contained",
        "kvcliff report --schema",
    )
)
@click.argument("run", metavar="RUN_ID|NAME")
@output_option
@db_option
@force_option
@fail_on_option
@audience_option
@self_contained_option
@option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON Schema of report.json and exit.",
)
@format_option("text", "json", "md")
def report(
    run: str,
    output: Path | None,
    db_path: Path,
    force: bool,
    fail_on: str | None,
    audience: "Audience",
    is_self_contained: bool,
    output_format: str,
) -> int:
    """Write the report of a stored run again."""
    from kvcliff.cli.progress import progress
    from kvcliff.cli.reporting import ReportTarget, check_writable, gate_problem, present, write_run_report
    from kvcliff.report.write import ReportOptions
    from kvcliff.store.catalog import find_run
    from kvcliff.store.database import open_store

    check_writable(output, is_forced=force, is_only_run=True)
    with open_store(db_path, read_only=True) as con:
        stored = find_run(con, run)
        target = ReportTarget.choose(output, stored.name, is_forced=force, is_only_run=True)
        with progress():
            written = write_run_report(con, stored, target, ReportOptions(audience, is_self_contained))
    gate = gate_problem([written], fail_on)
    present("report", [written], [gate] if gate is not None else [], output_format)
    return GateTripped.exit_code if gate is not None else 0
