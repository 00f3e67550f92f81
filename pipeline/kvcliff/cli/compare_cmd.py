"""``kvcliff compare``: one run against a baseline: better, worse, the same or inconclusive, and why."""

from pathlib import Path

import click

from kvcliff.cli.options import (
    config_option,
    db_option,
    example,
    fail_on_option,
    force_option,
    format_option,
    memory_option,
    output_option,
    policy_option,
    strict_option,
)
from kvcliff.cli.output import note
from kvcliff.errors import UsageProblem


@click.command(
    epilog=example(
        "kvcliff compare sample_traces/hit_but_slow sample_traces/kv_stress --force",
        "kvcliff compare night-1 night-2 night-3 night-4 --fail-on critical",
    )
)
@click.argument("runs", metavar="BASE... RUN", nargs=-1, required=True)
@output_option
@db_option
@config_option
@policy_option
@strict_option
@force_option
@memory_option
@fail_on_option
@format_option("text", "json", "md")
def compare(
    runs: tuple[str, ...],
    output: Path | None,
    db_path: Path,
    config_path: Path | None,
    policy_path: Path | None,
    strict: bool,
    force: bool,
    memory_limit: str | None,
    fail_on: str | None,
    output_format: str,
) -> int:
    """Compare a run with a baseline of one or more runs.

    Each is a run folder, or the id or name of a stored run; the last one is judged. Several BASE runs
    show the noise between repeats. Exit code 4 when nothing can be concluded.
    """
    from kvcliff.cli.comparing import (
        STDOUT,
        check_target,
        open_for,
        present_comparison,
        problems_of,
        resolve_runs,
        write_comparison,
    )
    from kvcliff.cli.ingestion import IngestOptions
    from kvcliff.cli.progress import progress
    from kvcliff.nightly.comparison.compare import ComparePolicy, compare_runs

    if len(runs) < 2:
        raise UsageProblem("there is nothing to compare with", hint="kvcliff compare BASE... RUN")
    check_target(output, is_forced=force)
    options = IngestOptions(db_path, config_path, policy_path, memory_limit, strict)
    with open_for(runs, options, memory_limit) as con, progress():
        *base, run = resolve_runs(con, runs, options)
        others = [run_id for run_id in base if run_id != run]
        if not others:
            raise UsageProblem(f"{run} would be its own baseline", hint="give other runs as BASE")
        policy = ComparePolicy(options.policy, is_forced=force)
        comparison = compare_runs(con, others, run, policy=policy)
    problem, exit_code = problems_of(comparison, fail_on)
    if output is not None and output != STDOUT:
        for path in write_comparison(comparison, output):
            note(f"wrote {path}")
    present_comparison(comparison, problem, output_format, output)
    return exit_code
