import json
from pathlib import Path
from typing import Any

import pytest

from builders_cli import START_NS, Invoke, Moment, easy_moments, pressed_moments, write_moments

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"


@pytest.fixture
def pressed_run(tmp_path: Path) -> Path:
    """20 s at ease, a ramp of 10 s to a full KV cache, and 20 s of preemptions."""
    return write_moments(tmp_path / "pressed", pressed_moments())


def report(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(Path(f"kvcliff-reports/{name}/report.json").read_text(encoding="utf-8"))
    return data


def section(name: str, key: str) -> dict[str, Any]:
    found: dict[str, Any] = next(part for part in report(name)["sections"] if part["key"] == key)
    return found


def table(name: str, key: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = next(
        block["rows"] for block in section(name, key)["blocks"] if block["type"] == "table"
    )
    return rows


def runs(invoke: Invoke) -> list[str]:
    lines = invoke("sql", "run", "select name from runs order by name", "--format", "csv").stdout.splitlines()
    return lines[1:]


def test_a_window_is_a_run_beside_the_whole(invoke: Invoke, pressed_run: Path) -> None:
    assert invoke("diagnose", pressed_run).exit_code == 0
    result = invoke("diagnose", pressed_run, "--from", "+25s")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("pressed@window-")
    assert runs(invoke) == ["pressed", "pressed@window"]
    data = report("pressed_window")
    assert data["run"]["labels"].startswith("window=2026-09-21T14:13:45.002Z..2026-09-21T14:14:0")
    assert data["run"]["started_at_ns"] == START_NS + 25_002_000_000
    # The command that makes the report again gives the same rows.
    commands = section("pressed_window", "provenance")["blocks"][-1]["lines"]
    assert commands[0] == (
        "kvcliff diagnose pressed --from 2026-09-21T14:13:45.002Z --to 2026-09-21T14:14:09.502Z"
    )
    again = json.loads(invoke(*commands[0].split()[1:], "--format", "json").stdout)["data"]["runs"][0]
    assert again["verdict"]["sentence"] == data["verdict"]["sentence"]


def test_the_same_window_again_is_not_read_again(invoke: Invoke, pressed_run: Path) -> None:
    first = invoke("ingest", pressed_run, "--from", "14:13:45", "--to", "+40s")
    assert first.exit_code == 0, first.stderr
    assert "14:13:45 taken as UTC, the run's clock" in first.stderr
    assert "already stored" in invoke("ingest", pressed_run, "--from", "14:13:45", "--to", "+40s").stdout
    other = invoke("ingest", pressed_run, "--from", "14:13:46", "--to", "+40s")
    assert "already stored" not in other.stdout
    assert runs(invoke) == ["pressed@window"]
    invoke("ingest", pressed_run, "--from", "14:13:45", "--to", "+40s", "--keep")
    assert runs(invoke) == ["pressed@window", "pressed@window"]


def test_what_changed_when_is_told_in_order_of_time(invoke: Invoke, pressed_run: Path) -> None:
    result = invoke("diagnose", pressed_run, "--from", "+20s", "--before")
    assert result.exit_code == 0, result.stderr
    assert runs(invoke) == ["pressed@before", "pressed@window"]
    rows = table("pressed_window", "window_changes")
    assert [row["at_ns"] for row in rows] == sorted(row["at_ns"] for row in rows)
    changed = {row["what"]: row for row in rows}
    full = changed["KV occupancy"]
    assert (full["before"] < 0.7, full["after"] > 0.9) == (True, True)
    preempted = changed["preempt, first"]
    # The counter moves with the first scrape of the storm, 30 s after the begin.
    assert preempted["at_ns"] == pytest.approx(START_NS + 30_000_000_000, abs=600_000_000)
    assert preempted["offset_ns"] == preempted["at_ns"] - (START_NS + 20_002_000_000)
    assert (preempted["before"], preempted["unit"]) == (0, "events/min")
    assert changed["waiting requests"]["before"] == 0
    swap = next(row for what, row in changed.items() if what.startswith("swap point"))
    assert abs(swap["at_ns"] - START_NS - 30_000_000_000) <= swap["error_ns"] + 500_000_000
    keys = [part["key"] for part in report("pressed_window")["sections"]]
    assert keys[:2] == ["window_changes", "window_comparison"]
    verdicts = {row["metric"]: row for row in table("pressed_window", "window_comparison")}
    assert verdicts["preemptions"]["verdict"] == "worse"
    assert (verdicts["preemptions"]["before"], verdicts["preemptions"]["window"]) == (0, 40)


def test_an_episode_over_the_edge_is_told_once(invoke: Invoke, pressed_run: Path) -> None:
    # The storm begins 30 s after the run and is in full swing at the edge.
    assert invoke("diagnose", pressed_run, "--from", "+40s", "--before", "20s").exit_code == 0
    stored = invoke("sql", "run", "select count(distinct run_id) as n from swap_points", "--format", "csv")
    assert stored.stdout.splitlines() == ["n", "2"]
    rows = table("pressed_window", "window_changes")
    (swap,) = [row for row in rows if row["what"].startswith("swap point")]
    assert swap["offset_ns"] == pytest.approx(-10_000_000_000, abs=600_000_000)
    # Preemptions go on at the same rate: no change.
    assert not [row for row in rows if row["what"].startswith("preempt") and row["offset_ns"] >= 0]


def test_a_short_report_keeps_what_changed(invoke: Invoke, pressed_run: Path) -> None:
    window = ("--from", "+20s", "--before", "15s", "--audience", "incident", "-o", "-")
    result = invoke("diagnose", pressed_run, *window)
    assert result.exit_code == 0, result.stderr
    assert "## What changed, and when" in result.stdout
    assert "## The window against the time before it" in result.stdout


def test_a_quiet_run_changed_nothing(invoke: Invoke, tmp_path: Path) -> None:
    quiet = write_moments(tmp_path / "quiet", easy_moments(80))
    assert invoke("diagnose", quiet, "--from", "+20s", "--before").exit_code == 0
    (block,) = section("quiet_window", "window_changes")["blocks"]
    assert block["text"].startswith("Nothing changed by a relevant amount")


def test_more_load_is_told_as_such(invoke: Invoke, tmp_path: Path) -> None:
    moments = (*easy_moments(60), *((Moment(usage=0.6, running=9),) * 60))
    busy = write_moments(tmp_path / "busy", moments)
    assert invoke("diagnose", busy, "--from", "+28s", "--before", "20s").exit_code == 0
    rows = {row["what"]: row for row in table("busy_window", "window_changes")}
    assert set(rows) == {"KV occupancy", "running requests"}
    assert (rows["running requests"]["before"], rows["running requests"]["after"]) == (4, 9)
    for row in rows.values():
        assert row["at_ns"] == START_NS + 30_002_000_000
        assert row["error_ns"] == 500_000_000


def test_the_recorded_cliff_is_found_in_its_window(invoke: Invoke) -> None:
    window = ("--from", "18:49:55", "--to", "18:50:35", "--before", "20s")
    result = invoke("diagnose", SAMPLES / "kv_stress", *window)
    assert result.exit_code == 0, result.stderr
    rows = table("kv_stress_window", "window_changes")
    (swap,) = [row for row in rows if row["what"] == "swap point, confirmed by recompute"]
    assert abs(swap["at_ns"] - 1_796_064_598_140_000_000) <= swap["error_ns"] < 200_000_000
    # Load and KV first, then the engine acts, then requests wait.
    order = [row["what"] for row in rows]
    assert order.index("running requests") < order.index(swap["what"]) < order.index("waiting requests")
    before = next(
        row for row in table("kv_stress_window", "window_comparison") if row["metric"] == "swap points"
    )
    assert (before["before"], before["window"], before["verdict"]) == (0, 1, "worse")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--from", "soon"), "soon is no time"),
        (("--from", "+2h"), "lies outside the run, which is 2026-09-21 14:13:20.0 to 14:14:09.5 UTC"),
        (("--to", "2026-09-21T14:00:00Z"), "lies outside the run"),
        (("--from", "+30s", "--to", "+20s"), "the window ends before it begins"),
        (("--before", "5m"), "--before needs a window"),
        (("--to", "+30s", "--before", "5m"), "--before needs a window"),
        (("--from", "+20s", "--before", "+30s"), "is not before the window"),
        (("--from", "+20s", "--before", "soon"), "soon is no time"),
        (("--from", "2026-09-21T14:00:00Z", "--before", "5m"), "nothing to compare with before the window"),
    ],
)
def test_what_cannot_be_used_is_refused(
    invoke: Invoke, pressed_run: Path, arguments: tuple[str, ...], words: str
) -> None:
    result = invoke("diagnose", pressed_run, *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "hint:" in result.stderr
    assert not Path("kvcliff-reports").exists()


def test_times_that_no_server_knows(invoke: Invoke) -> None:
    for time, words in (("14:05:00", "names no time zone"), ("+5m", "counts from a run")):
        result = invoke("ingest", "--prometheus", "http://127.0.0.1:9", "--from", time)
        assert result.exit_code == 2
        assert words in result.stderr
