import duckdb
import pytest

from kvcliff.store.checks import build_empty_run, check_columns, check_key, check_models
from kvcliff.store.models import Column, Model


def _model(*columns: tuple[str, str], key: tuple[str, ...] = ("a",)) -> Model:
    documented = tuple(Column(name, kind, "meaning") for name, kind in columns)
    return Model("things", "marts", "select 1", "what", "grain", key, documented, "", frozenset())


@pytest.fixture
def con():  # type: ignore[no-untyped-def]
    with duckdb.connect() as connection:
        connection.execute(
            "create temp table things as select * from (values (1, 'x'), (2, 'y'), (2, 'z')) as t (a, b)"
        )
        yield connection


def test_true_header(con: duckdb.DuckDBPyConnection) -> None:
    assert check_columns(con, _model(("a", "INTEGER"), ("b", "VARCHAR"))) == ()


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ((("a", "INTEGER"),), "undocumented ['b']"),
        ((("a", "INTEGER"), ("b", "VARCHAR"), ("c", "DATE")), "absent ['c']"),
        ((("b", "VARCHAR"), ("a", "INTEGER")), "order is ['a', 'b']"),
        ((("a", "BIGINT"), ("b", "VARCHAR")), "column a is INTEGER, the header says BIGINT"),
    ],
)
def test_false_header(
    columns: tuple[tuple[str, str], ...], words: str, con: duckdb.DuckDBPyConnection
) -> None:
    (failure,) = check_columns(con, _model(*columns))
    assert words in failure.problem


def test_key(con: duckdb.DuckDBPyConnection) -> None:
    columns = (("a", "INTEGER"), ("b", "VARCHAR"))
    assert check_key(con, _model(*columns, key=("a", "b"))) == ()
    (failure,) = check_key(con, _model(*columns, key=("a",)))
    assert failure.problem.startswith("1 values of the key")
    (unknown,) = check_key(con, _model(*columns, key=("c",)))
    assert "do not exist" in unknown.problem


def test_nulls_in_a_key_count_as_equal(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("insert into things values (null, 'n'), (null, 'm')")
    (failure,) = check_key(con, _model(("a", "INTEGER"), ("b", "VARCHAR")))
    assert failure.problem.startswith("2 values of the key")


def test_all_models_build_over_nothing() -> None:
    with duckdb.connect() as con:
        build_empty_run(con)
        assert check_models(con) == ()
