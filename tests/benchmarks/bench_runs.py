"""A store with a thousand runs: how long a list takes, and whether adding a run gets slower.

``make bench`` runs it and prints the figures. The thousand are copies of one small run under other ids; what
is measured are processes of the command, imports included.
"""

import os
import resource
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from builders_cli import command_line, easy_moments, process_environment, write_moments
from builders_nightly import LABELS, nightly_arguments, write_night

RUN_COUNT = 1_000
SERIES_COUNT = 4
LIST_BUDGET_S = 1.0
#: Adding a run to the thousand may cost this much more CPU time than adding it to two.
GROWTH_BUDGET = 1.25
GROWTH_BUDGET_S = 0.5


@dataclass(frozen=True)
class Cost:
    """What a process took."""

    wall_s: float
    cpu_s: float


def run(arguments: Sequence[str], cwd: Path) -> Cost:
    """Run a command and return its cost."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    done = subprocess.run(
        command_line(*arguments),
        cwd=cwd,
        env=process_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    wall_s = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode in (0, 4, 10), done.stderr
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall_s, cpu_s)


def best(arguments: Sequence[str], cwd: Path, count: int = 3) -> Cost:
    """Return the cheapest of a few runs."""
    return min((run(arguments, cwd) for _ in range(count)), key=lambda cost: cost.cpu_s)


def multiply(database: Path, count: int) -> None:
    """Copy the first run of a store under ``count`` ids, an hour apart, in four series."""
    hour_ns = 3_600_000_000_000
    with duckdb.connect(str(database)) as con:
        tables = [
            row[0]
            for row in con.execute(
                "select table_name from duckdb_columns() where column_name = 'run_id' "
                "and schema_name = 'main' and not internal order by 1"
            ).fetchall()
        ]
        con.execute(
            "create temp table copies as "
            "select range as n, 'copy-' || lpad(range::varchar, 5, '0') as copy_id "
            f"from range({count})"
        )
        for table in tables:
            con.execute(
                f'insert into "{table}" by name select copies.copy_id as run_id, t.* exclude (run_id) '
                f"from \"{table}\" as t cross join copies where t.run_id like 'first-%' order by copies.n"
            )
        series = f"'model=llama-' || (n % {SERIES_COUNT})"
        con.execute(
            f"update runs set labels = {series}, "
            f"started_at_ns = started_at_ns - (n + 1) * {hour_ns}, "
            f"ended_at_ns = ended_at_ns - (n + 1) * {hour_ns} from copies where runs.run_id = copies.copy_id"
        )
        con.execute(
            f"update nightly_verdicts set series = {series}, order_ns = order_ns - (n + 1) * {hour_ns}, "
            "verdict = 'passed' from copies where nightly_verdicts.run_id = copies.copy_id"
        )
        con.execute(
            "insert into nightly_folders "
            "select root_id, copy_id, fingerprint, state, copy_id, 0, null, null, kvcliff_version, "
            "changed_at_ns, announced_at_ns from nightly_folders, copies where folder = 'first'"
        )
        con.execute("checkpoint")


def add_run(folder: Path, work: Path) -> Cost:
    """Return the cost of a pass that takes one new run in."""
    number = len(list((folder / "root").iterdir()))
    write_night(folder / "root" / f"added-{number}", 7 + number)
    return run(nightly_arguments(folder / "root", work), folder)


@pytest.mark.benchmark
def test_a_thousand_runs(tmp_path: Path) -> None:
    root, work = tmp_path / "root", tmp_path / "work"
    work.mkdir()
    write_moments(root / "first", easy_moments(60))
    (root / "first" / "run.toml").write_text(LABELS, encoding="utf-8")
    run(nightly_arguments(root, work), tmp_path)
    few = min((add_run(tmp_path, work) for _ in range(3)), key=lambda cost: cost.cpu_s)
    # Reports are looked for, and written when absent; the copies have one.
    database = work / "n.duckdb"
    multiply(database, RUN_COUNT)
    (report,) = (work / "out" / "runs").glob("first-*")
    for number in range(RUN_COUNT):
        target = work / "out" / "runs" / f"copy-{number:05d}"
        target.mkdir()
        for name in ("report.md", "report.json"):
            os.link(report / name, target / name)
    size_mib = database.stat().st_size / (1 << 20)
    listed = best(["runs", "list", "--db", str(database)], tmp_path)
    filtered = best(
        [
            "runs",
            "list",
            "--db",
            str(database),
            "--label",
            "model=llama-2",
            "--since",
            "2020-01-01",
            "--limit",
            "20",
        ],
        tmp_path,
    )
    help_cost = best(["--help"], tmp_path)
    many = min((add_run(tmp_path, work) for _ in range(3)), key=lambda cost: cost.cpu_s)
    nothing = best(nightly_arguments(root, work), tmp_path)
    print(f"\nstore of {RUN_COUNT:,} runs: {size_mib:.0f} MiB")
    print(f"  runs list                    {listed.wall_s:.2f} s ({listed.cpu_s:.2f} s CPU)")
    print(f"  runs list with filters       {filtered.wall_s:.2f} s ({filtered.cpu_s:.2f} s CPU)")
    print(f"  --help, for the start alone  {help_cost.wall_s:.2f} s ({help_cost.cpu_s:.2f} s CPU)")
    print(f"  pass with one new run, few   {few.wall_s:.2f} s ({few.cpu_s:.2f} s CPU)")
    print(f"  pass with one new run, many  {many.wall_s:.2f} s ({many.cpu_s:.2f} s CPU)")
    print(f"  pass with nothing new        {nothing.wall_s:.2f} s ({nothing.cpu_s:.2f} s CPU)")
    assert listed.cpu_s < LIST_BUDGET_S
    assert many.cpu_s <= few.cpu_s * GROWTH_BUDGET + GROWTH_BUDGET_S
