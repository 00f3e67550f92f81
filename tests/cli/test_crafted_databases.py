"""Databases that something else than kvcliff wrote or changed: a sentence and a way on, never a bug."""

import json
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from builders_cli import Invoke
from kvcliff.cli.doctor_cmd import database_fault

VIEW = "drop table {0}; create table q as select 1 as x; create view {0} as select * from q; drop table q"
#: What was done to a database, and what the sentence says of it.
CHANGES = {
    "findings_gone": ("drop table findings", "its table findings is missing"),
    "sources_gone": ("drop table sources", "its table sources is missing"),
    "clocks_gone": ("drop table clocks", "its table clocks is missing"),
    "other_type": (
        "alter table runs alter started_at_ns type varchar; update runs set started_at_ns = 'x'",
        "runs.started_at_ns is VARCHAR, not BIGINT",
    ),
    "column_gone": ("alter table runs drop column labels", "its table runs lacks the column labels"),
    "blob_for_text": (
        "alter table runs alter name type blob using name::blob",
        "runs.name is BLOB, not VARCHAR",
    ),
    "nothing_but_names": (
        "update runs set status = null, file_count = null, level_count = null",
        "its table runs holds a run of an unknown status",
    ),
    "no_json": ("update findings set evidence = '{not json'", "evidence that is no JSON list"),
    "deep_json": (
        "update findings set evidence = repeat('[', 100000) || repeat(']', 100000)",
        "evidence that is no JSON list",
    ),
    "no_list": ("update findings set evidence = '7'", "evidence that is no JSON list"),
    "no_words": (
        "update findings set finding = null, summary = null",
        "an answer without number, name or summary",
    ),
    "other_words": ("update findings set verdict = 'maybe', severity = 'terrible'", "an unknown verdict"),
    "no_number": ("update findings set confidence = 'nan'", "a confidence outside of 0 to 1"),
    "dead_view": (VIEW.format("findings"), "findings is a view"),
    "view_of_a_file": (
        "drop table findings; create view findings as select content as run_id from read_text('/etc/passwd')",
        "findings is a view",
    ),
    "shadowed_function": ("create macro sum(x) as error('shadow')", "it holds a function of its own, sum"),
    "shadowed_rounding": ("create macro round(x) as 7", "it holds a function of its own, round"),
    "rows_gone": ("delete from thresholds", "the run has no threshold named"),
    "no_version": ("update kvcliff_meta set schema_version = null", "has schema version None"),
    "version_as_text": (
        "drop table kvcliff_meta; create table kvcliff_meta as select 'two' as schema_version, 7 written_by",
        "has schema version two",
    ),
    "other_meta": (
        "drop table kvcliff_meta; create table kvcliff_meta as select 1 as x",
        "cannot be prepared",
    ),
    "newer": ("update kvcliff_meta set schema_version = 99, written_by = '9.0'", "has schema version 99"),
}
LIST, SHOW = ("runs", "list"), ("runs", "show", "easy")
REPORT = ("report", "easy", "-o", "out")
EXPORT = ("export", "easy", "--bundle", "b.zip", "--perfetto", "t.pftrace")
#: The commands that met it, where it is not the quickest one.
MEETS = {
    "sources_gone": (SHOW, EXPORT),
    "clocks_gone": (SHOW,),
    "other_type": (LIST, SHOW, EXPORT),
    "no_json": (REPORT,),
    "deep_json": (REPORT,),
    "no_list": (REPORT,),
    "no_words": (SHOW, REPORT),
    "other_words": (REPORT,),
    "no_number": (REPORT,),
    "dead_view": (SHOW,),
    "view_of_a_file": (SHOW, REPORT),
    "findings_gone": (SHOW, REPORT),
    "shadowed_function": (LIST, REPORT, ("runs", "compact")),
    "rows_gone": (EXPORT,),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_database_is_a_sentence(change: str, stored: Invoke) -> None:
    statements, words = CHANGES[change]
    with closing(duckdb.connect("kvcliff.duckdb")) as con:
        con.execute(statements)
    for arguments in MEETS.get(change, (LIST,)):
        result = stored(*arguments)
        assert result.exit_code in (0, 1), (arguments, result.stderr, result.exception)
        assert "root:" not in result.stdout + result.stderr
        if result.exit_code == 1:
            sentence, hint = result.stderr.splitlines()[-2:]
            assert words in sentence
            assert hint.startswith("  hint: ")
    if change != "rows_gone":
        fault = database_fault(Path("kvcliff.duckdb"))
        assert fault is not None
        assert words in fault.message


def test_the_sentence_in_json(stored: Invoke) -> None:
    with closing(duckdb.connect("kvcliff.duckdb")) as con:
        con.execute("drop table findings")
    result = stored("runs", "show", "easy", "--format=json")
    (error,) = json.loads(result.stdout)["errors"]
    assert (result.exit_code, error["code"]) == (1, "store_error")
    assert error["hint"] == "ingest the runs again into a new --db"


def test_what_kvcliff_wrote_is_sound(stored: Invoke) -> None:
    assert stored("runs", "list").exit_code == 0
    assert database_fault(Path("kvcliff.duckdb")) is None
