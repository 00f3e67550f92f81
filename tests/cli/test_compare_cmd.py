"""kvcliff compare: folders and stored runs, exit codes, formats, files."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from builders_cli import Invoke, write_run
from kvcliff.cli.root import root
from kvcliff.store.database import open_store
from kvcliff.store.models import load_models


def client_line(number: int, gap_ms: float) -> str:
    """Return a request of a load script: 40 tokens, ``gap_ms`` apart with a small ripple."""
    start_ns = 1_790_000_000_000_000_000 + number * 500_000_000
    times = [
        start_ns + 100_000_000 + round((place * gap_ms + (place % 3) * 0.2) * 1e6) for place in range(40)
    ]
    return json.dumps(
        {
            "id": f"r{number:05d}", "user": number % 4, "tag": "load", "submit_ns": start_ns,
            "prompt_tokens": 64, "max_tokens": 40, "headers_ns": start_ns + 1_000_000, "token_ns": times,
            "chunk_tokens": None, "done_ns": times[-1] + 1_000_000, "finish_reason": "length",
            "usage": {"prompt_tokens": 64, "completion_tokens": 40}, "error": None, "inflight_at_submit": 3,
            "status": 200,
        }
    )  # fmt: skip


def timed_run(folder: Path, gap_ms: float) -> Path:
    """Write a run of 60 requests whose tokens come ``gap_ms`` apart."""
    write_run(folder)
    lines = [client_line(number, gap_ms) for number in range(60)]
    (folder / "requests.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return timed_run(tmp_path / "runs" / "base", 10.0)


@pytest.fixture
def slower(tmp_path: Path) -> Path:
    return timed_run(tmp_path / "runs" / "slower", 13.0)


@pytest.fixture(scope="module")
def read_pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that holds ``base`` and ``slower``; copy it, never open it."""
    folder = tmp_path_factory.mktemp("pair")
    runs = [str(timed_run(folder / name, gap_ms)) for name, gap_ms in (("base", 10.0), ("slower", 13.0))]
    result = CliRunner().invoke(root, ["ingest", *runs, "--db", str(folder / "pair.duckdb")])
    assert result.exit_code == 0, result.stderr
    return folder / "pair.duckdb"


@pytest.fixture
def pair(invoke: Invoke, read_pair: Path, base: Path, slower: Path) -> tuple[Path, Path]:
    """The folders of both runs, which the default database holds already: they are not read again."""
    shutil.copy(read_pair, "kvcliff.duckdb")
    return base, slower


def test_folders_are_read_and_compared(invoke: Invoke, base: Path, slower: Path) -> None:
    result = invoke("compare", base, slower)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("worse: median time between tokens +")
    assert "  baseline: base-" in result.stdout
    assert "  run:      slower-" in result.stdout
    assert "\nworse" in result.stdout
    assert result.stderr == ""


def test_repeats_are_no_regression(invoke: Invoke, base: Path, tmp_path: Path) -> None:
    result = invoke("compare", base, timed_run(tmp_path / "again", 10.1), "--fail-on", "info")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("no regression: ")


def test_stored_runs_by_id_and_by_name(invoke: Invoke, base: Path, slower: Path) -> None:
    invoke("ingest", base)
    run_id = invoke("ingest", slower).stdout.split(":")[0]
    by_name = invoke("compare", "base", "slower")
    assert by_name.exit_code == 0, by_name.stderr
    assert by_name.stdout == invoke("compare", "base", run_id).stdout
    assert by_name.stdout == invoke("compare", base, slower).stdout


def test_runs_of_one_name_stay_side_by_side(invoke: Invoke, tmp_path: Path) -> None:
    one, other = timed_run(tmp_path / "a" / "night", 10.0), timed_run(tmp_path / "b" / "night", 13.0)
    result = invoke("compare", one, other, "--format", "json")
    data = json.loads(result.stdout)["data"]
    assert data["verdict"] == "worse"
    assert data["base_run_ids"] != [data["run_id"]]
    listed = json.loads(invoke("runs", "list", "--format", "json").stdout)["data"]["runs"]
    assert len(listed) == 2


def test_several_baseline_runs(invoke: Invoke, base: Path, slower: Path, tmp_path: Path) -> None:
    more = [timed_run(tmp_path / f"more{number}", 10.0 + number / 20) for number in (1, 2)]
    data = json.loads(invoke("compare", base, *more, slower, "--format", "json").stdout)["data"]
    assert len(data["base_run_ids"]) == 3
    itl = next(metric for metric in data["metrics"] if metric["metric"] == "itl_p50")
    assert "between the 3 runs of the baseline" in itl["noise"]


@pytest.mark.parametrize(("fail_on", "code"), [("critical", 10), ("warning", 10), ("info", 10), (None, 0)])
def test_gate_for_a_worse_run(
    invoke: Invoke, pair: tuple[Path, Path], fail_on: str | None, code: int
) -> None:
    options = ["--fail-on", fail_on] if fail_on else []
    result = invoke("compare", *pair, *options)
    assert result.exit_code == code
    assert ("forbids" in result.stderr) is (code == 10)


