"""One nightly pass: new folders into the store, verdicts and reports; each step can be cut and repeated."""

import shutil
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import duckdb

from kvcliff import __version__
from kvcliff.nightly.baseline import choose_baseline, order_ns, series_of
from kvcliff.nightly.comparison.compare import ComparePolicy, Comparison, compare_runs
from kvcliff.nightly.discovery import RunFolder, find_run_folders, look_at
from kvcliff.nightly.gate import Subject, judge
from kvcliff.nightly.intake import (
    FolderChangedError,
    Refusal,
    clear_away,
    end_of_pass,
    is_interrupt,
    refusal_of,
    take_in,
)
from kvcliff.nightly.policy import NightlyPolicy
from kvcliff.nightly.state import (
    FolderState,
    StoredJudgement,
    folder_states,
    is_used_elsewhere,
    remember_folder,
    remember_judgement,
    root_id,
    unannounced_judgements,
)
from kvcliff.report.escape import file_name
from kvcliff.report.write import JSON_NAME, MARKDOWN_NAME, write_report
from kvcliff.store.catalog import StoredRun, list_runs, remove_runs
from kvcliff.store.database import stored_table, table_names
from kvcliff.store.ingest import is_stored
from kvcliff.store.retention import remove_raw, runs_with_old_raw
from kvcliff.timing import stage

RUNS_FOLDER = "runs"
#: Thresholds that the comparison knows begin so; the others are those of the diagnosis.
_COMPARE_PREFIX = "compare_"


@dataclass(frozen=True)
class Night:
    """What a pass works on.

    Attributes:
        con: connection to the store; while it is open no other process can write.
        root: folder with the run folders.
        output: folder for reports, index and machine outputs.
        policy: what counts as what.
        now_ns: the present at the start of the pass, unix ns.
        is_retrying: whether folders that were set aside are read again.
    """

    con: duckdb.DuckDBPyConnection
    root: Path
    output: Path
    policy: NightlyPolicy
    now_ns: int
    is_retrying: bool = False

    @property
    def root_id(self) -> str:
        """What stands for the root in the store."""
        return root_id(self.root)


@dataclass(frozen=True)
class NightResult:
    """What came of a pass.

    Attributes:
        judged: runs that no finished pass has told of before, in their order.
        set_aside: folders that could not be read and that no pass has told of before.
        waiting: folders that are not complete.
        new_count: folders that this pass took in.
        report_problems: run and reason where no report could be written.
        raw_removed: runs whose raw rows were removed.
        bugs: folder or run, and what kvcliff failed on there without meaning to.
    """

    judged: tuple[StoredJudgement, ...]
    set_aside: tuple[FolderState, ...]
    waiting: tuple[RunFolder, ...]
    new_count: int
    report_problems: tuple[tuple[str, Refusal], ...]
    raw_removed: tuple[str, ...]
    bugs: tuple[tuple[str, Refusal], ...] = ()


def run_night(night: Night) -> NightResult:
    """Do the work of a pass, up to the outputs, and return what came of it.

    Every step is stored when it is done, so a pass that is killed at any moment is completed by the next one.

    Raises:
        UsageProblem: the root cannot be listed.
        StoreError: the database cannot be written.
        OutputError: a report cannot be written.
    """
    found = find_run_folders(night.root, night.policy.discovery, now_ns=night.now_ns, outputs=(night.output,))
    waiting = {run.folder: run for run in found if run.wait_reason is not None}
    new_count = 0
    refusals: list[tuple[str, Refusal]] = []
    for run in _to_read(night, found):
        came = _read_folder(night, run)
        if isinstance(came, RunFolder):
            waiting[run.folder] = came
        else:
            new_count += 1
        if isinstance(came, Refusal):
            refusals.append((run.folder, came))
    known = folder_states(night.con, night.root_id)
    for stored_run, folder in _to_judge(night, known):
        refusal = _judge_run(night, stored_run, folder)
        if refusal is not None:
            refusals.append((folder, refusal))
    report_problems = _write_reports(night, known)
    refusals += report_problems
    raw_removed = _remove_old_raw(night)
    return NightResult(
        judged=unannounced_judgements(night.con),
        set_aside=tuple(
            state for state in known.values() if state.state == "set_aside" and state.announced_at_ns is None
        ),
        waiting=tuple(waiting[folder] for folder in sorted(waiting)),
        new_count=new_count,
        report_problems=report_problems,
        raw_removed=raw_removed,
        bugs=tuple((name, refusal) for name, refusal in refusals if refusal.is_bug),
    )


