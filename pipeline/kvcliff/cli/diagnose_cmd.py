"""``kvcliff diagnose``: the main job: read a run, judge it, write its report."""

from pathlib import Path

import click

from kvcliff.cli.options import (
    INPUT_PATH,
    config_option,
    db_option,
    example,
    fail_on_option,
    force_option,
    format_option,
    keep_option,
    memory_option,
    output_option,
    policy_option,
    strict_option,
)
from kvcliff.cli.output import Problem, note
from kvcliff.errors import GateTripped, InputError


@click.command(
    epilog=example(
        "kvcliff diagnose sample_traces/kv_stress",
        "kvcliff diagnose sample_traces/hit_but_slow sample_traces/cpu_hog -o my-reports",
    )
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=INPUT_PATH)
@output_option
@db_option
@config_option
@policy_option
@strict_option
@keep_option
@force_option
@memory_option
@fail_on_option
@format_option("text", "json", "md")
def diagnose(
    runs: tuple[Path, ...],
    output: Path | None,
    db_path: Path,
    config_path: Path | None,
    policy_path: Path | None,
    strict: bool,
    keep: bool,
    force: bool,
    memory_limit: str | None,
    fail_on: str | None,
    output_format: str,
) -> int:
    """Find the swap point of load tests; write reports.

    Each RUN is the folder (or single file) of one load test, with any mix of files. The verdict is
    printed, the report goes to the --output folder.
    """
    from kvcliff.cli.ingestion import IngestOptions, ingest_run
    from kvcliff.cli.progress import progress
    from kvcliff.cli.reporting import ReportTarget, check_writable, gate_problem, present, write_run_report

    options = IngestOptions(db_path, config_path, policy_path, memory_limit, strict, keep)
    is_only_run = len(runs) == 1
    check_writable(output, is_forced=force, is_only_run=is_only_run)
    written, failures = [], []
    with options.open(runs) as con:
        for path in runs:
            try:
                with progress():
                    done = ingest_run(con, path, options)
                    if done.was_stored:
                        note(f"{done.run.run_id}: same content as in {db_path}, not read again")
                    target = ReportTarget.choose(
                        output, done.run.name, is_forced=force, is_only_run=is_only_run
                    )
                    written.append(write_run_report(con, done.run, target))
            except InputError as error:
                # The other runs are still worth their report; this one decides the exit code.
                if is_only_run:
                    raise
                failures.append(error)
    gate = gate_problem(written, fail_on)
    problems = [Problem.of(error) for error in failures]
    present("diagnose", written, [*problems, gate] if gate is not None else problems, output_format)
    if failures:
        return failures[0].exit_code
    return GateTripped.exit_code if gate is not None else 0
