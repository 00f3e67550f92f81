"""Standard streams as odd callers leave them: closed, full, or of an encoding that lacks characters."""

import shutil
import subprocess
from pathlib import Path

import pytest

from builders_cli import command_line, process_environment

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is a matter of Linux")


def _shell(redirections: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command with redirections of a shell, in the current folder."""
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirections}', "sh", *command_line(*arguments)],
        env=process_environment(environment),
        capture_output=True,
        encoding="latin-1",
        check=False,
    )


@pytest.fixture(autouse=True)
def _stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_of_one_run: Path) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(database_of_one_run, "kvcliff.duckdb")


def test_closed_streams_cost_nothing_but_the_words() -> None:
    before = Path("kvcliff.duckdb").read_bytes()
    done = _shell("<&- >&- 2>&-", "report", "easy", "-o", "out")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert Path("out/report.md").is_file()
    # A file opened under the number of a closed stream would have taken the words.
    assert Path("kvcliff.duckdb").read_bytes() == before


def test_a_full_output_is_told() -> None:
    done = _shell(">/dev/full", "runs", "list")
    assert done.returncode == 1
    assert done.stderr.startswith("error: No space left on device")


def test_characters_that_the_encoding_lacks_are_replaced() -> None:
    query = "select 'ü漢' as a"
    done = _shell("", "sql", "run", query, "--format", "csv", PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "a\nü?\n", "")


def test_a_home_that_cannot_be_written_goes_unsaid() -> None:
    done = _shell("", "report", "easy", "-o", "out", HOME="/proc", MPLCONFIGDIR="", XDG_CONFIG_HOME="")
    assert done.returncode == 0
    assert "atplotlib" not in done.stderr
