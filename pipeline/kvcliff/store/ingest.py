"""From a planned run to temporary raw tables, clocks and marts, and from there into the store."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import polars as pl

from kvcliff import __version__
from kvcliff.arrow import ArrowStream
from kvcliff.clocks.align import align_clocks
from kvcliff.errors import InputError, KvcliffError
from kvcliff.readers.base import LoadReport
from kvcliff.store.database import quote, store_tables, stored_table, table_names
from kvcliff.store.models import (
    build_models,
    create_raw_tables,
    load_macros,
    load_models,
    load_seeds,
    mart_names,
    raw_names,
)
from kvcliff.store.plan import PlannedSource, RunPlan
from kvcliff.store.run_tables import FINDINGS_DDL, RUN_TABLES
from kvcliff.store.window import RunWindow
from kvcliff.store.window_cut import cut_to_window, trim_marts
from kvcliff.timing import expect, stage

#: Models and storing take about this much of the time of reading.
_MODELS_SHARE, _STORE_SHARE = 1.2, 0.8

_SOURCES_DDL = """
create or replace temp table sources (
    source_id integer, path varchar, reader varchar, role varchar, level varchar, level_number double,
    replica varchar, status varchar, reason varchar, sha256 varchar, size_bytes bigint, row_count bigint,
    skipped_count bigint, first_skip_reason varchar, notes varchar
)
"""
_CLOCKS_DDL = """
create or replace temp table clocks (
    source_id integer, offset_ns bigint, uncertainty_ns bigint, method varchar, reference_source_id integer,
    residual_ns bigint, note varchar
)
"""
_RUNS_DDL = """
create or replace temp table runs (
    name varchar, labels varchar, status varchar, utc_known boolean, year_known boolean, started_at_ns bigint,
    ended_at_ns bigint, level_count bigint, file_count bigint, kvcliff_version varchar, ingested_at_ns bigint
)
"""


class FrameSink:
    """Writes readers' frames into the temporary raw tables of one source."""

    def __init__(self, con: duckdb.DuckDBPyConnection, source_id: int) -> None:
        self._con = con
        self._source_id = source_id

    def append(self, table: str, frame: pl.DataFrame) -> int:
        """Append rows; columns the frame lacks become NULL."""
        if frame.height == 0:
            return 0
        columns = ", ".join(quote(name) for name in frame.columns)
        self._con.register("sink_frame", ArrowStream(frame))
        try:
            self._con.execute(
                f"insert into temp.{quote(table)} (source_id, {columns}) select ?, {columns} from sink_frame",  # noqa: S608
                [self._source_id],
            )
        finally:
            self._con.unregister("sink_frame")
        return frame.height


@dataclass(frozen=True)
class LoadedSource:
    """A source after loading: what came of it."""

    planned: PlannedSource
    status: str
    reason: str | None
    report: LoadReport


@dataclass(frozen=True)
class StagedRun:
    """A run whose temporary tables are complete; nothing is stored yet."""

    run_id: str
    name: str
    status: str
    sources: tuple[LoadedSource, ...]
    window: RunWindow | None = None


def is_stored(con: duckdb.DuckDBPyConnection, run_id: str) -> bool:
    """Return whether exactly this run (same files, same content) is in the store."""
    if "runs" not in table_names(con):
        return False
    runs = stored_table(con, "runs")
    return con.execute(f"select 1 from {runs} where run_id = ?", [run_id]).fetchone() is not None  # noqa: S608


def runs_with_name(con: duckdb.DuckDBPyConnection, name: str) -> tuple[str, ...]:
    """Return the ids of stored runs that carry ``name``."""
    if "runs" not in table_names(con):
        return ()
    runs = stored_table(con, "runs")
    rows = con.execute(f"select run_id from {runs} where name = ? order by run_id", [name]).fetchall()  # noqa: S608
    return tuple(row[0] for row in rows)


