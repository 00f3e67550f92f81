"""Roots with run folders for tests of the nightly job, and what store and output folder hold after it."""

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from builders_cli import Moment, command_line, easy_moments, process_environment, write_moments
from kvcliff.nightly.comparison.compare import Cause, Comparison, MetricVerdict, Verdict

LABELS = '[labels]\nmodel = "llama"\n'


def write_root(root: Path, *, run_count: int = 2, has_broken: bool = True) -> Path:
    """Write a root with small runs of one series, a folder in which nothing can be read, and return it."""
    for number in range(run_count):
        write_night(root / f"night-{number:02d}", number)
    if has_broken:
        (root / "broken").mkdir(parents=True)
        (root / "broken" / "data.bin").write_bytes(b"\x00\x01garbage\xff" * 20)
    return root


def write_night(folder: Path, number: int, moments: Sequence[Moment] | None = None) -> Path:
    """Write one run folder; runs of different numbers have different content."""
    write_moments(folder, moments if moments is not None else easy_moments(12 + number))
    (folder / "run.toml").write_text(LABELS, encoding="utf-8")
    return folder


def nightly_arguments(root: Path, work: Path, *extra: str) -> list[str]:
    """Return the arguments of a pass whose database and outputs lie in a work folder."""
    places = ["--db", str(work / "n.duckdb"), "--into", str(work / "out")]
    return ["nightly", str(root), *places, "--quiet", "0", *extra]


def start_nightly(root: Path, work: Path, *extra: str) -> "subprocess.Popen[str]":
    """Start a pass as a process of its own."""
    return subprocess.Popen(
        command_line(*nightly_arguments(root, work, *extra)),
        cwd=work,
        env=process_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@dataclass(frozen=True)
class Holdings:
    """What a store holds: rows by table and run, folders with their state, verdict by run."""

    rows: tuple[tuple[str, str, int], ...]
    folders: tuple[tuple[str, str, str | None], ...]
    verdicts: tuple[tuple[str, str], ...]


def holdings(database: Path) -> Holdings:
    """Return what a store holds, apart from times."""
    with duckdb.connect(str(database), read_only=True) as con:
        tables = con.execute(
            "select distinct table_name from duckdb_columns() where column_name = 'run_id' "
            "and schema_name = 'main' and not internal order by 1"
        ).fetchall()
        rows = []
        for (table,) in tables:
            counted = con.execute(f'select run_id, count(*) from "{table}" group by run_id order by 1')
            rows += [(table, run_id, count) for run_id, count in counted.fetchall()]
        folders = con.execute("select folder, state, stored_run_id from nightly_folders order by all")
        found = tuple(folders.fetchall())
        verdicts = con.execute("select run_id, verdict from nightly_verdicts order by all").fetchall()
    return Holdings(tuple(rows), found, tuple(verdicts))


def told(work: Path) -> set[str]:
    """Return the runs and folders that the JSON of the last pass tells of; empty before the first."""
    path = work / "out" / "nightly.json"
    if not path.is_file():
        return set()
    data = json.loads(path.read_text(encoding="utf-8"))["data"]
    return {run["run_id"] for run in data["runs"]} | {entry["folder"] for entry in data["set_aside"]}


def report_files(work: Path) -> dict[str, bytes]:
    """Return the reports by path."""
    runs = work / "out" / "runs"
    return {path.relative_to(runs).as_posix(): path.read_bytes() for path in runs.rglob("*.md")}


def metric(
    name: str = "itl_p50",
    verdict: Verdict = "same",
    *,
    base: float | None = 20.0,
    run: float | None = 20.0,
    unit: str = "ms",
    is_gating: bool = True,
    level: str | None = None,
) -> MetricVerdict:
    """Return one metric of a comparison."""
    return MetricVerdict(
        metric=name,
        title=f"title of {name}",
        unit=unit,
        group="latency",
        level=level,
        verdict=verdict,
        base_value=base,
        run_value=run,
        change_ratio=run / base - 1 if base and run is not None else None,
        interval_low=None,
        interval_high=None,
        minimum_change_ratio=0.05,
        is_gating=is_gating,
        noise="",
        reason="",
    )


def comparison(
    *metrics: MetricVerdict,
    verdict: Verdict = "same",
    causes: tuple[Cause, ...] = (),
    incomparable: str | None = None,
    run_id: str = "run-1",
    base: tuple[str, ...] = ("base-1",),
) -> Comparison:
    """Return a comparison."""
    return Comparison(base, run_id, verdict, metrics, causes, (), incomparable, f"the whole is {verdict}")


def fake_compare(
    make: Callable[[tuple[str, ...], str], Comparison],
) -> Callable[..., Comparison]:
    """Return a stand-in for ``compare_runs`` that ignores the store."""

    def compare(_: duckdb.DuckDBPyConnection, base: Sequence[str], run_id: str, **__: Any) -> Comparison:
        return make(tuple(base), run_id)

    return compare
