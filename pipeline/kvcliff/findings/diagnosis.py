"""Runs every finding over the marts of a staged run and writes the ``findings`` table."""

import json

import duckdb

from kvcliff.findings import FINDINGS
from kvcliff.findings.base import Evidence, Finding, Result
from kvcliff.store.run_tables import FINDINGS_DDL


def run_findings(con: duckdb.DuckDBPyConnection, findings: tuple[Finding, ...] = FINDINGS) -> int:
    """Answer every finding and return how many rows the ``findings`` table has now.

    Args:
        con: connection with the staged run.
        findings: which to ask, in order.
    """
    con.execute(FINDINGS_DDL)
    number = 0
    for finding in findings:
        for result in finding.evaluate(con):
            number += 1
            _write(con, number, finding.name, result)
    return number


def _write(con: duckdb.DuckDBPyConnection, number: int, name: str, result: Result) -> None:
    con.execute(
        "insert into temp.findings values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            number,
            name,
            result.verdict,
            result.severity,
            result.confidence,
            result.summary,
            result.action,
            result.capture,
            evidence_json(result.evidence),
            result.reason,
        ],
    )


def evidence_json(evidence: tuple[Evidence, ...]) -> str:
    """Return evidence as JSON text: a list of ``{mart, where, numbers}`` with sorted keys."""
    entries = [{"mart": item.mart, "where": item.where, "numbers": dict(item.numbers)} for item in evidence]
    return json.dumps(entries, sort_keys=True, ensure_ascii=True, allow_nan=False)
