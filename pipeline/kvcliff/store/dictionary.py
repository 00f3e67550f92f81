"""The data dictionary: what every table and column means, for ``sql describe`` and ``sql/README.md``."""

from dataclasses import dataclass

from kvcliff.store.models import Column, Model, load_models

_RUN_ID = Column("run_id", "VARCHAR", "run: its name, a hyphen, 8 hex digits of its content")

_RUNS = (
    Column("name", "VARCHAR", "name of the run: run.toml, else the folder"),
    Column("labels", "VARCHAR", "labels of run.toml as key=value, comma-separated"),
    Column("status", "VARCHAR", "ok, or partial when a file was damaged or refused"),
    Column("utc_known", "BOOLEAN", "whether the run clock is tied to UTC"),
    Column("year_known", "BOOLEAN", "whether the year of the times is stated or certain"),
    Column("started_at_ns", "BIGINT", "[ns] first time on the run clock"),
    Column("ended_at_ns", "BIGINT", "[ns] last time on the run clock"),
    Column("level_count", "BIGINT", "levels of a sweep; 0 when the run is no sweep"),
    Column("file_count", "BIGINT", "files looked at"),
    Column("kvcliff_version", "VARCHAR", "version that read the run"),
    Column("ingested_at_ns", "BIGINT", "[unix ns] when it was read"),
)
_SOURCES = (
    Column("source_id", "INTEGER", "file, numbered in the run"),
    Column("path", "VARCHAR", "path inside the run"),
    Column("reader", "VARCHAR", "reader that took it; null when no reader knows it"),
    Column("role", "VARCHAR", "log, metrics, client, trace, counters, device, model or arrivals"),
    Column("level", "VARCHAR", "level of a sweep; null when the run is none"),
    Column("level_number", "DOUBLE", "number in the level's label"),
    Column("replica", "VARCHAR", "replica; null when the run has one"),
    Column("status", "VARCHAR", "read, damaged, refused or ignored"),
    Column("reason", "VARCHAR", "why it is not simply read"),
    Column("sha256", "VARCHAR", "hash of the file as it lay on disk"),
    Column("size_bytes", "BIGINT", "[bytes] size on disk"),
    Column("row_count", "BIGINT", "rows taken from it"),
    Column("skipped_count", "BIGINT", "lines or rows of interest that could not be read"),
    Column("first_skip_reason", "VARCHAR", "why the first of them was skipped"),
    Column("notes", "VARCHAR", "what the reader noticed, one sentence a line"),
)
_CLOCKS = (
    Column("source_id", "INTEGER", "file"),
    Column(
        "offset_ns",
        "BIGINT",
        "[ns] added to the file's own time; for a relative series the run-clock time of its zero",
    ),
    Column("uncertainty_ns", "BIGINT", "[ns] of the offset, relative to the run clock"),
    Column("method", "VARCHAR", "how the clock was tied"),
    Column("reference_source_id", "INTEGER", "file it was tied to"),
    Column("residual_ns", "BIGINT", "[ns] what the tie leaves unexplained"),
    Column("note", "VARCHAR", "what to know about it, such as a stated clock that was off"),
)
_FINDINGS = (
    Column("finding_no", "INTEGER", "order in the report, from 1"),
    Column("finding", "VARCHAR", "name of the diagnosis"),
    Column("verdict", "VARCHAR", "found, not_found or cannot_tell"),
    Column("severity", "VARCHAR", "critical, warning or info"),
    Column("confidence", "DOUBLE", "0 to 1; at 0.8 and above it is acted upon"),
    Column("summary", "VARCHAR", "the diagnosis in one sentence"),
    Column("action", "VARCHAR", "what to do first"),
    Column("capture", "VARCHAR", "what to capture when it cannot tell, with the command"),
    Column("evidence", "VARCHAR", "JSON list of mart, place and numbers"),
    Column("reason", "VARCHAR", "what the confidence rests on"),
)
_THRESHOLDS = (
    Column("name", "VARCHAR", "threshold"),
    Column("value", "DOUBLE", "value that was used, in the unit of its row"),
    Column("unit", "VARCHAR", "unit of the value"),
    Column("meaning", "VARCHAR", "what it decides"),
    Column("source", "VARCHAR", "where the value comes from; policy when --policy set it"),
)


