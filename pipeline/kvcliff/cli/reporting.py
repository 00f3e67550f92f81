"""Writing the report of a stored run, saying the verdict, and tripping the ``--fail-on`` gate."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from kvcliff.cli.options import DEFAULT_REPORTS, FAIL_LEVELS
from kvcliff.cli.output import Envelope, Problem, Status, note, say, say_raw, show_error
from kvcliff.errors import GateTripped, OutputError
from kvcliff.report.content import FindingLine, Verdict
from kvcliff.report.escape import file_name
from kvcliff.report.verdict import choose_verdict
from kvcliff.report.write import HTML_NAME, JSON_NAME, MARKDOWN_NAME, ReportOptions, write_report
from kvcliff.store.catalog import StoredFinding, StoredRun, list_findings, run_table_names
from kvcliff.store.database import expose_run, quote
from kvcliff.timing import stage
from kvcliff.units import format_pct

REPORT_FILES = (MARKDOWN_NAME, JSON_NAME, HTML_NAME)
_STDOUT = Path("-")


@dataclass(frozen=True)
class ReportTarget:
    """Where a report goes: a folder, or standard output when ``folder`` is ``None``."""

    folder: Path | None
    is_forced: bool

    @classmethod
    def choose(
        cls, output: Path | None, run_name: str, *, is_forced: bool, is_only_run: bool
    ) -> "ReportTarget":
        """Return the target for a run: ``--output``, a sub-folder of it per run, or the default folder."""
        if output is None:
            return cls(DEFAULT_REPORTS / file_name(run_name), is_forced=True)
        if output == _STDOUT:
            return cls(None, is_forced=True)
        return cls(output if is_only_run else output / file_name(run_name), is_forced)


@dataclass(frozen=True)
class WrittenReport:
    """A report that was written, its verdict and its findings.

    Attributes:
        run: the run.
        folder: where it lies, or ``None`` when it goes to standard output.
        files: its files.
        markdown: the report as Markdown.
        html: the report as one HTML file, or ``None`` when none was asked for.
        findings: all findings of the run.
    """

    run: StoredRun
    folder: Path | None
    files: tuple[Path, ...]
    markdown: str
    html: str | None
    findings: tuple[StoredFinding, ...]

    @property
    def verdict(self) -> Verdict:
        """The sentence that the report opens with."""
        return choose_verdict(tuple(FindingLine(**asdict(finding)) for finding in self.findings))


def check_writable(output: Path | None, *, is_forced: bool, is_only_run: bool) -> None:
    """Refuse an output folder that the report could not go to, before any work is done.

    Raises:
        OutputError: it is a file, or it holds a report and ``--force`` is absent.
    """
    if output is None or output == _STDOUT:
        return
    if output.exists() and not output.is_dir():
        raise OutputError(f"the report folder {output} is a file", hint="choose another --output")
    if is_only_run and not is_forced:
        _refuse_overwrite(output)


def _refuse_overwrite(folder: Path) -> None:
    if any((folder / name).exists() for name in REPORT_FILES):
        raise OutputError(
            f"{folder} already holds a report", hint="overwrite it with --force, or choose another --output"
        )


def write_run_report(
    con: duckdb.DuckDBPyConnection, run: StoredRun, target: ReportTarget, options: ReportOptions
) -> WrittenReport:
    """Write the report of a stored run and return what was written.

    Raises:
        OutputError: the folder cannot be written, or holds a report and must not be overwritten.
    """
    findings = list_findings(con, run.run_id)
    with _exposed(con, run.run_id), stage("report"):
        if target.folder is None:
            with TemporaryDirectory(prefix="kvcliff-") as scratch:
                folder = Path(scratch) / "report"
                write_report(con, run.run_id, folder, force=True, options=options)
                return WrittenReport(run, None, (), *_read_texts(folder, options), findings)
        if not target.is_forced:
            _refuse_overwrite(target.folder)
        write_report(con, run.run_id, target.folder, force=target.is_forced, options=options)
    files = tuple(sorted(path for path in target.folder.rglob("*") if path.is_file()))
    return WrittenReport(run, target.folder, files, *_read_texts(target.folder, options), findings)


def _read_texts(folder: Path, options: ReportOptions) -> tuple[str, str | None]:
    """Return the report as Markdown, and as HTML when it was asked for."""
    markdown = (folder / MARKDOWN_NAME).read_text(encoding="utf-8")
    html = (folder / HTML_NAME).read_text(encoding="utf-8") if options.is_self_contained else None
    return markdown, html


@contextmanager
def _exposed(con: duckdb.DuckDBPyConnection, run_id: str) -> Iterator[None]:
    """Show one run under the plain table names while the block runs."""
    expose_run(con, run_id, sorted(run_table_names(con)))
    try:
        yield
    finally:
        views = con.execute(
            "select view_name from duckdb_views() where temporary and not internal"
        ).fetchall()
        for (name,) in views:
            con.execute(f"drop view if exists temp.{quote(name)}")


def gate_problem(written: Sequence[WrittenReport], fail_on: str | None) -> Problem | None:
    """Return the problem when a finding of the ``--fail-on`` severity or above was found."""
    if fail_on is None:
        return None
    levels = FAIL_LEVELS[FAIL_LEVELS.index(fail_on) :]
    for report in written:
        for finding in report.findings:
            if finding.verdict == "found" and finding.severity in levels:
                what = f"{finding.finding} is {finding.severity}"
                message = f"{report.run.run_id}: {what}, which --fail-on {fail_on} forbids"
                return Problem(GateTripped.code, message)
    return None


def present(
    command: str, written: Sequence[WrittenReport], problems: Sequence[Problem], output_format: str
) -> None:
    """Print verdicts, written files and problems in the chosen format."""
    for report in written:
        for path in report.files:
            note(f"wrote {path}")
    if output_format == "json":
        say_raw(
            Envelope(
                command,
                {"runs": [_data(report) for report in written]},
                _status(written, problems),
                tuple(problems),
            ).to_json()
        )
        return
    for report in written:
        if report.folder is None and output_format == "text":
            say_raw(report.html or report.markdown)
        elif output_format == "md":
            say_raw(report.markdown)
        else:
            _say_verdict(report)
    for problem in problems:
        show_error(problem)


def _say_verdict(report: WrittenReport) -> None:
    verdict = report.verdict
    say(f"{report.run.run_id}: {verdict.sentence}", bold=True)
    if verdict.confidence is not None:
        say(f"  confidence: {format_pct(verdict.confidence, 0)}")
    if verdict.action:
        say(f"  first: {verdict.action}")
    unknown = [finding.finding for finding in report.findings if finding.verdict == "cannot_tell"]
    if unknown:
        say(f"  cannot tell: {', '.join(unknown)} (the report says what to capture)")


def _status(written: Sequence[WrittenReport], problems: Sequence[Problem]) -> Status:
    if any(problem.code != GateTripped.code for problem in problems):
        return "partial" if written else "error"
    return "partial" if any(report.run.status == "partial" for report in written) else "ok"


def _data(report: WrittenReport) -> dict[str, Any]:
    verdict = report.verdict
    return {
        "run_id": report.run.run_id,
        "name": report.run.name,
        "status": report.run.status,
        "verdict": asdict(verdict),
        "findings": [_finding_data(finding) for finding in report.findings],
        "report_folder": None if report.folder is None else report.folder.as_posix(),
        "files": [path.as_posix() for path in report.files],
    }


def _finding_data(finding: StoredFinding) -> dict[str, Any]:
    return {**asdict(finding), "evidence": json.loads(finding.evidence or "[]")}
