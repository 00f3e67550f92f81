"""A builder of small Nsight Systems SQLite exports, and the trace marts built from them."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
from tests.builders_raw import needed

from kvcliff.readers.base import LoadReport, ReadContext, Source
from kvcliff.readers.nsight_systems import READER
from kvcliff.store.models import build_models, create_raw_tables, load_macros, load_models, load_seeds

UTC_NS = 1_700_000_000_000_000_000
VM = 1 << 48
#: Marts that stand on GPU traces.
TRACE_MARTS = (
    "kernel_phases",
    "kernel_names",
    "steps",
    "phase_totals",
    "kernel_families",
    "transfers",
    "gpu_samples",
)
FA2_DECODE = (
    "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, "
    "cutlass::bfloat16_t>, false, false, false, false, true, true, false, false>(flash::Flash_fwd_params)"
)
FA2_OTHER = FA2_DECODE.replace("bfloat16_t>, false, false", "bfloat16_t>, true, false")
FA3_DECODE = (
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<"
    "flash::CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1>>, "
    "cute::tuple<cute::C<64>, cute::C<128>, cute::C<128>>, 128, cutlass::bfloat16_t, float, "
    "cutlass::arch::Sm90, false, false, false, true, true>>>>(T1::Params)"
)
FA3_WIDE = FA3_DECODE.replace("cute::C<64>, ", "cute::C<128>, ").replace("Sm90, false", "Sm90, true")
KV_WRITE = "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>(const T1 *)"
FI_DECODE = "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0>(T9)"
FI_PREFILL = "void flashinfer::BatchPrefillWithPagedKVCacheKernel<(flashinfer::MaskMode)1>(T2)"
FI_MERGE = "void flashinfer::PersistentVariableLengthMergeStatesKernel<8u>(T5 *)"
GEMM = "nvjet_tst_128x64_64x8_2x1_v_bz_coopA_TNT"
ALL_REDUCE = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData *, T1 *, int, int)"
SOFTMAX = "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4>(T4 *)"


def global_pid(pid: int) -> int:
    """Return the id of a process as the exporter writes it."""
    return VM | (pid << 24)


def global_tid(pid: int, tid: int) -> int:
    """Return the id of a thread as the exporter writes it."""
    return VM | (pid << 24) | tid


@dataclass
class NsysFile:
    """Rows of an export that is written at the end; tables without rows are absent, as in lazy exports."""

    utc_ns: int = UTC_NS
    schema: str = "3.25.0"
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    strings: dict[str, int] = field(default_factory=dict)
    correlation: int = 100

    def text(self, value: str) -> int:
        """Return the string id of a text."""
        return self.strings.setdefault(value, len(self.strings) + 1)

    def add(self, table: str, **columns: Any) -> None:
        """Add a row to a table of the export."""
        self.rows.setdefault(table, []).append(columns)

    def kernel(self, name: str, start: int, end: int, **more: Any) -> None:
        """Add a kernel; without ``correlationId`` it also gets a launch 10 ns before it."""
        pid = more.pop("pid", 500)
        if "correlationId" not in more:
            more["correlationId"] = self.launch(start - 10, pid=pid, thread=more.pop("thread", 1))
        columns = {
            "start": start,
            "end": end,
            "deviceId": 0,
            "streamId": 7,
            "globalPid": global_pid(pid),
            "demangledName": self.text(name),
            "shortName": self.text(name.split("<", maxsplit=1)[0]),
            "graphNodeId": None,
            "gridX": 1,
            "gridY": 1,
            "gridZ": 1,
            "blockX": 128,
        }
        self.add("CUPTI_ACTIVITY_KIND_KERNEL", **{**columns, **more})

    def launch(
        self,
        start: int,
        *,
        name: str = "cudaLaunchKernel_v7000",
        pid: int = 500,
        thread: int = 1,
        length: int = 5,
    ) -> int:
        """Add an API call and return its correlation id."""
        self.correlation += 1
        self.add(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=start,
            end=start + length,
            eventClass=0,
            globalTid=global_tid(pid, thread),
            correlationId=self.correlation,
            nameId=self.text(name),
            returnValue=0,
        )
        return self.correlation

    def graph_launch(self, start: int, **more: Any) -> int:
        """Add a graph launch call and return its correlation id."""
        return self.launch(start, name="cudaGraphLaunch_v10000", **more)

    def copy(self, start: int, end: int, size: int, kind: int, **more: Any) -> None:
        """Add a copy (1 host to device, 2 device to host, 8 on the device) with its launch call."""
        pid = more.pop("pid", 500)
        host = more.pop("host", 1)
        correlation = self.launch(start - 10, name="cudaMemcpyAsync_v3020", pid=pid)
        columns = {
            "start": start,
            "end": end,
            "deviceId": 0,
            "streamId": 20,
            "correlationId": correlation,
            "globalPid": global_pid(pid),
            "bytes": size,
            "copyKind": kind,
            "srcKind": host if kind == 1 else 2,
            "dstKind": host if kind == 2 else 2,
        }
        self.add("CUPTI_ACTIVITY_KIND_MEMCPY", **{**columns, **more})

    def graph(self, start: int, end: int, **more: Any) -> None:
        """Add a graph traced as a whole, with its launch call."""
        pid = more.pop("pid", 500)
        correlation = self.graph_launch(more.pop("launched", start - 10), pid=pid)
        columns = {
            "start": start,
            "end": end,
            "deviceId": 0,
            "streamId": 7,
            "correlationId": correlation,
            "globalPid": global_pid(pid),
            "graphId": 1,
            "graphExecId": 2,
        }
        self.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", **{**columns, **more})

    def range(self, text: str, start: int, end: int | None, *, inline: bool = False, **more: Any) -> None:
        """Add an NVTX push/pop range."""
        pid, thread = more.pop("pid", 500), more.pop("thread", 1)
        columns = {
            "start": start,
            "end": end,
            "eventType": 59,
            "text": text if inline else None,
            "globalTid": global_tid(pid, thread),
            "endGlobalTid": None,
            "textId": None if inline else self.text(text),
            "domainId": 0,
            "int64Value": None,
        }
        self.add("NVTX_EVENTS", **{**columns, **more})

    def meta(self, name: str, value: str, table: str = "META_DATA_EXPORT") -> None:
        """Add a metadata row."""
        self.add(table, name=name, value=value)

    def gpu(self, device: int = 0, **more: Any) -> None:
        """Add the description of a GPU."""
        columns = {
            "id": device,
            "name": "NVIDIA H100 80GB HBM3",
            "memoryBandwidth": 3_352_320_000_000,
            "totalMemory": 84_929_347_584,
            "smCount": 132,
            "l2CacheSize": 52_428_800,
        }
        self.add("TARGET_INFO_GPU", **{**columns, **more})

    def write(self, path: Path) -> Path:
        """Write the export and return its path."""
        self.meta("EXPORT_SCHEMA_VERSION", self.schema)
        self.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=self.utc_ns)
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("create table StringIds (id integer primary key, value text not null)")
            db.executemany(
                "insert into StringIds values (?, ?)", [(key, text) for text, key in self.strings.items()]
            )
            for table, rows in self.rows.items():
                _write_table(db, table, rows)
        db.close()
        return path


def _write_table(db: sqlite3.Connection, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = ", ".join(f'"{name}"' for name in names)
    db.execute(f'create table "{table}" ({columns})')
    marks = ", ".join("?" for _ in names)
    db.executemany(
        f'insert into "{table}" values ({marks})', [tuple(row.get(name) for name in names) for row in rows]
    )


class TableSink:
    """Puts a reader's frames into the raw tables of one source."""

    def __init__(self, con: duckdb.DuckDBPyConnection, source_id: int) -> None:
        self._con = con
        self._source_id = source_id

    def append(self, table: str, frame: pl.DataFrame) -> int:
        """Insert the rows by column name and return how many."""
        columns = ", ".join(f'"{name}"' for name in frame.columns)
        self._con.register("sink_frame", frame)
        self._con.execute(
            f"insert into temp.{table} (source_id, {columns}) select ?, {columns} from sink_frame",
            [self._source_id],
        )
        self._con.unregister("sink_frame")
        return frame.height


