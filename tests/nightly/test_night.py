"""What passes do with folders over the nights: each is read once, judged once, told of once."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

from builders_cli import pressed_moments
from builders_nightly import comparison, fake_compare, holdings, metric, write_night, write_root
from kvcliff.cli.root import root as command
from kvcliff.errors import StoreError
from kvcliff.nightly import night

Pass = Callable[..., Result]
Asked = list[tuple[str, tuple[str, ...]]]


def data(tmp_path: Path) -> dict[str, Any]:
    text = (tmp_path / "work" / "out" / "nightly.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)["data"]
    return found


def verdicts(tmp_path: Path) -> dict[str, str]:
    return {run["folder"]: run["verdict"] for run in data(tmp_path)["runs"]}


def run_ids(tmp_path: Path) -> dict[str, str | None]:
    return {folder: run_id for folder, _, run_id in holdings(tmp_path / "work" / "n.duckdb").folders}


def test_nights_in_a_row(nightly: Pass, same: Asked, tmp_path: Path) -> None:
    root = write_root(tmp_path / "root", run_count=1, has_broken=False)
    first = nightly()
    assert (first.exit_code, verdicts(tmp_path)) == (0, {"night-00": "learning"})
    assert first.stdout.splitlines()[0] == "kvcliff nightly passed: 1 new run: 1 learning"
    write_night(root / "night-01", 1)
    assert (nightly().exit_code, verdicts(tmp_path)) == (0, {"night-01": "passed"})
    none = nightly()
    assert (none.exit_code, none.stdout) == (0, "kvcliff nightly passed: no new run\n")
    ids = run_ids(tmp_path)
    assert same == [(ids["night-00"], (ids["night-00"],)), (ids["night-01"], (ids["night-00"],))]
    assert data(tmp_path)["series"] == [
        {
            "series": "model=llama",
            "latest_run_id": ids["night-01"],
            "latest_verdict": "passed",
            "shown_run_count": 2,
        }
    ]


def test_a_failing_run_trips_the_gate_once_and_joins_no_baseline(
    nightly: Pass, same: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_root(tmp_path / "root", run_count=1, has_broken=False)
    nightly()
    usual = night.compare_runs
    slower = comparison(metric("itl_p50", "worse", run=30.0), verdict="worse")
    monkeypatch.setattr(night, "compare_runs", fake_compare(lambda base, run_id: slower))
    write_night(root / "night-01", 1)
    failed = nightly()
    assert failed.exit_code == 10
    assert failed.stdout.splitlines()[0] == (
        "kvcliff nightly failed: 1 new run: 1 failed; night-01: the whole is worse"
    )
    envelope = json.loads((tmp_path / "work" / "out" / "nightly.json").read_text(encoding="utf-8"))
    assert [error["code"] for error in envelope["errors"]] == ["gate_tripped"]
    monkeypatch.setattr(night, "compare_runs", usual)
    assert nightly().exit_code == 0
    write_night(root / "night-02", 2)
    nightly()
    assert same[-1][1] == (run_ids(tmp_path)["night-00"],)
    accepted = CliRunner().invoke(
        command,
        ["runs", "accept", str(run_ids(tmp_path)["night-01"]), "--db", str(tmp_path / "work" / "n.duckdb")],
    )
    assert accepted.exit_code == 0
    write_night(root / "night-03", 3)
    nightly()
    ids = run_ids(tmp_path)
    assert set(same[-1][1]) == {ids["night-01"], ids["night-02"]}, "what came before it does not count"


def test_an_alarm_is_not_lost_with_its_outputs(
    nightly: Pass, same: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_root(tmp_path / "root", run_count=1, has_broken=False)
    (tmp_path / "work" / "out" / "junit.xml").mkdir(parents=True)
    blocked = nightly()
    assert blocked.exit_code == 1
    assert blocked.stderr.splitlines()[-2].startswith("error: cannot write ")
    (tmp_path / "work" / "out" / "junit.xml").rmdir()
    assert nightly().exit_code == 0
    assert verdicts(tmp_path) == {"night-00": "learning"}
    assert len(same) == 1


def test_a_broken_folder_is_set_aside_until_it_changes(nightly: Pass, same: Asked, tmp_path: Path) -> None:
    root = write_root(tmp_path / "root", run_count=1)
    done = nightly()
    assert done.exit_code == 4
    (entry,) = data(tmp_path)["set_aside"]
    assert entry["folder"] == "broken"
    assert entry["reason"] == "nothing in broken could be read; data.bin: no reader knows this format"
    assert str(tmp_path) not in (tmp_path / "work" / "out" / "nightly.json").read_text(encoding="utf-8")
    assert verdicts(tmp_path) == {"night-00": "learning"}
    assert nightly().exit_code == 0
    assert "## Set aside" in (tmp_path / "work" / "out" / "index.md").read_text(encoding="utf-8")
    assert nightly("--retry").exit_code == 4
    write_night(root / "broken", 5)
    assert (nightly().exit_code, verdicts(tmp_path)) == (0, {"broken": "learning"})


@pytest.mark.parametrize(("severity", "exit_code"), [("fail", 10), ("warn", 0)])
def test_how_bad_a_broken_folder_is(severity: str, exit_code: int, nightly: Pass, tmp_path: Path) -> None:
    write_root(tmp_path / "root", run_count=0)
    (tmp_path / "p.toml").write_text(f"[gate]\nbroken_run = '{severity}'\n", encoding="utf-8")
    assert nightly("--policy", str(tmp_path / "p.toml")).exit_code == exit_code


def test_a_folder_that_grows_later_replaces_its_run(nightly: Pass, same: Asked, tmp_path: Path) -> None:
    root = write_root(tmp_path / "root", run_count=1, has_broken=False)
    nightly()
    before = holdings(tmp_path / "work" / "n.duckdb")
    write_night(root / "night-00", 9)
    nightly()
    after = holdings(tmp_path / "work" / "n.duckdb")
    assert len(after.folders) == len(after.verdicts) == 1
    assert after.folders != before.folders
    assert {run_id for _, run_id, _ in after.rows} == {run_id for run_id, _ in after.verdicts}
    reports = list((tmp_path / "work" / "out" / "runs").iterdir())
    assert [path.name for path in reports] == [after.verdicts[0][0]]


def test_touched_files_are_no_new_run(nightly: Pass, same: Asked, tmp_path: Path) -> None:
    root = write_root(tmp_path / "root", run_count=1, has_broken=False)
    nightly()
    os.utime(root / "night-00" / "metrics.prom", ns=(7, 7))
    assert nightly().stdout == "kvcliff nightly passed: no new run\n"
    assert len(same) == 1


def test_the_same_run_twice_is_one_run(nightly: Pass, same: Asked, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("a", "b"):
        write_night(root / name, 1)
        (root / name / "run.toml").write_text('name = "twin"\n', encoding="utf-8")
    nightly()
    held = holdings(tmp_path / "work" / "n.duckdb")
    assert len(held.verdicts) == 1
    assert len({run_id for _, _, run_id in held.folders}) == 1
    write_night(root / "a", 2)
    nightly()
    assert len(holdings(tmp_path / "work" / "n.duckdb").verdicts) == 2, "the other folder still is that run"


def test_runs_of_one_name_are_kept(nightly: Pass, same: Asked, tmp_path: Path) -> None:
    for number in range(2):
        folder = write_night(tmp_path / "root" / f"night-{number}", number)
        (folder / "run.toml").write_text('name = "every night"\n', encoding="utf-8")
    nightly()
    assert len(holdings(tmp_path / "work" / "n.duckdb").verdicts) == 2


def test_an_incomplete_folder_waits(nightly: Pass, same: Asked, tmp_path: Path) -> None:
    root = write_root(tmp_path / "root", run_count=2, has_broken=False)
    (root / "night-01" / "DONE").touch()
    done = nightly("--marker", "DONE")
    assert verdicts(tmp_path) == {"night-01": "learning"}
    assert "night-00: waiting: the file DONE is not there yet" in done.stderr
    assert data(tmp_path)["waiting"] == [{"folder": "night-00", "reason": "the file DONE is not there yet"}]


def test_a_folder_that_changes_while_it_is_read_waits(
    nightly: Pass, same: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_root(tmp_path / "root", run_count=1, has_broken=False)
    monkeypatch.setattr(night, "_is_unchanged", lambda *_: False)
    nightly()
    assert data(tmp_path)["waiting"][0]["reason"] == "night-00 changed while it was being read"
    assert holdings(tmp_path / "work" / "n.duckdb").verdicts == ()
    monkeypatch.undo()
    monkeypatch.setattr(night, "compare_runs", fake_compare(lambda *_: comparison(metric())))
    nightly()
    assert verdicts(tmp_path) == {"night-00": "learning"}


def test_a_run_that_kills_the_process_is_set_aside(
    nightly: Pass, same: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_root(tmp_path / "root", run_count=2, has_broken=False)

    class Killed(BaseException):
        """Stands for the end of the process: no handler of ours sees it."""

    real = night.take_in

    def deadly(con: duckdb.DuckDBPyConnection, run: Any, *rest: Any, **more: Any) -> str:
        if run.folder == "night-00":
            raise Killed
        return real(con, run, *rest, **more)

    monkeypatch.setattr(night, "take_in", deadly)
    for _ in range(3):
        with pytest.raises(Killed):
            nightly()
    assert nightly().exit_code == 4
    assert data(tmp_path)["set_aside"][0]["reason"] == "the process died 3 times while reading it"
    assert "night-01" in run_ids(tmp_path), "the others come first after a crash"
    monkeypatch.setattr(night, "take_in", real)
    nightly("--retry")
    assert run_ids(tmp_path)["night-00"] is not None


@pytest.mark.parametrize(
    "stop", [KeyboardInterrupt(), RuntimeError("Query interrupted"), duckdb.InterruptException()]
)
def test_stopping_a_pass_is_not_the_fault_of_the_run(
    stop: BaseException, nightly: Pass, same: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_root(tmp_path / "root", run_count=1, has_broken=False)

    def stopped(*_: Any, **__: Any) -> str:
        raise stop

    with monkeypatch.context() as patch:
        patch.setattr(night, "take_in", stopped)
        for _ in range(4):
            assert nightly().exit_code == 130
    assert (nightly().exit_code, verdicts(tmp_path)) == (0, {"night-00": "learning"})


def test_a_bug_in_one_run_does_not_stop_the_others(
    nightly: Pass, same: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_root(tmp_path / "root", run_count=2, has_broken=False)
    real = night.take_in

    def faulty(con: duckdb.DuckDBPyConnection, run: Any, *rest: Any, **more: Any) -> str:
        if run.folder == "night-00":
            raise ZeroDivisionError
        return real(con, run, *rest, **more)

    monkeypatch.setattr(night, "take_in", faulty)

    def unwritable(*_: Any, **__: Any) -> None:
        raise StoreError("the run was stored by another version of kvcliff")

    monkeypatch.setattr(night, "write_report", unwritable)
    done = nightly()
    assert done.exit_code == data(tmp_path)["exit_code"] == 70
    assert "ZeroDivisionError" in data(tmp_path)["set_aside"][0]["reason"]
    assert verdicts(tmp_path) == {"night-01": "learning"}
    assert len(data(tmp_path)["report_problems"]) == 1
    sentence, hint = done.stderr.splitlines()[-2:]
    assert sentence.startswith(
        "error: night-00: kvcliff failed on something it did not expect (ZeroDivisionE"
    )
    assert hint == "  hint: repeat it alone for the traceback: kvcliff --debug diagnose ROOT/night-00"


@pytest.mark.parametrize("step", ["write_report", "compare_runs"])
def test_a_bug_after_the_reading_is_told_and_is_exit_70(
    step: str, nightly: Pass, same: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_root(tmp_path / "root", run_count=2, has_broken=False)
    real = getattr(night, step)
    calls = iter(range(9))

    def faulty(*rest: Any, **more: Any) -> Any:
        if next(calls) == 0:
            raise ZeroDivisionError
        return real(*rest, **more)

    monkeypatch.setattr(night, step, faulty)
    done = nightly("--format", "json")
    envelope = json.loads(done.stdout)
    assert (done.exit_code, envelope["status"]) == (70, "partial")
    error = envelope["errors"][-1]
    assert error["code"] == "internal_error"
    assert "ZeroDivisionError" in error["message"]
    assert "ZeroDivisionError" in envelope["data"]["summary"]
    run_id = str(run_ids(tmp_path)["night-00"])
    commands = {"write_report": f"report {run_id}", "compare_runs": f"compare {run_id} {run_id}"}
    assert error["hint"].endswith(f": kvcliff --debug {commands[step]} --db DATABASE")
    assert set(verdicts(tmp_path)) == {"night-00", "night-01"}


@pytest.mark.parametrize("step", ["take_in", "write_report", "compare_runs"])
def test_a_wish_to_stop_is_no_bug_of_a_run(
    step: str, nightly: Pass, same: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_root(tmp_path / "root", run_count=2, has_broken=False)

    def stopped(*_: Any, **__: Any) -> None:
        raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")

    monkeypatch.setattr(night, step, stopped)
    assert nightly().exit_code == 130


def test_a_gate_that_trips_outranks_a_bug(
    nightly: Pass, same: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_root(tmp_path / "root", run_count=1)

    def faulty(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(night, "write_report", faulty)
    (tmp_path / "p.toml").write_text("[gate]\nbroken_run = 'fail'\n", encoding="utf-8")
    assert nightly("--policy", str(tmp_path / "p.toml")).exit_code == 10
    envelope = json.loads((tmp_path / "work" / "out" / "nightly.json").read_text(encoding="utf-8"))
    assert [error["code"] for error in envelope["errors"]] == ["gate_tripped", "internal_error"]
    assert nightly().exit_code == 70, "the report is still missing"


def test_quarantine_of_the_policy(nightly: Pass, same: Asked, tmp_path: Path) -> None:
    root = write_root(tmp_path / "root", run_count=1, has_broken=False)
    (tmp_path / "p.toml").write_text("[quarantine]\nruns = ['night-00']\n", encoding="utf-8")
    nightly("--policy", str(tmp_path / "p.toml"))
    assert verdicts(tmp_path) == {"night-00": "set_aside"}
    write_night(root / "night-01", 1)
    nightly("--policy", str(tmp_path / "p.toml"))
    assert verdicts(tmp_path) == {"night-01": "learning"}, "such a run joins no baseline"


def test_raw_rows_go_after_their_days(nightly: Pass, same: Asked, tmp_path: Path) -> None:
    write_root(tmp_path / "root", run_count=1, has_broken=False)
    (tmp_path / "p.toml").write_text("[retention]\nraw_days = 0\n", encoding="utf-8")
    nightly("--policy", str(tmp_path / "p.toml"))
    nightly("--policy", str(tmp_path / "p.toml"))
    held = holdings(tmp_path / "work" / "n.duckdb")
    tables = {table for table, _, _ in held.rows}
    assert not any(table.startswith("raw_") for table in tables)
    assert {"indicators", "findings", "nightly_verdicts", "retention"} <= tables
    assert data(tmp_path)["raw_removed"] == [held.verdicts[0][0]]


def test_a_removed_run_does_not_come_back(nightly: Pass, same: Asked, tmp_path: Path) -> None:
    write_root(tmp_path / "root", run_count=1, has_broken=False)
    nightly()
    database = str(tmp_path / "work" / "n.duckdb")
    run_id = str(run_ids(tmp_path)["night-00"])
    assert CliRunner().invoke(command, ["runs", "remove", run_id, "--db", database]).exit_code == 0
    assert nightly().stdout == "kvcliff nightly passed: no new run\n"
    assert holdings(Path(database)).verdicts == ()


def test_a_swap_point_is_told_on_the_first_night_and_limited_by_the_policy(
    nightly: Pass, same: Asked, tmp_path: Path
) -> None:
    write_night(tmp_path / "root" / "a", 1, pressed_moments())
    (tmp_path / "p.toml").write_text(
        "[gate]\nallowed_swap_points = 0\nswap_point_classes = ['confirmed', 'probable', 'pressure']\n",
        encoding="utf-8",
    )
    assert nightly("--policy", str(tmp_path / "p.toml")).exit_code == 10
    assert "swap point" in data(tmp_path)["runs"][0]["summary"]


def test_the_same_passes_give_the_same_bytes(nightly: Pass, same: Asked, tmp_path: Path) -> None:
    write_root(tmp_path / "root", run_count=2)
    nightly()
    out = tmp_path / "work" / "out"
    first = {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    (tmp_path / "work" / "n.duckdb").unlink()
    nightly()
    assert {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()} == first
    assert not list(out.rglob("*.part"))
