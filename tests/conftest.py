"""Options and fixtures that all tests share, and which tests stay in one process."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from kvcliff.cli.root import root

GOLDEN = Path(__file__).parent / "golden"
TRACES = Path(__file__).parent.parent / "sample_traces"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden from what comes out now"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests that share what takes long to make in one process (``--dist loadgroup``).

    A fixture of a module would else be made once in each process that runs a test of the module, and the
    diagnosed sample traces, which several modules read, once in each as well.
    """
    for item in items:
        group = _group(item)
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))


def _group(item: pytest.Item) -> str | None:
    """Return the name of the tests that an item stays with, ``None`` when it may run anywhere."""
    if not isinstance(item, pytest.Function) or item.get_closest_marker("xdist_group") is not None:
        return None
    if "diagnosed_stories" in item.fixturenames:
        return "diagnosed_stories"
    made_by = item._fixtureinfo.name2fixturedefs.values()
    is_sharing = any(fixtures[-1].scope == "module" for fixtures in made_by)
    return item.nodeid.split("::")[0] if is_sharing else None


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
