import json
from pathlib import Path

import pytest

from builders_cli import Invoke, write_run


def test_no_database_is_said(invoke: Invoke) -> None:
    for arguments in (("list",), ("show", "x"), ("remove", "x"), ("prune", "--newest", "1")):
        result = invoke("runs", *arguments)
        assert result.exit_code == 1
        assert result.stderr.startswith("error: there is no database at kvcliff.duckdb")
        assert not Path("kvcliff.duckdb").exists()


def test_list(stored: Invoke) -> None:
    lines = stored("runs", "list").stdout.splitlines()
    assert lines[0].split() == ["run", "status", "began", "length", "files", "labels"]
    assert lines[2].startswith("easy-")
    assert len(lines) == 3


def test_show(stored: Invoke) -> None:
    text = stored("runs", "show", "easy").stdout
    assert "metrics.prom" in text
    assert "swap_point" in text
    data = json.loads(stored("runs", "show", "easy", "--format", "json").stdout)["data"]
    assert data["sources"][0]["status"] == "read"
    assert data["row_counts"]["raw_metric_scrapes"] == 40
    assert stored("runs", "show", data["run"]["run_id"]).stdout == text


def test_remove_leaves_the_others(stored: Invoke, tmp_path: Path) -> None:
    invoke = stored
    invoke("ingest", write_run(tmp_path / "other", count=45))
    result = invoke("runs", "remove", "easy")
    assert result.exit_code == 0
    assert result.stdout.startswith("removed easy-")
    runs = json.loads(invoke("runs", "list", "--format", "json").stdout)["data"]["runs"]
    assert [run["name"] for run in runs] == ["other"]
    left = invoke(
        "sql", "run", "select count(distinct run_id) as n from raw_metric_scrapes", "--format", "csv"
    )
    assert left.stdout == "n\n1\n"


def test_remove_of_an_unknown_run_removes_nothing(stored: Invoke) -> None:
    assert stored("runs", "remove", "easy", "nobody").exit_code == 2
    assert len(json.loads(stored("runs", "list", "--format", "json").stdout)["data"]["runs"]) == 1


def test_prune_keeps_the_newest_of_each_name(invoke: Invoke, run_folder: Path, tmp_path: Path) -> None:
    invoke("ingest", run_folder)
    for count in (50, 60):
        invoke("ingest", write_run(tmp_path / str(count) / "easy", count=count), "--keep")
    dry = invoke("runs", "prune", "--newest", "1", "--dry-run")
    assert len(dry.stdout.splitlines()) == 2
    assert all(line.startswith("would remove easy-") for line in dry.stdout.splitlines())
    assert len(json.loads(invoke("runs", "list", "--format", "json").stdout)["data"]["runs"]) == 3
    assert len(invoke("runs", "prune", "--newest", "1").stdout.splitlines()) == 2
    (left,) = json.loads(invoke("runs", "list", "--format", "json").stdout)["data"]["runs"]
    rows = json.loads(invoke("runs", "show", left["run_id"], "--format", "json").stdout)["data"]["row_counts"]
    assert rows["raw_metric_scrapes"] == 60


def test_prune_by_age(stored: Invoke) -> None:
    young = stored("runs", "prune", "--older-than", "1")
    assert (young.exit_code, young.stdout, young.stderr) == (0, "", "nothing to remove\n")
    assert stored("runs", "prune", "--older-than", "0").stdout.startswith("removed easy-")


def test_prune_without_a_rule_is_refused(invoke: Invoke) -> None:
    result = invoke("runs", "prune")
    assert result.exit_code == 2
    assert "--newest" in result.stderr


@pytest.mark.parametrize("command", ["list", "show"])
def test_empty_database(command: str, stored: Invoke) -> None:
    stored("runs", "remove", "easy")
    result = stored("runs", *(("list",) if command == "list" else ("show", "easy")))
    assert result.exit_code == (0 if command == "list" else 2)
