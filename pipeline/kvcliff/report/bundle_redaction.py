"""A run without its private text: its tables replaced by copies in which only allowed text is left."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import duckdb

from kvcliff.report.bundle_columns import LEFT_OUT, OPEN_SETTINGS, Treatment, treatment_of
from kvcliff.report.content import is_synthetic
from kvcliff.store.database import quote

#: What stands for the name of the run.
RUN_NAME = "run"
_PLAIN_TYPES = re.compile(
    r"(TINY|SMALL|BIG|HUGE|U|UTINY|USMALL|UBIG|UHUGE)?(INT|INTEGER)|DOUBLE|FLOAT|BOOLEAN|DECIMAL.*"
)
#: One slash at most, before a unit: no path is a word.
_WORD = re.compile(r"[A-Za-z0-9%][A-Za-z0-9_ ,.%+:()-]{0,120}(/[a-z]{1,10})?")
_PRODUCT = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._()/+-]{0,60}")
_HASH = re.compile(r"[0-9a-f]{64}")
_NUMBER = re.compile(r"-?[0-9]+([.][0-9]+)?")
#: A level may be a path with the load in it; a replica may be an address, whose port says too much.
_LEVEL_NUMBER = re.compile(r"[^0-9]*([0-9]+(?:[.][0-9]+)?)[^0-9]*")
_REPLICA_NUMBER = re.compile(r"[A-Za-z]{0,12}[ _=-]?([0-9]+)")
_OPEN_VALUES = frozenset(("true", "false", "auto", "none"))
#: A shorter name is a common word more often than a private one.
_MIN_PRIVATE = 5

Write = Callable[[str], str | None]


@dataclass(frozen=True)
class RedactedTable:
    """One table after redaction.

    Attributes:
        name: its name.
        columns: columns that are left.
        dropped: columns whose text did not leave the run.
    """

    name: str
    columns: tuple[str, ...]
    dropped: tuple[str, ...]


@dataclass
class _Names:
    """What the names of this run become."""

    paths: dict[str, str] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)
    replicas: dict[str, str] = field(default_factory=dict)
    scopes: dict[str, str] = field(default_factory=dict)
    known_kernels: frozenset[str] = frozenset()
    kernels: dict[str, str] = field(default_factory=dict)
    private: tuple[str, ...] = ()


def redact_run(con: duckdb.DuckDBPyConnection) -> tuple[RedactedTable, ...]:
    """Replace the exposed tables of a run by redacted temporary ones and return what is left of each.

    Args:
        con: connection on which the run is exposed as temporary views.
    """
    tables = _exposed(con)
    names = _read_names(con, tables)
    redacted = tuple(_redact_table(con, table, columns, names) for table, columns in sorted(tables.items()))
    for table in redacted:
        con.execute(f"drop view temp.{quote(table.name)}")
        con.execute(f"alter table temp.{quote(_copy_name(table.name))} rename to {quote(table.name)}")
    con.execute("update temp.runs set name = ?", [RUN_NAME])
    return redacted


def _copy_name(table: str) -> str:
    return f"redacted_{table}"


def _exposed(con: duckdb.DuckDBPyConnection) -> dict[str, dict[str, str]]:
    """Return type by column of every temporary view."""
    rows = con.execute(
        """
        select views.view_name, columns.column_name, columns.data_type
        from duckdb_views() as views
        inner join duckdb_columns() as columns
            on views.view_name = columns.table_name and columns.database_name = 'temp'
        where views.temporary and not views.internal
        order by views.view_name, columns.column_index
        """
    ).fetchall()
    found: dict[str, dict[str, str]] = {}
    for table, column, kind in rows:
        found.setdefault(table, {})[column] = kind
    return found


def _read_names(con: duckdb.DuckDBPyConnection, tables: dict[str, dict[str, str]]) -> _Names:
    names = _Names()
    names.paths = _path_names(con)
    sweeps = enumerate(sorted(_distinct(con, tables, "sweep")), start=1)
    names.levels = {sweep: f"folder-{number}" for number, sweep in sweeps}
    names.levels |= _numbered(_distinct(con, tables, "level"), "level", _LEVEL_NUMBER)
    names.replicas = _numbered(_distinct(con, tables, "replica_id", "replica"), "replica", _REPLICA_NUMBER)
    scopes = [row[0] for row in con.execute("select distinct scope from settings").fetchall() if row[0]]
    names.scopes = {scope: f"scope-{number}" for number, scope in enumerate(sorted(scopes), start=1)}
    names.known_kernels, names.kernels = _kernel_names(con, tables)
    names.private = _private_texts(con, names)
    return names


def _distinct(con: duckdb.DuckDBPyConnection, tables: dict[str, dict[str, str]], *columns: str) -> set[str]:
    found: set[str] = set()
    for table, present in tables.items():
        for column in columns:
            if present.get(column) == "VARCHAR":
                rows = con.execute(f"select distinct {quote(column)} from {quote(table)}").fetchall()  # noqa: S608
                found.update(row[0] for row in rows if row[0] is not None)
    return found


def _path_names(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return what each file is called: its role and its number."""
    rows = con.execute(
        "select path, coalesce(role, 'file'), source_id from sources order by source_id"
    ).fetchall()
    return {path: path if path == "run.toml" else f"{role}-{source_id}" for path, role, source_id in rows}


