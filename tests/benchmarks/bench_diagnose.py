"""CPU time and memory of ``kvcliff diagnose`` on a large trace, next to a plain query of the same file.

``make bench`` runs it and prints one table per input. Each figure is of a child process of its own: the
installed command, and Python's ``sqlite3`` summing kernel, call and range times by name. With the trace
generator beside the checkout the trace has a million kernels, without it fifty thousand.
"""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.benchmarks.stages import MARK
from tests.builders_nsys import FA2_DECODE, GEMM, SOFTMAX, UTC_NS, NsysFile

ROOT = Path(__file__).resolve().parents[2]
GENERATOR = ROOT.parent / "shared" / "tools" / "make_nsys_sqlite.py"
LARGE = ("--steps", "2000", "--kernels-per-step", "500", "--runtime-rows", "1000000")
LARGE_REST = ("--nvtx-per-step", "100", "--memcpy-rows", "10000")
COMMAND = Path(sys.executable).with_name("kvcliff")
#: Budgets of the main job on a million kernels.
CPU_BUDGET_S = 5.0
MEMORY_BUDGET_MIB = 1000
MILLION = 1_000_000
_OWN_STEPS = 100
_OWN_KERNELS_PER_STEP = 500
_STEP_NS = 16_000_000
#: Inner stages below this are summed up.
_SHOWN_INNER_S = 0.05
_REFERENCE = """
import sqlite3, sys
db = sqlite3.connect("file:" + sys.argv[1] + "?mode=ro&immutable=1", uri=True)
for table, name in (
    ("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName"),
    ("CUPTI_ACTIVITY_KIND_RUNTIME", "nameId"),
    ("NVTX_EVENTS", "textId"),
):
    db.execute(f'select {name}, count(*), sum("end" - start) from {table} group by {name}').fetchall()
"""
#: Stands between us and the command: what a process uses at most counts from its parent's size at the start.
_WATCH = """
import json, resource, subprocess, sys
code = subprocess.call(sys.argv[2:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as file:
    json.dump([code, used.ru_utime + used.ru_stime, used.ru_maxrss // 1024], file)
"""


@dataclass(frozen=True)
class Usage:
    """What a child process used."""

    cpu_s: float
    peak_mib: int
    errors: str


@dataclass(frozen=True)
class Stage:
    """CPU seconds of one stage of the command; those of inner stages are in the outer one, too."""

    depth: int
    name: str
    cpu_s: float


def run_child(command: Sequence[str | Path], scratch: Path) -> Usage:
    """Run a command to its end and return what it used.

    Raises:
        CalledProcessError: it failed.
    """
    errors = scratch / "stderr.txt"
    # An installed command has its bytecode; here it is kept, too, whatever the tests ask for.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    used = scratch / "used.json"
    words = list(map(str, command))
    with errors.open("wb") as file:
        watch = [sys.executable, "-c", _WATCH, str(used), *words]
        subprocess.run(watch, check=True, stderr=file, cwd=ROOT, env=environment)
    code, cpu_s, peak_mib = json.loads(used.read_text(encoding="utf-8"))
    text = errors.read_text(encoding="utf-8")
    if code:
        raise subprocess.CalledProcessError(code, words, stderr=text)
    return Usage(cpu_s, peak_mib, text)


def write_export(path: Path) -> None:
    """Write the trace: a large one by the generator, else a smaller one of our own."""
    if GENERATOR.is_file():
        command = [sys.executable, str(GENERATOR), str(path), *LARGE, *LARGE_REST]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return
    trace = NsysFile()
    for step in range(_OWN_STEPS):
        begin = 1_000_000 + step * _STEP_NS
        trace.range("execute_context_0(0)_generation_8(8)", begin, begin + _STEP_NS - 1_000_000)
        for number in range(_OWN_KERNELS_PER_STEP):
            name = (GEMM, FA2_DECODE, GEMM, SOFTMAX)[number % 4]
            start = begin + 100_000 + number * 20_000
            trace.kernel(name, start, start + 15_000)
        trace.copy(begin + 12_000_000, begin + 12_400_000, 1 << 20, 1 + step % 2)
    trace.write(path)


