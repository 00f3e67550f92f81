"""Any part of a run gives a report, and one damaged file costs that file alone."""

import itertools
import json
import random
import shutil
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
