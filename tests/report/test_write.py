import errno
import os
from pathlib import Path

import pytest

from builders_report import stored_story
from kvcliff.errors import OutputError, StoreError
from kvcliff.report.write import ReportOptions, write_report

RUN_ID = "night_load-12345678"
NAMES = ["figures", "figures/kv_and_latency.png", "figures/kv_and_latency.svg", "report.json", "report.md"]


@pytest.fixture(scope="module")
def store():
    return stored_story(RUN_ID)


def _listing(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_report_of_a_stored_run(store, tmp_path):
    written = write_report(store, RUN_ID, tmp_path / "a" / "report")
    assert _listing(written.folder) == NAMES
    assert written.content.verdict.finding == "hit_but_slow"
    text = written.markdown.read_text(encoding="utf-8")
    assert "](figures/kv_and_latency.svg)" in text
    assert str(tmp_path) not in text


def test_same_run_again_gives_the_same_bytes(store, tmp_path):
    written = write_report(store, RUN_ID, tmp_path / "r")
    first = {name: (tmp_path / "r" / name).read_bytes() for name in NAMES if "." in name}
    write_report(store, RUN_ID, tmp_path / "r")
    assert {name: (tmp_path / "r" / name).read_bytes() for name in first} == first
    assert _listing(written.folder) == NAMES


def test_other_content_is_refused_and_left_alone(store, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"holds other files \(notes.txt\)"):
        write_report(store, RUN_ID, tmp_path)
    assert _listing(tmp_path) == ["notes.txt"]
    write_report(store, RUN_ID, tmp_path, force=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "report.md").is_file()


def test_report_that_is_not_ours_is_refused(store, tmp_path):
    (tmp_path / "report.md").write_text("# Mine")
    with pytest.raises(OutputError, match="none that kvcliff wrote"):
        write_report(store, RUN_ID, tmp_path)
    assert (tmp_path / "report.md").read_text() == "# Mine"


def test_report_of_another_run_is_refused(store, tmp_path):
    write_report(store, RUN_ID, tmp_path)
    text = (tmp_path / "report.json").read_text().replace('"name": "night_load"', '"name": "day_load"')
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(OutputError, match="another run"):
        write_report(store, RUN_ID, tmp_path)


def test_link_in_the_folder_is_replaced_not_followed(store, tmp_path):
    victim = tmp_path / "victim.txt"
    victim.write_text("precious")
    folder = tmp_path / "r"
    write_report(store, RUN_ID, folder)
    (folder / "report.md").unlink()
    (folder / "report.md").symlink_to(victim)
    write_report(store, RUN_ID, folder)
    assert victim.read_text() == "precious"


def test_target_that_is_a_file(store, tmp_path):
    (tmp_path / "f").write_text("x")
    with pytest.raises(OutputError, match="is a file"):
        write_report(store, RUN_ID, tmp_path / "f")


def test_folder_that_cannot_be_made(store, tmp_path):
    (tmp_path / "f").write_text("x")
    with pytest.raises(OutputError, match="cannot write the report"):
        write_report(store, RUN_ID, tmp_path / "f" / "below")


@pytest.mark.parametrize("is_there", [False, True])
def test_a_full_disk_leaves_what_was_there_and_the_next_try_works(store, tmp_path, monkeypatch, is_there):
    folder = tmp_path / "r"
    if is_there:
        write_report(store, RUN_ID, folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    real = Path.write_bytes

    def full(path, data):
        if path.name == ".report.json.part":
            real(path, data[:10])
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(OutputError, match="No space left on device") as caught:
            write_report(store, RUN_ID, folder)
    assert caught.value.hint.startswith("check free disk space")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert folder.exists() is is_there
    assert write_report(store, RUN_ID, folder).markdown.is_file()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder(store, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="cannot write the report"):
        write_report(store, RUN_ID, tmp_path)


def test_unknown_run(store, tmp_path):
    with pytest.raises(StoreError, match="no run nothing"):
        write_report(store, "nothing", tmp_path)


def test_one_html_file_with_its_images_inside(store, tmp_path):
    written = write_report(store, RUN_ID, tmp_path / "r", options=ReportOptions(is_self_contained=True))
    assert _listing(written.folder) == sorted([*NAMES, "report.html"])
    text = written.html.read_text(encoding="utf-8")
    assert "data:image/svg+xml;base64," in text
    assert str(tmp_path) not in text


def test_what_this_report_lacks_does_not_lie_around_from_the_last_one(store, tmp_path):
    write_report(store, RUN_ID, tmp_path / "r", options=ReportOptions(is_self_contained=True))
    written = write_report(store, RUN_ID, tmp_path / "r")
    assert _listing(written.folder) == NAMES
    assert written.html is None


def test_files_of_others_are_not_removed(store, tmp_path):
    (tmp_path / "report.html").write_text("mine")
    write_report(store, RUN_ID, tmp_path, force=True)
    assert (tmp_path / "report.html").read_text() == "mine"


def test_an_incident_gets_a_short_report(store, tmp_path):
    long = write_report(store, RUN_ID, tmp_path / "long").markdown.read_text(encoding="utf-8")
    options = ReportOptions(audience="incident")
    short = write_report(store, RUN_ID, tmp_path / "short", options=options).markdown.read_text(
        encoding="utf-8"
    )
    titles = [line.removeprefix("## ") for line in short.splitlines() if line.startswith("## ")]
    assert titles == [
        "Swap points",
        "SLO before, during and after",
        "What to do",
        "What could not be told",
        "Where this comes from",
    ]
    assert len(short) < len(long) / 2
    assert "](figures/kv_and_latency.svg)" in short
