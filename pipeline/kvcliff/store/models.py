"""The SQL model graph: one SELECT per file with its header and dependencies, and the build of one run."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter

import duckdb

from kvcliff.errors import KvcliffError
from kvcliff.resources import sql_root
from kvcliff.store.database import lift_memory_limit, quote
from kvcliff.timing import stage

LAYERS = ("raw", "staging", "intermediate", "marts")
_HEADER_FIELD = re.compile(r"^-- (what|grain|key|alone|needs|build|notes):\s*(.*)$")
_HEADER_COLUMN = re.compile(r"^--   (\w+)\s+([A-Z]+(?:\[\])?)\s+(.*)$")
_HEADER_MORE = re.compile(r"^--\s{2,}(\S.*)$")
_COMMENT_OR_TEXT = re.compile(r"--[^\n]*|'(?:[^']|'')*'")
#: A name behind FROM or JOIN that is no function and no column (``is distinct from steps.phase``).
_TABLE_READ = re.compile(r"(?<!distinct )\b(?:from|join)\s+([a-z_]\w*)\b(?!\s*[.(])")
_NAMED_QUERY = re.compile(r"\b([a-z_]\w*)\s+as\s+(?:(?:not\s+)?materialized\s+)?\(")


class ModelError(KvcliffError):
    """A model file is malformed or cannot be built: a bug in kvcliff, not in the data."""

    code = "model_error"


@dataclass(frozen=True)
class Column:
    """One documented column: name, DuckDB type, meaning (with the unit in brackets)."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True)
class Model:
    """One SQL file.

    Attributes:
        name: table name, which is the file name.
        layer: raw, staging, intermediate or marts.
        sql: the SELECT, header included.
        what: what a row says.
        grain: one row per what.
        key: columns that are unique together.
        columns: documented columns in order.
        notes: what to know before using it.
        depends: names of other models it reads.
        needs: tables each of which must have rows, or the model has none.
        alone: what it says although everything that it reads is empty; without it, such a model is empty too.
        build: ``view`` or ``table`` and why, where the number of its readers would choose the other.
    """

    name: str
    layer: str
    sql: str
    what: str
    grain: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    notes: str
    depends: frozenset[str]
    alone: str = ""
    needs: frozenset[str] = frozenset()
    build: str = ""

    def is_table(self, reader_count: int) -> bool:
        """Return whether the rows are kept; a view makes them anew for each of its readers."""
        if self.build:
            return self.build.startswith("table")
        return self.layer == "marts" or reader_count > 1


def parse_header(name: str, text: str) -> tuple[dict[str, str], tuple[Column, ...]]:
    """Return the header fields (what, grain, key, notes ...) and the documented columns of a model.

    Raises:
        ModelError: a field is missing or a header line cannot be read.
    """
    fields: dict[str, str] = {}
    columns: list[Column] = []
    current = ""
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        if match := _HEADER_FIELD.match(line):
            current = match[1]
            fields[current] = match[2].strip()
        elif line.strip() == "-- columns:":
            current = "columns"
        elif current == "columns" and (match := _HEADER_COLUMN.match(line)):
            columns.append(Column(match[1], match[2], match[3].strip()))
        elif current == "columns" and columns and (match := _HEADER_MORE.match(line)):
            last = columns[-1]
            columns[-1] = Column(last.name, last.type, f"{last.meaning} {match[1].strip()}")
        elif current and (match := _HEADER_MORE.match(line)):
            fields[current] = f"{fields[current]} {match[1].strip()}".strip()
        else:
            raise ModelError(f"the header of model {name} has an unreadable line: {line}")
    missing = [field for field in ("what", "grain", "key") if not fields.get(field)]
    if missing or not columns:
        raise ModelError(f"the header of model {name} lacks {', '.join(missing) or 'columns'}")
    return fields, tuple(columns)


def tables_read(sql: str) -> frozenset[str]:
    """Return every table name that a SELECT of ours reads, CTE names excluded.

    The layout that models must have makes words enough to see it; asking DuckDB's parser for its tree costs
    a tenth of a second at every start, so that only the tests do it, for every model.
    """
    code = _COMMENT_OR_TEXT.sub(" ", sql)
    return frozenset(_TABLE_READ.findall(code)) - frozenset(_NAMED_QUERY.findall(code))


@lru_cache(maxsize=1)
def load_models() -> tuple[Model, ...]:
    """Return all models in build order (raw contracts first).

    Raises:
        ModelError: a header is malformed, or models read each other in a circle.
    """
    paths = [path for layer in LAYERS for path in sorted((sql_root() / layer).glob("*.sql"))]
    texts = {path.stem: path.read_text(encoding="utf-8") for path in paths}
    found = {path.stem: _model(path.stem, path.parent.name, texts[path.stem]) for path in paths}
    known = frozenset(found)
    graph = {name: (model.depends & known) - {name} for name, model in found.items()}
    try:
        order = _stable_order(graph, found)
    except CycleError as exc:
        raise ModelError(f"models read each other in a circle: {' -> '.join(exc.args[1])}") from exc
    return tuple(found[name] for name in order)


def _stable_order(graph: Mapping[str, frozenset[str]], found: Mapping[str, Model]) -> list[str]:
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    order: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=lambda name: (LAYERS.index(found[name].layer), name))
        order.extend(ready)
        sorter.done(*ready)
    return order


