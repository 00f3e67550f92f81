"""The quick-reference table: which symptoms this run shows, on what evidence, why, and what to do."""

from collections.abc import Iterable, Iterator

import duckdb

from kvcliff.findings import FINDINGS
from kvcliff.findings.marts import mart_columns
from kvcliff.report.document import Block, Column, FindingLine, Paragraph, Section, Table, Value, Verdict
from kvcliff.report.symptom import Symptom
from kvcliff.report.symptoms import SYMPTOMS

_COLUMNS = (
    Column("symptom", "Symptom", "word"),
    Column("evidence", "Evidence in this run", "word"),
    Column("cause", "Cause", "word"),
    Column("action", "First action", "word"),
)
_FIRST_THING = "The first thing to do, at the top."
_SAME_ACTION = "The same."
#: Findings that a symptom of its own speaks for, and those that are about the evidence, not about the server.
_SPOKEN_FOR = frozenset(
    (
        "hit_but_slow",
        "swap_point",
        "other_jump",
        "bandwidth_bound",
        "concurrency_knee",
        "headroom",
        "capture_failed",
        "clock_trust",
        "source_disagreement",
    )
)


def quick_reference_section(
    con: duckdb.DuckDBPyConnection, findings: tuple[FindingLine, ...], verdict: Verdict
) -> Section | None:
    """Return the symptoms that this run shows, those it does not show, and those it cannot tell.

    Args:
        con: connection on which the run is exposed.
        findings: all answers.
        verdict: the opening of the report, whose action is not said again.
    """
    rows: list[tuple[Value, ...]] = []
    absent: list[Symptom] = []
    unknown: list[Symptom] = []
    for symptom in SYMPTOMS:
        seen = symptom.look(con, findings)
        rows.extend((symptom.words, item.evidence, item.cause, item.action) for item in seen)
        if not seen:
            (absent if _can_tell(con, symptom) else unknown).append(symptom)
    rows.extend(_other_findings(findings))
    blocks: list[Block] = []
    if rows:
        blocks.append(Table("findings", _COLUMNS, tuple(_without_repeats(rows, verdict))))
    if absent:
        blocks.append(Paragraph(f"Looked for and not seen: {_listed(symptom.words for symptom in absent)}."))
    if unknown:
        missing = _listed(f"{symptom.words} (needs {symptom.lacks})" for symptom in unknown)
        blocks.append(Paragraph(f"Not to be told from this run: {missing}."))
    return Section("quick_reference", "Symptoms, causes and actions", tuple(blocks))


def _without_repeats(rows: list[tuple[Value, ...]], verdict: Verdict) -> Iterator[tuple[Value, ...]]:
    """Yield the rows; an action that stands above already is only pointed at."""
    said = {verdict.action: _FIRST_THING}
    for symptom, evidence, cause, action in rows:
        yield symptom, evidence, cause, None if action is None else said.get(str(action), action)
        said.setdefault(None if action is None else str(action), _SAME_ACTION)


def _listed(items: Iterable[str]) -> str:
    return "; ".join(f"{item[0].lower()}{item[1:]}" if not item[1].isupper() else item for item in items)


def _can_tell(con: duckdb.DuckDBPyConnection, symptom: Symptom) -> bool:
    if not mart_columns(con, symptom.mart):
        return False
    sql = f"select 1 from {symptom.mart} where {symptom.where} limit 1"  # noqa: S608
    return bool(con.execute(sql).fetchall())


def _other_findings(findings: tuple[FindingLine, ...]) -> list[tuple[Value, ...]]:
    """Return a row for each alarm that no symptom of the list covers; its question is the symptom."""
    questions = {finding.name: finding.question for finding in FINDINGS}
    return [
        (questions.get(line.finding, line.finding.replace("_", " ")), line.summary, line.reason, line.action)
        for line in findings
        if line.verdict == "found" and line.severity != "info" and line.finding not in _SPOKEN_FOR
    ]
