"""Nsight Systems exports as Parquet or Arrow tables, brought into the form that the reader reads: SQLite.

All forms have the same tables and columns, so one reader serves them all. Only what it asks for is copied.
"""

import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import adbc_driver_manager
import adbc_driver_sqlite
import polars as pl

from kvcliff.errors import InputError
from kvcliff.readers.arrow_streams import ArrowDamage, read_batches
from kvcliff.readers.base import Source

_BATCH_ROWS = 1 << 17
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
_AGAIN_HINT = (
    "copy it again, or export the report anew: nsys export -t sqlite -f true -o run.sqlite run.nsys-rep"
)
_DAMAGE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, ArrowDamage, OSError, ValueError)


def folder_to_sqlite(source: Source, target: Path) -> None:
    """Write the tables of a folder of Parquet or Arrow files into a new SQLite file.

    Raises:
        InputError: a file of the folder is damaged; its name is in the message.
    """
    with _Writer.open(target) as writer:
        for table, columns in TABLES.items():
            for suffix, read in ((".parquet", _parquet_frames), (".arrow", _arrow_frames)):
                path = source.path / f"{table}{suffix}"
                # The listing leaves out links that lead out of the export.
                if path.name not in source.listing:
                    continue
                try:
                    for frame in read(path, columns):
                        writer.append(table, frame)
                except _DAMAGE as exc:
                    raise _damaged(f"{source.relative}/{path.name}", exc) from exc
                break


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
            with _mapped(path) as data:
                for batch in read_batches(data):
                    if batch.table in TABLES:
                        writer.append(batch.table, batch.frame(TABLES[batch.table]))
        except _DAMAGE as exc:
            raise _damaged(source.relative, exc) from exc


def _damaged(name: str, exc: BaseException) -> InputError:
    why = str(exc) if isinstance(exc, ArrowDamage) else type(exc).__name__
    return InputError(f"{name} is damaged: {why}", hint=_AGAIN_HINT)


def _parquet_frames(path: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    lazy = pl.scan_parquet(path, glob=False)
    present = lazy.collect_schema().names()
    chosen = lazy.select([name for name in columns if name in present])
    yield chosen.head(0).collect()
    yield from chosen.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=True)


def _arrow_frames(path: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    with _mapped(path) as data:
        for batch in read_batches(data):
            yield batch.frame(columns)


@contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        view = memoryview(mapped)
        try:
            yield view
        finally:
            view.release()


class _Writer:
    """Appends frames to tables of a new SQLite file."""

    def __init__(self, connection: adbc_driver_manager.AdbcConnection) -> None:
        self._connection = connection
        self._known: set[str] = set()
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
        """Append rows as SQLite exports hold them: 64-bit ids signed, texts as texts."""
        unsigned = [name for name, dtype in frame.schema.items() if dtype == pl.UInt64]
        rows = frame.with_columns(pl.col(name).reinterpret(signed=True) for name in unsigned)
        # nsys 2022 writes texts as bytes.
        rows = rows.with_columns(
            _texts(rows[name]) for name, dtype in rows.schema.items() if dtype == pl.Binary
        )
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


def _texts(column: pl.Series) -> pl.Series:
    """Return bytes as texts; bytes that are no UTF-8 must not stop the reading."""
    texts = [None if value is None else value.decode("utf-8", "replace") for value in column.to_list()]
    return pl.Series(column.name, texts, dtype=pl.String)