def _model(name: str, layer: str, text: str) -> Model:
    fields, columns = parse_header(name, text)
    return Model(
        name=name,
        layer=layer,
        sql=text,
        what=fields["what"],
        grain=fields["grain"],
        key=tuple(part.strip() for part in fields["key"].split(",")),
        columns=columns,
        notes=fields.get("notes", ""),
        depends=tables_read(text),
        alone=fields.get("alone", ""),
        needs=frozenset(part.strip() for part in fields.get("needs", "").split(",") if part.strip()),
        build=fields.get("build", ""),
    )


def mart_names() -> tuple[str, ...]:
    """Return the names of all marts that SQL models build, sorted."""
    return tuple(sorted(model.name for model in load_models() if model.layer == "marts"))


def raw_names() -> tuple[str, ...]:
    """Return the names of all raw tables, sorted."""
    return tuple(sorted(model.name for model in load_models() if model.layer == "raw"))


def create_raw_tables(con: duckdb.DuckDBPyConnection) -> None:
    """Create the empty temporary raw tables that readers fill."""
    for model in load_models():
        if model.layer == "raw":
            con.execute(f"create or replace temp table {quote(model.name)} as {model.sql}")


def load_seeds(con: duckdb.DuckDBPyConnection, overrides: Mapping[str, float] | None = None) -> None:
    """Create the seed tables and apply threshold overrides of a policy file.

    Raises:
        KeyError: an override names no threshold.
    """
    for path in sorted((sql_root() / "seeds").glob("*.csv")):
        con.execute(
            f"create or replace temp table {quote(path.stem)} as "  # noqa: S608
            "select * from read_csv(?, header = true, sample_size = -1)",
            [str(path)],
        )
    for name, value in sorted((overrides or {}).items()):
        if con.execute("select count(*) from thresholds where name = ?", [name]).fetchone() == (0,):
            raise KeyError(name)
        con.execute("update temp.thresholds set value = ?, source = 'policy' where name = ?", [value, name])


def load_macros(con: duckdb.DuckDBPyConnection) -> None:
    """Create the temporary macros of ``sql/macros``."""
    for path in sorted((sql_root() / "macros").glob("*.sql")):
        con.execute(path.read_text(encoding="utf-8"))


def build_models(
    con: duckdb.DuckDBPyConnection, models: Iterable[Model] | None = None, *, skip_empty: bool = True
) -> None:
    """Build staging, intermediate and mart models of the one run in the temporary raw tables.

    A model that more than one other reads becomes a temporary table, the others stay views, unless the header
    says which under ``build``; marts are temporary tables. Planning a SELECT costs milliseconds even when
    there is nothing to read: a model whose inputs are all empty becomes an empty table at once, unless its
    header says what it states ``alone``, and so does one of whose ``needs`` one is empty.

    Args:
        con: connection with the raw tables, ``sources``, ``clocks``, seeds and macros.
        models: models to build in order (all of them when left out).
        skip_empty: leave out the SELECTs that can only be empty.

    Raises:
        ModelError: a model fails on the data.
    """
    chosen = tuple(models if models is not None else load_models())
    readers: dict[str, int] = {}
    for model in chosen:
        for name in model.depends:
            readers[name] = readers.get(name, 0) + 1
    known = {model.name for model in load_models()}
    empty = _empty_raw_tables(con) if skip_empty else set()
    for model in chosen:
        if model.layer == "raw":
            continue
        inputs = model.depends & known
        is_table = model.is_table(readers.get(model.name, 0))
        try:
            is_idle = bool(model.needs & empty) or (bool(inputs) and inputs <= empty and not model.alone)
            if skip_empty and is_idle:
                _create_empty(con, model, is_table=is_table)
                empty.add(model.name)
            elif _create(con, model, is_table=is_table) == 0:
                empty.add(model.name)
        except duckdb.Error as exc:
            raise ModelError(f"model {model.name} failed: {exc}") from exc


def _empty_raw_tables(con: duckdb.DuckDBPyConnection) -> set[str]:
    tests = [f"not exists(select 1 from temp.{quote(name)})" for name in raw_names()]  # noqa: S608
    row = con.execute(f"select {', '.join(tests)}").fetchone() or ()
    return {name for name, is_empty in zip(raw_names(), row, strict=True) if is_empty}


def _create(con: duckdb.DuckDBPyConnection, model: Model, *, is_table: bool) -> int | None:
    """Create a model from its SELECT and return its row count, ``None`` for a view."""
    kind = "table" if is_table else "view"
    with stage(f"model {model.name}"):
        sql = f"create or replace temp {kind} {quote(model.name)} as {model.sql}"
        try:
            result = con.execute(sql)
        except duckdb.OutOfMemoryException:
            if not lift_memory_limit(con):
                raise
            result = con.execute(sql)
        row = result.fetchone() if is_table else None
    return None if row is None else int(row[0])


def _create_empty(con: duckdb.DuckDBPyConnection, model: Model, *, is_table: bool) -> None:
    name = quote(model.name)
    if is_table:
        columns = ", ".join(f"{quote(column.name)} {column.type}" for column in model.columns)
        con.execute(f"create or replace temp table {name} ({columns})")
        return
    nulls = ", ".join(f"cast(null as {column.type}) as {quote(column.name)}" for column in model.columns)
    con.execute(f"create or replace temp view {name} as select {nulls} limit 0")
