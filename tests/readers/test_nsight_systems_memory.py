"""Allocations, page faults and migrations of a GPU trace, from exports built after the documented schema."""

from pathlib import Path

import duckdb
from tests.builders_nsys import GEMM, UTC_NS, NsysFile, global_pid, raw_tables, read_export, trace_marts

from kvcliff.readers import nsight_systems_memory as memory
from kvcliff.readers.nsight_systems_tables import TABLES


def usage(file: NsysFile, start: int, operation: int, address: int, size: int, **more: int) -> None:
    """Add an allocation (0) or a free (1) of device memory."""
    columns = {
        "start": start,
        "globalPid": global_pid(more.pop("pid", 500)),
        "deviceId": 0,
        "contextId": 1,
        "address": address,
        "pc": 0,
        "bytes": size,
        "memKind": 2,
        "memoryOperationType": operation,
    }
    file.add("CUDA_GPU_MEMORY_USAGE_EVENTS", **{**columns, **more})


def counters(con: duckdb.DuckDBPyConnection, name: str) -> list[tuple[int | None, int, float]]:
    sql = "select device_id, src_ns, value from raw_gpu_metrics where counter = ? order by all"
    return con.execute(sql, [name]).fetchall()


def load(tmp_path: Path, file: NsysFile) -> duckdb.DuckDBPyConnection:
    con = raw_tables()
    read_export(con, file.write(tmp_path / "run.sqlite"))
    return con


def test_live_bytes_are_a_sum_per_device(tmp_path: Path) -> None:
    file = NsysFile()
    usage(file, 100, 0, 0xA000, 1 << 30)
    usage(file, 200, 0, 0xB000, 512)
    usage(file, 250, 0, 0xA000, 64, deviceId=1, contextId=2)
    usage(file, 300, 1, 0xB000, 512)
    # The same address in another context is another block.
    usage(file, 400, 1, 0xB000, 512, contextId=9)
    usage(file, 500, 1, 0xA000, 1 << 30)
    con = load(tmp_path, file)
    assert counters(con, "memory_allocated_bytes") == [
        (0, 100, 1 << 30),
        (0, 200, (1 << 30) + 512),
        (0, 300, 1 << 30),
        (0, 400, 1 << 30),
        (0, 500, 0),
        (1, 250, 64),
    ]


def test_a_free_of_earlier_memory_and_host_memory_count_nothing(tmp_path: Path) -> None:
    file = NsysFile()
    usage(file, 100, 1, 0xA000, 4096)
    usage(file, 200, 0, 0xA000, 100)
    usage(file, 300, 0, 0xC000, 1 << 20, memKind=1)
    usage(file, 400, 1, 0xA000, 100)
    usage(file, 500, 1, 0xA000, 100)
    con = load(tmp_path, file)
    assert [row[2] for row in counters(con, "memory_allocated_bytes")] == [0, 100, 0, 0]


def test_addresses_above_the_signed_range_and_devices_of_the_host(tmp_path: Path) -> None:
    file = NsysFile()
    file.add("TARGET_INFO_CUDA_DEVICE", gpuId=3, cudaId=0, pid=500)
    usage(file, 100, 0, -(1 << 40), 256)
    usage(file, 200, 1, -(1 << 40), 256)
    con = load(tmp_path, file)
    assert counters(con, "memory_allocated_bytes") == [(3, 100, 256), (3, 200, 0)]


def test_two_events_at_one_time_leave_the_later_state(tmp_path: Path) -> None:
    file = NsysFile()
    usage(file, 100, 0, 0xA000, 10)
    usage(file, 100, 0, 0xB000, 20)
    assert counters(load(tmp_path, file), "memory_allocated_bytes") == [(0, 100, 30)]


def test_page_faults_of_gpu_and_host(tmp_path: Path) -> None:
    file = NsysFile()
    fault = {"globalPid": global_pid(500), "address": 1}
    for start, count in ((100, 7), (100, 2), (300, 1)):
        table = "CUDA_UM_GPU_PAGE_FAULT_EVENTS"
        file.add(table, start=start, end=start + 5, deviceId=0, numberOfPageFaults=count, **fault)
    for start in (50, 50, 60):
        file.add("CUDA_UM_CPU_PAGE_FAULT_EVENTS", start=start, module=file.text("lib"), **fault)
    con = load(tmp_path, file)
    assert counters(con, "um_gpu_page_faults") == [(0, 100, 9), (0, 300, 1)]
    assert counters(con, "um_cpu_page_faults") == [(None, 50, 2), (None, 60, 1)]


def test_migrations_are_transfers_and_events_reach_the_mart(tmp_path: Path) -> None:
    file = NsysFile()
    file.kernel(GEMM, 100, 200)
    file.copy(1000, 3000, 65536, 11, host=4, streamId=0)
    usage(file, 100, 0, 0xA000, 4096)
    con = trace_marts(file.write(tmp_path / "run.sqlite"))
    rows = con.execute("select kind, bytes, is_kv_swap from transfers").fetchall()
    assert rows == [("uvm_htod", 65536, False)]
    rows = con.execute("select counter, value, ts_ns from gpu_samples").fetchall()
    assert rows == [("memory_allocated_bytes", 4096, UTC_NS + 100)]


def test_the_other_forms_bring_the_same_columns() -> None:
    for table, columns in ((memory.USAGE, memory._USAGE_COLUMNS), (memory.GPU_FAULTS, memory._FAULT_COLUMNS)):
        assert {column.export for column in columns} | {"start"} <= set(TABLES[table])
    assert "memKind" in TABLES[memory.USAGE]


def test_tables_without_rows_or_columns_give_nothing(tmp_path: Path) -> None:
    file = NsysFile()
    file.kernel(GEMM, 100, 200)
    file.add("CUDA_UM_GPU_PAGE_FAULT_EVENTS", start=100)
    con = load(tmp_path, file)
    assert con.execute("select counter, value from raw_gpu_metrics").fetchall() == [("um_gpu_page_faults", 1)]
