"""What a kill, a full disk and a damaged database do to runs that are already stored: nothing."""

import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from builders_cli import command_line, process_environment, run_command, write_run

#: Kills in `make test`; ``KVCLIFF_FAULT_COUNT=100`` for a long look.
KILL_COUNT = int(os.environ.get("KVCLIFF_FAULT_COUNT", "6"))
#: Limit on the size of any file that a process writes, for a full disk: room for the start of a copy only.
FILE_LIMIT_BYTES = 1_200_000
#: How a DuckDB file is laid out: three headers, then blocks that carry a checksum each.
HEAD_BYTES = 12_288
BLOCK_BYTES = 262_144


def _listed(folder: Path) -> list[str]:
    """Return the names of the stored runs; the listing itself must not fail."""
    result = run_command("runs", "list", "--format", "json", cwd=folder)
    assert result.returncode == 0, result.stderr
    return sorted(run["name"] for run in json.loads(result.stdout)["data"]["runs"])


def _row_counts(folder: Path) -> str:
    """Return row counts of the first run in tables of every kind."""
    query = (
        "select (select count(*) from runs where name = 'easy'), (select count(*) from kv_occupancy"
        " join runs using (run_id) where name = 'easy'), (select count(*) from findings"
        " join runs using (run_id) where name = 'easy')"
    )
    result = run_command("sql", "run", query, "--format", "csv", cwd=folder)
    assert result.returncode == 0, result.stderr
    return result.stdout


def _told(result: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """Return the one error and its hint; a busy machine names slow stages before them."""
    sentence, hint = result.stderr.splitlines()[-2:]
    assert sentence.startswith("error: "), result.stderr
    assert hint.startswith("  hint: "), result.stderr
    return sentence, hint


@pytest.fixture
def folder_with_a_run(tmp_path: Path, database_of_one_run: Path) -> Path:
    """A folder whose database holds the run ``easy``, and that has a larger run ``big`` to add."""
    shutil.copy(database_of_one_run, tmp_path / "kvcliff.duckdb")
    write_run(tmp_path / "big", count=3000)
    return tmp_path


def test_killed_at_any_moment_loses_nothing(folder_with_a_run: Path) -> None:
    folder = folder_with_a_run
    counts = _row_counts(folder)
    started = time.perf_counter()
    assert run_command("ingest", "big", "--db", "other.duckdb", cwd=folder).returncode == 0
    whole_s = time.perf_counter() - started
    moments = random.Random(20)
    for _ in range(KILL_COUNT):
        process = subprocess.Popen(
            command_line("ingest", "big"),
            cwd=folder,
            env=process_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(timeout=moments.uniform(0.2, 1.0) * whole_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert _listed(folder) in (["easy"], ["big", "easy"])
        assert _row_counts(folder) == counts
        if "big" in _listed(folder):
            assert run_command("runs", "remove", "big", cwd=folder).returncode == 0
    assert run_command("ingest", "big", cwd=folder).returncode == 0
    assert _listed(folder) == ["big", "easy"]


def test_full_disk_loses_nothing_and_says_so(folder_with_a_run: Path) -> None:
    resource = pytest.importorskip("resource", reason="limits on file sizes are a matter of POSIX")
    folder = folder_with_a_run
    counts = _row_counts(folder)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT_BYTES, FILE_LIMIT_BYTES))

    result = subprocess.run(
        command_line("ingest", "big"),
        cwd=folder,
        env=process_environment(),
        capture_output=True,
        text=True,
        preexec_fn=limit,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1, result.stderr
    assert "Traceback" not in result.stderr
    sentence, hint = _told(result)
    assert sentence.startswith("error: the database could not take the run")
    assert hint.startswith("  hint: check free disk space")
    assert _listed(folder) == ["easy"]
    assert _row_counts(folder) == counts
    assert run_command("ingest", "big", cwd=folder).returncode == 0


def _flip_a_bit_in_every_block(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for place in range(HEAD_BYTES + 5000, len(data), BLOCK_BYTES):
        data[place] ^= 1
    path.write_bytes(data)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _zero_the_head(path: Path) -> None:
    path.write_bytes(bytes(HEAD_BYTES) + path.read_bytes()[HEAD_BYTES:])


@pytest.mark.parametrize(
    "damage",
    [_flip_a_bit_in_every_block, _cut, _zero_the_head],
    ids=lambda damage: damage.__name__.strip("_"),
)
def test_damaged_database_is_named(damage: Callable[[Path], None], folder_with_a_run: Path) -> None:
    folder = folder_with_a_run
    damage(folder / "kvcliff.duckdb")
    before = (folder / "kvcliff.duckdb").read_bytes()
    for arguments in (("runs", "list"), ("report", "easy"), ("ingest", "big")):
        result = run_command(*arguments, cwd=folder)
        assert result.returncode == 1, result.stderr
        sentence, _ = _told(result)
        assert "database" in sentence
    assert (folder / "kvcliff.duckdb").read_bytes() == before