@dataclass(frozen=True)
class Table:
    """One table: where it comes from, what a row is, its columns (``run_id`` first when stored)."""

    name: str
    layer: str
    what: str
    grain: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    notes: str = ""


def _store_table(
    name: str, what: str, grain: str, key: tuple[str, ...], columns: tuple[Column, ...]
) -> Table:
    return Table(name, "store", what, grain, ("run_id", *key), (_RUN_ID, *columns))


#: Tables that the store writes itself, beside the raw tables and the marts.
STORE_TABLES: tuple[Table, ...] = (
    _store_table("runs", "Runs in this database.", "one row per run", (), _RUNS),
    _store_table(
        "sources", "Files of a run and what came of them.", "one row per file", ("source_id",), _SOURCES
    ),
    _store_table(
        "clocks",
        "How the clock of a file was tied to the run clock.",
        "one row per file with times",
        ("source_id",),
        _CLOCKS,
    ),
    _store_table(
        "findings", "Diagnoses with verdict and evidence.", "one row per answer", ("finding_no",), _FINDINGS
    ),
    _store_table(
        "thresholds",
        "Threshold values that the run was judged by.",
        "one row per threshold",
        ("name",),
        _THRESHOLDS,
    ),
)

_FOLDERS = (
    Column("root_id", "VARCHAR", "8 hex digits that stand for the root of the nightly job"),
    Column("folder", "VARCHAR", "run folder, relative to the root"),
    Column("fingerprint", "VARCHAR", "names, sizes and times of its files, hashed"),
    Column("state", "VARCHAR", "begun (a pass ended while reading it), stored or set_aside"),
    Column("stored_run_id", "VARCHAR", "run that it became; null when it never was one"),
    Column("attempt_count", "INTEGER", "times that reading it was begun without an end"),
    Column("reason", "VARCHAR", "why it was set aside"),
    Column("hint", "VARCHAR", "what to do about it"),
    Column("kvcliff_version", "VARCHAR", "version that looked at it"),
    Column("changed_at_ns", "BIGINT", "[unix ns] when this was written"),
    Column("announced_at_ns", "BIGINT", "[unix ns] when a pass told of it; null before"),
)
_VERDICTS = (
    Column("series", "VARCHAR", "runs that belong together: their labels that count"),
    Column("verdict", "VARCHAR", "failed, inconclusive, warned, passed, learning or set_aside"),
    Column("summary", "VARCHAR", "the verdict in one sentence"),
    Column("cause", "VARCHAR", "why it changed, empty when nothing is said"),
    Column("base_run_ids", "VARCHAR", "JSON list of the runs that it was compared with"),
    Column("order_ns", "BIGINT", "[ns] time that orders the runs of a series"),
    Column("kvcliff_version", "VARCHAR", "version that judged it"),
    Column("judged_at_ns", "BIGINT", "[unix ns] when it was judged"),
    Column("announced_at_ns", "BIGINT", "[unix ns] when a pass told of it; null before"),
    Column("accepted_at_ns", "BIGINT", "[unix ns] when somebody made it the new normal; null otherwise"),
)
_CHECKS = (
    Column("check_no", "INTEGER", "order, the gravest first"),
    Column("metric", "VARCHAR", "metric, swap_points_found, or comparable (the comparison as a whole)"),
    Column("title", "VARCHAR", "its name in words"),
    Column("unit", "VARCHAR", "unit of the values"),
    Column("level", "VARCHAR", "level of a sweep; null when the run is none"),
    Column("outcome", "VARCHAR", "better, same, worse, inconclusive, limit, swap_points or incomparable"),
    Column("severity", "VARCHAR", "what that does: fail, inconclusive, warn or ignore"),
    Column("base_value", "DOUBLE", "of the baseline, or the limit"),
    Column("run_value", "DOUBLE", "of the run"),
    Column("change_ratio", "DOUBLE", "run / baseline - 1"),
    Column("minimum_change_ratio", "DOUBLE", "smallest change that counts"),
    Column("message", "VARCHAR", "the outcome in words"),
    Column("is_gating", "BOOLEAN", "whether the comparison counts the metric in its own verdict"),
)
_RETENTION = (Column("raw_removed_at_ns", "BIGINT", "[unix ns] when the raw rows of the run were removed"),)

