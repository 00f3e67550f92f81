import json
from pathlib import Path

from builders_cli import CHECKOUT, Invoke, write_run


def test_known_and_unknown_files(invoke: Invoke, run_folder: Path) -> None:
    (run_folder / "notes.bin").write_bytes(b"\x00\x01\x02")
    data = json.loads(invoke("inspect", run_folder, "--format", "json").stdout)["data"]
    files = {file["path"]: file for file in data["files"]}
    assert files["metrics.prom"]["reader"] == "prometheus"
    assert files["metrics.prom"]["role"] == "metrics"
    assert files["metrics.prom"]["why"]
    assert files["notes.bin"]["reader"] is None
    assert files["notes.bin"]["what"] == "unknown"


def test_each_file_has_a_clock_and_a_resolution(invoke: Invoke, run_folder: Path) -> None:
    data = json.loads(invoke("inspect", run_folder, "--format", "json").stdout)["data"]
    (scrapes,) = (file for file in data["files"] if file["path"] == "metrics.prom")
    assert (scrapes["clock"], scrapes["clock_words"]) == ("utc", "UTC")
    assert "clock_resolution_ns" in scrapes
    headings = invoke("inspect", run_folder).stdout.splitlines()[1].split("  ")
    assert {"clock", "resolution"} <= {heading.strip() for heading in headings}


def test_what_is_missing_comes_with_its_command(invoke: Invoke, run_folder: Path) -> None:
    data = json.loads(invoke("inspect", run_folder, "--format", "json").stdout)["data"]
    assert [item["role"] for item in data["missing"]] == ["client", "log", "trace", "device", "model"]
    text = invoke("inspect", run_folder).stdout
    for item in data["missing"]:
        assert item["command"] in text
    assert "kvcliff howto client|log|nsys|gpu\n" in text
    topics = [item["howto"].removeprefix("kvcliff howto ") for item in data["missing"] if item["howto"]]
    assert topics == ["client", "log", "nsys", "gpu"]
    for topic in topics:
        assert invoke("howto", topic).exit_code == 0


def test_levels_of_a_sweep(invoke: Invoke, tmp_path: Path) -> None:
    for level in ("c8", "c16"):
        write_run(tmp_path / "sweep" / level)
    data = json.loads(invoke("inspect", tmp_path / "sweep", "--format", "json").stdout)["data"]
    assert {file["path"]: file["level"] for file in data["files"]} == {
        "c16/metrics.prom": "c16",
        "c8/metrics.prom": "c8",
    }
    assert "level" in invoke("inspect", tmp_path / "sweep").stdout.splitlines()[1].split()


def test_nothing_is_stored(invoke: Invoke, run_folder: Path) -> None:
    invoke("inspect", run_folder)
    assert not Path("kvcliff.duckdb").exists()


def test_a_file_name_cannot_steer_the_terminal(invoke: Invoke, run_folder: Path) -> None:
    (run_folder / "a\x1b[2J.txt").write_text("x", encoding="utf-8")
    result = invoke("inspect", run_folder)
    assert "\x1b" not in result.stdout
    assert "[2J.txt" in result.stdout


def test_absent_and_empty(invoke: Invoke, tmp_path: Path) -> None:
    assert invoke("inspect", "nowhere").exit_code == 2
    (tmp_path / "empty").mkdir()
    assert invoke("inspect", tmp_path / "empty").exit_code == 3


def test_single_file(invoke: Invoke, run_folder: Path) -> None:
    data = json.loads(invoke("inspect", run_folder / "metrics.prom", "--format", "json").stdout)["data"]
    assert data["name"] == "metrics"
    assert [file["path"] for file in data["files"]] == ["metrics.prom"]


def test_sample_traces_are_all_recognised(invoke: Invoke) -> None:
    for story in sorted(path for path in (CHECKOUT / "sample_traces").iterdir() if path.is_dir()):
        data = json.loads(invoke("inspect", story, "--format", "json").stdout)["data"]
        unknown = [file["path"] for file in data["files"] if file["what"] == "unknown"]
        assert [path for path in unknown if not path.endswith((".md", ".json"))] == [], story.name
