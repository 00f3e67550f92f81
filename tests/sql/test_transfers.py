"""Copy bursts: what belongs together, how fast, how much hid under kernels, and what looks like a KV swap."""

import json
from pathlib import Path

import duckdb
import pytest
from tests.builders_nsys import GEMM, UTC_NS, NsysFile, trace_marts
from tests.sql.test_kernel_phases import generate, needs_generator

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "nsight_systems"
MIB = 1 << 20
MS = 1_000_000


def marts_of(tmp_path: Path, file: NsysFile) -> duckdb.DuckDBPyConnection:
    return trace_marts(file.write(tmp_path / "run.sqlite"))


def swap(file: NsysFile, at: int, **more: int) -> None:
    """Add three copies of 2 MiB and one of 1 MiB, 100 us each, 1 us apart."""
    for number, size in enumerate((2 * MIB, 2 * MIB, 2 * MIB, MIB)):
        start = at + number * 101_000
        file.copy(start, start + 100_000, size, 2, **more)


def test_close_copies_of_one_kind_and_stream_are_one_burst(tmp_path: Path) -> None:
    file = NsysFile()
    swap(file, MS)
    swap(file, 5 * MS)
    file.copy(MS, MS + 100, 64, 1, streamId=13)
    file.kernel(GEMM, 10 * MS, 10 * MS + 10)
    con = marts_of(tmp_path, file)
    rows = con.execute(
        "select kind, copy_count, bytes, piece_bytes, piece_count, copy_ns, bytes_per_s, start_ns - ? "
        "from transfers order by transfer_id",
        [UTC_NS],
    ).fetchall()
    burst = ("dtoh", 4, 7 * MIB, 2 * MIB, 3, 400_000, 7 * MIB / 400e-6)
    assert rows == [("htod", 1, 64, 64, 1, 100, 64 / 100e-9, MS), (*burst, MS), (*burst, 5 * MS)]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, (True, True, True)),
        ({"host": 0}, (False, True, False)),
        ({"streamId": 7}, (True, False, False)),
    ],
)
def test_pinned_block_copies_on_a_side_stream_look_like_a_swap(
    tmp_path: Path, more: dict[str, int], expected: tuple[bool, bool, bool]
) -> None:
    file = NsysFile()
    swap(file, MS, **more)
    file.kernel(GEMM, 10 * MS, 10 * MS + 10)
    con = marts_of(tmp_path, file)
    assert con.execute("select is_pinned, is_side_stream, is_kv_swap from transfers").fetchall() == [expected]


def test_small_or_unequal_copies_are_no_swap(tmp_path: Path) -> None:
    file = NsysFile()
    for number in range(4):
        file.copy(MS + 1000 * number, MS + 1000 * number + 500, 4096, 1)
        file.copy(3 * MS + 1000 * number, 3 * MS + 1000 * number + 500, MIB + number, 1)
    con = marts_of(tmp_path, file)
    assert con.execute("select is_kv_swap from transfers").fetchall() == [(False,), (False,)]


def test_time_under_kernels_is_hidden(tmp_path: Path) -> None:
    file = NsysFile()
    file.kernel(GEMM, 1000, 1100)
    file.kernel(GEMM, 1050, 1200, streamId=8)
    file.kernel(GEMM, 1300, 1400)
    file.graph(1500, 1600)
    file.kernel(GEMM, 1000, 9000, deviceId=1, pid=501)
    file.copy(1150, 1550, 4096, 2)
    file.copy(500, 900, 4096, 1, streamId=13)
    file.copy(2000, 2100, 4096, 1, streamId=14)
    con = marts_of(tmp_path, file)
    rows = con.execute(
        "select stream_id, hidden_ns, hidden_ratio from transfers order by stream_id"
    ).fetchall()
    assert rows == [(13, 0, 0.0), (14, 0, 0.0), (20, 200, 0.5)]


def test_a_burst_knows_the_step_that_launched_it(tmp_path: Path) -> None:
    file = NsysFile()
    file.range("execute_context_0(0)_generation_4(4)", 0, MS)
    file.copy(1000, 2000, 64, 1)
    file.copy(5 * MS, 5 * MS + 100, 64, 1)
    con = marts_of(tmp_path, file)
    assert con.execute("select step_id from transfers order by start_ns").fetchall() == [(1,), (None,)]


def test_sets_are_no_transfer(tmp_path: Path) -> None:
    file = NsysFile()
    file.add(
        "CUPTI_ACTIVITY_KIND_MEMSET",
        start=1,
        end=5,
        deviceId=0,
        streamId=7,
        correlationId=1,
        bytes=64,
        memKind=2,
        value=0,
    )
    con = marts_of(tmp_path, file)
    assert con.execute("select count(*) from transfers").fetchone() == (0,)
    assert con.execute("select kind, target_memory, bytes from raw_copies").fetchall() == [
        ("memset", "device", 64)
    ]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of recordings is not there")
@pytest.mark.parametrize("name", ["nsys-ai/h100_2gpu_1s.sqlite", "nsys-ai/mfu_2gpu_before.sqlite"])
def test_real_captures_conserve_bytes(name: str) -> None:
    con = trace_marts(CORPUS / name)
    ours = con.execute(
        "select kind, source_memory, target_memory, sum(copy_count), sum(bytes), sum(copy_ns) from transfers "
        "group by all order by all"
    ).fetchall()
    kinds, memories = {1: "htod", 2: "dtoh", 8: "dtod"}, {0: "pageable", 1: "pinned", 2: "device"}
    wanted = sorted(
        (
            kinds[row["copyKind"]],
            memories[row["srcKind"]],
            memories[row["dstKind"]],
            row["count"],
            row["bytes"],
            row["total_ns"],
        )
        for row in json.loads((CORPUS / "expected" / "facts.json").read_text())[name]["memcpy"]
    )
    assert ours == wanted


@needs_generator
def test_generated_swaps_equal_the_truth(tmp_path: Path) -> None:
    path = generate(tmp_path, "--steps", "160", "--preempt-mode", "swap", "--overlap", "0.5")
    truth = json.loads(Path(f"{path}.truth.json").read_text())
    gpu = truth["gpus"][0]
    assert gpu["swap_copies"] > 10
    con = trace_marts(path, offset_ns=truth["session_start_utc_ns"])
    row = con.execute(
        """
        select
            sum(bytes) filter (where kind = 'dtoh'), sum(bytes) filter (where kind = 'htod'),
            sum(copy_count), sum(copy_ns), sum(hidden_ns)
        from transfers where is_kv_swap
        """
    ).fetchone()
    keys = ("swap_d2h_bytes", "swap_h2d_bytes", "swap_copies", "swap_copy_ns", "swap_hidden_ns")
    assert row == tuple(gpu[key] for key in keys)
