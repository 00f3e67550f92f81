"""Options and fixtures that all tests share."""

from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden from what comes out now"
    )


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
