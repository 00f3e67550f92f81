"""Sections about GPU time, communication and copies, over marts built from small traces."""

from pathlib import Path

import duckdb
from tests.builders_nsys import (
    ALL_REDUCE,
    FA2_OTHER,
    GEMM,
    SOFTMAX,
    TRACE_MARTS,
    UTC_NS,
    NsysFile,
    build_marts,
    raw_tables,
    read_export,
)

from kvcliff.report.communication_section import communication_section
from kvcliff.report.document import Paragraph, Section, Table
from kvcliff.report.gpu_sections import gpu_time_section
from kvcliff.report.transfer_sections import transfer_section

DECODE = "execute_context_0(0)_generation_8(8)"
US = 1000


def marts(tmp_path: Path, file: NsysFile) -> duckdb.DuckDBPyConnection:
    con = raw_tables()
    read_export(con, file.write(tmp_path / "run.sqlite"))
    con.execute("insert into sources values (1, 'run.sqlite', 'nsight_systems', 'trace', null, null, null)")
    con.execute("insert into clocks values (1, ?, 0)", [UTC_NS])
    build_marts(con, (*TRACE_MARTS, "communication", "gpu_phase_use"))
    return con


def rows(section: Section | None, mart: str, *names: str) -> list[tuple[object, ...]]:
    """Return columns of the section's first table of a mart."""
    assert section is not None
    table = next(block for block in section.blocks if isinstance(block, Table) and block.mart == mart)
    at = [[column.name for column in table.columns].index(name) for name in names]
    return [tuple(row[index] for index in at) for row in table.rows]


def words(section: Section | None) -> str:
    assert section is not None
    return " ".join(block.text for block in section.blocks if isinstance(block, Paragraph))


def test_time_on_the_gpu_and_wall_time_are_told_apart(tmp_path: Path) -> None:
    file = NsysFile()
    file.range(DECODE, 0, 900 * US)
    file.kernel(GEMM, 100 * US, 200 * US)
    file.kernel(SOFTMAX, 150 * US, 250 * US, streamId=9)
    section = gpu_time_section(marts(tmp_path, file))
    assert rows(section, "phase_totals", "phase", "gpu_time_ns", "wall_ns") == [
        ("decode", 200 * US, 150 * US)
    ]
    assert "Time on the GPU counts kernels on parallel streams each" in words(section)
    kernels = rows(section, "phase_kernels", "phase", "family", "gpu_time_ns", "share_of_phase", "mean_ns")
    assert kernels == [
        ("decode", "gemm", 100 * US, 0.5, 100 * US),
        ("decode", "sampling", 100 * US, 0.5, 100 * US),
    ]


def test_the_five_largest_kernels_of_a_phase_are_shown(tmp_path: Path) -> None:
    file = NsysFile()
    file.range(DECODE, 0, 900 * US)
    for number in range(7):
        file.kernel(f"kernel_{number}", 100 * US * (number + 1), 100 * US * (number + 1) + 10 * number + 10)
    section = gpu_time_section(marts(tmp_path, file))
    names = [row[0] for row in rows(section, "phase_kernels", "short_name")]
    assert names == [f"kernel_{number}" for number in (6, 5, 4, 3, 2)]


def test_the_honest_union_says_why(tmp_path: Path) -> None:
    file = NsysFile()
    file.kernel(FA2_OTHER, 100, 200, gridX=9)
    file.kernel(SOFTMAX, 300, 400)
    section = gpu_time_section(marts(tmp_path, file))
    assert rows(section, "phase_totals", "phase") == [("prefill or mixed",)]
    assert "one attention launch serves the whole batch" in words(section)


def test_idle_time_by_cause(tmp_path: Path) -> None:
    """Late launch, then a wait for the GPU, then no step for 30 ms."""
    file = NsysFile()
    for at in (0, 1000 * US, 2000 * US, 33_000 * US):
        file.range(DECODE, at, at + 500 * US)
        file.kernel(GEMM, at + 100 * US, at + 400 * US)
    file.launch(1150 * US, name="cudaEventSynchronize_v3020", length=300 * US)
    section = gpu_time_section(marts(tmp_path, file))
    columns = ("host_bubble_ns", "sync_bubble_ns", "no_step_bubble_ns")
    assert rows(section, "steps", *columns) == [(700 * US, 700 * US, 30_700 * US)]


def test_hardware_use_by_phase(tmp_path: Path) -> None:
    file = NsysFile()
    file.range(DECODE, 0, 900)
    file.kernel(GEMM, 100, 200)
    source = 1 << 48
    for metric, name in ((1, "DRAM Read Bandwidth [Throughput %]"), (2, "SMs Active [Throughput %]")):
        file.add("TARGET_INFO_GPU_METRICS", typeId=source, metricId=metric, metricName=name)
    for at, read, active in ((50, 1, 2), (120, 80, 90), (160, 60, 90), (250, 0, 0)):
        for metric, value in ((1, read), (2, active)):
            file.add("GPU_METRICS", timestamp=at, typeId=source, metricId=metric, value=value)
    section = gpu_time_section(marts(tmp_path, file))
    columns = ("phase", "dram_read_ratio", "sm_active_ratio", "sample_count")
    assert rows(section, "gpu_phase_use", *columns) == [
        ("decode", 0.7, 0.9, 2),
        ("between steps", 0.005, 0.01, 2),
    ]


def test_communication_of_ranks_that_do_not_belong_together_has_no_waits(tmp_path: Path) -> None:
    file = NsysFile()
    for rank, shift in ((0, 0), (1, 5 * US)):
        where = {"pid": 500 + rank, "deviceId": rank}
        file.range(DECODE, 0, 900 * US, pid=500 + rank)
        for at in (100 * US, 200 * US):
            file.kernel(GEMM, at, at + 50 * US, **where)
            file.kernel(ALL_REDUCE, at + 60 * US + shift, at + 63 * US + shift, **where)
    section = communication_section(marts(tmp_path, file))
    assert rows(section, "communication", "device_id", "matched_count", "together_ratio") == [
        (0, 2, 0.0),
        (1, 2, 0.0),
    ]
    assert section is not None
    assert "wait_ns" not in [column.name for column in section.blocks[0].columns]  # type: ignore[union-attr]


def test_copies_name_block_stream_and_the_routes_limit(tmp_path: Path) -> None:
    file = NsysFile()
    file.gpu()
    file.range(DECODE, 0, 900 * US)
    file.kernel(GEMM, 100 * US, 200 * US)
    for number in range(4):
        at = 300 * US + number * 70 * US
        file.copy(at, at + 66 * US, 2 << 20, 2)
    section = transfer_section(marts(tmp_path, file))
    assert section is not None
    tables = [block for block in section.blocks if isinstance(block, Table)]
    pieces = dict(zip([column.name for column in tables[1].columns], tables[1].rows[0], strict=True))
    assert (pieces["piece_bytes"], pieces["stream_id"], pieces["copy_count"]) == (2 << 20, 20, 4)
    # An H100 SXM reaches 63 GB/s in each direction of its host link.
    speed = (2 << 20) / 66e-6
    assert pieces["route_ratio"] == speed / 63e9


def test_without_a_trace_there_are_no_sections(tmp_path: Path) -> None:
    con = marts(tmp_path, NsysFile())
    assert (gpu_time_section(con), communication_section(con), transfer_section(con)) == (None, None, None)
