from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

from builders_nightly import comparison, fake_compare, metric, nightly_arguments
from kvcliff.cli import progress
from kvcliff.cli.root import root as command
from kvcliff.nightly import night
from kvcliff.nightly.comparison.compare import Comparison

Pass = Callable[..., Result]


@pytest.fixture
def same(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[str, ...]]]:
    """Let every comparison say "same"; the list fills with run and baseline of each."""
    asked: list[tuple[str, tuple[str, ...]]] = []

    def make(base: tuple[str, ...], run_id: str) -> Comparison:
        asked.append((run_id, base))
        return comparison(metric(), run_id=run_id, base=base)

    monkeypatch.setattr(night, "compare_runs", fake_compare(make))
    return asked


def _write_stub(_: duckdb.DuckDBPyConnection, run_id: str, folder: Path, *, force: bool) -> None:
    assert force
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("report.md", "report.json"):
        (folder / name).write_text(run_id, encoding="utf-8")


@pytest.fixture
def nightly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pass:
    """Run a pass over ``root`` of the test's folder, with database and outputs in ``work``.

    Reports are stubs: drawing their figures takes longer than all the rest.
    """
    monkeypatch.setattr(progress, "_SLOW_STAGE_S", 1e9)
    monkeypatch.setattr(night, "write_report", _write_stub)
    (tmp_path / "work").mkdir()

    def run(*extra: str) -> Result:
        return CliRunner().invoke(command, nightly_arguments(tmp_path / "root", tmp_path / "work", *extra))

    return run
