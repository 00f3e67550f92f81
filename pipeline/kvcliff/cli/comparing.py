"""Finding the runs of a comparison, saying its answer, and tripping its ``--fail-on`` gate."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import duckdb

from kvcliff.cli.ingestion import IngestOptions, ingest_run
from kvcliff.cli.options import FAIL_LEVELS
from kvcliff.cli.output import (
    Envelope,
    Problem,
    Status,
    format_table,
    note,
    say,
    say_lines,
    say_raw,
    show_error,
)
from kvcliff.errors import CannotAnswerError, GateTripped, OutputError, UsageProblem
from kvcliff.nightly.comparison.compare import Comparison
from kvcliff.nightly.comparison.figure import comparison_figure
from kvcliff.nightly.comparison.report import (
    change_text,
    comparison_data,
    comparison_markdown,
    titled,
    value_text,
    worth_showing,
)
from kvcliff.store.catalog import find_run
from kvcliff.store.database import open_store

STDOUT = Path("-")
_SHOWN_DIFFERENCES = 8


def open_for(
    runs: Sequence[str], options: IngestOptions, memory_limit: str | None
) -> duckdb.DuckDBPyConnection:
    """Return a connection to the store, for reading only when every run is given by its id or name.

    Raises:
        UsageProblem: the policy cannot be used.
        StoreError: the database cannot be opened.
    """
    folders = [Path(run) for run in runs if Path(run).exists()]
    if folders:
        return options.open(folders)
    _ = options.policy
    return open_store(options.db_path, read_only=True, memory_limit=memory_limit)


def resolve_runs(con: duckdb.DuckDBPyConnection, runs: Sequence[str], options: IngestOptions) -> list[str]:
    """Return the run ids of folders, which are read first, and of stored runs given by id or name.

    Runs that happen to have one name stay side by side: a comparison must not delete what it compares with.

    Raises:
        UsageProblem: neither a folder nor a stored run.
        InputError: nothing in a folder is readable.
    """
    kept = replace(options, is_kept=True)
    found = []
    for run in runs:
        if Path(run).exists():
            done = ingest_run(con, Path(run), kept)
            if done.was_stored:
                note(f"{done.run.run_id}: same content as in {options.db_path}, not read again")
            found.append(done.run.run_id)
        else:
            found.append(_stored(con, run))
    return found


def _stored(con: duckdb.DuckDBPyConnection, run: str) -> str:
    try:
        return find_run(con, run).run_id
    except UsageProblem as error:
        if "holds no run" not in error.message:
            raise
        raise UsageProblem(
            f"{run} is neither a run folder nor a run of the database",
            hint="see the runs: kvcliff runs list",
        ) from error


def check_target(output: Path | None, *, is_forced: bool) -> None:
    """Refuse a report file that could not be written, before any work is done.

    Raises:
        OutputError: it is a folder, or it exists and ``--force`` is absent.
    """
    if output is None or output == STDOUT:
        return
    if output.is_dir():
        raise OutputError(f"{output} is a folder", hint="give a file, for example -o comparison.md")
    if output.exists() and not is_forced:
        raise OutputError(f"{output} exists", hint="overwrite it with --force, or choose another --output")


def write_comparison(comparison: Comparison, output: Path) -> tuple[Path, ...]:
    """Write a comparison as Markdown with its figure beside it, in a new folder if need be; return the files.

    Raises:
        OutputError: a file cannot be written.
    """
    figure = comparison_figure(comparison.metrics)
    picture = output.with_suffix(".svg")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        if figure is not None:
            picture.write_bytes(figure)
        output.write_text(
            comparison_markdown(comparison, picture.name if figure is not None else None), encoding="utf-8"
        )
    except OSError as exc:
        raise OutputError(
            f"cannot write {output}: {exc.strerror or exc}", hint="check space and permissions"
        ) from exc
    return (output,) if figure is None else (output, picture)


def problems_of(comparison: Comparison, fail_on: str | None) -> tuple[Problem | None, int]:
    """Return what an exit code other than 0 stands for, and the code.

    A tripped gate comes before a question without an answer.

    Args:
        comparison: the answer.
        fail_on: lowest severity that trips the gate: ``critical`` is a worse run, ``warning`` any worse
            metric, ``info`` any change.
    """
    if fail_on is not None:
        level = FAIL_LEVELS.index(fail_on)
        judged = [metric for metric in comparison.metrics if metric.better != "neither"]
        trips = {
            "critical": comparison.verdict == "worse",
            "warning": any(metric.verdict == "worse" for metric in judged),
            "info": any(metric.verdict == "better" for metric in judged),
        }
        if any(trips[name] for name in FAIL_LEVELS[level:]):
            words = f"{comparison.run_id} is {comparison.verdict}, which --fail-on {fail_on} forbids"
            return Problem(GateTripped.code, words), GateTripped.exit_code
    if comparison.incomparable_reason is not None and not comparison.metrics:
        hint = "compare runs with the same GPU, model and load, or compare them all the same with --force"
        return Problem(CannotAnswerError.code, comparison.summary, hint), CannotAnswerError.exit_code
    if comparison.verdict == "inconclusive":
        hint = "repeat baseline and run close together, and give all repeats: kvcliff compare BASE... RUN"
        words = f"nothing can be concluded about {comparison.run_id}"
        return Problem(CannotAnswerError.code, words, hint), CannotAnswerError.exit_code
    return None, 0


def present_comparison(
    comparison: Comparison, problem: Problem | None, output_format: str, output: Path | None
) -> None:
    """Print a comparison in the chosen format, and its problem on standard error."""
    if output_format == "json":
        status: Status = "error" if problem is not None and problem.code == CannotAnswerError.code else "ok"
        errors = () if problem is None else (problem,)
        say_raw(Envelope("compare", comparison_data(comparison), status, errors).to_json())
        return
    if output_format == "md" or output == STDOUT:
        say_raw(comparison_markdown(comparison))
    else:
        _say_comparison(comparison)
    if problem is not None:
        show_error(problem)


def _say_comparison(comparison: Comparison) -> None:
    say(comparison.summary, bold=True)
    say(f"  run:      {comparison.run_id}")
    say(f"  baseline: {', '.join(comparison.base_run_ids)}")
    rows = [
        (
            metric.verdict,
            titled(metric),
            value_text(metric.base_value, metric.unit),
            value_text(metric.run_value, metric.unit),
            change_text(metric),
        )
        for metric in worth_showing(comparison.metrics)
    ]
    if rows:
        say("")
        say_lines(format_table(("verdict", "metric", "baseline", "run", "change (interval)"), rows))
    if comparison.causes:
        say("")
    for cause in comparison.causes:
        say(f"  {cause.kind}: {cause.text}")
    _say_settings(comparison)


def _say_settings(comparison: Comparison) -> None:
    for item in comparison.differences[:_SHOWN_DIFFERENCES]:
        scope = f"{item.scope} " if item.scope else ""
        say(f"  setting: {scope}{item.name} {item.base_value} → {item.run_value}")
    more = len(comparison.differences) - _SHOWN_DIFFERENCES
    if more > 0:
        say(f"  and {more} more settings; all of them: --format md")
