import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from builders_cli import Invoke, write_run
from kvcliff.cli import progress
from kvcliff.cli.root import root
from kvcliff.nightly.comparison import figure as comparison_figure
from kvcliff.report import figure_style

#: What draws a comparison has the real functions: its module is loaded before they are replaced.
assert comparison_figure.svg_bytes is figure_style.svg_bytes


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Run a command in a folder of its own; stdout and stderr stay apart."""
    for name in ("NO_COLOR", "FORCE_COLOR", "KVCLIFF_DB", "KVCLIFF_FORMAT", "KVCLIFF_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    # How long a stage takes on a busy machine must not change what a test sees on stderr.
    monkeypatch.setattr(progress, "_SLOW_STAGE_S", 1e9)
    # A third of a small run goes into images that no test of a command looks at (tests/report does).
    monkeypatch.setattr(figure_style, "svg_bytes", lambda _: b'<svg xmlns="http://www.w3.org/2000/svg"/>\n')
    monkeypatch.setattr(figure_style, "png_bytes", lambda _: b"\x89PNG\r\n\x1a\n")

    def run(*arguments: str | Path, **options: object) -> Result:
        return CliRunner().invoke(root, [str(argument) for argument in arguments], **options)  # type: ignore[arg-type]

    return run


@pytest.fixture(scope="session")
def database_of_one_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that holds the run ``easy``; copy it, never open it."""
    folder = tmp_path_factory.mktemp("template")
    run = write_run(folder / "easy")
    result = CliRunner().invoke(root, ["ingest", str(run), "--db", str(folder / "kvcliff.duckdb")])
    assert result.exit_code == 0, result.stderr
    return folder / "kvcliff.duckdb"


@pytest.fixture
def stored(invoke: Invoke, database_of_one_run: Path) -> Invoke:
    """A command runner in whose folder the default database holds one run."""
    shutil.copy(database_of_one_run, "kvcliff.duckdb")
    return invoke


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A run that is at ease: 20 s of scrapes."""
    return write_run(tmp_path / "easy")
