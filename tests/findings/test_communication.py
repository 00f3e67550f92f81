"""Finding communication: share and skew just below and above their thresholds, and when it cannot tell."""

from pathlib import Path

import duckdb
import pytest
from tests.builders_nsys import (
    ALL_REDUCE,
    FA2_DECODE,
    GEMM,
    TRACE_MARTS,
    UTC_NS,
    NsysFile,
    build_marts,
    raw_tables,
    read_export,
)

from kvcliff.findings.base import Result
from kvcliff.findings.communication import FINDING

STEP_NS = 1_000_000
MARTS = (*TRACE_MARTS, "communication")


def engine(
    *, skew_ns: int = 0, transfer_ns: int = 5_000, work_ns: int = 95_000, ranks: int = 2, steps: int = 4
) -> NsysFile:
    """Return a trace in which rank 0 comes to every all-reduce ``skew_ns`` before the others and spins."""
    file = NsysFile()
    for step in range(steps):
        at = STEP_NS * (step + 1)
        for rank in range(ranks):
            add_rank(file, rank, at, skew_ns if rank == 0 else 0, transfer_ns, work_ns)
    return file


def add_rank(file: NsysFile, rank: int, at: int, early_ns: int, transfer_ns: int, work_ns: int) -> None:
    """Add one decode step of a rank: two layers of attention, GEMM and all-reduce."""
    where = {"pid": 500 + rank, "deviceId": rank}
    file.range("execute_context_0(0)_generation_8(8)", at, at + STEP_NS // 2, pid=500 + rank)
    now = at + 1000
    for _ in range(2):
        half = (work_ns - early_ns) // 2
        file.kernel(FA2_DECODE, now, now + half, **where)
        file.kernel(GEMM, now + half, now + 2 * half, **where)
        ends = now + work_ns + transfer_ns
        file.kernel(ALL_REDUCE, now + 2 * half, ends, **where)
        now = ends


def answer(con: duckdb.DuckDBPyConnection) -> Result:
    results = FINDING.evaluate(con)
    assert len(results) == 1
    return results[0]


def marts(folder: Path, *files: NsysFile, shifts_ns: tuple[int, ...] = ()) -> duckdb.DuckDBPyConnection:
    con = raw_tables()
    for number, file in enumerate(files, 1):
        read_export(con, file.write(folder / f"{number}.sqlite"), number)
        shift = shifts_ns[number - 1] if shifts_ns else 0
        con.execute(
            "insert into sources values (?, 'x', 'nsight_systems', 'trace', null, null, null)", [number]
        )
        con.execute("insert into clocks values (?, ?, 0)", [number, UTC_NS + shift])
    build_marts(con, MARTS)
    return con


def test_known_skew_is_measured(tmp_path: Path) -> None:
    con = marts(tmp_path, engine(skew_ns=20_000))
    rows = con.execute(
        "select device_id, matched_count, wait_ns, last_count, skew_p50_ns, together_ratio from communication"
    ).fetchall()
    assert rows == [(0, 8, 8 * 20_000, 0, 20_000, 1.0), (1, 8, 0, 8, 20_000, 1.0)]
    share = con.execute(
        "select share_of_phase, wait_of_phase from communication order by device_id"
    ).fetchall()
    assert share == [(0.25, 0.2), (0.05, 0.0)]


def test_a_waiting_rank_is_found(tmp_path: Path) -> None:
    result = answer(marts(tmp_path, engine(skew_ns=6_000)))
    assert (result.verdict, result.severity, result.confidence) == ("found", "warning", 0.85)
    assert "GPU 0 waits longest, 6.0 % of its decode time" in result.summary
    assert "GPU 1 arrives last most often" in result.summary
    assert result.action is not None
    assert "arrives last first" in result.action


def test_little_skew_is_no_burden(tmp_path: Path) -> None:
    result = answer(marts(tmp_path, engine(skew_ns=4_000)))
    assert result.verdict == "not_found"
    assert "9.0 % of decode's GPU time on GPU 0 is communication" in result.summary


@pytest.mark.parametrize(("transfer_ns", "verdict"), [(24_000, "found"), (23_000, "not_found")])
def test_a_fifth_of_decode_is_told(tmp_path: Path, transfer_ns: int, verdict: str) -> None:
    result = answer(marts(tmp_path, engine(transfer_ns=transfer_ns)))
    assert result.verdict == verdict
    if verdict == "found":
        assert result.action is not None
        assert result.action.startswith("Make the route faster")


def test_ranks_in_files_of_their_own_need_no_common_clock(tmp_path: Path) -> None:
    """The clocks of the two files are 50 us apart: more than any wait, less than half a step."""
    first, second = NsysFile(), NsysFile()
    for step in range(4):
        add_rank(first, 0, STEP_NS * (step + 1), 20_000, 5_000, 95_000)
        add_rank(second, 0, STEP_NS * (step + 1), 0, 5_000, 95_000)
    con = marts(tmp_path, first, second, shifts_ns=(0, 50_000))
    rows = con.execute("select source_id, wait_ns, last_count, together_ratio from communication").fetchall()
    assert rows == [(1, 8 * 20_000, 0, None), (2, 0, 8, None)]
    assert "GPU 0 of file 1 waits longest" in answer(con).summary


def test_operations_that_do_not_overlap_are_not_compared(tmp_path: Path) -> None:
    """Two engines of one GPU each on one machine: their operations have nothing to do with each other."""
    file = NsysFile()
    for step in range(4):
        add_rank(file, 0, STEP_NS * (step + 1), 0, 5_000, 95_000)
        add_rank(file, 1, STEP_NS * (step + 1) + 50_000, 0, 5_000, 95_000)
    result = answer(marts(tmp_path, file))
    assert result.verdict == "cannot_tell"
    assert "do not match in time" in result.summary


def test_one_rank_cannot_tell(tmp_path: Path) -> None:
    result = answer(marts(tmp_path, engine(ranks=1)))
    assert result.verdict == "cannot_tell"
    assert "5.0 % of decode's GPU time on GPU 0 is communication, but one rank alone" in result.summary
    assert result.capture is not None
    assert "--cuda-graph-trace=node" in result.capture


def test_one_gpu_without_communication_is_not_found(tmp_path: Path) -> None:
    file = NsysFile()
    file.range("execute_context_0(0)_generation_8(8)", 0, 900)
    file.kernel(GEMM, 100, 200)
    assert answer(marts(tmp_path, file)).verdict == "not_found"


def test_opaque_decode_graphs_cannot_tell(tmp_path: Path) -> None:
    file = NsysFile()
    file.range("execute_context_0(0)_generation_8(8)", 0, 900)
    file.graph(200, 800, launched=100)
    file.kernel(GEMM, 820, 840, correlationId=file.launch(150))
    result = answer(marts(tmp_path, file))
    assert result.verdict == "cannot_tell"
    assert "traced as a whole" in result.summary


def test_no_trace_asks_nothing(tmp_path: Path) -> None:
    assert FINDING.evaluate(marts(tmp_path, NsysFile())) == ()


def test_sends_and_broadcasts_are_not_waits(tmp_path: Path) -> None:
    file = engine(skew_ns=20_000)
    file.strings = {
        text.replace(ALL_REDUCE, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)"): key
        for text, key in file.strings.items()
    }
    con = marts(tmp_path, file)
    assert con.execute("select sum(matched_count), min(share_of_phase) from communication").fetchone() == (
        0,
        0.05,
    )
