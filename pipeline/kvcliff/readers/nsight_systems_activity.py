"""GPU work and launch calls of an Nsight Systems export as frames for the raw tables."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from kvcliff.readers.nsight_systems_export import Bits, Column, Export, Only

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
SETS = "CUPTI_ACTIVITY_KIND_MEMSET"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"

#: Process key: the global id without its thread part; negative ids are unsigned ones reinterpreted.
_PROCESS = Bits(24, 0xFF_FFFF_FFFF)
_THREAD = Bits(0, 0xFF_FFFF)
#: deviceId of work that the host started for no particular device.
_NO_DEVICE = 2**31 - 1
_COPY_KINDS = {
    1: "htod",
    2: "dtoh",
    8: "dtod",
    9: "htoh",
    10: "ptop",
    11: "uvm_htod",
    12: "uvm_dtoh",
    13: "uvm_dtod",
}
_MEMORY_KINDS = {
    0: "pageable",
    1: "pinned",
    2: "device",
    3: "device",
    4: "managed",
    5: "device",
    6: "managed",
}
_CALL_GLOBS = (
    "cudaLaunch*",
    "cuLaunch*",
    "cudaGraphLaunch*",
    "cuGraphLaunch*",
    "cudaMemcpy*",
    "cuMemcpy*",
    "cudaMemset*",
    "cuMemset*",
    "cudaStreamSynchronize*",
    "cuStreamSynchronize*",
    "cudaEventSynchronize*",
    "cuEventSynchronize*",
    "cudaDeviceSynchronize*",
    "cuCtxSynchronize*",
)
_CALL_KINDS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"cu(?:da)?LaunchHostFunc"), ""),
    (re.compile(r"cu(?:da)?Launch"), "kernel"),
    (re.compile(r"cu(?:da)?GraphLaunch"), "graph"),
    (re.compile(r"cu(?:da)?Memcpy"), "copy"),
    (re.compile(r"cu(?:da)?Memset"), "set"),
    (re.compile(r"cu(?:da)?(?:Stream|Event|Device|Ctx)Synchronize"), "sync"),
)
#: Where something happened: enough to number its GPU as the host does.
PLACED = (
    Column("device_id", "deviceId", pl.Int32),
    Column("process_id", "globalPid", pl.UInt64, _PROCESS),
)
_PLACE = (
    *PLACED,
    Column("stream_id", "streamId", pl.Int32),
    Column("correlation_id", "correlationId", pl.Int64),
)
_TIMES = (Column("start_src_ns", "start", pl.Int64), Column("end_src_ns", "end", pl.Int64))
_KERNEL_COLUMNS = (
    *_PLACE,
    Column("kernel_id", "demangledName", pl.Int32),
    Column("short_id", "shortName", pl.Int32),
    Column("graph_node_id", "graphNodeId", pl.UInt64, is_bits=True),
    Column("grid_x", "gridX", pl.Int32),
    *_TIMES,
)
_GRAPH_COLUMNS = (
    *_PLACE,
    Column("graph_id", "graphId", pl.Int64),
    Column("graph_exec_id", "graphExecId", pl.Int64),
    *_TIMES,
)
_COPY_COLUMNS = (
    *_PLACE,
    Column("kind_id", "copyKind", pl.Int32),
    Column("source_id_", "srcKind", pl.Int32),
    Column("target_id_", "dstKind", pl.Int32),
    Column("bytes", "bytes", pl.Int64),
    *_TIMES,
)
_SET_COLUMNS = (
    *_PLACE,
    Column("target_id_", "memKind", pl.Int32),
    Column("bytes", "bytes", pl.Int64),
    *_TIMES,
)
_CALL_COLUMNS = (
    Column("process_id", "globalTid", pl.UInt64, _PROCESS),
    Column("thread_id", "globalTid", pl.Int64, _THREAD),
    Column("correlation_id", "correlationId", pl.Int64),
    Column("name_id", "nameId", pl.Int64),
    *_TIMES,
)


@dataclass
class Devices:
    """GPU index on the host by (process key, CUDA ordinal of that process).

    Attributes:
        by_process: mapping of the export's device table; empty when the export has none.
        is_remapped: whether any process numbers its GPUs differently from the host.
    """

    by_process: Mapping[tuple[int, int], int] = field(default_factory=dict)

    @property
    def is_remapped(self) -> bool:
        """Return whether any process numbers its GPUs differently from the host."""
        return any(ordinal != gpu for (_, ordinal), gpu in self.by_process.items())

    def place(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the frame with ``device_id`` as the GPU index on the host; unknown devices become NULL."""
        device = pl.when(pl.col("device_id") != _NO_DEVICE).then(pl.col("device_id"))
        frame = frame.with_columns(device.alias("device_id"))
        if not self.is_remapped:
            return frame
        keys = sorted(self.by_process)
        table = pl.DataFrame(
            {
                "pid": [pid for pid, _ in keys],
                "device_id": [ordinal for _, ordinal in keys],
                "gpu": [self.by_process[key] for key in keys],
            },
            schema={"pid": pl.UInt64, "device_id": pl.Int32, "gpu": pl.Int32},
        )
        # The device table holds plain pids; the low 24 bits of the process key are the pid.
        keyed = frame.with_columns((pl.col("process_id") & 0xFF_FFFF).alias("pid"))
        joined = keyed.join(table, on=["pid", "device_id"], how="left", maintain_order="left")
        return joined.with_columns(pl.coalesce("gpu", "device_id").alias("device_id")).drop("pid", "gpu")