def stage_run(
    con: duckdb.DuckDBPyConnection,
    plan: RunPlan,
    *,
    strict: bool = False,
    policy: Mapping[str, float] | None = None,
) -> StagedRun:
    """Read all files of a run and build its marts in temporary tables.

    Args:
        con: connection to the store.
        plan: what to read.
        strict: any damage is an error.
        policy: threshold overrides by name.

    Raises:
        InputError: no file is usable, or ``strict`` and something is damaged.
        UsageProblem: the run has nothing in the window that was asked for.
    """
    create_raw_tables(con)
    for ddl in (_SOURCES_DDL, _CLOCKS_DDL, _RUNS_DDL, FINDINGS_DDL):
        con.execute(ddl)
    expect(_expected_work(plan))
    loaded = tuple(_load(con, planned) for planned in plan.sources)
    _check_usable(plan, loaded, strict=strict)
    _write_config_settings(con, plan)
    for source in loaded:
        _write_source(con, source)
    with stage("clocks"):
        align_clocks(con, plan.config)
    window = None
    if plan.window is not None:
        with stage("window"):
            window = cut_to_window(
                con, plan.window, utc_known=_is_utc_known(con), year_known=_is_year_known(con)
            )
    load_seeds(con, policy)
    load_macros(con)
    with stage("models"):
        build_models(con)
    if window is not None:
        trim_marts(con, window)
    status = "partial" if any(source.status in ("damaged", "refused") for source in loaded) else "ok"
    _write_run(con, plan, status, window)
    return StagedRun(plan.run_id, plan.name, status, loaded, window)


def store_run(con: duckdb.DuckDBPyConnection, staged: StagedRun, *, keep: bool = False) -> None:
    """Copy a staged run into the store in one transaction.

    Args:
        con: connection with the staged run.
        staged: the run.
        keep: keep earlier runs of the same name instead of replacing them.

    Raises:
        StoreError: the database cannot take it; nothing is stored then.
    """
    replaces = () if keep else runs_with_name(con, staged.name)
    with stage("store"):
        store_tables(con, staged.run_id, (*raw_names(), *mart_names(), *RUN_TABLES), replaces=replaces)
    drop_staged(con)


def drop_staged(con: duckdb.DuckDBPyConnection) -> None:
    """Drop the temporary tables and views of a staged run."""
    names = {model.name for model in load_models()} | set(RUN_TABLES)
    for kind in ("view", "table"):
        # A model is a view or a table depending on how many others read it, so what exists is asked.
        rows = con.execute(
            f"select {kind}_name from duckdb_{kind}s() where temporary and not internal order by 1"  # noqa: S608
        ).fetchall()
        for (name,) in rows:
            if name in names:
                con.execute(f"drop {kind} temp.{quote(name)}")


def _expected_work(plan: RunPlan) -> dict[str, float]:
    """Return the work of a run by stage, in bytes read; what follows takes its measured share of that."""
    reading = {
        f"read {planned.source.relative}": float(planned.size_bytes)
        for planned in plan.sources
        if planned.reader is not None
    }
    total = sum(reading.values())
    return {**reading, "models": _MODELS_SHARE * total, "store": _STORE_SHARE * total}


def _load(con: duckdb.DuckDBPyConnection, planned: PlannedSource) -> LoadedSource:
    nothing = LoadReport(0)
    if planned.reader is None:
        if planned.source.name == "run.toml":
            return LoadedSource(planned, "read", None, nothing)
        if planned.problem:
            return LoadedSource(planned, "refused", planned.problem, nothing)
        reason = "no reader knows this format" if planned.size_bytes else "the file is empty"
        return LoadedSource(planned, "ignored", reason, nothing)
    try:
        with stage(f"read {planned.source.relative}"):
            report = planned.reader.load(planned.source, FrameSink(con, planned.source_id), planned.context)
    except (InputError, OSError, ValueError, pl.exceptions.PolarsError) as exc:
        for table in planned.reader.tables:
            con.execute(f"delete from temp.{quote(table)} where source_id = ?", [planned.source_id])  # noqa: S608
        reason = (
            exc.message
            if isinstance(exc, KvcliffError)
            else f"cannot be read as {planned.reader.title} ({type(exc).__name__})"
        )
        return LoadedSource(planned, "refused", reason, nothing)
    if report.damage is not None:
        return LoadedSource(planned, "damaged", report.damage, report)
    return LoadedSource(planned, "read", None, report)