def write_metrics(path: Path, begin_ns: int = UTC_NS, span_s: int = 60) -> None:
    """Write a series of engine metrics over the time of the trace, so that there is a figure to draw."""
    rows = ["timestamp,kv_cache_usage,running,waiting,generation_tokens"]
    for tenth in range(span_s * 10):
        usage = min(0.99, 0.2 + tenth / 400)
        running, waiting = min(32, 4 + tenth // 10), max(0, tenth - 320) // 16
        seconds = begin_ns / 1e9 + tenth / 10
        rows.append(f"{seconds:.1f},{usage:.4f},{running},{waiting},{tenth * 50}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def ask(export: Path, sql: str) -> int:
    """Return the one number that a query of an export gives."""
    db = sqlite3.connect(f"{export.as_uri()}?mode=ro&immutable=1", uri=True)
    number: int = db.execute(sql).fetchone()[0]
    db.close()
    return number


def kernel_count(export: Path) -> int:
    """Return the kernels in an export."""
    return ask(export, "select count(*) from CUPTI_ACTIVITY_KIND_KERNEL")


def diagnose(run: Path, scratch: Path, name: str) -> tuple[Usage, list[Stage]]:
    """Return what the installed command used, and the stages of a run that is watched.

    The watched run comes first, so that the other one finds bytecode and font cache.
    """
    watched = [sys.executable, "-m", "tests.benchmarks.stages", *_arguments(run, scratch / f"{name}-b")]
    errors = run_child(watched, scratch).errors
    usage = run_child([COMMAND, *_arguments(run, scratch / f"{name}-a")], scratch)
    line = next(line for line in errors.splitlines() if line.startswith(MARK))
    return usage, [Stage(*row) for row in json.loads(line.removeprefix(MARK))]


def _arguments(run: Path, folder: Path) -> list[str]:
    folder.mkdir()
    return ["diagnose", str(run), "--db", str(folder / "runs.duckdb"), "-o", str(folder / "report")]


def stage_lines(stages: Sequence[Stage]) -> list[str]:
    """Return the table of stages, inner ones below theirs; what is small is one line."""
    shown = [stage for stage in stages if stage.depth == 0 or stage.cpu_s >= _SHOWN_INNER_S]
    rest = [stage for stage in stages if stage not in shown]
    lines: list[str] = []
    inner: list[str] = []
    for stage in shown:
        line = f"  {'  ' * stage.depth}{_short(stage.name):<{44 - 2 * stage.depth}} {stage.cpu_s:5.2f} s"
        # An inner stage ends before the outer one, which is named above it.
        if stage.depth:
            inner.append(line)
        else:
            lines += [line, *inner]
            inner = []
    return [*lines, f"  ({len(rest)} inner stages below {_SHOWN_INNER_S} s: {_total(rest):.2f} s)"]


def _short(name: str) -> str:
    return f"look at {Path(name).name}" if name.startswith("look at ") else name


def _total(stages: Sequence[Stage]) -> float:
    return sum(stage.cpu_s for stage in stages)


def show(title: str, usage: Usage, reference: Usage | None, stages: Sequence[Stage]) -> None:
    """Print the figures of one input."""
    ratio = "" if reference is None else f", {usage.cpu_s / reference.cpu_s:.1f} x the plain query"
    print(f"\n{title}: {usage.cpu_s:.2f} s CPU{ratio}, peak {usage.peak_mib} MiB")
    print("\n".join(stage_lines(stages)))


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "trace.sqlite"
    write_export(path)
    return path


@pytest.mark.benchmark
def test_large_trace(export: Path, tmp_path: Path) -> None:
    reference = run_child([sys.executable, "-c", _REFERENCE, export], tmp_path)
    usage, stages = diagnose(export, tmp_path, "trace")
    kernels = kernel_count(export)
    print(f"\nplain query: {reference.cpu_s:.2f} s CPU, peak {reference.peak_mib} MiB")
    show(f"trace of {kernels:,} kernels", usage, reference, stages)
    millions = max(kernels / MILLION, 1.0)
    assert usage.cpu_s <= CPU_BUDGET_S * millions
    assert usage.peak_mib <= MEMORY_BUDGET_MIB * millions


@pytest.mark.benchmark
def test_large_trace_with_metrics(export: Path, tmp_path: Path) -> None:
    reference = run_child([sys.executable, "-c", _REFERENCE, export], tmp_path)
    run = tmp_path / "run"
    run.mkdir()
    (run / "trace.sqlite").hardlink_to(export)
    begin_ns = ask(export, "select utcEpochNs from TARGET_INFO_SESSION_START_TIME")
    write_metrics(run / "engine_metrics.csv", begin_ns)
    usage, stages = diagnose(run, tmp_path, "both")
    assert (tmp_path / "both-a" / "report" / "figures" / "kv_and_latency.svg").is_file()
    show("the same with engine metrics and figure", usage, reference, stages)
    assert usage.peak_mib <= MEMORY_BUDGET_MIB * max(kernel_count(export) / MILLION, 1.0)


@pytest.mark.benchmark
def test_small_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    write_metrics(run / "engine_metrics.csv")
    usage, stages = diagnose(run, tmp_path, "small")
    show("600 rows of engine metrics alone", usage, None, stages)
    assert usage.cpu_s <= CPU_BUDGET_S
