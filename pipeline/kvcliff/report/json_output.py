"""A report as JSON data: the same content as the Markdown, values raw, keys sorted."""

import json
import math
from dataclasses import asdict
from typing import Any

from kvcliff.report.document import (
    Answers,
    Block,
    Commands,
    Gaps,
    Paragraph,
    ReportContent,
    Section,
    Steps,
    Table,
)

SCHEMA = "kvcliff.report/1"


def report_data(content: ReportContent) -> dict[str, Any]:
    """Return the content as plain data (dicts, lists, numbers, text); no NaN, no infinities."""
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "audience": content.audience,
        "run_id": content.run_id,
        "run": asdict(content.run),
        "headline": content.headline,
        "verdict": asdict(content.verdict),
        "notices": list(content.notices),
        "figures": [asdict(figure) for figure in content.figures],
        "findings": [
            {**asdict(line), "evidence": json.loads(line.evidence or "[]")} for line in content.findings
        ],
        "sections": [_section(section) for section in content.sections],
    }
    return {key: _finite(value) for key, value in data.items()}


def report_json(content: ReportContent) -> str:
    """Return the data as JSON text with sorted keys and a final newline."""
    return (
        json.dumps(report_data(content), sort_keys=True, indent=2, ensure_ascii=True, allow_nan=False) + "\n"
    )


def _section(section: Section) -> dict[str, Any]:
    return {"key": section.key, "title": section.title, "blocks": [_block(block) for block in section.blocks]}


def _block(block: Block) -> dict[str, Any]:
    match block:
        case Table():
            names = [column.name for column in block.columns]
            return {
                "type": "table",
                "mart": block.mart,
                "columns": [asdict(column) for column in block.columns],
                "rows": [dict(zip(names, row, strict=True)) for row in block.rows],
                "more_count": block.more_count,
            }
        case Paragraph():
            return {"type": "paragraph", "text": block.text}
        case Steps():
            return {"type": "steps", "items": list(block.items)}
        case Answers():
            return {"type": "answers", "items": [asdict(item) for item in block.items]}
        case Gaps():
            return {"type": "gaps", "items": [asdict(item) for item in block.items]}
        case Commands():
            return {"type": "commands", "lines": list(block.lines)}


def _finite(value: Any) -> Any:
    """Return data with numbers that JSON cannot hold replaced by null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
