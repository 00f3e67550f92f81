from pathlib import Path

import duckdb
import pytest

from kvcliff.errors import StoreVersionError
from kvcliff.store import migrations
from kvcliff.store.database import SCHEMA_VERSION, open_store, table_names
from kvcliff.store.migrations import MIGRATIONS, Migration, migrate, path_from

STEP_2 = Migration(2, "a column", ("alter table things add column y integer",), is_additive=False)


def write_version_1(path: Path) -> Path:
    """Write a store as version 1 wrote it: no tables of the nightly job."""
    with duckdb.connect(str(path)) as con:
        con.execute("create table kvcliff_meta (schema_version integer, written_by varchar)")
        con.execute("insert into kvcliff_meta values (1, '0.0.9')")
        con.execute("create table runs as select 'a-1' as run_id, 'a' as name")
    return path


def test_every_version_has_a_way_to_this_one() -> None:
    for version in range(1, SCHEMA_VERSION + 1):
        steps = path_from(version, SCHEMA_VERSION)
        assert steps is not None
        assert len(steps) == SCHEMA_VERSION - version


def test_no_way_from_the_future_or_the_unknown() -> None:
    assert path_from(SCHEMA_VERSION + 1, SCHEMA_VERSION) is None
    assert path_from(0, SCHEMA_VERSION) is None
    assert path_from(-(10**30), SCHEMA_VERSION) is None
    assert path_from(1, 3, (STEP_2,)) is None
    assert path_from(1, 3, (*MIGRATIONS, STEP_2)) == (*MIGRATIONS, STEP_2)


def test_a_writer_brings_an_old_store_up_to_date(tmp_path: Path) -> None:
    path = write_version_1(tmp_path / "a.duckdb")
    with open_store(path) as con:
        assert con.execute("select schema_version from kvcliff_meta").fetchall() == [(SCHEMA_VERSION,)]
        assert {"nightly_folders", "nightly_verdicts", "nightly_checks", "retention"} <= table_names(con)
        assert con.execute("select * from runs").fetchall() == [("a-1", "a")]
    with open_store(path, read_only=True) as con:
        assert "retention" in table_names(con)


def test_a_reader_takes_an_old_store_as_it_is(tmp_path: Path) -> None:
    path = write_version_1(tmp_path / "a.duckdb")
    with open_store(path, read_only=True) as con:
        assert con.execute("select schema_version from kvcliff_meta").fetchall() == [(1,)]
        assert "retention" not in table_names(con)


def test_a_reader_refuses_what_only_a_writer_can_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_version_1(tmp_path / "a.duckdb")
    step = Migration(1, "a change of meaning", ("alter table runs add column x integer",), is_additive=False)
    monkeypatch.setattr(migrations.path_from, "__defaults__", ((step,),))
    with pytest.raises(StoreVersionError, match="has schema version 1") as caught:
        open_store(path, read_only=True)
    assert caught.value.hint == "any writing command updates it"
    open_store(path).close()
    open_store(path, read_only=True).close()


def test_a_failing_step_changes_nothing(tmp_path: Path) -> None:
    path = write_version_1(tmp_path / "a.duckdb")
    broken = Migration(2, "broken", ("alter table nobody add column x integer",), is_additive=True)
    with duckdb.connect(str(path)) as con:
        with pytest.raises(duckdb.Error):
            migrate(con, (*MIGRATIONS, broken))
        assert con.execute("select schema_version from kvcliff_meta").fetchall() == [(1,)]
        assert table_names(con) == {"kvcliff_meta", "runs"}
