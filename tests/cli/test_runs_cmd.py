import json
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import Result

from builders_cli import START_NS, Invoke, write_run
from kvcliff.store.database import open_store


def test_no_database_is_said(invoke: Invoke) -> None:
    for arguments in (("list",), ("show", "x"), ("remove", "x"), ("prune", "--newest", "1")):
        result = invoke("runs", *arguments)
        assert result.exit_code == 1
        assert result.stderr.startswith("error: there is no database at kvcliff.duckdb")
        assert not Path("kvcliff.duckdb").exists()


def test_list(stored: Invoke) -> None:
    lines = stored("runs", "list").stdout.splitlines()
    assert lines[0].split() == [
        *("run", "status", "verdict", "began", "length", "latency", "change", "KV"),
        *("swap", "points", "files", "labels"),
    ]
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


def listed(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.stderr
    runs: list[dict[str, Any]] = json.loads(result.stdout)["data"]["runs"]
    return runs


@pytest.fixture
def four_runs(invoke: Invoke, tmp_path: Path) -> Invoke:
    """A command runner whose database holds rows of four runs on four days, with verdicts and indicators."""
    day_ns = 86_400_000_000_000
    with open_store(Path("kvcliff.duckdb")) as con:
        for number, (name, labels, latency, verdict, severity) in enumerate(
            (
                ("load", "model=llama, note=a, b", 10.0, "passed", "info"),
                ("load", "model=llama, note=a, b", 12.0, "failed", "critical"),
                ("load", "model=llama, note=a, b", None, "inconclusive", "warning"),
                ("other", "model=llama-70b", 9.0, None, "info"),
            )
        ):
            add_run(con, f"r{number}", name, labels, START_NS + number * day_ns)
            con.execute("insert into indicators values (?, 'token_latency', ?)", [f"r{number}", latency])
            con.execute("insert into findings values (?, 'found', ?)", [f"r{number}", severity])
            if verdict is not None:
                con.execute(
                    "insert into nightly_verdicts (run_id, verdict) values (?, ?)", [f"r{number}", verdict]
                )
        con.execute("insert into retention values ('r0', 1)")
    return invoke


def add_run(con: duckdb.DuckDBPyConnection, run_id: str, name: str, labels: str, started_ns: int) -> None:
    con.execute(
        "create table if not exists runs (run_id varchar, name varchar, labels varchar, status varchar, "
        "utc_known boolean, started_at_ns bigint, ended_at_ns bigint, level_count bigint, file_count bigint, "
        "kvcliff_version varchar, ingested_at_ns bigint)"
    )
    con.execute("create table if not exists indicators (run_id varchar, indicator varchar, value double)")
    con.execute("create table if not exists findings (run_id varchar, verdict varchar, severity varchar)")
    con.execute(
        "insert into runs values (?, ?, ?, 'ok', true, ?, ?, 0, 1, '0.1.0', ?)",
        [run_id, name, labels, started_ns, started_ns + 1, started_ns],
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), ["r0", "r1", "r2", "r3"]),
        (("--label", "model=llama"), ["r0", "r1", "r2"]),
        (("--label", "model"), ["r0", "r1", "r2", "r3"]),
        (("--label", "note=a, b", "--label", "model=llama"), ["r0", "r1", "r2"]),
        (("--label", "model=lla"), []),
        (("--name", "o*"), ["r3"]),
        (("--verdict", "failed"), ["r1"]),
        (("--verdict", "failed", "--verdict", "inconclusive"), ["r1", "r2"]),
        (("--verdict", "critical"), ["r1"]),
        (("--verdict", "ok"), ["r0", "r3"]),
        (("--since", "2026-09-23T00:00"), ["r2", "r3"]),
        (("--since", "2026-09-22T14:13:20Z"), ["r1", "r2", "r3"]),
        (("--limit", "2"), ["r2", "r3"]),
        (("--name", "load", "--limit", "1"), ["r2"]),
    ],
)
def test_filters(arguments: tuple[str, ...], expected: list[str], four_runs: Invoke) -> None:
    found = listed(four_runs("runs", "list", *arguments, "--format", "json"))
    assert [run["run_id"] for run in found] == expected


def test_trends_and_verdicts(four_runs: Invoke) -> None:
    found = {run["run_id"]: run for run in listed(four_runs("runs", "list", "--format", "json"))}
    changes = {run_id: run["latency_change_ratio"] for run_id, run in found.items()}
    assert changes == {"r0": None, "r1": pytest.approx(0.2), "r2": None, "r3": None}
    assert [run["has_raw"] for run in found.values()] == [False, True, True, True]
    assert [run["gravest"] for run in found.values()] == ["ok", "critical", "warning", "ok"]
    lines = four_runs("runs", "list").stdout.splitlines()
    assert "critical, failed" in lines[3]
    assert "+20.0 %" in lines[3]


def test_no_run_matches(four_runs: Invoke) -> None:
    assert four_runs("runs", "list", "--name", "nobody").stdout == "no run matches\n"


@pytest.mark.parametrize("since", ["yesterday", "7x", ""])
def test_since_that_is_no_time(since: str, four_runs: Invoke) -> None:
    result = four_runs("runs", "list", "--since", since)
    assert result.exit_code == 2
    assert "is neither a date nor an age" in result.stderr


def test_an_age_counts_back_from_now(stored: Invoke) -> None:
    days = int((time.time_ns() - START_NS) / 86_400e9)
    assert len(stored("runs", "list", "--since", f"{days + 2}d").stdout.splitlines()) == 3
    assert stored("runs", "list", "--since", f"{max(days - 2, 0)}d").stdout == "no run matches\n"


def test_prune_of_raw_rows(stored: Invoke) -> None:
    dry = stored("runs", "prune", "--raw-older-than", "0", "--dry-run")
    assert dry.stdout.startswith("would remove the raw rows of easy-")
    assert stored("runs", "prune", "--raw-older-than", "0").stdout.startswith("removed the raw rows of easy-")
    shown = json.loads(stored("runs", "show", "easy", "--format", "json").stdout)["data"]
    assert not any(name.startswith("raw_") for name in shown["row_counts"])
    assert "indicators" in shown["row_counts"]
    assert stored("report", "easy", "-o", "again").exit_code == 0, "a report needs marts only"
    again = stored("runs", "prune", "--raw-older-than", "0")
    assert (again.stdout, again.stderr) == ("", "nothing to remove\n")


def test_compact(stored: Invoke) -> None:
    done = json.loads(stored("runs", "compact", "--format", "json").stdout)["data"]
    assert done["after_bytes"] == Path("kvcliff.duckdb").stat().st_size
    assert len(stored("runs", "list").stdout.splitlines()) == 3
    assert stored("runs", "compact", "--db", "nothing.duckdb").exit_code == 1


def test_accept_needs_a_verdict(stored: Invoke) -> None:
    refused = stored("runs", "accept", "easy")
    assert refused.exit_code == 2
    assert "the nightly job has not judged easy-" in refused.stderr
