"""What the outputs of a pass show, gathered once: the runs told of, the trends, what was set aside."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from kvcliff.nightly.gate import SWAP_POINTS_FOUND, Check
from kvcliff.nightly.night import RUNS_FOLDER, Night, NightResult, report_folder
from kvcliff.nightly.policy import Severity
from kvcliff.nightly.state import (
    FolderState,
    StoredJudgement,
    folder_states,
    judgements_of_series,
    series_names,
)
from kvcliff.report.document import FindingLine
from kvcliff.report.verdict import choose_verdict
from kvcliff.report.write import MARKDOWN_NAME
from kvcliff.store.catalog import StoredRun, list_findings, list_runs

NightVerdict = Literal["failed", "inconclusive", "passed"]
#: How many runs of a series the index shows.
TREND_RUNS = 30


@dataclass(frozen=True)
class RunLine:
    """One judged run.

    Attributes:
        stored: its judgement.
        run: its row of the store, ``None`` when it was removed since.
        folder: its folder relative to the root, ``None`` when it came from another root.
        report: its report relative to the output folder, ``None`` when there is none.
        diagnosis: the sentence that its report opens with; empty when it was not asked for.
    """

    stored: StoredJudgement
    run: StoredRun | None
    folder: str | None
    report: str | None
    diagnosis: str = ""

    @property
    def name(self) -> str:
        """What a reader calls the run: its folder, else its name."""
        if self.folder is not None:
            return self.folder
        return self.run.name if self.run is not None else self.stored.judgement.run_id


@dataclass(frozen=True)
class SeriesTrend:
    """The last runs of a series, oldest first; never empty."""

    series: str
    lines: tuple[RunLine, ...]

    @property
    def latest(self) -> RunLine:
        """The newest run."""
        return self.lines[-1]

    @property
    def metrics(self) -> tuple[Check, ...]:
        """The gating metrics of the newest run that has any, each once, by level and name."""
        for line in reversed(self.lines):
            gating = [check for check in line.stored.judgement.checks if check.is_gating]
            if gating:
                return tuple(sorted(gating, key=lambda check: (check.level or "", check.metric)))
        return tuple(
            check for check in self.latest.stored.judgement.checks if check.metric == SWAP_POINTS_FOUND
        )

    def values(self, metric: str, level: str | None) -> tuple[float | None, ...]:
        """Return the value of a metric in each run, ``None`` where it was not recorded."""
        return tuple(_value(line, metric, level) for line in self.lines)


@dataclass(frozen=True)
class NightView:
    """Everything that the outputs of a pass say.

    Attributes:
        verdict: of the whole pass.
        result: what the pass did.
        told: runs that this pass tells of.
        trends: every series.
        set_aside: all folders of the root that are set aside, told of before or not.
        broken_run: what a folder that was set aside does to the verdict.
    """

    verdict: NightVerdict
    result: NightResult
    told: tuple[RunLine, ...]
    trends: tuple[SeriesTrend, ...]
    set_aside: tuple[FolderState, ...]
    broken_run: Severity


def build_view(night: Night, result: NightResult) -> NightView:
    """Return what the outputs say.

    Args:
        night: the pass.
        result: what came of it.
    """
    runs = {run.run_id: run for run in list_runs(night.con)}
    known = folder_states(night.con, night.root_id)
    folders = {state.stored_run_id: name for name, state in sorted(known.items(), reverse=True)}

    def line(stored: StoredJudgement, diagnosis: str = "") -> RunLine:
        run_id = stored.judgement.run_id
        has_report = (report_folder(night.output, run_id) / MARKDOWN_NAME).is_file()
        report = f"{RUNS_FOLDER}/{report_folder(night.output, run_id).name}/{MARKDOWN_NAME}"
        return RunLine(
            stored, runs.get(run_id), folders.get(run_id), report if has_report else None, diagnosis
        )

    trends = []
    for series in series_names(night.con):
        stored = judgements_of_series(night.con, series, limit=TREND_RUNS)
        trends.append(SeriesTrend(series, tuple(line(item) for item in stored)))
    return NightView(
        verdict=_night_verdict(result, night.policy.gate.broken_run),
        result=result,
        told=tuple(line(stored, _diagnosis(night, stored)) for stored in result.judged),
        trends=tuple(trends),
        set_aside=tuple(state for state in known.values() if state.state == "set_aside"),
        broken_run=night.policy.gate.broken_run,
    )


def _diagnosis(night: Night, stored: StoredJudgement) -> str:
    findings = list_findings(night.con, stored.judgement.run_id)
    return choose_verdict(tuple(FindingLine(**asdict(finding)) for finding in findings)).sentence


def _value(line: RunLine, metric: str, level: str | None) -> float | None:
    for check in line.stored.judgement.checks:
        if check.metric == metric and check.level == level and check.outcome != "limit":
            return check.run_value
    return None


def _night_verdict(result: NightResult, broken_run: Severity) -> NightVerdict:
    words = {item.judgement.verdict for item in result.judged}
    if result.set_aside:
        words |= {"failed"} if broken_run == "fail" else set()
        words |= {"inconclusive"} if broken_run == "inconclusive" else set()
    if "failed" in words:
        return "failed"
    return "inconclusive" if "inconclusive" in words else "passed"


def counts(lines: Sequence[RunLine]) -> dict[str, int]:
    """Return how many runs have each verdict, gravest first."""
    order = ("failed", "inconclusive", "warned", "passed", "learning", "set_aside")
    found = {word: sum(line.stored.judgement.verdict == word for line in lines) for word in order}
    return {word: count for word, count in found.items() if count}
