"""What an Nsight Systems export can tell: the state of each capability, with the profiler's own doubts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import polars as pl

from kvcliff.readers import nsight_systems_activity as activity
from kvcliff.readers import nsight_systems_metrics as metrics
from kvcliff.readers.nsight_systems_export import Export
from kvcliff.readers.nsight_systems_facts import CaptureFacts
from kvcliff.readers.nsight_systems_nvtx import TABLE as NVTX_TABLE
from kvcliff.readers.nsight_systems_nvtx import NvtxRanges
from kvcliff.readers.nsight_systems_processes import Processes

Capability = Literal["kernels", "processes", "graphs", "nvtx", "gpu_metrics", "memory_usage", "um", "cpu"]
Verdict = Literal["present", "absent", "failed", "partial", "not_traced"]


@dataclass(frozen=True)
class Diagnosis:
    """The state of one capability, with a closed sentence.

    Attributes:
        capability: what it is about.
        verdict: its state.
        reason: why, in closed words.
        event_count: events behind the verdict.
        data_until_ns: end of the last event before the data stop, ``None`` when they do not stop early.
    """

    capability: Capability
    verdict: Verdict
    reason: str
    event_count: int
    data_until_ns: int | None = None


@dataclass(frozen=True)
class _DiagnosticRule:
    """A text of the profiler (part of it) and what it means for a capability.

    ``is_cut`` says that the profiler stopped recording, so that everything behind the last event is missing.
    """

    text: str
    capability: Capability
    verdict: Verdict
    reason: str
    is_cut: bool = False


_DIAGNOSTIC_RULES: tuple[_DiagnosticRule, ...] = (
    _DiagnosticRule("No CUDA events collected", "kernels", "failed", "the profiler collected no CUDA events"),
    _DiagnosticRule(
        "CUDA profiling might have not been started correctly",
        "kernels",
        "failed",
        "CUDA profiling did not start correctly",
    ),
    # Before the general doubts, which the profiler adds to these.
    _DiagnosticRule(
        "Reached the size limit on recording trace events",
        "kernels",
        "partial",
        "the trace reached its size limit",
        is_cut=True,
    ),
    _DiagnosticRule(
        "Couldn't allocate CUPTI bufer", "kernels", "partial", "the profiler ran out of buffers", is_cut=True
    ),
    _DiagnosticRule(
        "Not all CUDA events might have been collected",
        "kernels",
        "partial",
        "the profiler lost some CUDA events",
    ),
    _DiagnosticRule(
        "Some CUPTI events might be missing", "kernels", "partial", "the profiler lost some CUDA events"
    ),
    _DiagnosticRule(
        "is not supported by this build",
        "kernels",
        "partial",
        "the CUDA driver is newer than this nsys supports",
    ),
    _DiagnosticRule("No NVTX events collected", "nvtx", "absent", "the process marked no NVTX ranges"),
    _DiagnosticRule(
        "Not all NVTX events might have been collected",
        "nvtx",
        "partial",
        "the profiler lost some NVTX events",
    ),
    _DiagnosticRule(
        "NVTX binary payload extension is incompatible",
        "nvtx",
        "partial",
        "the Python nvtx package is newer than this nsys supports",
    ),
    _DiagnosticRule(
        "NVTX annotations were discarded",
        "nvtx",
        "partial",
        "ranges of forked processes were lost; use spawn workers",
    ),
    _DiagnosticRule(
        "wrong domain ID argument",
        "nvtx",
        "partial",
        "ranges of forked processes were lost; use spawn workers",
    ),
    _DiagnosticRule(
        "Unified Memory cannot be traced", "um", "not_traced", "unified memory cannot be traced here"
    ),
    _DiagnosticRule(
        "Scheduling information is absent", "cpu", "not_traced", "CPU scheduling was not recorded"
    ),
)


def read_diagnoses(
    export: Export, facts: CaptureFacts, ranges: NvtxRanges, graph_node_count: int, processes: Processes
) -> tuple[Diagnosis, ...]:
    """Return the state of every capability of the capture.

    The profiler's texts are matched, never kept.

    Args:
        export: the opened export.
        facts: what it says about its capture.
        ranges: its NVTX ranges.
        graph_node_count: kernels that a CUDA graph launched.
        processes: who launched kernels and whose kernels are there.
    """
    said = _profiler_says(export)
    return (
        _kernel_state(export, facts, said),
        *_process_state(processes),
        _graph_state(export, graph_node_count),
        _nvtx_state(export, facts, ranges, said),
        _metric_state(export),
        _table_state(export, "memory_usage", "CUDA_GPU_MEMORY_USAGE_EVENTS", facts.is_memory_usage_on),
        _table_state(export, "um", "CUDA_UM_GPU_PAGE_FAULT_EVENTS", False),
        _table_state(export, "cpu", "SCHED_EVENTS", False),
    )


def _profiler_says(export: Export) -> dict[Capability, _DiagnosticRule]:
    """Return the worst thing the profiler said per capability."""
    if not export.has("DIAGNOSTIC_EVENT", "text"):
        return {}
    said: dict[Capability, _DiagnosticRule] = {}
    for rule in _DIAGNOSTIC_RULES:
        hits = (
            export.number("select count(*) from DIAGNOSTIC_EVENT where instr(text, ?) > 0", (rule.text,)) or 0
        )
        if hits and rule.capability not in said:
            said[rule.capability] = rule
    return said


def _kernel_state(
    export: Export, facts: CaptureFacts, said: Mapping[Capability, _DiagnosticRule]
) -> Diagnosis:
    count = export.row_count(activity.KERNELS) + export.row_count(activity.GRAPHS)
    rule = said.get("kernels")
    asked = not facts.event_types or "Cuda" in facts.event_types
    if not asked and count == 0:
        return Diagnosis("kernels", "not_traced", "CUDA was not traced in this capture", 0)
    if count == 0 and not facts.event_types and rule is None and not export.has(activity.CALLS):
        return Diagnosis(
            "kernels", "absent", "the export holds no GPU work and does not say whether CUDA was traced", 0
        )
    if count == 0:
        reason = _all_reasons(export) or "CUDA was traced but no GPU work was recorded"
        return Diagnosis("kernels", "failed", reason, 0)
    if rule is not None and rule.is_cut:
        return _cut(export, facts, rule, count)
    if rule is not None:
        return Diagnosis("kernels", "partial", rule.reason, count)
    if not export.has(activity.KERNELS, "globalPid") and export.has(activity.KERNELS):
        return Diagnosis(
            "kernels",
            "partial",
            "kernels carry no process id, so launches and steps cannot be tied to them",
            count,
        )
    if facts.is_slice:
        return Diagnosis("kernels", "partial", "the file is a slice of a longer capture", count)
    return Diagnosis("kernels", "present", "kernels were recorded", count)


def _all_reasons(export: Export) -> str:
    """Return every meaning of what the profiler said about kernels; the cause is often not the first."""
    if not export.has("DIAGNOSTIC_EVENT", "text"):
        return ""
    sql = "select 1 from DIAGNOSTIC_EVENT where instr(text, ?) > 0 limit 1"
    rules = [rule for rule in _DIAGNOSTIC_RULES if rule.capability == "kernels"]
    return "; ".join(dict.fromkeys(rule.reason for rule in rules if export.rows(sql, (rule.text,))))


def _process_state(processes: Processes) -> tuple[Diagnosis, ...]:
    """Say whether the work of all processes is there: often only the first rank of several has kernels."""
    count, silent = len(processes.launching), processes.silent_count
    if silent == 0:
        return ()
    reason = f"{silent} of {count} processes launched kernels of which the trace shows none"
    return (Diagnosis("processes", "partial", reason, silent),)


def _cut(export: Export, facts: CaptureFacts, rule: _DiagnosticRule, count: int) -> Diagnosis:
    """Say from when on the GPU events are missing: behind the last one that was recorded."""
    ends = [export.latest(table, "end") for table in (activity.KERNELS, activity.GRAPHS, activity.COPIES)]
    until_ns = max(end for end in (*ends, 0) if end is not None) - facts.shift_ns
    reason = f"{rule.reason}; GPU work after {until_ns / 1e9:.3f} s of the capture is missing"
    return Diagnosis("kernels", "partial", reason, count, until_ns)


def _graph_state(export: Export, node_count: int) -> Diagnosis:
    traced = export.row_count(activity.GRAPHS)
    if traced:
        return Diagnosis(
            "graphs", "partial", "CUDA graphs were traced as a whole; their kernels are invisible", traced
        )
    if node_count:
        return Diagnosis("graphs", "present", "kernels inside CUDA graphs were recorded", node_count)
    launches = _graph_call_count(export)
    if launches:
        return Diagnosis(
            "graphs", "failed", "CUDA graphs were launched but their work is not visible", launches
        )
    return Diagnosis("graphs", "absent", "no CUDA graph was launched", 0)


def _graph_call_count(export: Export) -> int:
    ids = [key for key, kind in activity.call_kinds(export).items() if kind == "graph"]
    return export.value_count(activity.CALLS, "nameId", ids)


def _nvtx_state(
    export: Export, facts: CaptureFacts, ranges: NvtxRanges, said: Mapping[Capability, _DiagnosticRule]
) -> Diagnosis:
    rule = said.get("nvtx")
    if ranges.range_count == 0:
        if facts.event_types and "NvtxEvents" not in facts.event_types and not export.has(NVTX_TABLE):
            return Diagnosis("nvtx", "not_traced", "NVTX was not traced in this capture", 0)
        reason = rule.reason if rule is not None else "the capture holds no NVTX ranges"
        return Diagnosis("nvtx", "absent", reason, 0)
    if rule is not None and rule.verdict == "partial":
        return Diagnosis("nvtx", "partial", rule.reason, ranges.range_count)
    if ranges.frame.height == 0:
        return Diagnosis("nvtx", "partial", "no NVTX range names an engine step or stage", ranges.range_count)
    return Diagnosis("nvtx", "present", "NVTX ranges name engine steps or stages", ranges.frame.height)


def _metric_state(export: Export) -> Diagnosis:
    if not export.has(metrics.TABLE):
        return Diagnosis("gpu_metrics", "not_traced", "GPU counters were not sampled", 0)
    count = export.row_count(metrics.TABLE)
    if count == 0:
        return Diagnosis("gpu_metrics", "failed", "GPU counters were asked for but hold no sample", 0)
    if not metrics.counter_names(export):
        return Diagnosis("gpu_metrics", "partial", "GPU counters have no names that kvcliff knows", count)
    return Diagnosis("gpu_metrics", "present", "GPU counters were sampled", count)


def _table_state(export: Export, capability: Capability, table: str, is_asked: bool) -> Diagnosis:
    count = export.row_count(table)
    if count:
        return Diagnosis(capability, "present", "events were recorded", count)
    if is_asked:
        return Diagnosis(capability, "absent", "it was traced but no event was recorded", 0)
    return Diagnosis(capability, "not_traced", "it was not traced in this capture", 0)


def diagnoses_frame(diagnoses: Iterable[Diagnosis]) -> pl.DataFrame:
    """Return the rows of ``raw_capture_diagnostics``."""
    return pl.DataFrame(
        [
            (item.capability, item.verdict, item.reason, item.event_count, item.data_until_ns)
            for item in diagnoses
        ],
        schema={
            "capability": pl.String,
            "verdict": pl.String,
            "reason": pl.String,
            "event_count": pl.Int64,
            "data_until_src_ns": pl.Int64,
        },
        orient="row",
    )