def read_devices(export: Export) -> Devices:
    """Return the numbering of GPUs of the export."""
    if not export.has("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId", "pid"):
        return Devices()
    sql = "select pid, cudaId, gpuId from TARGET_INFO_CUDA_DEVICE where gpuId is not null order by 1, 2, 3"
    rows = export.rows(sql)
    return Devices({(pid & 0xFF_FFFF, ordinal): gpu for pid, ordinal, gpu in rows})


def _shifted(frame: pl.DataFrame, shift_ns: int) -> pl.DataFrame:
    if shift_ns == 0:
        return frame
    # A graph that could not be timed is written as 0/0 and stays so.
    untimed = (pl.col("start_src_ns") == 0) & (pl.col("end_src_ns") == 0)
    return frame.with_columns(
        pl.when(untimed).then(0).otherwise(pl.col(name) - shift_ns).alias(name)
        for name in ("start_src_ns", "end_src_ns")
    )


@dataclass
class KernelNotes:
    """What is remembered of the kernels while they are read, so that nobody has to read them twice.

    Attributes:
        pairs: short name id by name id; the smallest one of a name.
        graph_node_count: kernels that a CUDA graph launched.
        last_end_ns: latest end on the shifted clock, 0 without kernels.
    """

    pairs: dict[int, int | None] = field(default_factory=dict)
    graph_node_count: int = 0
    last_end_ns: int = 0

    def note(self, frame: pl.DataFrame) -> None:
        """Remember a batch of rows for ``raw_kernels`` that still have their short name ids."""
        self.graph_node_count += frame.height - frame["graph_node_id"].null_count()
        latest = frame["end_src_ns"].max()
        self.last_end_ns = max(self.last_end_ns, latest if isinstance(latest, int) else 0)
        grouped = frame.group_by("kernel_id").agg(pl.col("short_id").min()).drop_nulls("kernel_id")
        for kernel_id, short_id in grouped.iter_rows():
            known = self.pairs.get(kernel_id)
            is_better = known is None or (short_id is not None and short_id < known)
            self.pairs[kernel_id] = short_id if is_better else known

    def frame(self, export: Export) -> pl.DataFrame:
        """Return the rows of ``raw_kernel_names``."""
        wanted = sorted({key for pair in self.pairs.items() for key in pair if key is not None})
        texts: dict[int, str] = {}
        if export.has("StringIds", "id", "value"):
            ids = "[" + ",".join(map(str, wanted)) + "]"
            sql = "select id, value from StringIds where id in (select value from json_each(?))"
            texts = dict(export.rows(sql, (ids,)))
        return pl.DataFrame(
            [
                (
                    kernel_id,
                    texts.get(kernel_id, f"kernel#{kernel_id}"),
                    None if short is None else texts.get(short),
                )
                for kernel_id, short in sorted(self.pairs.items())
            ],
            schema={"kernel_id": pl.Int32, "name": pl.String, "short_name": pl.String},
            orient="row",
        )


def read_kernels(
    export: Export, shift_ns: int, devices: Devices, notes: KernelNotes
) -> Iterator[pl.DataFrame]:
    """Yield batches for ``raw_kernels`` and take notes of them."""
    number = 0
    present = export.tables.get(KERNELS, ())
    columns = [
        replace(column, export="shortName")
        if column.name == "kernel_id" and column.export not in present
        else column
        for column in _KERNEL_COLUMNS
    ]
    for frame in export.event_frames(KERNELS, columns):
        placed = devices.place(_shifted(_numbered(frame, "kernel_no", number), shift_ns))
        notes.note(placed)
        yield placed.drop("short_id")
        number += frame.height


def read_graphs(export: Export, shift_ns: int, devices: Devices) -> Iterator[pl.DataFrame]:
    """Yield batches for ``raw_graph_launches``."""
    number = 0
    for frame in export.frames(GRAPHS, _GRAPH_COLUMNS):
        yield devices.place(_shifted(_numbered(frame, "graph_launch_no", number), shift_ns))
        number += frame.height


