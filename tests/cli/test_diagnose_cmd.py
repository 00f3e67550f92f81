import json
from pathlib import Path

import pytest

from builders_cli import START_NS, Invoke, pressed_moments, write_moments, write_run


@pytest.fixture
def pressed_run(tmp_path: Path) -> Path:
    """A run whose KV cache fills up and whose engine preempts."""
    return write_moments(tmp_path / "pressed", pressed_moments())


def test_verdict_on_stdout_report_in_the_default_folder(invoke: Invoke, run_folder: Path) -> None:
    result = invoke("diagnose", run_folder)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("easy-")
    report = Path("kvcliff-reports/easy/report.md")
    assert report.exists()
    assert f"wrote {report}" in result.stderr.splitlines()
    # The sentence on screen is the sentence of the report.
    sentence = lines[0].split(": ", 1)[1]
    document = json.loads(Path("kvcliff-reports/easy/report.json").read_text(encoding="utf-8"))
    assert sentence in json.dumps(document, ensure_ascii=False)


def test_no_swap_point_where_none_is(invoke: Invoke, run_folder: Path) -> None:
    invoke("diagnose", run_folder)
    rows = invoke("sql", "run", "select count(*) as n from swap_points", "--format", "csv").stdout
    assert rows == "n\n0\n"


def test_again_is_a_no_op_that_still_writes_the_report(invoke: Invoke, run_folder: Path) -> None:
    invoke("diagnose", run_folder)
    first = Path("kvcliff-reports/easy/report.md").read_bytes()
    again = invoke("diagnose", run_folder)
    assert again.exit_code == 0
    assert "same content as in kvcliff.duckdb, not read again" in again.stderr
    assert "wrote kvcliff-reports/easy/report.md" in again.stderr
    assert Path("kvcliff-reports/easy/report.md").read_bytes() == first


def test_chosen_folder_is_not_overwritten(invoke: Invoke, run_folder: Path) -> None:
    assert invoke("diagnose", run_folder, "-o", "mine").exit_code == 0
    refused = invoke("diagnose", run_folder, "-o", "mine")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: mine already holds a report")
    assert "--force" in refused.stderr
    assert invoke("diagnose", run_folder, "-o", "mine", "--force").exit_code == 0


def test_dash_prints_the_report_and_writes_nothing(invoke: Invoke, run_folder: Path) -> None:
    written = invoke("diagnose", run_folder, "--format", "md")
    printed = invoke("diagnose", run_folder, "-o", "-")
    assert printed.exit_code == 0
    assert printed.stdout.startswith("#")
    assert printed.stdout == written.stdout
    assert "wrote" not in printed.stderr
    assert not Path("-").exists()


def test_markdown_is_the_written_report(invoke: Invoke, run_folder: Path) -> None:
    result = invoke("diagnose", run_folder, "--format", "md")
    assert result.stdout == Path("kvcliff-reports/easy/report.md").read_text(encoding="utf-8")


def test_json_envelope(invoke: Invoke, run_folder: Path) -> None:
    result = invoke("diagnose", run_folder, "--format", "json")
    envelope = json.loads(result.stdout)
    (run,) = envelope["data"]["runs"]
    assert envelope["status"] == "ok"
    assert envelope["errors"] == []
    assert run["report_folder"] == "kvcliff-reports/easy"
    assert "kvcliff-reports/easy/report.json" in run["files"]
    assert {finding["verdict"] for finding in run["findings"]} <= {"found", "not_found", "cannot_tell"}
    assert all(isinstance(finding["evidence"], list) for finding in run["findings"])


def test_several_runs_get_a_folder_each(invoke: Invoke, run_folder: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "second", count=50)
    result = invoke("diagnose", run_folder, other, "-o", "both")
    assert result.exit_code == 0, result.stderr
    assert Path("both/easy/report.md").exists()
    assert Path("both/second/report.md").exists()
    assert [line.split("-")[0] for line in result.stdout.splitlines() if not line.startswith(" ")] == [
        "easy",
        "second",
    ]


def test_one_bad_run_decides_the_exit_code(invoke: Invoke, run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = invoke("diagnose", tmp_path / "empty", run_folder, "--format", "json")
    assert result.exit_code == 3
    envelope = json.loads(result.stdout)
    assert envelope["status"] == "partial"
    assert [run["name"] for run in envelope["data"]["runs"]] == ["easy"]
    assert envelope["errors"][0]["code"] == "input_unreadable"


def test_swap_point_is_found_and_dated(invoke: Invoke, pressed_run: Path) -> None:
    result = invoke("diagnose", pressed_run)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[0].split(": ", 1)[1].startswith("Swap point")
    query = "select at_ns, error_ns from swap_points order by at_ns"
    (_, row) = invoke("sql", "run", query, "--format", "csv").stdout.splitlines()
    at_ns, error_ns = map(int, row.split(","))
    # The counter first moves in scrape 60, 30 s after the start. Nobody waits before, and KV is nearly full
    # from 28.5 s on: a victim before that would have been seen, one after it with a short wait would not.
    assert abs(at_ns - START_NS - 30_000_000_000) <= error_ns <= 1_300_000_000


@pytest.mark.parametrize("level", ["info", "warning"])
def test_fail_on_trips_after_the_report(level: str, invoke: Invoke, pressed_run: Path) -> None:
    result = invoke("diagnose", pressed_run, "--fail-on", level)
    assert result.exit_code == 10
    assert result.stdout.startswith("pressed-")
    assert result.stderr.splitlines()[-1].startswith("error: pressed-")
    assert result.stderr.endswith(f"which --fail-on {level} forbids\n")
    assert Path("kvcliff-reports/pressed/report.md").exists()


def test_fail_on_in_json_is_one_envelope(invoke: Invoke, pressed_run: Path) -> None:
    result = invoke("diagnose", pressed_run, "--fail-on", "warning", "--format", "json")
    assert result.exit_code == 10
    envelope = json.loads(result.stdout)
    assert envelope["errors"][0]["code"] == "gate_tripped"
    assert envelope["status"] == "ok"
    assert envelope["data"]["runs"][0]["verdict"]["finding"] == "swap_point"


def test_fail_on_lets_a_lower_severity_pass(invoke: Invoke, pressed_run: Path) -> None:
    # Harm cannot be measured from these scrapes, so the swap point is a warning.
    assert invoke("diagnose", pressed_run, "--fail-on", "critical").exit_code == 0


def test_fail_on_lets_a_quiet_run_pass(invoke: Invoke, run_folder: Path) -> None:
    assert invoke("diagnose", run_folder, "--fail-on", "warning").exit_code == 0


def test_partial_run_is_still_exit_0(invoke: Invoke, run_folder: Path) -> None:
    (run_folder / "broken.sqlite").write_bytes(b"SQLite format 3\x00" + b"\x00" * 50)
    result = invoke("diagnose", run_folder, "--format", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["status"] in ("ok", "partial")


def test_report_of_a_stored_run(invoke: Invoke, run_folder: Path) -> None:
    diagnosed = invoke("diagnose", run_folder)
    written = Path("kvcliff-reports/easy/report.md").read_bytes()
    Path("kvcliff-reports/easy/report.md").unlink()
    result = invoke("report", "easy")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == diagnosed.stdout
    assert Path("kvcliff-reports/easy/report.md").read_bytes() == written


def test_report_of_an_unknown_run(invoke: Invoke, run_folder: Path) -> None:
    invoke("ingest", run_folder)
    result = invoke("report", "nobody")
    assert result.exit_code == 2
    assert "holds no run nobody" in result.stderr
    assert "kvcliff runs list" in result.stderr
