"""Every kind of bad input gives one sentence, the right exit code, and leaves earlier runs alone."""

import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from click.testing import Result

from builders_cli import (
    Invoke,
    command_line,
    easy_moments,
    process_environment,
    run_command,
    scrapes_text,
    write_run,
)
from kvcliff.store.database import SCHEMA_VERSION

NOBODY_UID = 65534


def _sentence(result: Result) -> str:
    """Return the one error sentence of a result and check that nothing else went wrong on the way."""
    assert "Traceback" not in result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, result.stderr
    return lines[0]


def _stored_runs(invoke: Invoke) -> list[str]:
    text = invoke("runs", "list", "--format", "json").stdout
    return [run["name"] for run in json.loads(text)["data"]["runs"]]


def _empty(folder: Path) -> None:
    folder.mkdir()


def _unknown(folder: Path) -> None:
    folder.mkdir()
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\xff\xe0" + bytes(range(256)) * 20)
    (folder / "notes.txt").write_text("remember the milk\n", encoding="utf-8")


def _truncated_sqlite(folder: Path) -> None:
    folder.mkdir()
    path = folder / "whole.sqlite"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("create table CUPTI_ACTIVITY_KIND_KERNEL (start integer, end integer, shortName integer)")
        db.execute("create table StringIds (id integer, value text)")
        db.executemany(
            "insert into CUPTI_ACTIVITY_KIND_KERNEL values (?, ?, 1)", [(i, i + 1) for i in range(5000)]
        )
    db.close()
    (folder / "trace.sqlite").write_bytes(path.read_bytes()[:20_000])
    path.unlink()


def _sqlite_head_only(folder: Path) -> None:
    folder.mkdir()
    (folder / "trace.sqlite").write_bytes(b"SQLite format 3\x00")


def _gzip_without_content(folder: Path) -> None:
    folder.mkdir()
    (folder / "metrics.prom.gz").write_bytes(gzip.compress(scrapes_text(easy_moments()).encode())[:9])


def _zero_byte_csv(folder: Path) -> None:
    folder.mkdir()
    (folder / "gpu.csv").write_bytes(b"")


def _wrong_encoding(folder: Path) -> None:
    folder.mkdir()
    (folder / "server.log").write_bytes("INFO 11-30 10:00:00 [loggers.py:1] Größe\n".encode("utf-32") * 50)


@pytest.mark.parametrize(
    "make",
    [
        _empty,
        _unknown,
        _truncated_sqlite,
        _sqlite_head_only,
        _gzip_without_content,
        _zero_byte_csv,
        _wrong_encoding,
    ],
)
def test_nothing_readable_is_exit_3(make: Callable[[Path], None], stored: Invoke, tmp_path: Path) -> None:
    invoke = stored
    make(tmp_path / "bad")
    result = invoke("diagnose", tmp_path / "bad")
    assert result.exit_code == 3, result.stderr
    assert "bad" in _sentence(result)
    assert "hint: " in result.stderr
    assert result.stdout == ""
    assert not Path("kvcliff-reports").exists()
    assert _stored_runs(invoke) == ["easy"]


@pytest.mark.parametrize("make", [_empty, _unknown, _truncated_sqlite, _zero_byte_csv])
def test_nothing_readable_in_json(make: Callable[[Path], None], invoke: Invoke, tmp_path: Path) -> None:
    make(tmp_path / "bad")
    result = invoke("diagnose", tmp_path / "bad", "--format", "json")
    assert result.exit_code == 3
    assert result.stderr == ""
    envelope = json.loads(result.stdout)
    assert (envelope["command"], envelope["status"]) == ("diagnose", "error")
    assert envelope["errors"][0]["code"] in ("input_unreadable", "data_gap")


