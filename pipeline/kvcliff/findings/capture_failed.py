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
class _State:
    """What one trace says about one of its capabilities."""

    source_id: int
    path: str
    capability: str
    verdict: str
    reason: str
    data_until_ns: int | None


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
    states = _states(con, "kernels")
    evidence = (
        Evidence("sources", "role = 'trace'", (("traces", len(traces)),)),
        Evidence(
            "phase_totals", "", (("kernel_count", work.kernel_count), ("graph_count", work.graph_count))
        ),
    )
    if work.kernel_count or work.graph_count:
        gaps = [state for state in states if state.data_until_ns is not None or state.verdict == "failed"]
        gaps += _states(con, "processes")
        named = "".join(f"; {state.path}: {state.reason}" for state in gaps)
        summary = f"The GPU trace holds {_work_words(work)}{named}."
        return (not_found(summary, 0.95, *evidence),)
    return (_without_work(con, traces, states, evidence),)


def _without_work(
    con: duckdb.DuckDBPyConnection,
    traces: tuple[_Trace, ...],
    states: tuple[_State, ...],
    evidence: tuple[Evidence, ...],
) -> Result:
    """Tell a failed capture from one that was not meant to show the GPU, and from one nobody could read."""
    failed = next((state for state in states if state.verdict == "failed"), None)
    if failed is not None:
        return _failed(failed.path, failed.reason, evidence)
    if states and runs_on_cpu(con):
        return not_found(f"There is no GPU time to trace: {CPU_WORDS}.", 0.95, *evidence)
    if states:
        first = states[0]
        summary = (
            f"GPU time by phase, idle gaps and copies: {first.path} does not show the GPU ({first.reason})."
        )
        return cannot_tell(summary, TRACE, *evidence)
    refused = next((trace for trace in traces if trace.status == "refused"), None)
    if refused is not None:
        return cannot_tell(f"GPU time: a GPU trace could not be read ({refused.reason}).", TRACE, *evidence)
    trace = traces[0]
    return _failed(trace.path, trace.reason or trace.notes or "", evidence)


def _states(con: duckdb.DuckDBPyConnection, capability: str) -> tuple[_State, ...]:
    states = read_rows(con, "captures", _State, order="source_id, capability, verdict, reason")
    return tuple(state for state in states if state.capability == capability)


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


def _failed(path: str, reason: str, evidence: tuple[Evidence, ...]) -> Result:
    why = reason.splitlines()
    because = f": {why[0]}" if why else ""
    return Result(
        "found",
        "warning",
        0.95,
        f"A GPU trace was captured, but it shows no work of the GPU ({path}{because}); "
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