def _check_usable(plan: RunPlan, loaded: tuple[LoadedSource, ...], *, strict: bool) -> None:
    broken = [source for source in loaded if source.status in ("refused", "damaged")]
    if strict and broken:
        first = broken[0]
        raise InputError(
            f"{first.planned.source.relative}: {first.reason}",
            hint="run without --strict to use the rest of the run",
        )
    if any(source.report.row_count > 0 for source in loaded):
        return
    if not loaded:
        raise InputError(f"the run folder {plan.root} is empty", hint="see what is expected: kvcliff formats")
    if broken:
        first = broken[0]
        raise InputError(
            f"nothing in {plan.root} could be read; {first.planned.source.relative}: {first.reason}",
            hint=f"see every file: kvcliff inspect {plan.root}",
        )
    if len(loaded) == 1:
        raise InputError(
            f"nothing in {plan.root} could be read; {loaded[0].planned.source.relative}: {loaded[0].reason}",
            hint="see the list: kvcliff formats",
        )
    raise InputError(
        f"no file in {plan.root} is in a format that kvcliff reads ({len(loaded)} looked at)",
        hint="see the list: kvcliff formats",
    )


def _write_config_settings(con: duckdb.DuckDBPyConnection, plan: RunPlan) -> None:
    for scope, name, value, unit in plan.config.settings():
        con.execute(
            "insert into temp.raw_settings (source_id, line_no, scope, name, value, unit) "
            "values (0, 0, ?, ?, ?, ?)",
            [scope, name, value, unit],
        )


def _write_source(con: duckdb.DuckDBPyConnection, loaded: LoadedSource) -> None:
    planned, report = loaded.planned, loaded.report
    reader = planned.reader
    is_config = planned.source.name == "run.toml"
    con.execute(
        "insert into temp.sources values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            planned.source_id,
            planned.source.relative,
            reader.name if reader is not None else ("run_config" if is_config else None),
            reader.role if reader is not None else ("model" if is_config else None),
            planned.level,
            planned.level_number,
            planned.replica,
            loaded.status,
            loaded.reason,
            planned.sha256,
            planned.size_bytes,
            report.row_count,
            report.skipped_count,
            report.first_skip_reason,
            "\n".join(report.notes) or None,
        ],
    )


def _is_utc_known(con: duckdb.DuckDBPyConnection) -> bool:
    """Return whether the run clock is UTC."""
    row = con.execute("select coalesce(bool_or(method like '%utc%'), false) from temp.clocks").fetchone()
    return bool(row and row[0])


def _is_year_known(con: duckdb.DuckDBPyConnection) -> bool:
    """Return whether the dates of the run clock have their real year."""
    row = con.execute(
        "select coalesce(bool_or(note is null or note not like '%year unknown%'), true) from temp.clocks"
    ).fetchone()
    return bool(row and row[0])


def _write_run(con: duckdb.DuckDBPyConnection, plan: RunPlan, status: str, window: RunWindow | None) -> None:
    extent = con.execute("select min(start_ns), max(end_ns) from temp.int_run_extent").fetchone()
    started, ended = extent if extent is not None else (None, None)
    labels = [f"{key}={value}" for key, value in plan.config.labels]
    if window is not None:
        # A value before the window is kept to count from, and requests reach over its edges.
        started = max(started, window.start_ns) if started is not None else None
        ended = min(ended, window.end_ns) if ended is not None else None
        labels.append(f"{window.part}={'..'.join(window.option_texts)}")
    con.execute(
        "insert into temp.runs values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            plan.name,
            ", ".join(labels) or None,
            status,
            _is_utc_known(con),
            _is_year_known(con),
            started,
            ended,
            len({planned.level for planned in plan.sources if planned.level is not None}),
            len(plan.sources),
            __version__,
            time.time_ns(),
        ],
    )
