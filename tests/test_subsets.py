"""Any part of a run gives a report, and one damaged file costs that file alone."""

import itertools
import json
import os
import random
import shutil
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kvcliff.cli.root import root

SAMPLES = Path(__file__).resolve().parent.parent / "sample_traces"
STORIES = ("gpu_story", "kv_stress")
FILES = {
    story: sorted(path for path in (SAMPLES / story).iterdir() if path.suffix != ".md" and path.is_file())
    for story in STORIES
}
SUBSETS = [
    (story, names)
    for story in STORIES
    for size in range(1, len(FILES[story]))
    for names in itertools.combinations([path.name for path in FILES[story]], size)
]
#: A few of them in `make test`, all of them in `make fuzz`.
FEW = random.Random(3).sample(SUBSETS, 4)


def _diagnose(folder: Path) -> Result:
    arguments = [
        "diagnose",
        str(folder),
        "--db",
        str(folder.parent / "d.duckdb"),
        "-o",
        str(folder.parent / "o"),
    ]
    return CliRunner().invoke(root, [*arguments, "--format", "json"])


def _copy(story: str, names: tuple[str, ...], folder: Path) -> Path:
    folder.mkdir()
    for name in names:
        shutil.copy(SAMPLES / story / name, folder / name)
    return folder


def _check_subset(story: str, names: tuple[str, ...], tmp_path: Path) -> None:
    result = _diagnose(_copy(story, names, tmp_path / story))
    if names == ("run.toml",):
        assert result.exit_code == 3
        return
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "o" / "report.md").read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize(("story", "names"), FEW, ids=str)
def test_some_subsets_of_a_run_give_a_report(story: str, names: tuple[str, ...], tmp_path: Path) -> None:
    _check_subset(story, names, tmp_path)


@pytest.mark.fuzz
@pytest.mark.parametrize(("story", "names"), SUBSETS, ids=str)
def test_every_subset_of_a_run_gives_a_report(story: str, names: tuple[str, ...], tmp_path: Path) -> None:
    _check_subset(story, names, tmp_path)


@pytest.mark.parametrize(
    ("story", "name"),
    [(story, path.name) for story in STORIES for path in FILES[story] if path.name != "run.toml"],
)
def test_one_damaged_file_is_named_and_the_rest_is_used(story: str, name: str, tmp_path: Path) -> None:
    folder = _copy(story, tuple(path.name for path in FILES[story]), tmp_path / story)
    damaged = folder / name
    content = bytearray(damaged.read_bytes())
    damaged.write_bytes(bytes(content[: len(content) // 3]))
    result = _diagnose(folder)
    assert result.exit_code == 0, result.stderr
    (run,) = json.loads(result.stdout)["data"]["runs"]
    # A third of a JSON file is no JSON any more: it counts as a file of another format, and is named as such.
    assert run["status"] == ("ok" if name == "config.json" else "partial")
    report = (tmp_path / "o" / "report.md").read_text(encoding="utf-8")
    assert name.replace("_", "\\_") in report or name in report


def _overwritten(content: bytes) -> bytes:
    middle = len(content) // 2
    return (
        content[:middle]
        + bytes(byte ^ 0x5A for byte in content[middle : middle + 400])
        + content[middle + 400 :]
    )


#: What may happen to a file beside a cut: bad blocks on a disk, a wrong copy, no copy at all.
DAMAGES = {
    "overwritten": _overwritten,
    "garbage": lambda content: bytes(range(256)) * 40,
    "empty": lambda _: b"",
}


@pytest.mark.fuzz
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("story", "name"),
    [(story, path.name) for story in STORIES for path in FILES[story] if path.name != "run.toml"],
)
def test_any_damage_to_one_file_is_named(story: str, name: str, damage: str, tmp_path: Path) -> None:
    folder = _copy(story, tuple(path.name for path in FILES[story]), tmp_path / story)
    (folder / name).write_bytes(DAMAGES[damage]((folder / name).read_bytes()))
    result = _diagnose(folder)
    assert result.exit_code == 0, result.stderr
    report = (tmp_path / "o" / "report.md").read_text(encoding="utf-8")
    assert name.replace("_", "\\_") in report or name in report
    (run,) = json.loads(result.stdout)["data"]["runs"]
    assert run["status"] == ("partial" if damage == "overwritten" and name != "config.json" else "ok")


def _replace_by_link(path: Path) -> None:
    path.rename(path.parent.parent / path.name)
    path.symlink_to(path.parent.parent / path.name)


#: What may stand in the place of a file. An empty folder is nothing; the others are named.
REPLACEMENTS = {
    "folder": Path.mkdir,
    "link": _replace_by_link,
    "circle": lambda path: path.symlink_to(path),
    "pipe": os.mkfifo,
    "socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
}


def _check_replacement(story: str, name: str, kind: str, tmp_path: Path) -> None:
    folder = _copy(story, tuple(path.name for path in FILES[story]), tmp_path / story)
    if kind != "link":
        (folder / name).unlink()
    REPLACEMENTS[kind](folder / name)
    result = _diagnose(folder)
    assert result.exit_code == 0, result.stderr
    (run,) = json.loads(result.stdout)["data"]["runs"]
    report = (tmp_path / "o" / "report.md").read_text(encoding="utf-8")
    if kind != "folder":
        assert run["status"] == "partial"
        assert name.replace("_", "\\_") in report or name in report


@pytest.mark.parametrize("kind", REPLACEMENTS)
def test_what_is_no_file_is_named_and_left_alone(kind: str, tmp_path: Path) -> None:
    _check_replacement("kv_stress", "server.log.gz", kind, tmp_path)


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", REPLACEMENTS)
@pytest.mark.parametrize(
    ("story", "name"),
    [(story, path.name) for story in STORIES for path in FILES[story] if path.name != "run.toml"],
)
def test_any_file_may_be_replaced_by_what_is_none(story: str, name: str, kind: str, tmp_path: Path) -> None:
    _check_replacement(story, name, kind, tmp_path)


LINES = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "serving_lines"


@pytest.mark.skipif(not LINES.is_dir(), reason="the corpus of recordings is not there")
def test_lines_of_every_producer_in_one_folder_give_a_report(tmp_path: Path) -> None:
    """Some of them carry no time at all."""
    folder = tmp_path / "run"
    folder.mkdir()
    for path in LINES.iterdir():
        if ".expected." not in path.name and path.suffix != ".md":
            shutil.copy(path, folder)
    result = _diagnose(folder)
    assert result.exit_code == 0, result.stderr
