import os
import time
from pathlib import Path

import pytest

from kvcliff.errors import UsageProblem
from kvcliff.nightly.discovery import OUTPUT_MARK, RunFolder, find_run_folders
from kvcliff.nightly.policy import DiscoveryPolicy
from kvcliff.units import NS_PER_S

NOW_NS = time.time_ns() + 3600 * NS_PER_S


def write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")


def find(root: Path, policy: DiscoveryPolicy | None = None, **extra: object) -> tuple[RunFolder, ...]:
    return find_run_folders(root, policy or DiscoveryPolicy(), **{"now_ns": NOW_NS, **extra})  # type: ignore[arg-type]


def test_folders_with_files_are_runs(tmp_path: Path) -> None:
    write(tmp_path, "b/server.log", "a/deep/metrics.prom", ".hidden/x", "loose.txt")
    (tmp_path / "empty" / "inside").mkdir(parents=True)
    assert [(run.folder, run.file_count, run.wait_reason) for run in find(tmp_path)] == [
        ("a", 1, None),
        ("b", 1, None),
    ]


def test_links_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, "a/x")
    (tmp_path / "latest").symlink_to(tmp_path / "a")
    assert [run.folder for run in find(tmp_path)] == ["a"]


def test_runs_may_lie_deeper(tmp_path: Path) -> None:
    write(tmp_path, "llama/2026-01-01/x", "llama/2026-01-02/x", "qwen/2026-01-01/x", "qwen/y")
    found = find(tmp_path, DiscoveryPolicy(depth=2, ignore=("qwen/*",)))
    assert [run.folder for run in found] == ["llama/2026-01-01", "llama/2026-01-02"]


def test_own_outputs_are_no_runs(tmp_path: Path) -> None:
    write(tmp_path, "a/x", "out/index.md", f"earlier/{OUTPUT_MARK}")
    assert [run.folder for run in find(tmp_path, outputs=(tmp_path / "out",))] == ["a"]


def test_a_folder_waits_for_its_quiet_period(tmp_path: Path) -> None:
    write(tmp_path, "a/x")
    (run,) = find(tmp_path, now_ns=time.time_ns())
    assert run.wait_reason == "something in it changed less than 300 s ago"
    assert find(tmp_path, now_ns=time.time_ns() + 301 * NS_PER_S)[0].wait_reason is None


def test_copied_times_do_not_make_a_fresh_copy_quiet(tmp_path: Path) -> None:
    write(tmp_path, "a/x")
    os.utime(tmp_path / "a" / "x", ns=(0, 0))
    (run,) = find(tmp_path, now_ns=time.time_ns())
    assert run.wait_reason is not None


def test_a_folder_waits_for_its_marker(tmp_path: Path) -> None:
    write(tmp_path, "a/x", "b/x", "b/DONE")
    found = find(tmp_path, DiscoveryPolicy(marker="DONE"), now_ns=time.time_ns())
    assert [(run.folder, run.wait_reason) for run in found] == [
        ("a", "the file DONE is not there yet"),
        ("b", None),
    ]


def test_the_fingerprint_follows_names_sizes_and_times(tmp_path: Path) -> None:
    write(tmp_path, "a/x")
    seen = {find(tmp_path)[0].fingerprint}
    assert find(tmp_path)[0].fingerprint in seen
    os.utime(tmp_path / "a" / "x", ns=(5, 5))
    seen.add(find(tmp_path)[0].fingerprint)
    write(tmp_path, "a/y")
    seen.add(find(tmp_path)[0].fingerprint)
    (tmp_path / "a" / "y").rename(tmp_path / "a" / "z")
    seen.add(find(tmp_path)[0].fingerprint)
    assert len(seen) == 4


def test_names_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with open(os.fsencode(tmp_path / "a") + b"/\xff.log", "w", encoding="utf-8") as file:
        file.write("x")
    assert find(tmp_path)[0].file_count == 1


def test_no_root(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="there is no folder"):
        find(tmp_path / "nothing")
