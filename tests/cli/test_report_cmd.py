import json
from pathlib import Path

import pytest

from builders_cli import Invoke


def test_self_contained_adds_one_html_file(stored: Invoke) -> None:
    result = stored("report", "easy", "--self-contained")
    assert result.exit_code == 0, result.stderr
    page = Path("kvcliff-reports/easy/report.html")
    assert f"wrote {page}" in result.stderr.splitlines()
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    stored("report", "easy")
    assert not page.exists()


def test_the_page_can_be_printed(stored: Invoke) -> None:
    result = stored("report", "easy", "--self-contained", "-o", "-")
    assert result.stdout.startswith("<!DOCTYPE html>")
    assert stored("report", "easy", "-o", "-").stdout.startswith("# KV-cache report")
    assert stored("report", "easy", "--self-contained", "-o", "-", "--format", "md").stdout.startswith("# KV")


@pytest.mark.parametrize("command", ["report", "diagnose"])
def test_audience(stored: Invoke, run_folder: Path, command: str) -> None:
    run = "easy" if command == "report" else run_folder
    long = stored(command, run, "-o", "-").stdout
    short = stored(command, run, "-o", "-", "--audience", "incident").stdout
    assert "## Five indicators" in long
    assert "## Five indicators" not in short
    assert short.splitlines()[:5] == long.splitlines()[:5]


def test_schema_is_printed_without_a_run_or_a_database(invoke: Invoke) -> None:
    result = invoke("report", "--schema")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["properties"]["schema"]["const"] == "kvcliff.report/1"
    assert result.stderr == ""


def test_an_html_report_is_not_overwritten(stored: Invoke) -> None:
    Path("mine").mkdir()
    Path("mine/report.html").write_text("mine")
    assert stored("report", "easy", "-o", "mine").exit_code == 1