def _to_read(night: Night, found: tuple[RunFolder, ...]) -> list[RunFolder]:
    """Return the complete folders that are new or changed, those that killed a pass before last."""
    known = folder_states(night.con, night.root_id)
    chosen = []
    for run in found:
        state = known.get(run.folder)
        if run.wait_reason is None and (state is None or _is_due(night, run, state)):
            chosen.append((state.attempt_count if state is not None else 0, run.folder, run))
    return [run for _, _, run in sorted(chosen, key=lambda entry: entry[:2])]


def _is_due(night: Night, run: RunFolder, state: FolderState) -> bool:
    """Return whether a known folder must be looked at again."""
    if state.state == "begun" or state.fingerprint != run.fingerprint:
        return True
    if state.state == "set_aside":
        return night.is_retrying or state.kvcliff_version != __version__
    return False


def _read_folder(night: Night, run: RunFolder) -> RunFolder | Refusal | None:
    """Take one folder in; return why it was set aside, or the folder when it changed and must wait."""
    known = folder_states(night.con, night.root_id).get(run.folder)
    is_same = known is not None and known.fingerprint == run.fingerprint and known.state == "begun"
    attempts = known.attempt_count if known is not None and is_same else 0
    earlier_run_id = known.stored_run_id if known is not None else None
    begun = FolderState(
        run.folder,
        run.fingerprint,
        "begun",
        earlier_run_id,
        attempts + 1,
        None,
        None,
        __version__,
        night.now_ns,
    )
    if attempts >= night.policy.discovery.attempts and not night.is_retrying:
        return _set_aside(night, begun, _poisonous(attempts))
    remember_folder(night.con, night.root_id, begun)
    try:
        run_id = take_in(
            night.con,
            run,
            dict(night.policy.thresholds),
            is_unchanged=lambda folder: _is_unchanged(night, folder),
        )
    except FolderChangedError as exc:
        clear_away(night.con)
        remember_folder(night.con, night.root_id, replace(begun, attempt_count=attempts))
        return replace(run, wait_reason=exc.message)
    except (KeyboardInterrupt, Exception) as exc:
        # One broken run must not keep the others from their verdict, whatever is wrong with it.
        if is_interrupt(exc):
            # Somebody stopped the pass; the folder is not to blame.
            remember_folder(night.con, night.root_id, replace(begun, attempt_count=attempts))
        end = end_of_pass(exc)
        if end is not None:
            raise end from exc
        clear_away(night.con)
        return _set_aside(night, begun, _inside(refusal_of(exc, f"diagnose ROOT/{run.folder}"), run))
    _remember_stored(night, begun, run_id)
    return None


def _inside(refusal: Refusal, run: RunFolder) -> Refusal:
    """Return the refusal without the place of the root, which belongs into no table and no report."""

    def shorten(text: str) -> str:
        return text.replace(str(run.path), run.folder).replace(str(run.path.resolve()), run.folder)

    hint = shorten(refusal.hint) if refusal.hint is not None else None
    return replace(refusal, reason=shorten(refusal.reason), hint=hint)


def _poisonous(attempts: int) -> Refusal:
    return Refusal(
        f"the process died {attempts} times while reading it",
        "look for the end of kvcliff in the system log (out of memory?), then: kvcliff nightly ROOT --retry",
    )


def _is_unchanged(night: Night, run: RunFolder) -> bool:
    now = look_at(run.path, run.folder, night.policy.discovery, now_ns=night.now_ns)
    return now is not None and now.fingerprint == run.fingerprint


def _set_aside(night: Night, begun: FolderState, refusal: Refusal) -> Refusal:
    remember_folder(
        night.con,
        night.root_id,
        replace(begun, state="set_aside", attempt_count=0, reason=refusal.reason, hint=refusal.hint),
    )
    return refusal


def _remember_stored(night: Night, begun: FolderState, run_id: str) -> None:
    """Note the run of a folder; a run that the folder was before, with other content, goes."""
    earlier = begun.stored_run_id
    if (
        earlier is not None
        and earlier != run_id
        and not is_used_elsewhere(night.con, night.root_id, begun.folder, earlier)
    ):
        remove_runs(night.con, (earlier,))
        shutil.rmtree(report_folder(night.output, earlier), ignore_errors=True)
    done = replace(begun, state="stored", stored_run_id=run_id, attempt_count=0)
    remember_folder(night.con, night.root_id, done)


def _to_judge(night: Night, known: dict[str, FolderState]) -> list[tuple[StoredRun, str]]:
    """Return the runs of this root that have no verdict yet, with their folders, oldest first."""
    folders = {state.stored_run_id: name for name, state in sorted(known.items(), reverse=True)}
    table = stored_table(night.con, "nightly_verdicts")
    judged = {row[0] for row in night.con.execute(f"select run_id from {table}").fetchall()}  # noqa: S608
    due = [
        (run, folders[run.run_id])
        for run in list_runs(night.con)
        if run.run_id in folders and run.run_id not in judged
    ]
    return sorted(due, key=lambda entry: (order_ns(entry[0]), entry[0].run_id))


