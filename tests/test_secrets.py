"""Nothing that a GPU capture holds beside its measurements reaches the database, a report or a message."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from tests.builders_cli import run_command

NSYS = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "nsight_systems"
#: The first stands in the recordings wherever an environment, a command line, a path or a name was;
#: the others stand in the forms that were recorded in a clean environment.
SECRETS = ("SCRUBBED-CANARY", "LD_PRELOAD", "/tmp/nvidia", "quadd_session", "scrubbed-host", "scrubbed-user")
FOLDERS = (
    "nsys-ai",
    "flameox",
    "lighttransport-gemm",
    "nvtx_samples/2022.4.2",
    "nvtx_samples/2023.4.4",
    "nvtx_samples/2024.2.3",
)
needs_corpus = pytest.mark.skipif(not NSYS.is_dir(), reason="the corpus of recordings is not there")


def leaks(text: str) -> list[str]:
    """Return the secrets that a text holds."""
    return [secret for secret in SECRETS if secret.lower() in text.lower()]


def stored_texts(database: Path) -> Iterator[tuple[str, str]]:
    """Yield every text of a database with its table and column."""
    with closing(duckdb.connect(str(database), read_only=True)) as con:
        columns = con.execute(
            "select schema_name, table_name, column_name from duckdb_columns() "
            "where not internal and data_type like 'VARCHAR%' order by all"
        ).fetchall()
        for schema, table, column in columns:
            sql = f'select distinct "{column}" from "{schema}"."{table}" where "{column}" is not null'
            for (text,) in con.execute(sql).fetchall():
                yield f"{table}.{column}", str(text)


@needs_corpus
@pytest.mark.parametrize("folder", FOLDERS)
def test_no_secret_of_a_capture_leaves_its_file(tmp_path: Path, folder: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(NSYS / folder, run, ignore=shutil.ignore_patterns("README.md", "LICENSE", "*.cu"))
    for path in (run, *run.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    held = b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file())
    assert SECRETS[0].encode() in held
    done = run_command(
        "diagnose", "run", "--db", "runs.duckdb", "-o", "out", "--format", "json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    looked = run_command("inspect", "run", "--format", "json", cwd=tmp_path)
    for text in (done.stdout, done.stderr, looked.stdout, looked.stderr):
        assert leaks(text) == []
    texts = list(stored_texts(tmp_path / "runs.duckdb"))
    assert len(texts) > 50
    assert [(place, leaks(text)) for place, text in texts if leaks(text)] == []
    written = [
        path for path in (tmp_path / "out").rglob("*") if path.suffix in (".md", ".json", ".svg", ".html")
    ]
    assert written
    for path in written:
        assert leaks(path.read_text(encoding="utf-8")) == [], path.name


def test_the_check_would_see_a_leak(tmp_path: Path) -> None:
    with closing(duckdb.connect(str(tmp_path / "x.duckdb"))) as con:
        con.execute("create table sources as select 'a scrubbed-canary-7' as notes")
    assert [leaks(text) for _, text in stored_texts(tmp_path / "x.duckdb")] == [["SCRUBBED-CANARY"]]
