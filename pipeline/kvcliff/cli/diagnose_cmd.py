"""``kvcliff diagnose``: the main job: read a run, judge it, write its report."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvcliff.cli.options import (
    INPUT_PATH,
    audience_option,
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
    self_contained_option,
    strict_option,
)
from kvcliff.cli.output import Problem, note
from kvcliff.cli.prometheus_options import PrometheusRequest, prometheus_options
from kvcliff.cli.window_options import WindowTexts, before_option
from kvcliff.errors import GateTripped, InputError

if TYPE_CHECKING:
    from kvcliff.report.audience import Audience


@click.command(
    epilog=example(
        "kvcliff diagnose sample_traces/kv_stress",
        "kvcliff diagnose sample_traces/hit_but_slow sample_traces/cpu_hog -o my-reports",
        "kvcliff diagnose sample_traces/kv_stress --from 18:49:55 --to 18:50:35 --before 20s",
        "kvcliff diagnose incident-42 --prometheus http://prometheus:9090 --from now-1h",
    )
)
@click.argument("runs", metavar="RUN...", nargs=-1, type=INPUT_PATH)
@output_option
@db_option
@config_option
@policy_option
@strict_option
@keep_option
@force_option
@memory_option
@fail_on_option
@audience_option
@self_contained_option
@prometheus_options
@before_option
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
    audience: "Audience",
    is_self_contained: bool,
    output_format: str,
    prometheus: PrometheusRequest | None,
    window: WindowTexts | None,
    before: str | None,
) -> int:
    """Find the swap point of load tests; write reports.

    Each RUN is the folder (or single file) of one load test, with any mix of files. The verdict is
    printed, the report goes to the --output folder. With --prometheus the metrics of a time window are
    fetched first and kept in RUN (a new folder when none is named), so that the same diagnosis needs no
    server again.

    For an incident --from and --to cut that window out of each RUN (stored as NAME@window, beside the whole
    run); --before compares it with the time before it, and the report says what changed when.
    """
    from kvcliff.cli.ingestion import IngestOptions, ingest_run
    from kvcliff.cli.progress import progress
    from kvcliff.cli.prometheus_fetch import runs_to_read
    from kvcliff.cli.reporting import ReportTarget, check_writable, gate_problem, present, write_run_report
    from kvcliff.cli.windows import opening_sections, request_before, window_request
    from kvcliff.report.write import ReportOptions

    runs = runs_to_read(runs, prometheus)
    part = window_request(window)
    earlier = request_before(part, before)
    options = IngestOptions(db_path, config_path, policy_path, memory_limit, strict, keep, part)
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
                    for words in done.notes:
                        note(words)
                    sections = opening_sections(con, path, done.run, options, earlier)
                    form = ReportOptions(audience, is_self_contained, sections)
                    target = ReportTarget.choose(
                        output, done.run.name, is_forced=force, is_only_run=is_only_run
                    )
                    written.append(write_run_report(con, done.run, target, form))
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