def _judge_run(night: Night, run: StoredRun, folder: str) -> Refusal | None:
    """Store the verdict on a run; return why it could not be compared."""
    series, order = series_of(run, night.policy.baseline), order_ns(run)
    base = choose_baseline(night.con, run.run_id, series, order, night.policy.baseline)
    subject = Subject(
        run_id=run.run_id,
        series=series,
        folder=folder,
        base_run_ids=base,
        swap_point_count=_count_swap_points(night, run.run_id),
        is_set_aside=_is_set_aside(night.policy, run.run_id, folder),
    )
    subject = replace(subject, base_versions=_other_versions(night, subject, run.kvcliff_version))
    with stage(f"compare {run.run_id}"):
        comparison, refusal = _compare(night, subject)
        problem = refusal.reason if refusal is not None else ""
        if problem and subject.base_versions:
            problem += f" (to begin a new baseline with it: kvcliff runs accept {run.run_id})"
        judgement = judge(subject, comparison, night.policy, problem=problem)
    remember_judgement(night.con, judgement, order_ns=order, now_ns=night.now_ns)
    return refusal


def _other_versions(night: Night, subject: Subject, version: str) -> tuple[str, ...]:
    """Return the versions of kvcliff that read the baseline, where they are not that of the run."""
    rows = night.con.execute(
        f"""
        select distinct kvcliff_version from {stored_table(night.con, "runs")}
        where run_id in (select unnest(?::varchar[])) and kvcliff_version <> ? order by kvcliff_version
        """,  # noqa: S608
        [list(subject.base_run_ids), version],
    ).fetchall()
    return tuple(row[0] for row in rows)


def _compare(night: Night, subject: Subject) -> tuple[Comparison | None, Refusal | None]:
    """Return the comparison, or why there is none; a series that is learning is compared with itself."""
    ratios = {
        name: night.policy.rule_for(name, subject.series).min_change_ratio
        for name in night.policy.metrics_with_rules
    }
    policy = ComparePolicy(
        thresholds={
            name: value for name, value in night.policy.thresholds if name.startswith(_COMPARE_PREFIX)
        },
        minimum_change_ratio={name: ratio for name, ratio in ratios.items() if ratio is not None},
    )
    base = subject.base_run_ids or (subject.run_id,)
    try:
        return compare_runs(night.con, base, subject.run_id, policy=policy), None
    except Exception as exc:
        end = end_of_pass(exc)
        if end is not None:
            raise end from exc
        return None, refusal_of(exc, f"compare {base[0]} {subject.run_id} --db DATABASE")


def _count_swap_points(night: Night, run_id: str) -> int:
    if "swap_points" not in table_names(night.con):
        return 0
    row = night.con.execute(
        f"select count(*) from {stored_table(night.con, 'swap_points')} "  # noqa: S608
        'where run_id = ? and "class" in (select unnest(?))',
        [run_id, list(night.policy.gate.swap_point_classes)],
    ).fetchone()
    return int(row[0]) if row is not None else 0


def _is_set_aside(policy: NightlyPolicy, run_id: str, folder: str) -> bool:
    return any(
        fnmatchcase(run_id, pattern) or fnmatchcase(folder, pattern) for pattern in policy.quarantine.runs
    )


def report_folder(output: Path, run_id: str) -> Path:
    """Return where the report of a run lies; what a run's name could do to a path is taken out of it."""
    return output / RUNS_FOLDER / file_name(run_id)


def _write_reports(night: Night, known: dict[str, FolderState]) -> tuple[tuple[str, Refusal], ...]:
    """Write the reports that are missing; the JSON file of a report is written last."""
    problems = []
    for run_id in sorted(
        {state.stored_run_id for state in known.values() if state.stored_run_id is not None}
    ):
        folder = report_folder(night.output, run_id)
        if (folder / JSON_NAME).is_file() and (folder / MARKDOWN_NAME).is_file():
            continue
        if not is_stored(night.con, run_id):
            continue
        try:
            write_report(night.con, run_id, folder, force=True)
        except Exception as exc:
            end = end_of_pass(exc)
            if end is not None:
                raise end from exc
            problems.append((run_id, refusal_of(exc, f"report {run_id} --db DATABASE")))
        finally:
            clear_away(night.con)
    return tuple(problems)


def _remove_old_raw(night: Night) -> tuple[str, ...]:
    days = night.policy.retention.raw_days
    if days is None:
        return ()
    doomed = runs_with_old_raw(night.con, older_than_days=days, now_ns=night.now_ns)
    remove_raw(night.con, doomed, now_ns=night.now_ns)
    return doomed