def test_truncated_gzip_gives_the_rows_before_the_cut(invoke: Invoke, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    folder.mkdir()
    # Level 0 keeps the bytes in order, so half of the file is half of the scrapes.
    whole = gzip.compress(scrapes_text(easy_moments()).encode(), compresslevel=0)
    (folder / "metrics.prom.gz").write_bytes(whole[: len(whole) // 2])
    result = invoke("ingest", folder, "--format", "json")
    assert result.exit_code == 0, result.stdout
    envelope = json.loads(result.stdout)
    assert envelope["status"] == "partial"
    shown = json.loads(invoke("runs", "show", "cut", "--format", "json").stdout)["data"]
    (source,) = shown["sources"]
    assert source["status"] == "damaged"
    assert source["reason"]
    assert 15 <= shown["row_counts"]["raw_metric_scrapes"] <= 21


def test_scrape_cut_in_a_line_is_used(invoke: Invoke, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "cut")
    path = folder / "metrics.prom"
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: text.rindex("vllm:generation_tokens_total") + 20], encoding="utf-8")
    result = invoke("ingest", folder)
    assert result.exit_code == 0, result.stderr
    counts = json.loads(invoke("runs", "show", "cut", "--format", "json").stdout)["data"]["row_counts"]
    assert counts["raw_metric_scrapes"] == 40


@pytest.mark.parametrize("make", [_truncated_sqlite, _gzip_without_content])
def test_broken_file_beside_good_ones(make: Callable[[Path], None], invoke: Invoke, tmp_path: Path) -> None:
    make(tmp_path / "mixed")
    write_run(tmp_path / "mixed")
    result = invoke("diagnose", tmp_path / "mixed")
    assert result.exit_code == 0, result.stderr
    strict = invoke("diagnose", tmp_path / "mixed", "--strict")
    damaged = [
        source
        for source in json.loads(invoke("runs", "show", "mixed", "--format", "json").stdout)["data"][
            "sources"
        ]
        if source["status"] in ("damaged", "refused")
    ]
    assert strict.exit_code == (3 if damaged else 0)


def test_strict_stores_nothing(invoke: Invoke, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    folder.mkdir()
    whole = gzip.compress(scrapes_text(easy_moments()).encode(), compresslevel=0)
    (folder / "metrics.prom.gz").write_bytes(whole[: len(whole) // 2])
    result = invoke("ingest", folder, "--strict")
    assert result.exit_code == 3
    assert "metrics.prom.gz" in _sentence(result)
    assert _stored_runs(invoke) == []


def test_absent_run_is_exit_2(invoke: Invoke) -> None:
    result = invoke("diagnose", "nowhere")
    assert result.exit_code == 2
    assert not Path("kvcliff.duckdb").exists()
    assert _sentence(result) == "error: there is no run at nowhere"


def test_broken_run_toml_is_exit_2(invoke: Invoke, run_folder: Path) -> None:
    (run_folder / "run.toml").write_text("name = [", encoding="utf-8")
    result = invoke("diagnose", run_folder)
    assert result.exit_code == 2
    assert "run.toml" in _sentence(result)


def test_absent_config_is_exit_2(invoke: Invoke, run_folder: Path) -> None:
    result = invoke("diagnose", run_folder, "--config", "none.toml")
    assert result.exit_code == 2
    assert "none.toml" in _sentence(result)


@pytest.mark.parametrize("size", ["lots", "2GB; drop table runs", ""])
def test_memory_limit_that_is_no_size(size: str, invoke: Invoke, run_folder: Path) -> None:
    result = invoke("diagnose", run_folder, "--memory-limit", size)
    assert result.exit_code in (1, 2)
    assert "--memory-limit" in _sentence(result)


def test_report_folder_is_a_file(invoke: Invoke, run_folder: Path) -> None:
    Path("taken").write_text("mine", encoding="utf-8")
    result = invoke("diagnose", run_folder, "-o", "taken")
    assert result.exit_code == 1
    assert "taken" in _sentence(result)
    assert Path("taken").read_text(encoding="utf-8") == "mine"
    # Refused before any work was done.
    assert not Path("kvcliff.duckdb").exists()


def test_database_folder_does_not_exist(invoke: Invoke, run_folder: Path) -> None:
    result = invoke("diagnose", run_folder, "--db", "no/such/runs.duckdb")
    assert result.exit_code == 1
    assert "no/such/runs.duckdb" in _sentence(result)


def test_database_is_something_else(invoke: Invoke, run_folder: Path) -> None:
    Path("kvcliff.duckdb").write_bytes(b"this is a shopping list, not a database\n" * 500)
    before = Path("kvcliff.duckdb").read_bytes()
    result = invoke("diagnose", run_folder)
    assert result.exit_code == 1
    assert "kvcliff.duckdb" in _sentence(result)
    assert Path("kvcliff.duckdb").read_bytes() == before


def test_database_of_another_program(invoke: Invoke, run_folder: Path) -> None:
    with duckdb.connect("kvcliff.duckdb") as con:
        con.execute("create table sales (amount integer)")
    result = invoke("diagnose", run_folder)
    assert result.exit_code == 1
    assert "not a kvcliff store" in _sentence(result)
    with duckdb.connect("kvcliff.duckdb") as con:
        assert con.execute("select table_name from duckdb_tables()").fetchall() == [("sales",)]


def test_database_of_a_newer_version(stored: Invoke, run_folder: Path) -> None:
    invoke = stored
    with duckdb.connect("kvcliff.duckdb") as con:
        con.execute("update kvcliff_meta set schema_version = ?, written_by = '9.9.9'", [SCHEMA_VERSION + 1])
    for arguments in (("diagnose", run_folder), ("runs", "list"), ("report", "easy")):
        result = invoke(*arguments)
        assert result.exit_code == 1
        assert "written by kvcliff 9.9.9" in _sentence(result)
        assert "hint: upgrade kvcliff" in result.stderr


def test_database_locked_by_another_process(stored: Invoke, run_folder: Path) -> None:
    invoke = stored
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import duckdb; c = duckdb.connect('kvcliff.duckdb'); print('held', flush=True); input()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        results = [invoke(*arguments) for arguments in (("diagnose", run_folder), ("runs", "list"))]
        holder.communicate("\n", timeout=30)
    for result in results:
        assert result.exit_code == 1
        assert _sentence(result) == "error: the database kvcliff.duckdb is in use by another process"
    assert _stored_runs(invoke) == ["easy"]


def test_killed_while_reading_stores_nothing(stored: Invoke, tmp_path: Path) -> None:
    big = write_run(tmp_path / "big", count=4000)
    script = (
        "import os, kvcliff.store.ingest as ingest\n"
        "ingest.align_clocks = lambda *_: os._exit(9)\n"
        "from kvcliff.cli import main\n"
        f"import sys; sys.argv = ['kvcliff', 'ingest', {str(big)!r}]\n"
        "main()\n"
    )
    line = command_line()
    killed = subprocess.run(
        [line[0], "-c", script], cwd=tmp_path, env=process_environment(), check=False, timeout=60
    )
    assert killed.returncode == 9
    listed = run_command("runs", "list", "--format", "json", cwd=tmp_path)
    assert [run["name"] for run in json.loads(listed.stdout)["data"]["runs"]] == ["easy"]


def _as_nobody() -> tuple[str, ...]:
    """Return the prefix that runs a command without root's rights, or skip."""
    if os.name != "posix" or os.geteuid() != 0:
        return ()
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root may read everything, and there is no setpriv to give that up")
    prefix = (setpriv, f"--reuid={NOBODY_UID}", f"--regid={NOBODY_UID}", "--clear-groups")
    probe = subprocess.run(
        [*prefix, *command_line("--version")],
        env=process_environment(),
        capture_output=True,
        check=False,
        cwd="/",
    )
    if probe.returncode != 0:
        pytest.skip("an unprivileged user cannot run this Python or read this checkout")
    return prefix


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user may reach and write into (pytest keeps its own closed to others)."""
    folder = Path(tempfile.mkdtemp(prefix="kvcliff-open-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def _run_as_nobody(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run_command(*arguments, cwd=cwd, prefix=_as_nobody(), environment={"MPLCONFIGDIR": str(cwd)})


def test_file_without_permission(open_folder: Path) -> None:
    run = write_run(open_folder / "secret")
    (run / "metrics.prom").chmod(0o000)
    result = _run_as_nobody("diagnose", run, cwd=open_folder)
    assert result.returncode == 3, result.stderr
    assert "metrics.prom" in result.stderr
    assert "Permission denied" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("closed", ["server.log", "deeper"])
def test_what_may_not_be_read_is_named_and_the_rest_is_used(closed: str, open_folder: Path) -> None:
    run = write_run(open_folder / "easy")
    (run / "server.log").write_text("INFO: started\n", encoding="utf-8")
    write_run(run / "deeper")
    # A folder that can be listed, but not entered, is a file that cannot be opened.
    (run / closed).chmod(0o000 if closed == "server.log" else 0o644)
    result = _run_as_nobody("diagnose", run, "--format", "json", "-o", "report", cwd=open_folder)
    (run / closed).chmod(0o755)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["data"]["runs"][0]["status"] == "partial"
    name = "server.log" if closed == "server.log" else "deeper/metrics.prom"
    assert f"cannot read {name}: Permission denied" in (open_folder / "report" / "report.md").read_text(
        encoding="utf-8"
    )


def test_folder_without_permission(open_folder: Path) -> None:
    run = write_run(open_folder / "secret")
    run.chmod(0o000)
    result = _run_as_nobody("diagnose", run, cwd=open_folder)
    run.chmod(0o755)
    assert result.returncode == 3, result.stderr
    assert result.stderr.startswith("error: ")
    assert "secret" in result.stderr.splitlines()[0]


def test_report_folder_without_permission(open_folder: Path) -> None:
    run = write_run(open_folder / "easy")
    (open_folder / "locked").mkdir(mode=0o555)
    result = _run_as_nobody("diagnose", run, "-o", "locked/report", cwd=open_folder)
    assert result.returncode == 1, result.stderr
    assert "locked" in result.stderr
    assert "Traceback" not in result.stderr


def test_database_without_permission(open_folder: Path) -> None:
    run = write_run(open_folder / "easy")
    assert run_command("ingest", run, "--db", "runs.duckdb", cwd=open_folder).returncode == 0
    (open_folder / "runs.duckdb").chmod(0o444)
    other = write_run(open_folder / "other", count=50)
    result = _run_as_nobody("ingest", other, "--db", "runs.duckdb", cwd=open_folder)
    assert result.returncode == 1, result.stderr
    assert result.stderr.startswith("error: the database runs.duckdb is not writable")
