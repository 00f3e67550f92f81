"""Nsight Systems exports as Parquet or Arrow tables, brought into the form that the reader reads: SQLite.

All forms have the same tables and columns, so one reader serves them all. Only what it asks for is copied.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import adbc_driver_manager
import adbc_driver_sqlite
import polars as pl

from kvcliff.readers.arrow_streams import read_batches
from kvcliff.readers.base import Source
from kvcliff.readers.nsight_systems_files import (
    DAMAGE,
    READERS,
    TableFile,
    TooMuchText,
    as_texts,
    damaged,
    mapped,
)

_TIMES = ("start", "end")
_PLACE = ("deviceId", "globalPid", "streamId", "correlationId")
_NAME_VALUE = ("name", "value")
#: Tables and columns that the reader asks for. The others stay in the file: some hold environments and paths.
TABLES: Final[dict[str, tuple[str, ...]]] = {
    "StringIds": ("id", "value"),
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        *_TIMES,
        *_PLACE,
        "demangledName",
        "shortName",
        "graphNodeId",
        "gridX",
    ),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": (*_TIMES, *_PLACE, "graphId", "graphExecId"),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (*_TIMES, *_PLACE, "copyKind", "srcKind", "dstKind", "bytes"),
    "CUPTI_ACTIVITY_KIND_MEMSET": (*_TIMES, *_PLACE, "memKind", "bytes"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (*_TIMES, "globalTid", "correlationId", "nameId"),
    "NVTX_EVENTS": (
        *_TIMES,
        "eventType",
        "globalTid",
        "endGlobalTid",
        "domainId",
        "text",
        "textId",
        "int64Value",
        "uint64Value",
        "int32Value",
        "uint32Value",
    ),
    "GPU_METRICS": ("timestamp", "typeId", "metricId", "value"),
    "TARGET_INFO_GPU_METRICS": ("typeId", "metricId", "metricName"),
    "META_DATA_EXPORT": _NAME_VALUE,
    "EXPORT_META_DATA": _NAME_VALUE,
    "META_DATA_CAPTURE": _NAME_VALUE,
    "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs", "systemClockNs"),
    "TARGET_INFO_SYSTEM_ENV": _NAME_VALUE,
    "TARGET_INFO_GPU": (
        "id",
        "name",
        "memoryBandwidth",
        "totalMemory",
        "smCount",
        "l2CacheSize",
        "clockRate",
        "computeMajor",
        "computeMinor",
    ),
    "TARGET_INFO_CUDA_DEVICE": ("gpuId", "cudaId", "pid"),
    "ANALYSIS_DETAILS": ("duration",),
    "DIAGNOSTIC_EVENT": ("timestamp", "text"),
    "OSRT_API": ("end",),
    "SCHED_EVENTS": ("start",),
    "CUDA_GPU_MEMORY_USAGE_EVENTS": (
        "start",
        "globalPid",
        "deviceId",
        "contextId",
        "address",
        "bytes",
        "memKind",
        "memoryOperationType",
    ),
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": ("start", "globalPid", "deviceId", "numberOfPageFaults"),
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": ("start", "globalPid"),
    "NET_NIC_METRIC": (*_TIMES, "globalId", "metricsListId", "metricsIdx", "value"),
    "TARGET_INFO_NETWORK_METRICS": ("metricsListId", "metricsIdx", "name", "unit"),
}
#: Texts of ten million ranges and kernels take a quarter of it.
_MOST_TEXT_BYTES: Final = 4 << 30
#: The largest tables, of which next to nothing is asked but their rows: those are read where they lie.
READ_IN_PLACE: Final = frozenset({"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"})


def folder_to_sqlite(source: Source, target: Path) -> dict[str, TableFile]:
    """Write the tables of a folder of Parquet or Arrow files into a new SQLite file.

    Returns:
        The tables that are not in it, because they are read in place.

    Raises:
        InputError: a file of the folder is damaged; its name is in the message.
    """
    in_place: dict[str, TableFile] = {}
    with _Writer.open(target) as writer:
        for table, columns in TABLES.items():
            file = _table_file(source, table, columns)
            if file is None:
                continue
            if table in READ_IN_PLACE:
                in_place[table] = file
                continue
            try:
                for frame in file.read(file.path, columns):
                    writer.append(table, frame)
            except DAMAGE as exc:
                raise damaged(file.name, exc) from exc
    return in_place


def _table_file(source: Source, table: str, columns: tuple[str, ...]) -> TableFile | None:
    for suffix, read in READERS.items():
        path = source.path / f"{table}{suffix}"
        # The listing leaves out links that lead out of the export.
        if path.name in source.listing:
            return TableFile(f"{source.relative}/{path.name}", path, columns, read)
    return None


def arrows_to_sqlite(source: Source, path: Path, target: Path) -> None:
    """Write the tables of one file of concatenated Arrow streams into a new SQLite file.

    Args:
        source: the export.
        path: where it lies uncompressed.
        target: file to write.

    Raises:
        InputError: the file is damaged or cut: the tables behind the cut would be missing silently.
    """
    with _Writer.open(target) as writer:
        try:
            with mapped(path) as data:
                for batch in read_batches(data):
                    if batch.table in TABLES:
                        writer.append(batch.table, batch.frame(TABLES[batch.table]))
        except DAMAGE as exc:
            raise damaged(source.relative, exc) from exc


def _text_bytes(column: pl.Series) -> int:
    """Return how long the texts of a column are together; a dictionary is not written out for it."""
    if column.dtype == pl.Categorical:
        lengths = column.cat.len_bytes()
    elif column.dtype == pl.String:
        lengths = column.str.len_bytes()
    else:
        return 0
    # As they are, in 32 bits, their sum would begin anew at 4 GiB.
    return int(lengths.cast(pl.Int64).sum())


class _Writer:
    """Appends frames to tables of a new SQLite file."""

    def __init__(self, connection: adbc_driver_manager.AdbcConnection) -> None:
        self._connection = connection
        self._known: set[str] = set()
        self._text_bytes = 0
        # The file is thrown away after reading: nothing of it has to survive a crash.
        for pragma in ("pragma journal_mode = off", "pragma synchronous = off"):
            with adbc_driver_manager.AdbcStatement(connection) as statement:
                statement.set_sql_query(pragma)
                statement.execute_query()

    @classmethod
    @contextmanager
    def open(cls, target: Path) -> Iterator["_Writer"]:
        with (
            adbc_driver_sqlite.connect(target.absolute().as_uri()) as database,
            adbc_driver_manager.AdbcConnection(database) as connection,
        ):
            yield cls(connection)

    def append(self, table: str, frame: pl.DataFrame) -> None:
        """Append rows as SQLite exports hold them: 64-bit ids signed, texts as texts.

        Raises:
            TooMuchText: a dictionary makes texts of a few bytes fill the disk.
        """
        unsigned = [name for name, dtype in frame.schema.items() if dtype == pl.UInt64]
        rows = frame.with_columns(pl.col(name).reinterpret(signed=True) for name in unsigned)
        # nsys 2022 writes texts as bytes.
        rows = rows.with_columns(
            as_texts(rows[name]) for name, dtype in rows.schema.items() if dtype == pl.Binary
        )
        self._text_bytes += sum(map(_text_bytes, rows.get_columns()))
        if self._text_bytes > _MOST_TEXT_BYTES:
            raise TooMuchText(f"its texts take more than {_MOST_TEXT_BYTES >> 20:,} MiB")
        mode = "append" if table in self._known else "create"
        if not frame.columns or (mode == "append" and not frame.height):
            return
        self._known.add(table)
        with adbc_driver_manager.AdbcStatement(self._connection) as statement:
            statement.set_options(
                **{"adbc.ingest.target_table": table, "adbc.ingest.mode": f"adbc.ingest.mode.{mode}"}
            )
            statement.bind_stream(rows)
            statement.execute_update()
