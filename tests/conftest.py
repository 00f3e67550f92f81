"""Options and fixtures that all tests share, and which tests stay in one process."""

import re
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from kvcliff.cli.root import root

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).parent.parent
TRACES = ROOT / "sample_traces"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden from what comes out now"
    )


class _SharingFilesTogether(LoadScopeScheduling):
    """Keeps the tests of a file in one process when they share what takes long to make.

    A fixture of a module would else be made once in each process that runs a test of the module, and the
    diagnosed sample traces, which several modules read, once in each as well.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _group_of_file(nodeid.partition("::")[0]) or nodeid


@cache
def _group_of_file(file: str) -> str | None:
    """Return the name of the tests that those of a file stay with, ``None`` when they may run anywhere."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if "diagnosed_stories" in text:
        return "diagnosed_stories"
    return file if re.search(r'scope="(module|session)"', text) else None


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Return how tests are shared out to the processes of ``-n``."""
    return _SharingFilesTogether(config, log)


@pytest.fixture(scope="session")
def diagnosed_stories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ``runs.duckdb``, all sample traces in it, and beside it the report of each.

    Only to be read: many tests share it.
    """
    folder = tmp_path_factory.mktemp("stories")
    for story in sorted(path for path in TRACES.iterdir() if path.is_dir()):
        result = CliRunner().invoke(
            root,
            ["diagnose", str(story), "--db", str(folder / "runs.duckdb"), "-o", str(folder / story.name)],
        )
        assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def golden(request: pytest.FixtureRequest):
    """Compare text with a file in tests/golden, or rewrite that file under --update-golden."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.is_file(), f"{path} is absent; write it with: pytest --update-golden"
        assert text == path.read_text(encoding="utf-8"), (
            f"differs from {path}; if right: pytest --update-golden"
        )

    return check
