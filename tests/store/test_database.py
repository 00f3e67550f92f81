import re
from pathlib import Path

import duckdb
import pytest

from kvcliff import __version__
from kvcliff.errors import StoreError, StoreLockedError, StoreVersionError
from kvcliff.store.database import (
    SCHEMA_VERSION,
    expose_run,
    lift_memory_limit,
    open_store,
    quote,
    store_tables,
    stored_table,
    table_names,
)


def _stage(con: duckdb.DuckDBPyConnection, name: str, values: list[int], column: str = "x") -> None:
    con.execute(
        f"create or replace temp table {quote(name)} as select unnest(?::integer[]) as {quote(column)}",
        [values],
    )


def test_a_new_store_carries_its_version(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.duckdb") as con:
        assert con.execute("select * from kvcliff_meta").fetchall() == [(SCHEMA_VERSION, __version__)]
    with open_store(tmp_path / "a.duckdb", read_only=True) as con:
        assert table_names(con) == {
            "kvcliff_meta",
            "nightly_checks",
            "nightly_folders",
            "nightly_verdicts",
            "retention",
        }


def test_reading_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no database"):
        open_store(tmp_path / "a.duckdb", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_creating_leaves_nothing_else(tmp_path: Path) -> None:
    open_store(tmp_path / "a.duckdb").close()
    assert [path.name for path in tmp_path.iterdir()] == ["a.duckdb"]


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, 0])
def test_other_schema_versions_are_refused_with_a_way_on(version: int, tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    open_store(path).close()
    with duckdb.connect(str(path)) as con:
        con.execute("update kvcliff_meta set schema_version = ?", [version])
    with pytest.raises(StoreVersionError, match=f"has schema version {version}") as caught:
        open_store(path)
    expected = "upgrade kvcliff" if version > SCHEMA_VERSION else "ingest the runs again into a new --db"
    assert caught.value.hint == expected


def test_two_writers_in_one_process_share_or_fail_clearly(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with open_store(path), pytest.raises((StoreLockedError, StoreError)):
        open_store(path, read_only=True)


def test_storing_replaces_the_run_and_leaves_others(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.duckdb") as con:
        for run_id, values in (("one", [1, 2]), ("two", [3]), ("one", [9])):
            _stage(con, "things", values)
            store_tables(con, run_id, ["things"])
        rows = con.execute(f"select run_id, x from {stored_table(con, 'things')} order by all").fetchall()
    assert rows == [("one", 9), ("two", 3)]


def test_storing_deletes_replaced_runs_in_the_same_transaction(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.duckdb") as con:
        _stage(con, "things", [1])
        store_tables(con, "old", ["things"])
        store_tables(con, "new", ["things"], replaces=["old"])
        assert con.execute(f"select run_id from {stored_table(con, 'things')}").fetchall() == [("new",)]


def test_a_table_that_the_new_run_lacks_loses_the_old_rows(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.duckdb") as con:
        _stage(con, "things", [1])
        _stage(con, "extras", [1])
        store_tables(con, "run", ["things", "extras"])
        store_tables(con, "run", ["things"])
        assert con.execute(f"select count(*) from {stored_table(con, 'extras')}").fetchone() == (0,)


def test_columns_may_grow(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.duckdb") as con:
        _stage(con, "things", [1])
        store_tables(con, "old", ["things"])
        con.execute("create or replace temp table things as select 2 as x, 'new' as word")
        store_tables(con, "new", ["things"])
        assert con.execute(f"select x, word from {stored_table(con, 'things')} order by x").fetchall() == [
            (1, None),
            (2, "new"),
        ]


def test_a_failing_table_stores_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.duckdb") as con:
        _stage(con, "things", [1])
        store_tables(con, "run", ["things"])
        con.execute("create or replace temp table things as select 'text' as x")
        with pytest.raises(StoreError, match="could not take the run") as caught:
            store_tables(con, "run", ["things"])
        assert "nothing of the run was stored" in str(caught.value.hint)
        assert con.execute(f"select x from {stored_table(con, 'things')}").fetchall() == [(1,)]


def test_exposed_run_shows_its_rows_only(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.duckdb") as con:
        for run_id, values in (("it's one", [1]), ("two", [2, 3])):
            _stage(con, "things", values)
            store_tables(con, run_id, ["things"])
        con.execute("drop table temp.things")
        expose_run(con, "it's one", ["things", "never_stored"])
        assert con.execute("select * from things").fetchall() == [(1,)]


def test_read_only_store_is_locked_in(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    open_store(path).close()
    (tmp_path / "other.csv").write_text("a\n1\n", encoding="utf-8")
    with open_store(path, read_only=True) as con:
        for statement in ("set enable_external_access = true", "create table x (a integer)"):
            with pytest.raises(duckdb.Error):
                con.execute(statement)
        with pytest.raises(duckdb.Error, match=r"(?i)disabled"):
            con.execute("select * from read_csv(?)", [str(tmp_path / "other.csv")])


@pytest.mark.parametrize("size", ["", "lots", "1GB'; drop table kvcliff_meta; --", "-1GB"])
def test_memory_limit_must_be_a_size(size: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=re.escape("--memory-limit")):
        open_store(tmp_path / "a.duckdb", memory_limit=size)


def test_memory_limit_is_set(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.duckdb", memory_limit="512MiB") as con:
        assert con.execute("select current_setting('memory_limit')").fetchone() == ("512.0 MiB",)


def test_memory_has_a_limit_of_our_own_that_can_be_lifted(tmp_path: Path) -> None:
    question = "select parse_formatted_bytes(current_setting('memory_limit'))"
    with duckdb.connect() as free, open_store(tmp_path / "a.duckdb") as con:
        engines_own = free.execute(question).fetchall()
        limit = con.execute(question).fetchall()[0][0]
        assert limit <= 2 << 30
        assert lift_memory_limit(con) == (limit < engines_own[0][0])
        assert con.execute(question).fetchall() == engines_own
        assert not lift_memory_limit(con)


def test_a_memory_limit_that_was_given_is_not_lifted(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.duckdb", memory_limit="512MiB") as con:
        assert not lift_memory_limit(con)
        assert con.execute("select current_setting('memory_limit')").fetchone() == ("512.0 MiB",)


def _threads(con: duckdb.DuckDBPyConnection) -> object:
    row = con.execute("select current_setting('threads')").fetchone()
    return None if row is None else row[0]


def test_storing_leaves_the_number_of_threads_as_it_was(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.duckdb") as con:
        con.execute("set threads = 3")
        _stage(con, "things", [1])
        store_tables(con, "run", ["things"])
        assert _threads(con) == 3
        with pytest.raises(StoreError):
            store_tables(con, "run", ["things", "never_staged"])
        assert _threads(con) == 3
        assert con.execute(f"select run_id, x from {stored_table(con, 'things')}").fetchall() == [("run", 1)]


def test_views_of_a_user_that_carry_a_run_id_are_left_alone(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.duckdb") as con:
        _stage(con, "things", [1])
        store_tables(con, "one", ["things"])
        con.execute("drop table temp.things")
        con.execute(f"create view main.mine as select run_id, x from {stored_table(con, 'things')}")
        _stage(con, "things", [2])
        store_tables(con, "two", ["things"])
        con.execute("drop table temp.things")
        assert con.execute("select run_id from mine order by run_id").fetchall() == [("one",), ("two",)]


def test_staged_rows_are_not_rewritten_while_they_grow(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.duckdb") as con:
        assert con.execute("select current_setting('checkpoint_threshold')").fetchone() == ("931.3 GiB",)


def test_a_stored_run_is_in_the_file_and_not_in_its_log(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with open_store(path) as con:
        _stage(con, "things", list(range(1000)))
        store_tables(con, "run", ["things"])
        log = path.with_name(path.name + ".wal")
        assert not log.exists() or log.stat().st_size == 0