def raw_tables() -> duckdb.DuckDBPyConnection:
    """Return a connection with empty raw tables, seeds, macros and the store's tables."""
    con = duckdb.connect()
    con.execute("set threads = 1")
    create_raw_tables(con)
    load_seeds(con)
    load_macros(con)
    con.execute(
        "create temp table sources (source_id integer, path varchar, reader varchar, role varchar, "
        "level varchar, level_number double, replica varchar)"
    )
    con.execute("create temp table clocks (source_id integer, offset_ns bigint, uncertainty_ns bigint)")
    return con


def read_export(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    source_id: int = 1,
    *,
    options: Mapping[str, str] | None = None,
) -> LoadReport:
    """Load a file into the raw tables and return the reader's report."""
    source = Source(path, path.name, is_dir=path.is_dir())
    return READER.load(source, TableSink(con, source_id), ReadContext(options=options or {}))


def build_marts(con: duckdb.DuckDBPyConnection, marts: Iterable[str] = TRACE_MARTS) -> None:
    """Build marts and what they read, each model once."""
    wanted = {model.name for mart in marts for model in needed(mart, frozenset())}
    build_models(con, tuple(model for model in load_models() if model.name in wanted))


def trace_marts(
    *paths: Path, levels: Sequence[str | None] = (), offset_ns: int = UTC_NS
) -> duckdb.DuckDBPyConnection:
    """Return a connection with the trace marts of these exports; their clocks get ``offset_ns``."""
    con = raw_tables()
    for source_id, path in enumerate(paths, 1):
        read_export(con, path, source_id)
        level = levels[source_id - 1] if levels else None
        con.execute(
            "insert into sources values (?, ?, 'nsight_systems', 'trace', ?, null, null)",
            [source_id, path.name, level],
        )
        con.execute("insert into clocks values (?, ?, 0)", [source_id, offset_ns])
    build_marts(con)
    return con