def _numbered(labels: Iterable[str], word: str, pattern: re.Pattern[str]) -> dict[str, str]:
    """Return the one number in each label; without one, with several (an address) or taken: counted off."""
    given: dict[str, str] = {}
    for label in sorted(labels, key=lambda label: _label_order(label, pattern)):
        match = pattern.fullmatch(label)
        name = match[1] if match is not None else ""
        given[label] = name if name and name not in given.values() else f"{word}-{len(given) + 1}"
    return given


def _label_order(label: str, pattern: re.Pattern[str]) -> tuple[float, str]:
    match = pattern.fullmatch(label)
    return (float(match[1]) if match is not None else float("inf"), label)


def _kernel_names(
    con: duckdb.DuckDBPyConnection, tables: dict[str, dict[str, str]]
) -> tuple[frozenset[str], dict[str, str]]:
    """Return the short names of kernels that are published, and what the others are called."""
    known: set[str] = set()
    unknown: set[str] = set()
    for table, columns in tables.items():
        if {"short_name", "family"} <= set(columns):
            rows = con.execute(
                f"select distinct short_name, coalesce(family, 'other') from {quote(table)}"  # noqa: S608
            ).fetchall()
            for name, family in rows:
                if name:
                    (unknown if family == "other" else known).add(name)
    others = {name: f"kernel-{number}" for number, name in enumerate(sorted(unknown - known), start=1)}
    return frozenset(known), others


def _private_texts(con: duckdb.DuckDBPyConnection, names: _Names) -> tuple[str, ...]:
    """Return texts of the run that no sentence may repeat, longest first."""
    found = {part for path in names.paths if path != "run.toml" for part in (path, path.rsplit("/", 1)[-1])}
    for name, labels in con.execute("select name, labels from runs").fetchall():
        found.update((name or "", labels or ""))
    found.update(
        value
        for name, value in con.execute("select distinct name, value from settings").fetchall()
        if value and _setting(name, value) is None
    )
    return tuple(
        sorted((text for text in found if len(text) >= _MIN_PRIVATE), key=lambda text: (-len(text), text))
    )


