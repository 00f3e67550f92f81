import duckdb
import pytest

from kvcliff.findings.diagnosis import run_findings
from kvcliff.store import ingest
from kvcliff.store.dictionary import (
    STATE_TABLES,
    STORE_TABLES,
    find_table,
    private_tables,
    render_dictionary,
    stored_tables,
)
from kvcliff.store.migrations import STATE_DDL
from kvcliff.store.models import load_models, load_seeds, mart_names, raw_names
from kvcliff.store.run_tables import RUN_TABLES


def test_store_tables_are_those_that_the_store_writes() -> None:
    assert [table.name for table in STORE_TABLES] == list(RUN_TABLES)


@pytest.mark.parametrize("table", STORE_TABLES, ids=lambda table: table.name)
def test_store_tables_are_documented_as_they_are(table) -> None:  # type: ignore[no-untyped-def]
    with duckdb.connect() as con:
        for name in ("_SOURCES_DDL", "_CLOCKS_DDL", "_RUNS_DDL", "FINDINGS_DDL"):
            con.execute(getattr(ingest, name))
        load_seeds(con)
        built = [(row[0], row[1]) for row in con.execute(f"describe temp.{table.name}").fetchall()]
    assert [(column.name, column.type) for column in table.columns[1:]] == built
    assert table.columns[0].name == "run_id"


def test_everything_stored_is_listed_once() -> None:
    names = [table.name for table in stored_tables()]
    state = [table.name for table in STATE_TABLES]
    assert sorted(names) == sorted({*RUN_TABLES, *state, *mart_names(), *raw_names()})


@pytest.mark.parametrize("table", STATE_TABLES, ids=lambda table: table.name)
def test_state_tables_are_documented_as_they_are(table) -> None:  # type: ignore[no-untyped-def]
    with duckdb.connect() as con:
        for statement in STATE_DDL:
            con.execute(statement)
        built = [(row[0], row[1]) for row in con.execute(f"describe {table.name}").fetchall()]
    assert [(column.name, column.type) for column in table.columns] == built


def test_private_models_are_the_rest() -> None:
    names = {table.name for table in (*stored_tables(), *private_tables())}
    state = {table.name for table in STATE_TABLES}
    assert names == {model.name for model in load_models()} | set(RUN_TABLES) | state


def test_keys_of_stored_tables_begin_with_the_run() -> None:
    assert all(table.key[0] == "run_id" or table.name == "nightly_folders" for table in stored_tables())
    assert find_table("stg_sources") is not None
    assert find_table("nothing") is None


def test_dictionary_text_is_complete_and_stable() -> None:
    text = render_dictionary()
    assert text == render_dictionary()
    assert all(f"### {name}\n" in text for name in mart_names())


def test_findings_write_the_documented_table() -> None:
    assert callable(run_findings)