@pytest.mark.parametrize(("fail_on", "code"), [("critical", 0), ("warning", 0), ("info", 10)])
def test_gate_for_a_better_run(invoke: Invoke, pair: tuple[Path, Path], fail_on: str, code: int) -> None:
    assert invoke("compare", *reversed(pair), "--fail-on", fail_on).exit_code == code


def shift_days(days: int) -> None:
    """Move the stored run ``slower`` in time."""
    with open_store(Path("kvcliff.duckdb")) as con:
        con.execute(
            "update runs set started_at_ns = started_at_ns + ?, ended_at_ns = ended_at_ns + ? "
            "where name = 'slower'",
            [days * 86_400_000_000_000] * 2,
        )


@pytest.mark.usefixtures("pair")
def test_nothing_to_conclude_is_exit_4(invoke: Invoke) -> None:
    shift_days(3)
    result = invoke("compare", "base", "slower", "--fail-on", "critical")
    assert result.exit_code == 4
    assert result.stdout.startswith("inconclusive: median time between tokens +")
    assert "repeats near in time are missing" in result.stdout
    assert "error: nothing can be concluded about slower-" in result.stderr
    assert "hint: repeat baseline and run close together" in result.stderr
    envelope = json.loads(invoke("compare", "base", "slower", "--format", "json").stdout)
    assert (envelope["status"], envelope["errors"][0]["code"]) == ("error", "cannot_answer")
    assert envelope["data"]["verdict"] == "inconclusive"


def test_incomparable_runs_are_refused_unless_forced(invoke: Invoke, base: Path, slower: Path) -> None:
    (base / "run.toml").write_text('[gpu]\nname = "A100"\n', encoding="utf-8")
    (slower / "run.toml").write_text('[gpu]\nname = "H100"\n', encoding="utf-8")
    refused = invoke("compare", base, slower)
    assert refused.exit_code == 4
    assert refused.stdout.startswith("not comparable: another GPU: A100 in base-")
    assert "--force" in refused.stderr
    forced = invoke("compare", base, slower, "--force")
    assert forced.exit_code == 0
    assert forced.stdout.startswith("worse: ")


def test_policy_of_thresholds(invoke: Invoke, base: Path, slower: Path) -> None:
    Path("policy.toml").write_text("compare_min_change_ratio = 0.5\ncompare_min_change_tail_ratio = 0.5\n")
    result = invoke("compare", base, slower, "--policy", "policy.toml")
    assert result.exit_code == 0
    assert result.stdout.startswith("no regression: ")


@pytest.mark.usefixtures("pair")
def test_report_file_with_its_figure(invoke: Invoke) -> None:
    result = invoke("compare", "base", "slower", "-o", "new/one/report.md")
    assert result.exit_code == 0
    assert result.stderr == "wrote new/one/report.md\nwrote new/one/report.svg\n"
    text = Path("new/one/report.md").read_text(encoding="utf-8")
    assert text.startswith("# Worse: `slower-")
    assert "](report.svg)" in text
    assert Path("new/one/report.svg").read_bytes().startswith(b"<?xml")
    again = invoke("compare", "base", "slower", "-o", "new/one/report.md")
    assert again.exit_code == 1
    assert "new/one/report.md exists" in again.stderr
    assert invoke("compare", "base", "slower", "-o", "new/one/report.md", "--force").exit_code == 0


def test_report_on_stdout(invoke: Invoke, pair: tuple[Path, Path]) -> None:
    by_dash = invoke("compare", *pair, "-o", "-")
    by_format = invoke("compare", *pair, "--format", "md")
    assert by_dash.stdout == by_format.stdout
    assert by_dash.stdout.startswith("# Worse: ")
    assert "![" not in by_dash.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["base"], 2, "there is nothing to compare with"),
        (["base", "nowhere"], 2, "nowhere is neither a run folder nor a run of the database"),
        (["base", "base"], 2, "would be its own baseline"),
        (["base", "slower", "-o", "kvcliff.duckdb/report.md"], 1, "cannot write kvcliff.duckdb/report.md"),
        (["base", "slower", "-o", "."], 1, "is a folder"),
    ],
)
@pytest.mark.usefixtures("pair")
def test_wrong_usage(invoke: Invoke, arguments: list[str], code: int, words: str) -> None:
    result = invoke("compare", *arguments)
    assert result.exit_code == code
    assert words in result.stderr


def test_no_database_is_made_for_names(invoke: Invoke) -> None:
    result = invoke("compare", "one", "other")
    assert result.exit_code == 1
    assert not Path("kvcliff.duckdb").exists()


def test_every_mart_of_the_comparison_is_a_model() -> None:
    names = {model.name for model in load_models() if model.layer == "marts"}
    assert {"client_totals", "step_times", "requests", "token_latency", "kv_occupancy", "cache_hits"} <= names
