from pathlib import Path

import duckdb

from kvcliff.store.catalog import NS_PER_DAY
from kvcliff.store.database import open_store, store_tables
from kvcliff.store.retention import remove_raw, runs_with_old_raw

NOW = 1_800_000_000_000_000_000


def store(con: duckdb.DuckDBPyConnection, run_id: str, age_days: float) -> None:
    con.execute(
        "create or replace temp table runs as select ?::bigint as ingested_at_ns",
        [NOW - int(age_days * NS_PER_DAY)],
    )
    con.execute("create or replace temp table raw_log_stats as select 1 as x")
    con.execute("create or replace temp table indicators as select 2 as y")
    store_tables(con, run_id, ["runs", "raw_log_stats", "indicators"])
    for name in ("runs", "raw_log_stats", "indicators"):
        con.execute(f"drop table temp.{name}")


def test_raw_rows_go_and_marts_stay(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.duckdb") as con:
        store(con, "old", 31)
        store(con, "new", 29)
        doomed = runs_with_old_raw(con, older_than_days=30, now_ns=NOW)
        assert doomed == ("old",)
        remove_raw(con, doomed, now_ns=NOW)
        assert con.execute("select run_id from raw_log_stats").fetchall() == [("new",)]
        assert con.execute("select run_id from indicators order by 1").fetchall() == [("new",), ("old",)]
        assert runs_with_old_raw(con, older_than_days=30, now_ns=NOW) == ()
        assert con.execute("select * from retention").fetchall() == [("old", NOW)]


def test_a_run_that_is_stored_again_has_its_raw_rows_again(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.duckdb") as con:
        store(con, "old", 31)
        remove_raw(con, ("old",), now_ns=NOW)
        store(con, "old", 0)
        assert con.execute("select run_id from raw_log_stats").fetchall() == [("old",)]
        assert con.execute("select * from retention").fetchall() == []


def test_an_empty_store_has_nothing_old(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.duckdb") as con:
        assert runs_with_old_raw(con, older_than_days=0, now_ns=NOW) == ()
        remove_raw(con, (), now_ns=NOW)
