from pathlib import Path
from types import SimpleNamespace

import duckdb
import pytest

from kvcliff.errors import StoreError, StoreLockedError
from kvcliff.store import compaction
from kvcliff.store.compaction import compact, compact_when_loose, file_use
from kvcliff.store.database import open_store

ROWS = 400_000


@pytest.fixture
def loose(tmp_path: Path) -> Path:
    """A store of which most was removed."""
    path = tmp_path / "a.duckdb"
    with open_store(path) as con:
        con.execute(f"create table things as select range as run_id, hash(range) as x from range({ROWS})")
        con.execute("checkpoint")
        con.execute("delete from things where run_id > 99")
        con.execute("checkpoint")
    return path


def test_the_file_gets_small_and_keeps_everything(loose: Path) -> None:
    before = loose.stat().st_size
    done = compact(loose)
    assert done.before_bytes >= before > 3_000_000
    assert done.after_bytes == loose.stat().st_size < before / 2
    with open_store(loose) as con:
        assert con.execute("select count(*), sum(run_id) from things").fetchall() == [(100, 4950)]
        assert con.execute("select count(*) from kvcliff_meta").fetchall() == [(1,)]
        assert file_use(con).free_ratio < 0.5
    assert [path.name for path in loose.parent.iterdir()] == [loose.name]


def test_a_leftover_of_a_crash_does_not_matter(loose: Path) -> None:
    (loose.parent / "a.duckdb.compact").write_bytes(b"half a file")
    compact(loose)
    with open_store(loose, read_only=True) as con:
        assert con.execute("select count(*) from things").fetchall() == [(100,)]


def test_without_room_nothing_happens(loose: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = loose.read_bytes()
    monkeypatch.setattr(compaction.shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(StoreError, match="no room to compact"):
        compact(loose)
    assert loose.read_bytes() == before


def test_a_store_in_use_is_left_alone(loose: Path) -> None:
    with duckdb.connect(str(loose), read_only=True), pytest.raises((StoreLockedError, StoreError)):
        compact(loose)


def test_only_loose_files_are_compacted(loose: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compact_when_loose(loose, None) is None
    assert compact_when_loose(loose, 0.5) is None, "a few MiB are not worth it"
    monkeypatch.setattr(compaction, "_MIN_FREE_BYTES", 1)
    assert compact_when_loose(loose, 0.99) is None
    assert compact_when_loose(loose, 0.2) is not None
