import json
from pathlib import Path

import pytest

from builders_cli import Invoke
from builders_nightly import write_root
from kvcliff.cli import nightly_cmd
from kvcliff.errors import StoreLockedError
from kvcliff.store import compaction, database


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_root(tmp_path / "root", run_count=1)


def test_defaults_and_every_output(invoke: Invoke, root: Path, tmp_path: Path) -> None:
    result = invoke("nightly", root, "--quiet", "0", "--textfile", "node/kvcliff.prom", "--format", "json")
    assert result.exit_code == 4
    document = json.loads(result.stdout)
    assert (document["command"], document["status"]) == ("nightly", "partial")
    assert [error["code"] for error in document["errors"]] == ["cannot_answer"]
    out = Path("kvcliff-nightly")
    assert json.loads((out / "nightly.json").read_text(encoding="utf-8")) == document
    assert Path("node/kvcliff.prom").read_bytes() == (out / "kvcliff.prom").read_bytes()
    names = sorted(path.name for path in out.iterdir())
    assert names == [
        "figures",
        "index.md",
        "junit.xml",
        "kvcliff.prom",
        "nightly.json",
        "runs",
        "summary.txt",
    ]
    written = [line for line in result.stderr.splitlines() if line.startswith("wrote ")]
    assert written == [
        *(
            f"wrote kvcliff-nightly/{name}"
            for name in names
            if name not in ("figures", "nightly.json", "runs")
        ),
        "wrote kvcliff-nightly/nightly.json",
        "wrote node/kvcliff.prom",
    ]
    (report,) = (out / "runs").glob("*/report.md")
    assert f"runs/{report.parent.name}/report.md" in (out / "index.md").read_text(encoding="utf-8")
    page = invoke("nightly", root, "--quiet", "0", "--format", "md")
    assert page.exit_code == 0
    assert page.stdout == (out / "index.md").read_text(encoding="utf-8")


def test_wrong_use_touches_nothing(invoke: Invoke, root: Path) -> None:
    Path("policy.toml").write_text("[gate]\nwrose = 'fail'\n", encoding="utf-8")
    for arguments in (("nothing",), (root, "--policy", "policy.toml"), (root, "--quiet", "-1")):
        result = invoke("nightly", *arguments)
        assert result.exit_code == 2
        assert result.stderr.startswith("error: ")
    assert not Path("kvcliff.duckdb").exists()
    assert not Path("kvcliff-nightly").exists()


def test_waiting_for_the_database(invoke: Invoke, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = iter(range(3))
    real = database.open_store

    def locked(path: Path, **options: object) -> object:
        if next(refusals, None) is not None:
            raise StoreLockedError("the database x is in use by another process", hint="wait for process 7")
        return real(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(database, "open_store", locked)
    monkeypatch.setattr(nightly_cmd, "_RETRY_S", 0.001)
    refused = invoke("nightly", root)
    assert refused.exit_code == 1
    said, hint = refused.stderr.splitlines()
    assert said.startswith("error: the database x is in use by another process: another nightly pass, or ")
    assert said.endswith("; nothing was done")
    assert hint == "  hint: wait for process 7; or let this pass wait: --wait 3600"
    assert invoke("nightly", root, "--wait", "60").exit_code == 0, "the folders are too young to be read"


def test_a_loose_database_is_compacted(invoke: Invoke, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("policy.toml").write_text("[retention]\ncompact_free_ratio = 0.01\n", encoding="utf-8")
    monkeypatch.setattr(compaction, "_MIN_FREE_BYTES", 1)
    invoke("nightly", root, "--quiet", "0")
    invoke("runs", "prune", "--newest", "1", "--raw-older-than", "0")
    result = invoke("nightly", root, "--quiet", "0", "--policy", "policy.toml")
    assert "compacted kvcliff.duckdb: " in result.stderr
    assert invoke("nightly", root, "--quiet", "0").exit_code == 0
