"""The published schema of report.json, against every report that can be had."""

import json
from pathlib import Path
from typing import get_args

import jsonschema
import pytest

from builders_marts import add_run, empty_marts
from builders_report import swap_story
from kvcliff.findings.diagnosis import run_findings
from kvcliff.report.audience import AUDIENCES, for_audience
from kvcliff.report.content import build_content
from kvcliff.report.document import Kind
from kvcliff.report.json_output import SCHEMA, report_json
from kvcliff.resources import report_schema_text

REPORTS = Path(__file__).parents[2] / "reports"


@pytest.fixture(scope="module")
def validator():
    schema = json.loads(report_schema_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def _errors(validator, text):
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(json.loads(text))]


@pytest.mark.parametrize("audience", AUDIENCES)
def test_a_report_follows_the_schema(validator, audience):
    content = build_content(swap_story(), "night-1")
    assert _errors(validator, report_json(for_audience(content, audience))) == []


def test_an_empty_run_follows_the_schema(validator):
    con = empty_marts("runs", "findings")
    add_run(con, started_at_ns=None, ended_at_ns=None, utc_known=None, status="partial")
    run_findings(con)
    assert _errors(validator, report_json(build_content(con, "night-1"))) == []


@pytest.mark.parametrize("path", sorted(REPORTS.glob("*/report.json")), ids=lambda path: path.parent.name)
def test_every_kept_report_follows_the_schema(validator, path):
    assert _errors(validator, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", sorted(REPORTS.glob("*/report.json")), ids=lambda path: path.parent.name)
def test_rows_have_the_columns_that_the_table_names(path):
    document = json.loads(path.read_text(encoding="utf-8"))
    for section in document["sections"]:
        for block in section["blocks"]:
            if block["type"] == "table":
                names = {column["name"] for column in block["columns"]}
                assert all(set(row) == names for row in block["rows"]), section["key"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "kvcliff.report/9"),
        (("verdict", "confidence"), 1.5),
        (("verdict", "severity"), "bad"),
        (("sections", 0, "key"), "Two words"),
        (("findings", 0, "evidence"), "text"),
        (("run", "started_at_ns"), 1.5),
    ],
)
def test_the_schema_refuses_what_is_wrong(validator, path, value):
    document = json.loads(report_json(build_content(swap_story(), "night-1")))
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert list(validator.iter_errors(document))


def test_the_schema_names_what_the_code_names():
    schema = json.loads(report_schema_text())
    assert schema["properties"]["schema"]["const"] == SCHEMA
    assert tuple(schema["properties"]["audience"]["enum"]) == AUDIENCES
    assert schema["$defs"]["column"]["properties"]["kind"]["enum"] == list(get_args(Kind))
