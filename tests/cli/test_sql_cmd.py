import csv
import io
import json
import os
import subprocess
from pathlib import Path

import pytest

from builders_cli import Invoke, command_line, process_environment


def test_list_names_marts_not_raw_tables(invoke: Invoke) -> None:
    names = [line.split()[0] for line in invoke("sql", "list").stdout.splitlines()[2:]]
    assert {"runs", "sources", "findings", "settings"} <= set(names)
    assert not [name for name in names if name.startswith(("raw_", "stg_", "int_"))]
    everything = json.loads(invoke("sql", "list", "--all", "--format", "json").stdout)["data"]["tables"]
    assert "raw_metric_samples" in {table["name"] for table in everything}


@pytest.mark.parametrize("name", ["runs", "settings", "raw_log_events", "stg_sources"])
def test_describe(name: str, invoke: Invoke) -> None:
    text = invoke("sql", "describe", name).stdout
    data = json.loads(invoke("sql", "describe", name, "--format", "json").stdout)["data"]
    assert text.splitlines()[0] == name
    assert data["columns"]
    assert all(column["meaning"] in text for column in data["columns"])


def test_describe_of_an_unknown_table(invoke: Invoke) -> None:
    result = invoke("sql", "describe", "nothing")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: there is no table nothing\n")


def test_every_stored_table_can_be_described(stored: Invoke) -> None:
    query = "select table_name from duckdb_tables() where table_name <> 'kvcliff_meta' order by table_name"
    for name in stored("sql", "run", query, "--format", "csv").stdout.splitlines()[1:]:
        described = json.loads(stored("sql", "describe", name, "--format", "json").stdout)["data"]
        columns = (
            stored("sql", "run", f"select * from {name} limit 0", "--format", "csv").stdout.strip().split(",")
        )
        assert [column["name"] for column in described["columns"]] == columns, name


def test_formats_agree(stored: Invoke) -> None:
    query = "select name, status, file_count, started_at_ns from runs"
    rows = list(csv.reader(io.StringIO(stored("sql", "run", query, "--format", "csv").stdout)))
    data = json.loads(stored("sql", "run", query, "--format", "json").stdout)["data"]
    assert rows[0] == data["columns"] == ["name", "status", "file_count", "started_at_ns"]
    assert rows[1] == [str(value) for value in data["rows"][0]]
    assert data["row_count"] == 1
    assert stored("sql", "run", query).stdout.splitlines()[2].split()[0] == "easy"


def test_no_text_becomes_a_formula_of_a_spreadsheet(stored: Invoke) -> None:
    query = "select '=1+1' as \"@a\", '-x' as b, -1 as c, '\t=1' as d, 'a=b' as e, null as f"
    text = stored("sql", "run", query, "--format", "csv").stdout
    assert list(csv.reader(io.StringIO(text))) == [
        ["'@a", "b", "c", "d", "e", "f"],
        ["'=1+1", "'-x", "-1", "'\t=1", "a=b", ""],
    ]
    data = json.loads(stored("sql", "run", query, "--format", "json").stdout)["data"]
    assert data["rows"][0][0] == "=1+1"


def test_csv_steers_no_terminal_and_is_whole_elsewhere(stored: Invoke) -> None:
    pty = pytest.importorskip("pty", reason="terminals are a matter of POSIX")
    query = "select chr(27) || '[31mred' as a"
    assert stored("sql", "run", query, "--format", "csv").stdout == "a\n\x1b[31mred\n"
    screen, terminal = pty.openpty()
    with os.fdopen(screen, "rb", buffering=0) as shown:
        done = subprocess.run(
            command_line("sql", "run", query, "--format", "csv"),
            stdout=terminal,
            env=process_environment(),
            check=False,
        )
        os.close(terminal)
        assert done.returncode == 0
        assert shown.read(1000).decode() == "a\r\n\N{REPLACEMENT CHARACTER}[31mred\r\n"


def test_query_from_stdin(stored: Invoke) -> None:
    assert stored("sql", "run", "-", "--format", "csv", input="select 1 as one").stdout == "one\n1\n"


def test_not_a_number_is_null_in_json(stored: Invoke) -> None:
    text = stored(
        "sql", "run", "select 'nan'::double as a, 'inf'::double as b, null as c", "--format", "json"
    ).stdout
    assert json.loads(text)["data"]["rows"] == [[None, None, None]]


@pytest.mark.parametrize(
    "query",
    [
        "delete from runs",
        "create table mine (x integer)",
        "drop table runs",
        "select * from read_csv('secret.csv')",
        "select * from 'secret.csv'",
        "copy runs to 'out.csv'",
        "attach 'other.duckdb'",
        "set enable_external_access = true",
        "install httpfs",
        "selec 1",
        "select * from nothing_here",
    ],
)
def test_the_database_is_read_only_and_alone(query: str, stored: Invoke) -> None:
    Path("secret.csv").write_text("a\n1\n", encoding="utf-8")
    result = stored("sql", "run", query)
    assert result.exit_code == 2, result.stdout
    assert result.stdout == ""
    assert result.stderr.startswith("error: the query failed: ")
    assert not Path("out.csv").exists()
    assert stored("sql", "run", "select count(*) as n from runs", "--format", "csv").stdout == "n\n1\n"


def test_no_database(invoke: Invoke) -> None:
    result = invoke("sql", "run", "select 1")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: there is no database at kvcliff.duckdb")
