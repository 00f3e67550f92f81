"""Building the content of a report from the marts of an exposed run."""

import re
from dataclasses import dataclass

import duckdb

from kvcliff.errors import StoreError
from kvcliff.findings.levels import Level, read_levels
from kvcliff.findings.marts import query_rows, read_rows, threshold
from kvcliff.findings.run_time import RunTime, read_run_time
from kvcliff.report.advice_section import advice_section
from kvcliff.report.closing_sections import answer_section, gap_section
from kvcliff.report.document import FindingLine, ReportContent, RunLine, Verdict
from kvcliff.report.provenance_section import provenance_section
from kvcliff.report.quick_reference import quick_reference_section
from kvcliff.report.sections import build_sections
from kvcliff.report.verdict import choose_verdict
from kvcliff.units import NS_PER_S, format_count, format_duration_ns

__all__ = ["FindingLine", "ReportContent", "Verdict", "build_content"]


#: A label that says so, in its name or its value; ``synthetic = "false"`` does not.
_SYNTHETIC = re.compile(r"(?i)\bsynthetic\b(?!\s*=\s*[\"']?(false|no|0)\b)")


@dataclass(frozen=True)
class _Failures:
    request_count: int
    failed_count: int


_FAILURE_SQL = """
select count(*), count(*) filter (where is_error)
from requests
where not coalesce(is_warmup, false)
having count(*) > 0
"""


def build_content(con: duckdb.DuckDBPyConnection, run_id: str) -> ReportContent:
    """Return everything the report of one run says.

    Args:
        con: connection on which the run's marts are exposed without ``run_id``.
        run_id: id of the run.

    Raises:
        StoreError: the run is not exposed.
    """
    runs = read_rows(con, "runs", RunLine)
    if not runs:
        raise StoreError(f"the database holds no run {run_id}", hint="see the stored runs: kvcliff runs list")
    run, run_time = runs[0], read_run_time(con)
    findings = read_rows(con, "findings", FindingLine, order="finding_no")
    verdict = choose_verdict(findings)
    sections, missing = build_sections(con)
    ordered = (
        answer_section(findings, verdict),
        quick_reference_section(con, findings, verdict),
        *sections,
        advice_section(con, findings),
        gap_section(findings, missing),
        provenance_section(con, run, run_id),
    )
    return ReportContent(
        run_id=run_id,
        run=run,
        run_time=run_time,
        headline=_headline(run, run_time, read_levels(con)),
        verdict=verdict,
        notices=(*_notices(run), *_failure_notice(con)),
        findings=findings,
        sections=tuple(section for section in ordered if section is not None),
    )


def is_synthetic(labels: str | None) -> bool:
    """Return whether the labels of a run say that its files were made by a generator."""
    return bool(_SYNTHETIC.search(labels or ""))


def _duration(dur_ns: int) -> str:
    """Return a duration that may be days long: levels of a sweep can lie far apart."""
    for unit_ns, unit in ((86_400 * NS_PER_S, "days"), (3_600 * NS_PER_S, "h")):
        if dur_ns >= 2 * unit_ns:
            return f"{dur_ns / unit_ns:,.1f} {unit}"
    return format_duration_ns(dur_ns)


def _headline(run: RunLine, run_time: RunTime, levels: tuple[Level, ...]) -> str:
    parts = []
    if run.started_at_ns is not None and run.ended_at_ns is not None:
        start = run_time.clock(run.started_at_ns, with_date=True)
        begun = f"Began {start} ({run_time.zone}), lasted " if start is not None else "Lasted "
        parts.append(f"{begun}{_duration(run.ended_at_ns - run.started_at_ns)}")
    if len(levels) > 1:
        load_ns = sum(level.ended_at_ns - level.started_at_ns for level in levels)
        parts.append(f"{format_count(len(levels))} levels, {_duration(load_ns)} of load")
    parts.append("1 file" if run.file_count == 1 else f"{format_count(run.file_count)} files")
    if run.labels:
        parts.append(run.labels)
    return " · ".join(parts)


def _notices(run: RunLine) -> tuple[str, ...]:
    notices = []
    if is_synthetic(run.labels):
        notices.append("Synthetic run: its files were made by a generator, not recorded from an engine.")
    if run.status == "partial":
        notices.append(
            "Partial: at least one file was damaged or refused; the rest was used (see the list of files)."
        )
    if run.year_known is False:
        notices.append("The year is unknown: no file of the run states one.")
    return tuple(notices)


def _failure_notice(con: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Return that many requests failed: then latencies of the others are no good news."""
    rows = query_rows(con, ("requests",), _Failures, _FAILURE_SQL)
    if not rows or rows[0].failed_count <= threshold(con, "slo_missed_ratio") * rows[0].request_count:
        return ()
    failed, all_count = format_count(rows[0].failed_count), format_count(rows[0].request_count)
    return (f"{failed} of {all_count} requests failed at the client; TTFT and TPOT are those of the others.",)
