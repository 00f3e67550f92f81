import json
from pathlib import Path

import kvcliff
from builders_cli import Invoke, write_run


def test_a_run_is_stored_and_said_on_stdout(invoke: Invoke, run_folder: Path) -> None:
    result = invoke("ingest", run_folder)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("easy-")
    assert ": stored (ok), " in result.stdout
    assert result.stdout.endswith(" rows\n")
    assert result.stderr == ""
    assert Path("kvcliff.duckdb").exists()


def test_same_content_is_not_read_again(invoke: Invoke, run_folder: Path) -> None:
    first = invoke("ingest", run_folder)
    again = invoke("ingest", run_folder)
    assert again.exit_code == 0
    run_id = first.stdout.split(":")[0]
    assert again.stdout.startswith(f"{run_id}: already stored, same content, ")
    assert first.stdout.split(", ")[-1] == again.stdout.split(", ")[-1]


def test_same_name_with_other_content_replaces(invoke: Invoke, run_folder: Path, tmp_path: Path) -> None:
    invoke("ingest", run_folder)
    invoke("ingest", write_run(tmp_path / "other" / "easy", count=50))
    runs = json.loads(invoke("runs", "list", "--format", "json").stdout)["data"]["runs"]
    assert [run["name"] for run in runs] == ["easy"]


def test_keep_stores_both(invoke: Invoke, run_folder: Path, tmp_path: Path) -> None:
    invoke("ingest", run_folder)
    invoke("ingest", write_run(tmp_path / "other" / "easy", count=50), "--keep")
    runs = json.loads(invoke("runs", "list", "--format", "json").stdout)["data"]["runs"]
    assert [run["name"] for run in runs] == ["easy", "easy"]
    ambiguous = invoke("runs", "show", "easy")
    assert ambiguous.exit_code == 2
    assert "holds 2 runs named easy" in ambiguous.stderr


def test_another_policy_reads_again(invoke: Invoke, run_folder: Path) -> None:
    Path("policy.toml").write_text("kv_high_ratio = 0.5\n", encoding="utf-8")
    invoke("ingest", run_folder)
    changed = invoke("ingest", run_folder, "--policy", "policy.toml")
    same = invoke("ingest", run_folder, "--policy", "policy.toml")
    assert ": stored" in changed.stdout
    assert ": already stored" in same.stdout
    query = "select value, source from thresholds where name = 'kv_high_ratio'"
    assert invoke("sql", "run", query, "--format", "csv").stdout == "value,source\n0.5,policy\n"


def test_unknown_threshold_is_a_usage_error(invoke: Invoke, run_folder: Path) -> None:
    Path("policy.toml").write_text("kv_high_rato = 0.5\n", encoding="utf-8")
    result = invoke("ingest", run_folder, "--policy", "policy.toml")
    assert result.exit_code == 2
    assert "did you mean kv_high_ratio?" in result.stderr
    assert not Path("kvcliff.duckdb").exists()


def test_another_version_reads_again(invoke: Invoke, run_folder: Path, monkeypatch: object) -> None:
    invoke("ingest", run_folder)
    with_version = "update runs set kvcliff_version = '0.0.1'"
    import duckdb

    with duckdb.connect("kvcliff.duckdb") as con:
        con.execute(with_version)
    assert ": stored" in invoke("ingest", run_folder).stdout
    version = invoke("sql", "run", "select kvcliff_version from runs", "--format", "csv").stdout.splitlines()[
        1
    ]
    assert version == kvcliff.__version__


def test_json(invoke: Invoke, run_folder: Path) -> None:
    result = invoke("ingest", run_folder, "--format", "json")
    envelope = json.loads(result.stdout)
    (run,) = envelope["data"]["runs"]
    assert envelope["status"] == "ok"
    assert run["name"] == "easy"
    assert run["row_count"] > 0
    assert run["was_stored"] is False


def test_one_bad_run_does_not_stop_the_others(invoke: Invoke, run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = invoke("ingest", tmp_path / "empty", run_folder)
    assert result.exit_code == 3
    assert result.stdout.startswith("easy-")
    assert result.stderr.startswith("error: ")