#: Tables beside the runs, in every store: what the nightly job remembers, and whose raw rows are gone.
STATE_TABLES: tuple[Table, ...] = (
    Table(
        "nightly_folders",
        "store",
        "What became of the run folders of the nightly job.",
        "one row per root and folder",
        ("root_id", "folder"),
        _FOLDERS,
    ),
    _store_table(
        "nightly_verdicts", "Verdicts of the nightly gate.", "one row per judged run", (), _VERDICTS
    ),
    _store_table(
        "nightly_checks",
        "Everything that the nightly gate looked at.",
        "one row per check",
        ("check_no",),
        _CHECKS,
    ),
    _store_table("retention", "Runs whose raw rows were removed.", "one row per such run", (), _RETENTION),
)


def stored_tables() -> tuple[Table, ...]:
    """Return every table of a store: its own, the marts, then the raw tables, each group by name."""
    models = {
        layer: sorted((m for m in load_models() if m.layer == layer), key=lambda m: m.name)
        for layer in ("marts", "raw")
    }
    return (
        *STORE_TABLES,
        *STATE_TABLES,
        *map(_stored_model, models["marts"]),
        *map(_stored_model, models["raw"]),
    )


def private_tables() -> tuple[Table, ...]:
    """Return the staging and intermediate models, which exist only while a run is built."""
    return tuple(
        Table(model.name, model.layer, model.what, model.grain, model.key, model.columns, model.notes)
        for model in sorted(load_models(), key=lambda m: (m.layer != "staging", m.name))
        if model.layer in ("staging", "intermediate")
    )


def find_table(name: str) -> Table | None:
    """Return the table called ``name``, or ``None``."""
    return next((table for table in (*stored_tables(), *private_tables()) if table.name == name), None)


def _stored_model(model: Model) -> Table:
    return Table(
        model.name,
        model.layer,
        model.what,
        model.grain,
        ("run_id", *model.key),
        (_RUN_ID, *model.columns),
        model.notes,
    )


def render_dictionary() -> str:
    """Return the data dictionary as Markdown: public tables in full, the others as a list."""
    stored = stored_tables()
    public = [table for table in stored if table.layer in ("store", "marts")]
    lines = ["## Tables to read", "", "| table | a row is | what it says |", "|---|---|---|"]
    lines += [f"| [{table.name}](#{table.name}) | {table.grain} | {_cell(table.what)} |" for table in public]
    for table in public:
        lines += ["", f"### {table.name}", "", table.what, "", f"Grain: {table.grain}. Key: {_key(table)}."]
        if table.notes:
            lines += ["", table.notes]
        lines += ["", "| column | type | meaning |", "|---|---|---|"]
        lines += [f"| {column.name} | {column.type} | {_cell(column.meaning)} |" for column in table.columns]
    lines += [
        "",
        "## Raw tables",
        "",
        "As the readers found them, on each file's own clock; kept so that a mart can be traced.",
        "",
    ]
    lines += _short_list(tuple(table for table in stored if table.layer == "raw"))
    lines += [
        "",
        "## Private models",
        "",
        "Exist only while a run is built; they may change without notice.",
        "",
    ]
    lines += _short_list(private_tables())
    return "\n".join(lines) + "\n"


def _short_list(tables: tuple[Table, ...]) -> list[str]:
    rows = [f"| {table.name} | {table.grain} | {_cell(table.what)} |" for table in tables]
    return ["| table | a row is | what it says |", "|---|---|---|", *rows]


def _key(table: Table) -> str:
    return ", ".join(f"`{column}`" for column in table.key)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
