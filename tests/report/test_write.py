import os

import pytest

from builders_report import swap_story
from kvcliff.errors import OutputError, StoreError
from kvcliff.report.write import write_report
from kvcliff.store.database import store_tables

RUN_ID = "night_load-12345678"
NAMES = ["figures", "figures/kv_and_latency.png", "figures/kv_and_latency.svg", "report.json", "report.md"]


@pytest.fixture(scope="module")
def store():
    con = swap_story()
    names = [
        row[0] for row in con.execute("select table_name from duckdb_tables() where temporary").fetchall()
    ]
    store_tables(con, RUN_ID, sorted(names))
    for name in names:
        con.execute(f"drop table temp.{name}")
    return con


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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder(store, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="cannot write the report"):
        write_report(store, RUN_ID, tmp_path)


def test_unknown_run(store, tmp_path):
    with pytest.raises(StoreError, match="no run nothing"):
        write_report(store, "nothing", tmp_path)
