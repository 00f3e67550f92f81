"""Allow-listed facts of an Nsight Systems export: its clock, versions and options, and the GPUs."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from kvcliff.errors import DataGapError
from kvcliff.readers.nsight_systems_export import Export
from kvcliff.readers.nsight_systems_nvtx import NvtxRanges

_VERSION = re.compile(r"\d{1,6}(?:\.\d{1,9}){0,4}")
_INTEGER = re.compile(r"-?\d{1,20}")
_GPU_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .\-/()+]{0,79}")
_MODES = {"graph": "graph", "node": "node"}
_SUPPORTED_MAJOR = 3


@dataclass(frozen=True)
class CaptureFacts:
    """What the export says about its capture.

    Attributes:
        shift_ns: subtracted from every time of the file to get time since the session start.
        utc_epoch_ns: UTC of the session start, or ``None``.
        schema_version: version of the export's schema, or ``None``.
        product_version: nsys that exported, or ``None``.
        graph_mode: ``graph`` (graphs opaque), ``node`` (their kernels visible), or ``None``.
        event_types: what was asked for (``Cuda``, ``NvtxEvents``, ``OSRuntime`` ...).
        is_memory_usage_on: whether GPU memory allocations were to be recorded.
        is_slice: whether the file was cut out of a longer capture.
        others: further facts by name.
    """

    shift_ns: int
    utc_epoch_ns: int | None
    schema_version: str | None
    product_version: str | None
    graph_mode: str | None
    event_types: frozenset[str]
    is_memory_usage_on: bool
    is_slice: bool
    others: Mapping[str, str]


@dataclass(frozen=True)
class Gpu:
    """One GPU of the machine; numbers are ``None`` when the export does not have them."""

    device_id: int
    name: str | None
    memory_bytes_per_s: int | None
    memory_bytes: int | None
    sm_count: int | None
    l2_bytes: int | None
    clock_hz: int | None
    compute_capability: str | None


def read_facts(export: Export) -> CaptureFacts:
    """Return the facts of the capture.

    Raises:
        DataGapError: the export has a schema that this reader does not know.
    """
    meta = _meta(export, "META_DATA_EXPORT") or _meta(export, "EXPORT_META_DATA")
    capture = _meta(export, "META_DATA_CAPTURE")
    schema = _matching(_VERSION, _first(meta, "EXPORT_SCHEMA_VERSION"))
    if schema is not None and int(schema.split(".")[0]) != _SUPPORTED_MAJOR:
        raise DataGapError(
            f"{export.relative} has export schema {schema}; schema {_SUPPORTED_MAJOR}.x is supported",
            hint="export the report with nsys 2022.4 or newer",
        )
    sliced = bool(_first(meta, "EXPORT_PARAM_TIMES_TO_EXPORT")) or "DERIVED_WINDOW_NS" in meta
    return CaptureFacts(
        shift_ns=int(_matching(_INTEGER, _first(meta, "EXPORT_CONFIG_TIME_SHIFT")) or 0),
        utc_epoch_ns=_session_time(export, "utcEpochNs"),
        schema_version=schema,
        product_version=_matching(_VERSION, _first(meta, "EXPORT_PRODUCT_VERSION")),
        graph_mode=_MODES.get((_option(capture, "CUDA_GRAPH_TRACE_OPTIONS:MODE") or "").lower()),
        event_types=frozenset(capture.get("CAPTURE_EVENT_TYPE", ())),
        is_memory_usage_on=(_option(capture, "COLLECT_GPU_MEMORY_USAGE") or "").lower() == "true",
        is_slice=sliced,
        others=_other_facts(export, capture),
    )


#: Every key of the metadata tables that is read; the others hold environments, paths and command lines.
_META_KEYS = (
    "EXPORT_PRODUCT_VERSION",
    "EXPORT_SCHEMA_VERSION",
    "EXPORT_CONFIG_TIME_SHIFT",
    "EXPORT_PARAM_TIMES_TO_EXPORT",
    "DERIVED_WINDOW_NS",
    "CAPTURE_EVENT_TYPE",
    "RUN_DURATION_MS",
    "CUDA_GRAPH_TRACE_OPTIONS:MODE",
    "COLLECT_GPU_MEMORY_USAGE",
    "PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE",
    "PROCESS_0:COLLECT_GPU_MEMORY_USAGE",
)


def _meta(export: Export, table: str) -> dict[str, list[str]]:
    """Return the allow-listed keys of a metadata table; a key may occur more than once."""
    if not export.has(table, "name", "value"):
        return {}
    marks = ", ".join("?" * len(_META_KEYS))
    rows = export.rows(f"select name, value from {table} where name in ({marks}) order by rowid", _META_KEYS)  # noqa: S608
    found: dict[str, list[str]] = {}
    for name, value in rows:
        if value is not None:
            found.setdefault(name, []).append(str(value))
    return found


def _first(meta: Mapping[str, list[str]], name: str) -> str | None:
    values = meta.get(name)
    return values[0] if values else None


def _option(capture: Mapping[str, list[str]], name: str) -> str | None:
    """Return a CUDA option; exporters before 2025.6 write it under the first process only."""
    return _first(capture, name) or _first(capture, f"PROCESS_0:{name}")


def _matching(pattern: re.Pattern[str], text: str | None) -> str | None:
    """Return the text only when it has the expected shape, so that nothing else can enter the database."""
    return text if text is not None and pattern.fullmatch(text) else None


def _session_time(export: Export, column: str) -> int | None:
    table = "TARGET_INFO_SESSION_START_TIME"
    return export.number(f"select max({column}) from {table}") if export.has(table, column) else None  # noqa: S608


def _other_facts(export: Export, capture: Mapping[str, list[str]]) -> dict[str, str]:
    facts: dict[str, str] = {}
    duration_ms = _matching(_INTEGER, _first(capture, "RUN_DURATION_MS"))
    if duration_ms is not None:
        facts["requested_duration_ms"] = duration_ms
    clock = _session_time(export, "systemClockNs")
    if clock is not None:
        facts["system_clock_ns"] = str(clock)
    if export.has("ANALYSIS_DETAILS", "duration"):
        duration = export.number("select max(duration) from ANALYSIS_DETAILS")
        if duration is not None:
            facts["duration_ns"] = str(duration)
    if export.has("TARGET_INFO_SYSTEM_ENV", "name", "value"):
        wanted = {"NvDriverVersion": "driver_version", "CudaDriverVersion": "cuda_driver_version"}
        sql = "select name, value from TARGET_INFO_SYSTEM_ENV where name in (?, ?) order by rowid"
        for name, value in export.rows(sql, tuple(wanted)):
            version = _matching(_VERSION, None if value is None else str(value))
            if version is not None:
                facts.setdefault(wanted[name], version)
    return facts


def read_gpus(export: Export) -> tuple[Gpu, ...]:
    """Return the GPUs of the machine by device index; empty in sliced files and without a driver."""
    table = "TARGET_INFO_GPU"
    if not export.has(table, "id"):
        return ()
    present = export.tables[table]
    names = (
        "name",
        "memoryBandwidth",
        "totalMemory",
        "smCount",
        "l2CacheSize",
        "clockRate",
        "computeMajor",
        "computeMinor",
    )
    chosen = ", ".join(name if name in present else "null" for name in names)
    gpus: dict[int, Gpu] = {}
    for device_id, name, *numbers in export.rows(f"select id, {chosen} from {table} order by id, rowid"):  # noqa: S608
        bandwidth, memory, sms, l2, clock, major, minor = (
            value if isinstance(value, int) and value >= 0 else None for value in numbers
        )
        capability = f"{major}.{minor}" if major is not None and minor is not None else None
        text = _matching(_GPU_NAME, name)
        gpus.setdefault(
            device_id,
            Gpu(
                device_id,
                text,
                bandwidth or None,
                memory or None,
                sms or None,
                l2 or None,
                clock or None,
                capability,
            ),
        )
    return tuple(gpus.values())


def facts_frame(facts: CaptureFacts, gpus: Iterable[Gpu], ranges: NvtxRanges) -> pl.DataFrame:
    """Return the rows of ``raw_capture_facts``."""
    capture: dict[str, object] = {
        "utc_epoch_ns": facts.utc_epoch_ns,
        "time_shift_ns": facts.shift_ns,
        "schema_version": facts.schema_version,
        "product_version": facts.product_version,
        "graph_mode": facts.graph_mode,
        "is_slice": "true" if facts.is_slice else "false",
        "nvtx_range_count": ranges.range_count,
        "nvtx_mark_count": ranges.mark_count,
        "nvtx_kept_count": ranges.frame.height,
        "nvtx_open_count": ranges.open_count,
        "nvtx_cross_thread_count": ranges.cross_thread_count,
        **facts.others,
    }
    rows = [("", name, str(value)) for name, value in sorted(capture.items()) if value is not None]
    for gpu in gpus:
        of_gpu = {
            "clock_hz": gpu.clock_hz,
            "compute_capability": gpu.compute_capability,
            "gpu_memory_bytes": gpu.memory_bytes,
            "gpu_name": gpu.name,
            "hbm_bytes_per_s": gpu.memory_bytes_per_s,
            "l2_bytes": gpu.l2_bytes,
            "sm_count": gpu.sm_count,
        }
        rows += [(device_scope(gpu), name, str(value)) for name, value in of_gpu.items() if value is not None]
    return pl.DataFrame(
        rows, schema={"scope": pl.String, "name": pl.String, "value": pl.String}, orient="row"
    )


def settings_frame(gpus: Iterable[Gpu]) -> pl.DataFrame:
    """Return the rows of ``raw_settings``: what the ledgers need to know of each GPU."""
    rows: list[tuple[int, str, str, str, str | None]] = []
    for gpu in gpus:
        values = (
            ("gpu_memory_bytes", gpu.memory_bytes, "bytes"),
            ("gpu_name", gpu.name, None),
            ("hbm_bytes_per_s", gpu.memory_bytes_per_s, "bytes_per_s"),
            ("l2_bytes", gpu.l2_bytes, "bytes"),
            ("sm_count", gpu.sm_count, None),
        )
        rows += [
            (0, device_scope(gpu), name, str(value), unit)
            for name, value, unit in values
            if value is not None
        ]
    schema = {
        "line_no": pl.Int64,
        "scope": pl.String,
        "name": pl.String,
        "value": pl.String,
        "unit": pl.String,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def device_scope(gpu: Gpu) -> str:
    """Return the scope text of a GPU in facts and settings."""
    return f"device:{gpu.device_id}"
