"""The pass as JSON data; ``nightly.schema.json`` beside this module is its published schema."""

from pathlib import Path
from typing import Any

from kvcliff.nightly.gate import Check
from kvcliff.nightly.summary import summary_line
from kvcliff.nightly.view import NightView, RunLine, SeriesTrend

SCHEMA = "kvcliff.nightly/1"
SCHEMA_PATH = Path(__file__).parent / "nightly.schema.json"


def night_data(view: NightView, exit_code: int) -> dict[str, Any]:
    """Return the pass as plain data.

    Args:
        view: what there is to say.
        exit_code: the exit code of the command.
    """
    return {
        "schema": SCHEMA,
        "verdict": view.verdict,
        "exit_code": exit_code,
        "summary": summary_line(view),
        "runs": [_run(line) for line in view.told],
        "set_aside": [
            {"folder": state.folder, "reason": state.reason, "hint": state.hint}
            for state in view.result.set_aside
        ],
        "waiting": [{"folder": run.folder, "reason": run.wait_reason} for run in view.result.waiting],
        "series": [_series(trend) for trend in view.trends],
        "report_problems": [
            {"run_id": run_id, "reason": refusal.reason} for run_id, refusal in view.result.report_problems
        ],
        "raw_removed": list(view.result.raw_removed),
    }


def _run(line: RunLine) -> dict[str, Any]:
    judgement = line.stored.judgement
    return {
        "run_id": judgement.run_id,
        "name": line.run.name if line.run is not None else None,
        "folder": line.folder,
        "status": line.run.status if line.run is not None else None,
        "series": judgement.series,
        "started_at_ns": line.run.started_at_ns if line.run is not None else None,
        "verdict": judgement.verdict,
        "summary": judgement.summary,
        "cause": judgement.cause,
        "diagnosis": line.diagnosis,
        "base_run_ids": list(judgement.base_run_ids),
        "report": line.report,
        "checks": [_check(check) for check in judgement.checks],
    }


def _check(check: Check) -> dict[str, Any]:
    return {
        "metric": check.metric,
        "title": check.title,
        "unit": check.unit,
        "level": check.level,
        "outcome": check.outcome,
        "severity": check.severity,
        "base_value": check.base_value,
        "run_value": check.run_value,
        "change_ratio": check.change_ratio,
        "minimum_change_ratio": check.minimum_change_ratio,
        "message": check.message,
    }


def _series(trend: SeriesTrend) -> dict[str, Any]:
    judgement = trend.latest.stored.judgement
    return {
        "series": trend.series,
        "latest_run_id": judgement.run_id,
        "latest_verdict": judgement.verdict,
        "shown_run_count": len(trend.lines),
    }
