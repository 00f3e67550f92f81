"""Frames reach DuckDB as Arrow streams."""

import subprocess
import sys

import duckdb
import polars as pl

from kvcliff.arrow import ArrowStream


def test_every_kind_of_column_arrives():
    frame = pl.DataFrame(
        {
            "id": [1, None, 2**63 + 1],
            "text": ["a", "ä" * 40, None],
            "share": [0.5, None, 1.0],
            "ok": [True, False, None],
        },
        schema={"id": pl.UInt64, "text": pl.String, "share": pl.Float64, "ok": pl.Boolean},
    )
    with duckdb.connect() as con:
        con.register("frame", ArrowStream(frame))
        assert con.execute("select * from frame").fetchall() == frame.rows()


def test_rows_can_be_asked_for_more_than_once():
    with duckdb.connect() as con:
        con.register("frame", ArrowStream(pl.DataFrame({"id": [1, 2]})))
        sql = "select sum(a.id) from frame as a cross join frame as b"
        assert con.execute(sql).fetchone() == (6,)
        assert con.execute(sql).fetchone() == (6,)


def test_pyarrow_is_not_imported():
    script = (
        "import sys, duckdb, polars\n"
        "from kvcliff.clocks.events import query_frame\n"
        "from kvcliff.store.ingest import FrameSink\n"
        "con = duckdb.connect()\n"
        "con.execute('create temp table things (source_id integer, x bigint)')\n"
        "FrameSink(con, 7).append('things', polars.DataFrame({'x': [1, 2]}))\n"
        "print(query_frame(con, 'select * from things where x > ?', [1]).rows())\n"
        "print('pyarrow' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.split("\n")[:2] == ["[(7, 2)]", "False"]
