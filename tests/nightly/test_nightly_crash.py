"""A pass that is killed, started twice, or meets a full disk: nothing is lost or doubled."""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from builders_cli import command_line, process_environment
from builders_nightly import (
    Holdings,
    holdings,
    nightly_arguments,
    report_files,
    start_nightly,
    told,
    write_root,
)
from kvcliff.cli.root import root as command

#: How many random moments are tried; 50 take some minutes: KVCLIFF_TEST_KILLS=50 pytest tests/nightly
KILL_COUNT = int(os.environ.get("KVCLIFF_TEST_KILLS", "8"))
_SEED = 20_261_130


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, float]:
    """A root, the work folder of an undisturbed pass over it, and how long the pass took."""
    folder = tmp_path_factory.mktemp("reference")
    root = write_root(folder / "root")
    (folder / "work").mkdir()
    begun = time.monotonic()
    with start_nightly(root, folder / "work") as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 4, errors
    return root, folder / "work", time.monotonic() - begun


def complete(root: Path, work: Path, *extra: str) -> Result:
    """Run a pass in this process."""
    return CliRunner().invoke(command, nightly_arguments(root, work, *extra))


def expected(reference: tuple[Path, Path, float]) -> Holdings:
    return holdings(reference[1] / "n.duckdb")


def test_reference_holds_every_run_once(reference: tuple[Path, Path, float]) -> None:
    found = expected(reference)
    assert [state for _, state, _ in found.folders] == ["set_aside", "stored", "stored"]
    assert [count for table, _, count in found.rows if table == "runs"] == [1, 1]
    assert len(found.verdicts) == 2
    assert len(told(reference[1])) == 3
    assert sorted(report_files(reference[1])) == sorted(f"{run_id}/report.md" for run_id, _ in found.verdicts)


@pytest.mark.parametrize("number", range(KILL_COUNT))
def test_killed_at_a_random_moment(number: int, reference: tuple[Path, Path, float], tmp_path: Path) -> None:
    root, work, took_s = reference[0], tmp_path, reference[2]
    # The moments are spread evenly with a random shift each, so that few of them cover a pass too.
    moment_s = (number + random.Random(_SEED + number).random()) / KILL_COUNT * took_s
    process = start_nightly(root, work)
    try:
        process.wait(timeout=moment_s)
    except subprocess.TimeoutExpired:
        process.kill()
    process.communicate()
    told_before = told(work)
    done = complete(root, work)
    assert done.exit_code in (0, 4), done.output
    assert holdings(work / "n.duckdb") == expected(reference)
    assert told_before | told(work) == told(reference[1])
    assert report_files(work) == report_files(reference[1])
    if number == 0:
        assert complete(root, work).exit_code == 0
        assert told(work) == set(), "everything is told of once"


def test_stopped_by_sigterm(reference: tuple[Path, Path, float], tmp_path: Path) -> None:
    process = start_nightly(reference[0], tmp_path)
    try:
        process.wait(timeout=0.6 * reference[2])
    except subprocess.TimeoutExpired:
        process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (130, 4, -signal.SIGTERM)
    assert "Traceback" not in errors
    complete(reference[0], tmp_path)
    assert holdings(tmp_path / "n.duckdb") == expected(reference)


def test_two_passes_at_once(reference: tuple[Path, Path, float], tmp_path: Path) -> None:
    root = reference[0]
    both = [start_nightly(root, tmp_path), start_nightly(root, tmp_path)]
    results = [(*process.communicate(timeout=120), process.returncode) for process in both]
    assert sorted(code for _, _, code in results)[-1] == 4
    for _, errors, code in results:
        assert "Traceback" not in errors
        if code == 1:
            assert "n.duckdb is in use by another process: " in errors
            assert "hint: wait for process " in errors
            assert "another nightly pass, or another kvcliff command; nothing was done" in errors
            assert "--wait" in errors
    complete(root, tmp_path)
    assert holdings(tmp_path / "n.duckdb") == expected(reference)


def test_the_second_pass_waits_when_told_to(reference: tuple[Path, Path, float], tmp_path: Path) -> None:
    root = reference[0]
    both = [start_nightly(root, tmp_path, "--wait", "100") for _ in range(2)]
    results = [(*process.communicate(timeout=120), process.returncode) for process in both]
    assert sorted(code for _, _, code in results) == [0, 4]
    assert sum("no new run" in output for output, _, _ in results) == 1
    assert holdings(tmp_path / "n.duckdb") == expected(reference)


@pytest.mark.parametrize("limit_bytes", [4_096, 300_000, 2_000_000])
def test_disk_full(limit_bytes: int, reference: tuple[Path, Path, float], tmp_path: Path) -> None:
    root = reference[0]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

    done = subprocess.run(
        command_line(*nightly_arguments(root, tmp_path)),
        cwd=tmp_path,
        env=process_environment(),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines()[-2].startswith("error: ")
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("  hint: check free disk space")
    told_before = told(tmp_path)
    assert complete(root, tmp_path).exit_code in (0, 4)
    assert holdings(tmp_path / "n.duckdb") == expected(reference)
    assert told_before | told(tmp_path) == told(reference[1])
    assert report_files(tmp_path) == report_files(reference[1])


def _can_mount() -> bool:
    if shutil.which("unshare") is None or not sys.platform.startswith("linux"):
        return False
    return subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


needs_mount = pytest.mark.skipif(not _can_mount(), reason="mounting needs unshare(1) and its permission")


def run_with_read_only(folder: Path, arguments: list[str], cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command in a mount namespace of its own, in which a folder is read-only, for root too."""
    script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", script, str(folder), *command_line(*arguments)],
        cwd=cwd,
        env=process_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@needs_mount
def test_read_only_root(reference: tuple[Path, Path, float], tmp_path: Path) -> None:
    root = reference[0]
    done = run_with_read_only(root, nightly_arguments(root, tmp_path), tmp_path)
    assert done.returncode == 4, done.stderr
    assert holdings(tmp_path / "n.duckdb") == expected(reference)


@needs_mount
@pytest.mark.parametrize("place", ["out", "db"])
def test_read_only_output_and_database(
    place: str, reference: tuple[Path, Path, float], tmp_path: Path
) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    arguments = nightly_arguments(reference[0], tmp_path)
    if place == "out":
        arguments[arguments.index("--into") + 1] = str(locked / "out")
    else:
        arguments[arguments.index("--db") + 1] = str(locked / "n.duckdb")
    done = run_with_read_only(locked, arguments, tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert str(locked) in done.stderr.splitlines()[0]
    assert "  hint: " in done.stderr


def test_a_file_in_place_of_the_output_folder(reference: tuple[Path, Path, float], tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine", encoding="utf-8")
    done = complete(reference[0], tmp_path)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: the output folder {tmp_path / 'out'} cannot be written")
    assert not (tmp_path / "n.duckdb").exists()
    assert (tmp_path / "out").read_text(encoding="utf-8") == "mine"
