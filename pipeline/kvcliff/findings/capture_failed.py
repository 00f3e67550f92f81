"""Finding: was a GPU trace captured that shows no work of the GPU?"""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.base import Evidence, Finding, Result, cannot_tell, not_found
from kvcliff.findings.captures import TRACE
from kvcliff.findings.engine_facts import CPU_WORDS, runs_on_cpu
from kvcliff.findings.marts import mart_columns, query_rows, read_rows
from kvcliff.units import format_count


@dataclass(frozen=True)
class _Trace:
    source_id: int
    path: str
    status: str | None
    reason: str | None
    notes: str | None


@dataclass(frozen=True)
class _Work:
    kernel_count: int
    graph_count: int


_WORK_SQL = """
select coalesce(sum(kernel_count), 0), coalesce(sum(graph_count), 0)
from phase_totals
"""


def _evaluate(con: duckdb.DuckDBPyConnection) -> tuple[Result, ...]:
    traces = read_rows(con, "sources", _Trace, where="role = 'trace'", order="source_id")
    if not traces:
        return (_without_trace(con),)
    if not mart_columns(con, "phase_totals"):
        return (cannot_tell("GPU time: this run was stored without kernel tables.", "kvcliff ingest RUN"),)
    work = query_rows(con, ("phase_totals",), _Work, _WORK_SQL)[0]
    evidence = (
        Evidence("sources", "role = 'trace'", (("traces", len(traces)),)),
        Evidence(
            "phase_totals", "", (("kernel_count", work.kernel_count), ("graph_count", work.graph_count))
        ),
    )
    if work.kernel_count or work.graph_count:
        return (not_found(f"The GPU trace holds {_work_words(work)}.", 0.95, *evidence),)
    return (_failed(traces[0], evidence),)


def _without_trace(con: duckdb.DuckDBPyConnection) -> Result:
    if runs_on_cpu(con):
        return not_found(f"There is no GPU time to trace: {CPU_WORDS}.", 0.95)
    return cannot_tell("GPU time by phase, idle gaps and copies: the run holds no GPU trace.", TRACE)


def _work_words(work: _Work) -> str:
    kernels, graphs = format_count(work.kernel_count), format_count(work.graph_count)
    if not work.graph_count:
        return f"{kernels} kernels"
    opaque = f"{graphs} launches of CUDA graphs that are timed as a whole"
    return f"{kernels} kernels and {opaque}" if work.kernel_count else f"{opaque}, and no kernel alone"


def _failed(trace: _Trace, evidence: tuple[Evidence, ...]) -> Result:
    why = (trace.reason or trace.notes or "").splitlines()
    because = f": {why[0]}" if why else ""
    return Result(
        "found",
        "warning",
        0.95,
        f"A GPU trace was captured, but it shows no work of the GPU ({trace.path}{because}); "
        "GPU time cannot be told.",
        action="Capture again; trace the worker processes and let the server exit cleanly.",
        capture=TRACE,
        evidence=evidence,
    )


FINDING = Finding(
    name="capture_failed",
    question="Was a GPU trace captured that shows no work of the GPU?",
    evaluate=_evaluate,
)
