"""Reader of Nsight Systems exports: SQLite, Parquet and Arrow tables, and reports when nsys is there."""

import re
from collections.abc import Iterable, Mapping

import polars as pl

from kvcliff.errors import UsageProblem
from kvcliff.readers import nsight_systems_activity as activity
from kvcliff.readers import nsight_systems_diagnoses as diagnoses_part
from kvcliff.readers import nsight_systems_facts as facts_part
from kvcliff.readers import nsight_systems_memory as memory
from kvcliff.readers import nsight_systems_metrics as metrics
from kvcliff.readers import nsight_systems_network as network
from kvcliff.readers import nsight_systems_nvtx as nvtx
from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.nsight_systems_export import Export, open_export
from kvcliff.readers.nsight_systems_forms import SQLITE_MAGIC, TITLES, Form, form_of
from kvcliff.readers.nsight_systems_processes import Processes

#: Key of the file's ``[[file]]`` table with a further regular expression for range texts to keep.
NVTX_OPTION = "nvtx_pattern"
_EVENT_TABLES = (activity.KERNELS, activity.GRAPHS, activity.COPIES, activity.CALLS, nvtx.TABLE)
_FORM_SCORES: Mapping[Form, int] = {"parquetdir": 95, "arrowdir": 95, "arrows": 95}
_META_TABLES = ("META_DATA_EXPORT", "EXPORT_META_DATA", "TARGET_INFO_SESSION_START_TIME")


def _sniff(source: Source) -> Sniff:
    head = source.head
    if not head.startswith(SQLITE_MAGIC):
        form = form_of(source)
        return NO_MATCH if form is None else Sniff(_FORM_SCORES.get(form, 70), TITLES[form])
    tables = source.sqlite_tables
    if tables:
        meta = [name for name in _META_TABLES if name in tables]
        events = [name for name in _EVENT_TABLES if name in tables]
        if "StringIds" in tables and (meta or events):
            score = 95 if meta and events else 85
            return Sniff(score, f"SQLite with the Nsight Systems tables {', '.join((meta + events)[:3])}")
        return NO_MATCH
    # Compressed or cut: the schema cannot be asked, but its CREATE statements stand near the start.
    if any(name.encode() in head for name in (*_EVENT_TABLES, *_META_TABLES)):
        return Sniff(80, "a compressed or damaged SQLite file with Nsight Systems tables")
    return NO_MATCH


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    patterns = _extra_patterns(source, context)
    with open_export(source) as export:
        facts = facts_part.read_facts(export)
        shift = facts.shift_ns
        devices = activity.read_devices(export)
        notes, processes = activity.KernelNotes(), Processes()
        kernels = processes.of_work(activity.read_kernels(export, shift, devices, notes))
        rows = _append(sink, "raw_kernels", kernels)
        rows += _append(sink, "raw_kernel_names", [notes.frame(export)])
        graphs = processes.of_work(activity.read_graphs(export, shift, devices))
        rows += _append(sink, "raw_graph_launches", graphs)
        rows += _append(sink, "raw_copies", activity.read_copies(export, shift, devices))
        launches = processes.of_launches(activity.read_launches(export, shift))
        rows += _append(sink, "raw_launches", launches)
        rows += _append(sink, "raw_gpu_metrics", metrics.read_metrics(export, shift))
        rows += _append(sink, "raw_gpu_metrics", memory.read_memory_use(export, shift, devices))
        rows += _append(sink, "raw_gpu_metrics", memory.read_page_faults(export, shift, devices))
        rows += _append(sink, "raw_gpu_metrics", network.read_network(export, shift))
        ranges = nvtx.read_ranges(export, shift, activity.last_event_ns(export, shift, notes), patterns)
        rows += _append(sink, "raw_nvtx_ranges", [ranges.frame])
        gpus = facts_part.read_gpus(export)
        diagnoses = diagnoses_part.read_diagnoses(export, facts, ranges, notes.graph_node_count, processes)
        rows += _append(sink, "raw_capture_facts", [facts_part.facts_frame(facts, gpus, ranges)])
        rows += _append(sink, "raw_settings", [facts_part.settings_frame(gpus)])
        rows += _append(sink, "raw_capture_diagnostics", [diagnoses_part.diagnoses_frame(diagnoses)])
        return LoadReport(row_count=rows, notes=_notes(export, facts, gpus, diagnoses))


def _extra_patterns(source: Source, context: ReadContext) -> tuple[re.Pattern[str], ...]:
    text = context.options.get(NVTX_OPTION)
    if not text:
        return ()
    try:
        return (re.compile(text),)
    except re.error as exc:
        raise UsageProblem(
            f"{NVTX_OPTION} for {source.relative} is not a regular expression: {exc}",
            hint="correct it in run.toml",
        ) from exc


def _append(sink: Sink, table: str, frames: Iterable[pl.DataFrame]) -> int:
    return sum(sink.append(table, frame) for frame in frames if frame.height)


def _notes(
    export: Export,
    facts: facts_part.CaptureFacts,
    gpus: tuple[facts_part.Gpu, ...],
    diagnoses: tuple[diagnoses_part.Diagnosis, ...],
) -> tuple[str, ...]:
    notes = [
        f"{item.capability}: {item.reason}"
        for item in diagnoses
        if item.verdict in ("failed", "partial") or (item.capability == "kernels" and item.event_count == 0)
    ]
    if facts.utc_epoch_ns is None:
        notes.append("the capture does not state its start in UTC")
    if facts.schema_version is None:
        notes.append("the export states no schema version; it was read by its columns")
    if not gpus:
        notes.append("the export does not describe the GPU; its memory bandwidth must come from elsewhere")
    if facts.graph_mode is None and export.has(activity.CALLS):
        notes.append("the export does not say how CUDA graphs were traced")
    return tuple(notes)


READER = Reader(
    name="nsight_systems",
    title="Nsight Systems export (SQLite, Parquet or Arrow tables) or report",
    tables=(
        "raw_kernels",
        "raw_kernel_names",
        "raw_graph_launches",
        "raw_copies",
        "raw_launches",
        "raw_gpu_metrics",
        "raw_nvtx_ranges",
        "raw_capture_facts",
        "raw_settings",
        "raw_capture_diagnostics",
    ),
    sniff=_sniff,
    load=_load,
    role="trace",
    tried_on_real_files=True,
)
