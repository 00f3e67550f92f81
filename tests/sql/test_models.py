"""Rules that every model keeps without being asked: layer, header, columns, keys, intervals."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from kvcliff.resources import sql_root
from kvcliff.store.checks import build_empty_run, check_columns, check_key
from kvcliff.store.dictionary import STORE_TABLES
from kvcliff.store.ingest import stage_run
from kvcliff.store.models import Model, build_models, load_models
from kvcliff.store.plan import plan_run

ROOT = Path(__file__).resolve().parent.parent.parent
MODELS = load_models()
BUILT = tuple(model for model in MODELS if model.layer != "raw")
STORIES = sorted(path for path in (ROOT / "sample_traces").glob("*") if path.is_dir())
LAYER_OF = {model.name: model.layer for model in MODELS}
SEEDS = {path.stem for path in (sql_root() / "seeds").glob("*.csv")}
WRITTEN_BY_STORE = {table.name for table in STORE_TABLES}
#: Raw tables without a time of their own: there is nothing to put on the run clock, so nothing to stage.
TIMELESS = {
    model.name
    for model in MODELS
    if model.layer == "raw" and not any(column.name.endswith("_ns") for column in model.columns)
}
#: What a layer may read beside seeds.
MAY_READ = {
    "raw": frozenset[str](),
    "staging": frozenset({"raw", "staging"}),
    "intermediate": frozenset({"staging", "intermediate", "marts"}),
    "marts": frozenset({"staging", "intermediate", "marts"}),
}
NAMES = {
    "raw": r"raw_[a-z0-9_]+",
    "staging": r"stg_[a-z0-9]+(_[a-z0-9]+)*(__[a-z0-9_]+)?",
    "intermediate": r"int_[a-z0-9_]+",
    "marts": r"(?!raw_|stg_|int_)[a-z0-9_]+",
}


def _id(value: object) -> str:
    return value.name if isinstance(value, Model | Path) else str(value)


def _body(model: Model) -> str:
    """Return the SELECT of a model without comments and text literals."""
    without_comments = re.sub(r"--[^\n]*", "", model.sql)
    return re.sub(r"'(?:[^']|'')*'", "''", without_comments)


every_model = pytest.mark.parametrize("model", MODELS, ids=_id)
every_built_model = pytest.mark.parametrize("model", BUILT, ids=_id)


def test_models_were_found() -> None:
    assert {model.layer for model in MODELS} == {"raw", "staging", "intermediate", "marts"}


@every_model
def test_name_fits_the_layer(model: Model) -> None:
    assert re.fullmatch(NAMES[model.layer], model.name)


@every_model
def test_dependencies_are_what_the_parser_sees(model: Model) -> None:
    with duckdb.connect() as con:
        row = con.execute(
            """
            select
                json_extract_string(tree, '$..table_name'),
                json_extract_string(tree, '$..cte_map.map[*].key')
            from (select cast(json_serialize_sql(?) as json) as tree)
            """,
            [model.sql],
        ).fetchone()
    assert row is not None
    tables, named_queries = row
    assert model.depends == frozenset(tables) - frozenset(named_queries)


@every_model
def test_layer_reads_what_it_may(model: Model) -> None:
    for name in sorted(model.depends):
        if name in SEEDS:
            continue
        if name in WRITTEN_BY_STORE:
            # Staging puts files on the run clock; others get files and clocks through it.
            assert model.layer == "staging" or name in ("sources", "runs"), name
            continue
        assert name in LAYER_OF, f"{model.name} reads {name}, which does not exist"
        if model.layer == "intermediate" and name in TIMELESS:
            continue
        assert LAYER_OF[name] in MAY_READ[model.layer], f"{model.layer} reads {name}"


@pytest.mark.parametrize("model", [model for model in MODELS if model.layer == "staging"], ids=_id)
def test_staging_stages_one_table(model: Model) -> None:
    body = _body(model).lower()
    if model.name != "stg_sources":
        assert len([name for name in model.depends if name.startswith("raw_")]) == 1
        assert {name for name in model.depends if name.startswith("stg_")} <= {"stg_sources"}
    assert " group by " not in body.replace("\n", " ")
    assert len(re.findall(r"\bjoin\b", body)) <= 1


@every_model
def test_one_select_and_nothing_else(model: Model) -> None:
    body = _body(model).lower()
    assert body.strip().startswith(("with", "select"))
    assert ";" not in body.rstrip().removesuffix(";")
    for word in ("create", "insert", "update", "delete", "pivot", "copy", "attach", "set"):
        assert not re.search(rf"(^|\n)\s*{word}\s", body), word


@every_model
def test_same_rows_every_time(model: Model) -> None:
    body = _body(model).lower()
    assert not re.search(r"\bapprox_\w+\(", body)
    assert not re.search(r"\b(now|random|current_timestamp|current_date|uuid)\b\s*\(?", body)
    for call in re.finditer(r"\bavg(?=\()", body):
        # Over a window the rows have an order; over a group it is that of the threads: favg has none.
        assert body[_end_of_call(body, call.end()) :].lstrip().startswith("over"), (
            f"{model.name}: use favg, not avg"
        )


def _end_of_call(text: str, start: int) -> int:
    """Return the place behind the parenthesis that closes the one at ``start``."""
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] == "(") - (text[index] == ")")
        if depth == 0:
            return index + 1
    return len(text)


@every_model
def test_no_model_filters_inside_a_window(model: Model) -> None:
    """DuckDB 2.0.1 takes quadratic time for it; an aggregate of a CASE says the same."""
    body = _body(model).lower()
    for call in re.finditer(r"\bfilter\s*(?=\()", body):
        assert not body[_end_of_call(body, call.end()) :].lstrip().startswith("over"), model.name


@every_model
def test_no_model_selects_runs(model: Model) -> None:
    assert "run_id" not in _body(model).lower()
    assert "run_id" not in {column.name for column in model.columns}


@every_model
def test_header_is_in_sentences(model: Model) -> None:
    assert model.what.endswith(".")
    assert model.grain.startswith("one row")
    assert len({column.name for column in model.columns}) == len(model.columns)
    assert all(column.meaning for column in model.columns)
    assert model.key


@every_model
def test_names_tell_types_and_units(model: Model) -> None:
    for column in model.columns:
        place = f"{model.name}.{column.name} {column.type}"
        if column.name.endswith("_ns"):
            assert column.type == "BIGINT", place
            assert "ns" in column.meaning, f"{place}: the unit belongs into the header"
        if column.name.endswith(("_ms", "_ratio", "_pct", "_per_s")):
            assert column.type == "DOUBLE", place
        if column.name.endswith("_count"):
            # Gauges averaged over a bucket are counts with a fraction.
            assert column.type in ("BIGINT", "INTEGER", "DOUBLE"), place
        if column.name.endswith("_id") and column.name not in ("replica_id", "request_id"):
            assert column.type in ("INTEGER", "BIGINT", "UBIGINT", "VARCHAR"), place
        if column.type == "BOOLEAN":
            assert re.match(r"(is|has)_", column.name), place
        if re.match(r"(is|has)_", column.name):
            assert column.type == "BOOLEAN", place


@pytest.fixture(scope="module")
def empty_run() -> Iterator[duckdb.DuckDBPyConnection]:
    """A build over empty raw tables."""
    with duckdb.connect() as con:
        build_empty_run(con)
        yield con


@every_model
def test_header_tells_the_truth(model: Model, empty_run: duckdb.DuckDBPyConnection) -> None:
    assert check_columns(empty_run, model) == ()


@every_built_model
def test_an_empty_run_is_no_problem(model: Model, empty_run: duckdb.DuckDBPyConnection) -> None:
    assert check_key(empty_run, model) == ()
    empty_run.execute(f"select * from temp.{model.name}").fetchall()


def test_what_models_say_alone() -> None:
    """Models without input are left out of a build: their headers must say which have rows all the same."""
    with duckdb.connect() as con:
        build_empty_run(con)
        con.execute("insert into temp.sources (source_id, path, reader, role) values (1, 'a', 'log', 'log')")
        con.execute("insert into temp.clocks (source_id, offset_ns, uncertainty_ns) values (1, 0, 0)")
        build_models(con, skip_empty=False)
        counts = _row_counts(con)
    without_input = {
        model.name
        for model in BUILT
        if (inputs := model.depends & LAYER_OF.keys()) and not any(counts.get(name) for name in inputs)
    }
    assert {name for name in without_input if counts[name]} == {model.name for model in BUILT if model.alone}


def test_what_models_need_they_read() -> None:
    assert {model.name: model.needs - model.depends for model in BUILT if model.needs - model.depends} == {}


@pytest.mark.parametrize("story", STORIES, ids=_id)
def test_leaving_models_without_input_out_changes_nothing(story: Path) -> None:
    with duckdb.connect() as con:
        stage_run(con, plan_run(story))
        counts = _row_counts(con)
        build_models(con, skip_empty=False)
        assert _row_counts(con) == counts


def _row_counts(con: duckdb.DuckDBPyConnection) -> dict[str, int]:
    query = " union all ".join(f"select '{model.name}', count(*) from temp.{model.name}" for model in BUILT)
    return dict(con.execute(query).fetchall())


@pytest.mark.parametrize("story", STORIES, ids=_id)
def test_models_of_real_runs(story: Path) -> None:
    with duckdb.connect() as con:
        stage_run(con, plan_run(story))
        failures = [
            failure for model in MODELS for failure in (*check_columns(con, model), *check_key(con, model))
        ]
        assert failures == []
        for model in BUILT:
            _check_intervals(con, model)


def _check_intervals(con: duckdb.DuckDBPyConnection, model: Model) -> None:
    names = {column.name for column in model.columns}
    if {"start_ns", "end_ns"} <= names:
        row = con.execute(f"select count(*) from temp.{model.name} where end_ns < start_ns").fetchone()
        assert row == (0,), f"{model.name} has intervals that end before they begin"
    for name in sorted(names & {"used_ratio", "kv_used_ratio", "hit_ratio", "confidence", "share"}):
        row = con.execute(
            f"select count(*) from temp.{model.name} where {name} not between 0 and 1.0001"
        ).fetchone()
        assert row == (0,), f"{model.name}.{name} is outside 0 to 1"


def test_thresholds_are_read_and_documented() -> None:
    with (sql_root() / "seeds" / "thresholds.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["name", "value", "unit", "meaning", "source"]
    assert len({row["name"] for row in rows}) == len(rows)
    assert all(all(row.values()) for row in rows)
    assert all(float(row["value"]) >= 0 for row in rows)
    known = {row["name"] for row in rows}
    used = {name for model in MODELS for name in re.findall(r"threshold\('(\w+)'\)", model.sql)}
    assert used <= known, used - known
    python_text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "pipeline").rglob("*.py"))
    unused = {name for name in known - used if name not in python_text}
    assert unused == set(), "thresholds that nothing reads"


@pytest.mark.parametrize("path", sorted((sql_root() / "macros").glob("*.sql")), ids=_id)
def test_macros_state_what_they_are(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for statement in re.findall(r"create (or replace )?(\w+ )?macro", text):
        assert "temp" in statement[1], "a macro must not outlive the build"
    assert text.startswith("-- ")