def _redact_table(
    con: duckdb.DuckDBPyConnection, table: str, columns: dict[str, str], names: _Names
) -> RedactedTable:
    """Create the redacted copy of one table beside it."""
    shown: list[str] = []
    dropped: list[str] = []
    expressions: list[str] = []
    for column, kind in columns.items():
        expression = _expression(con, table, column, kind, names)
        (dropped if expression is None else shown).append(column)
        # The column stays, empty: models and report of this version expect it.
        expressions.append(f"{expression or f'cast(null as {kind})'} as {quote(column)}")
    con.execute(
        f"create or replace temp table {quote(_copy_name(table))} as "  # noqa: S608
        f"select {', '.join(expressions)} from {quote(table)} as original"
    )
    return RedactedTable(table, tuple(shown), tuple(dropped))


def _expression(
    con: duckdb.DuckDBPyConnection, table: str, column: str, kind: str, names: _Names
) -> str | None:
    """Return the SQL of a column's redacted value, or ``None`` when nothing of it leaves the run."""
    if (table, column) in LEFT_OUT:
        return None
    if _PLAIN_TYPES.fullmatch(kind):
        return f"original.{quote(column)}"
    treatment = treatment_of(table, column)
    if treatment is None or kind != "VARCHAR":
        return None
    if treatment == "setting":
        return _setting_expression(con, table, column)
    write = _writer(treatment, names)
    rows = con.execute(f"select distinct {quote(column)} from {quote(table)}").fetchall()  # noqa: S608
    given = {text: write(text) for (text,) in sorted(row for row in rows if row[0] is not None)}
    return _mapped(con, f"given_{table}_{column}", given, f"original.{quote(column)}")


def _mapped(con: duckdb.DuckDBPyConnection, name: str, given: dict[str, str | None], column: str) -> str:
    """Return the SQL that looks up what a text becomes; texts that are not listed become null."""
    con.execute(f"create or replace temp table {quote(name)} (original varchar, given varchar)")
    pairs = [[text, value] for text, value in given.items() if value is not None]
    if pairs:
        con.execute(
            f"insert into temp.{quote(name)} select unnest(?), unnest(?)",
            [[text for text, _ in pairs], [value for _, value in pairs]],
        )
    return f"(select texts.given from temp.{quote(name)} as texts where texts.original = {column})"  # noqa: S608


def _setting_expression(con: duckdb.DuckDBPyConnection, table: str, column: str) -> str:
    rows = con.execute(f"select distinct name, {quote(column)} from {quote(table)}").fetchall()  # noqa: S608
    given = {f"{name}={text}": _setting(name, text) for name, text in sorted(rows) if text is not None}
    return _mapped(con, f"given_{table}_{column}", given, f"original.name || '=' || original.{quote(column)}")


def _setting(name: str, text: str) -> str | None:
    if _NUMBER.fullmatch(text) or text.lower() in _OPEN_VALUES:
        return text
    return text if name in OPEN_SETTINGS and _PRODUCT.fullmatch(text) else None


def _writer(treatment: Treatment, names: _Names) -> Write:
    """Return the function that writes an allowed text, or ``None`` for one that may not leave."""
    writers: dict[str, Write] = {
        "word": _matching(_WORD),
        "ours": str,
        "labels": lambda text: "synthetic=true" if is_synthetic(text) else None,
        "product": _matching(_PRODUCT),
        "hash": _matching(_HASH),
        "path": names.paths.get,
        "level": names.levels.get,
        "replica": names.replicas.get,
        "scope": lambda text: "" if text == "" else names.scopes.get(text),
        "kernel": lambda text: text if text in names.known_kernels else names.kernels.get(text),
        "sentence": lambda text: _sentence(text, names),
    }
    return writers[treatment]


def _matching(pattern: re.Pattern[str]) -> Write:
    return lambda text: text if text == "" or pattern.fullmatch(text) else None


def _sentence(text: str, names: _Names) -> str | None:
    """Return a sentence with roles for file names, or ``None`` when it repeats other private text."""
    for path in sorted(names.paths, key=len, reverse=True):
        text = text.replace(path, names.paths[path])
    return None if any(private in text for private in names.private) else text
