"""``kvcliff nightly``: new run folders of a root are read, judged against their baseline, and reported."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvcliff.cli.options import (
    INPUT_PATH,
    db_option,
    example,
    format_option,
    memory_option,
    option,
    policy_option,
)
from kvcliff.cli.output import Envelope, Problem, Status, note, say, say_raw, show_error
from kvcliff.errors import CannotAnswerError, GateTripped, KvcliffError, StoreLockedError, UsageProblem

if TYPE_CHECKING:
    import duckdb

    from kvcliff.nightly.outputs import NightOutputs
    from kvcliff.nightly.policy import NightlyPolicy

DEFAULT_OUTPUT = "kvcliff-nightly"
_RETRY_S = 0.2


@click.command(
    epilog=example(
        "kvcliff nightly sample_traces --quiet 0",
        "kvcliff nightly /srv/load-tests --policy nightly.toml --db nightly.duckdb --into /srv/nightly",
    )
)
@click.argument("root", metavar="ROOT", type=INPUT_PATH)
@option(
    "--into",
    "output",
    type=click.Path(path_type=Path, readable=False),
    default=DEFAULT_OUTPUT,
    help="Folder for index.md, the reports and the machine outputs.",
)
@db_option
@policy_option
@option(
    "--quiet",
    "quiet_s",
    type=click.FloatRange(min=0),
    default=None,
    help="Seconds without change after which a folder counts as complete (300 unless the policy says).",
)
@option("--marker", default=None, help="File whose presence says that a folder is complete.")
@option(
    "--textfile",
    type=click.Path(path_type=Path, readable=False, dir_okay=False),
    default=None,
    help="Write the OpenMetrics text here too (textfile collector of node_exporter; the name ends in .prom).",
)
@option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Seconds to wait while another process uses the database.",
)
@option("--retry", is_flag=True, help="Read folders again that were set aside.")
@memory_option
@format_option("text", "json", "md")
def nightly(
    root: Path,
    output: Path,
    db_path: Path,
    policy_path: Path | None,
    quiet_s: float | None,
    marker: str | None,
    textfile: Path | None,
    wait_s: float,
    retry: bool,
    memory_limit: str | None,
    output_format: str,
) -> int:
    """Judge the new runs below ROOT against earlier ones.

    Each complete folder below ROOT is read once, diagnosed and compared with the last good runs of the
    same labels. Exit 10: the gate tripped; 4: nothing could be concluded for a run; 70: a bug met one.
    """
    from kvcliff.cli.progress import progress
    from kvcliff.nightly.files import check_folder
    from kvcliff.nightly.night import Night, run_night
    from kvcliff.nightly.outputs import build_outputs, write_outputs

    if not root.is_dir():
        raise UsageProblem(
            f"there is no folder {root}", hint="give the folder that holds one sub-folder per run"
        )
    policy = _policy(policy_path, quiet_s, marker)
    check_folder(output)
    with _stoppable(), _open(db_path, memory_limit, wait_s) as con, progress():
        night = Night(con, root, output, policy, time.time_ns(), is_retrying=retry)
        result = run_night(night)
        outputs = build_outputs(night, result)
        envelope = _envelope(outputs).to_json() + "\n"
        paths = write_outputs(night, outputs, envelope, textfile=textfile)
    _compact(db_path, policy)
    for path in paths:
        if path.suffix != ".svg":
            note(f"wrote {path}")
    if output_format == "json":
        say_raw(envelope)
    elif output_format == "md":
        say_raw(outputs.files["index.md"].decode())
    else:
        _say(outputs)
        for bug in _bugs(outputs):
            show_error(bug)
    return outputs.exit_code


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let SIGTERM (systemd, Kubernetes) end the pass as Ctrl-C does: the run it reads is not to blame."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


def _policy(path: Path | None, quiet_s: float | None, marker: str | None) -> "NightlyPolicy":
    """Return the policy of the file, with what the command line says instead."""
    from dataclasses import replace

    from kvcliff.nightly.policy import NightlyPolicy, read_nightly_policy
    from kvcliff.store.catalog import threshold_names

    policy = (
        NightlyPolicy() if path is None else read_nightly_policy(path, known_thresholds=threshold_names())
    )
    discovery = policy.discovery
    if quiet_s is not None:
        discovery = replace(discovery, quiet_s=quiet_s)
    if marker is not None:
        discovery = replace(discovery, marker=marker)
    return replace(policy, discovery=discovery)


def _open(db_path: Path, memory_limit: str | None, wait_s: float) -> "duckdb.DuckDBPyConnection":
    """Return the connection, which is the lock of a pass too: it ends with the process, however that ends."""
    from kvcliff.store.database import open_store

    deadline = time.monotonic() + wait_s
    while True:
        try:
            return open_store(db_path, memory_limit=memory_limit)
        except StoreLockedError as exc:
            if time.monotonic() >= deadline:
                raise StoreLockedError(
                    f"{exc.message}: another nightly pass, or another kvcliff command; nothing was done",
                    hint=f"{exc.hint}; or let this pass wait: --wait 3600",
                ) from exc
        time.sleep(_RETRY_S)


def _compact(db_path: Path, policy: "NightlyPolicy") -> None:
    """Make the database small again when more of it is free than the policy allows."""
    from kvcliff.store.compaction import compact_when_loose

    done = compact_when_loose(db_path, policy.retention.compact_free_ratio)
    if done is not None:
        note(f"compacted {db_path}: {done.before_bytes:,} -> {done.after_bytes:,} bytes")


def _envelope(outputs: "NightOutputs") -> Envelope:
    """Return the answer; a tripped gate, an open question and every bug are named among the errors."""
    view = outputs.view
    problems: tuple[Problem, ...] = ()
    if view.verdict == "failed":
        problems = (Problem(GateTripped.code, outputs.summary),)
    elif view.verdict == "inconclusive":
        problems = (Problem(CannotAnswerError.code, outputs.summary),)
    is_partial = bool(view.set_aside or view.result.report_problems or view.result.bugs)
    status: Status = "partial" if is_partial else "ok"
    return Envelope("nightly", outputs.data, status, (*problems, *_bugs(outputs)))


def _bugs(outputs: "NightOutputs") -> tuple[Problem, ...]:
    return tuple(
        Problem(KvcliffError.code, f"{name}: {refusal.reason}", refusal.hint)
        for name, refusal in outputs.view.result.bugs
    )


def _say(outputs: "NightOutputs") -> None:
    say(outputs.summary, bold=True)
    for line in outputs.view.told:
        judgement = line.stored.judgement
        # A sentence of the comparison may begin with the word itself.
        is_said = judgement.summary.startswith(f"{judgement.verdict}:")
        say(f"  {line.name}: {judgement.summary if is_said else f'{judgement.verdict}: {judgement.summary}'}")
        for check in judgement.told:
            if check.message not in judgement.summary:
                say(f"    {check.severity}: {check.message}")
        if judgement.cause and judgement.cause not in judgement.summary:
            say(f"    cause: {judgement.cause}")
    for state in outputs.view.result.set_aside:
        say(f"  {state.folder}: set aside: {state.reason}")
    for run in outputs.view.result.waiting:
        note(f"{run.folder}: waiting: {run.wait_reason}")
    for run_id, refusal in outputs.view.result.report_problems:
        note(f"{run_id}: no report: {refusal.reason}")
