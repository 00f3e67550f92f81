"""``kvcliff ingest``: read runs into the database without writing a report."""

from pathlib import Path

import click

from kvcliff.cli.options import (
    INPUT_PATH,
    config_option,
    db_option,
    example,
    format_option,
    keep_option,
    memory_option,
    policy_option,
    strict_option,
)
from kvcliff.cli.output import Envelope, Problem, Status, note, say, say_raw, show_error, warn
from kvcliff.cli.prometheus_options import PrometheusRequest, prometheus_options
from kvcliff.cli.window_options import WindowTexts
from kvcliff.errors import InputError


@click.command(epilog=example("kvcliff ingest sample_traces/steady sample_traces/kv_stress"))
@click.argument("runs", metavar="RUN...", nargs=-1, type=INPUT_PATH)
@db_option
@config_option
@policy_option
@strict_option
@keep_option
@memory_option
@prometheus_options
@format_option("text", "json")
def ingest(
    runs: tuple[Path, ...],
    db_path: Path,
    config_path: Path | None,
    policy_path: Path | None,
    strict: bool,
    keep: bool,
    memory_limit: str | None,
    output_format: str,
    prometheus: PrometheusRequest | None,
    window: WindowTexts | None,
) -> int:
    """Read load tests into the database.

    Each RUN is the folder (or single file) of one load test. A run whose content is already stored
    is not read again; a run of the same name with other content replaces it. With --prometheus the
    metrics of a time window are fetched first and kept in RUN (a new folder when none is named). Without
    it, --from and --to read that window of each RUN alone, as a run of its own (NAME@window).
    """
    from kvcliff.cli.ingestion import IngestOptions, ingest_run
    from kvcliff.cli.progress import progress
    from kvcliff.cli.prometheus_fetch import runs_to_read
    from kvcliff.cli.windows import window_request
    from kvcliff.store.catalog import count_rows, list_sources

    runs = runs_to_read(runs, prometheus)
    options = IngestOptions(
        db_path, config_path, policy_path, memory_limit, strict, keep, window_request(window)
    )
    answers: list[dict[str, object]] = []
    failures: list[InputError] = []
    with options.open(runs) as con:
        for path in runs:
            try:
                with progress():
                    done = ingest_run(con, path, options)
                for words in done.notes:
                    note(words)
            except InputError as error:
                # The other runs can still be stored; this one decides the exit code.
                failures.append(error)
                continue
            for source in list_sources(con, done.run.run_id):
                if source.status in ("damaged", "refused"):
                    warn(f"{source.path}: {source.status}: {source.reason}")
            answers.append(
                {
                    "run_id": done.run.run_id,
                    "name": done.run.name,
                    "status": done.run.status,
                    "was_stored": done.was_stored,
                    "row_count": sum(count_rows(con, done.run.run_id).values()),
                }
            )
    _present(answers, tuple(Problem.of(error) for error in failures), output_format)
    return failures[0].exit_code if failures else 0


def _present(answers: list[dict[str, object]], problems: tuple[Problem, ...], output_format: str) -> None:
    if output_format == "json":
        is_partial = any(answer["status"] == "partial" for answer in answers)
        status: Status = (
            "error" if problems and not answers else "partial" if problems or is_partial else "ok"
        )
        say_raw(Envelope("ingest", {"runs": answers}, status, problems).to_json())
        return
    for answer in answers:
        state = "already stored, same content" if answer["was_stored"] else f"stored ({answer['status']})"
        say(f"{answer['run_id']}: {state}, {answer['row_count']} rows")
    for problem in problems:
        show_error(problem)
