"""Checks of built models: the header tells the truth about the columns, and the key is unique."""

from collections.abc import Iterable
from dataclasses import dataclass

import duckdb

from kvcliff.store.database import quote
from kvcliff.store.dictionary import STORE_TABLES
from kvcliff.store.models import Model, build_models, create_raw_tables, load_macros, load_models, load_seeds


@dataclass(frozen=True)
class CheckFailure:
    """One way in which a built model is not what its header says."""

    model: str
    problem: str


def check_columns(con: duckdb.DuckDBPyConnection, model: Model) -> tuple[CheckFailure, ...]:
    """Return how the columns of a built model differ from its header (names, types, order).

    Args:
        con: connection with the built temporary table or view.
        model: the model.
    """
    described = con.execute(f"describe temp.{quote(model.name)}").fetchall()
    built = [(row[0], row[1]) for row in described]
    stated = [(column.name, column.type) for column in model.columns]
    if built == stated:
        return ()
    built_names, stated_names = [name for name, _ in built], [name for name, _ in stated]
    if built_names != stated_names:
        undocumented = [name for name in built_names if name not in stated_names]
        absent = [name for name in stated_names if name not in built_names]
        detail = (
            f"undocumented {undocumented}, absent {absent}"
            if undocumented or absent
            else f"order is {built_names}"
        )
        return (CheckFailure(model.name, f"columns differ from the header: {detail}"),)
    return tuple(
        CheckFailure(model.name, f"column {name} is {built_type}, the header says {stated_type}")
        for (name, built_type), (_, stated_type) in zip(built, stated, strict=True)
        if built_type != stated_type
    )


def check_key(con: duckdb.DuckDBPyConnection, model: Model) -> tuple[CheckFailure, ...]:
    """Return a failure when rows of a built model share their key (two nulls count as the same)."""
    documented = {column.name for column in model.columns}
    unknown = [name for name in model.key if name not in documented]
    if unknown:
        return (CheckFailure(model.name, f"the key names columns that do not exist: {unknown}"),)
    key = ", ".join(quote(name) for name in model.key)
    row = con.execute(
        f"select count(*) from (select 1 from temp.{quote(model.name)} group by {key} having count(*) > 1)"  # noqa: S608
    ).fetchone()
    count = row[0] if row is not None else 0
    return (
        (CheckFailure(model.name, f"{count} values of the key ({key}) occur more than once"),)
        if count
        else ()
    )


def check_models(
    con: duckdb.DuckDBPyConnection, models: Iterable[Model] | None = None
) -> tuple[CheckFailure, ...]:
    """Return every failure over the built models of a connection, raw tables included."""
    failures: list[CheckFailure] = []
    for model in load_models() if models is None else models:
        failures.extend(check_columns(con, model))
        failures.extend(check_key(con, model))
    return tuple(failures)


def build_empty_run(con: duckdb.DuckDBPyConnection) -> None:
    """Build every model over empty raw tables, which shows that the SQL of this installation is whole.

    Raises:
        ModelError: a model cannot be built.
    """
    create_raw_tables(con)
    for table in STORE_TABLES:
        columns = ", ".join(
            f"{quote(column.name)} {column.type}" for column in table.columns if column.name != "run_id"
        )
        con.execute(f"create or replace temp table {quote(table.name)} ({columns})")
    load_seeds(con)
    load_macros(con)
    build_models(con, skip_empty=False)