def read_copies(export: Export, shift_ns: int, devices: Devices) -> Iterator[pl.DataFrame]:
    """Yield batches for ``raw_copies``: copies first, then sets."""
    number = 0
    for frame in export.frames(COPIES, _COPY_COLUMNS):
        named = frame.with_columns(
            pl.col("kind_id")
            .replace_strict(_COPY_KINDS, default="other", return_dtype=pl.String)
            .alias("kind"),
            _memory("source_id_", "source_memory"),
            _memory("target_id_", "target_memory"),
        ).drop("kind_id", "source_id_", "target_id_")
        yield devices.place(_shifted(_numbered(named, "copy_no", number), shift_ns))
        number += frame.height
    for frame in export.frames(SETS, _SET_COLUMNS):
        named = frame.with_columns(
            pl.lit("memset").alias("kind"),
            pl.lit(None, pl.String).alias("source_memory"),
            _memory("target_id_", "target_memory"),
        ).drop("target_id_")
        yield devices.place(_shifted(_numbered(named, "copy_no", number), shift_ns))
        number += frame.height


def _memory(column: str, name: str) -> pl.Expr:
    text = pl.col(column).replace_strict(_MEMORY_KINDS, default="other", return_dtype=pl.String)
    return pl.when(pl.col(column).is_not_null()).then(text).alias(name)


def _numbered(frame: pl.DataFrame, name: str, first: int) -> pl.DataFrame:
    return frame.with_columns(pl.int_range(first, first + frame.height, dtype=pl.Int64).alias(name))


def call_kinds(export: Export) -> dict[int, str]:
    """Return what each call does that launches or waits (kernel, graph, copy, set, sync), by its name id."""
    if not export.has("StringIds", "id", "value"):
        return {}
    condition = " or ".join(["value glob ?"] * len(_CALL_GLOBS))
    kinds: dict[int, str] = {}
    for key, text in export.rows(f"select id, value from StringIds where {condition}", _CALL_GLOBS):  # noqa: S608
        kind = next((kind for pattern, kind in _CALL_KINDS if pattern.match(text)), "")
        if kind:
            kinds[key] = kind
    return kinds


def read_launches(export: Export, shift_ns: int) -> Iterator[pl.DataFrame]:
    """Yield batches for ``raw_launches``: calls that put work on a GPU or wait for it, no others."""
    kinds = call_kinds(export)
    if not kinds or not export.has(CALLS, "nameId", "correlationId"):
        return
    only = Only("nameId", tuple(sorted(kinds)), "correlationId")
    seen = _SeenCalls()
    for frame in export.event_frames(CALLS, _CALL_COLUMNS, only):
        call = pl.col("name_id").replace_strict(kinds, default=None, return_dtype=pl.String).alias("call")
        yield seen.only_new(_shifted(frame.with_columns(call).drop("name_id"), shift_ns))


@dataclass
class _SeenCalls:
    """Keeps (process, correlation id) unique: a call seen by two APIs counts once, the first one."""

    highest: dict[int | None, int] = field(default_factory=dict)
    earlier: list[pl.DataFrame] = field(default_factory=list)

    def only_new(self, frame: pl.DataFrame) -> pl.DataFrame:
        keys = frame.select("process_id", "correlation_id")
        if not self._is_ascending(frame):
            frame = frame.unique(["process_id", "correlation_id"], keep="first", maintain_order=True)
            if self.earlier:
                known = pl.concat(self.earlier)
                frame = frame.join(
                    known, on=["process_id", "correlation_id"], how="anti", maintain_order="left"
                )
        self.earlier.append(keys)
        for process, highest in keys.group_by("process_id").agg(pl.col("correlation_id").max()).iter_rows():
            self.highest[process] = max(highest, self.highest.get(process, highest))
        return frame

    def _is_ascending(self, frame: pl.DataFrame) -> bool:
        """Ids of a process that only grow cannot repeat; this holds in nearly every file and costs little."""
        if frame["process_id"].null_count():
            return False
        for (process,), part in frame.partition_by("process_id", as_dict=True, maintain_order=True).items():
            ids = part["correlation_id"]
            if ids[0] <= self.highest.get(process, ids[0] - 1) or (ids.diff().drop_nulls() <= 0).any():
                return False
        return True


def last_event_ns(export: Export, shift_ns: int, notes: KernelNotes) -> int:
    """Return the latest end among GPU work, API and OS calls of the export (0 when there is none)."""
    latest = notes.last_end_ns
    for table in (GRAPHS, COPIES, SETS, CALLS, "OSRT_API"):
        end = export.latest(table, "end")
        latest = max(latest, 0 if end is None else end - shift_ns)
    return latest
