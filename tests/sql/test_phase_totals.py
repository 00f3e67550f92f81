"""GPU time by phase: nothing is lost, nothing counts twice, and graphs stay apart."""

import json
from pathlib import Path

import duckdb
import pytest
from tests.builders_nsys import FA2_DECODE, GEMM, UTC_NS, NsysFile, trace_marts
from tests.sql.test_kernel_phases import generate, needs_generator

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "nsight_systems"
DECODE = "execute_context_0(0)_generation_4(4)"
PREFILL = "execute_context_1(90)_generation_0(0)"


def marts_of(tmp_path: Path, file: NsysFile) -> duckdb.DuckDBPyConnection:
    return trace_marts(file.write(tmp_path / "run.sqlite"))


def test_overlapping_streams_count_once_in_wall_time(tmp_path: Path) -> None:
    file = NsysFile()
    file.range(DECODE, 0, 900)
    file.kernel(GEMM, 100, 200)
    file.kernel(GEMM, 150, 300, streamId=8)
    file.kernel(GEMM, 160, 170, streamId=9)
    con = marts_of(tmp_path, file)
    rows = con.execute(
        "select phase, kernel_count, gpu_time_ns, busy_ns, confident_time_ns from phase_totals"
    ).fetchall()
    assert rows == [("decode", 3, 260, 200, 260)]


def test_devices_do_not_share_a_time_line(tmp_path: Path) -> None:
    file = NsysFile()
    file.kernel(GEMM, 100, 200)
    file.kernel(GEMM, 150, 300, deviceId=1, pid=501)
    con = marts_of(tmp_path, file)
    rows = con.execute("select device_id, gpu_time_ns, busy_ns from phase_totals order by 1").fetchall()
    assert rows == [(0, 100, 100), (1, 150, 150)]


def test_graphs_traced_as_a_whole_are_counted_apart(tmp_path: Path) -> None:
    file = NsysFile()
    file.range(DECODE, 0, 900)
    file.kernel(GEMM, 100, 200)
    file.graph(190, 400)
    file.graph(0, 0, launched=700)
    con = marts_of(tmp_path, file)
    row = con.execute(
        "select kernel_count, gpu_time_ns, busy_ns, graph_count, graph_time_ns, graph_busy_ns "
        "from phase_totals"
    ).fetchone()
    assert row == (1, 100, 100, 1, 210, 200)
    assert con.execute("select kernel_count, graph_count, gpu_busy_ns from steps").fetchall() == [(1, 1, 300)]


def test_levels_stay_apart(tmp_path: Path) -> None:
    paths = []
    for number in range(2):
        file = NsysFile()
        file.kernel(GEMM, 100, 200 + number)
        paths.append(file.write(tmp_path / f"{number}.sqlite"))
    con = trace_marts(*paths, levels=["8", "16"])
    rows = con.execute("select level, gpu_time_ns from phase_totals order by level").fetchall()
    assert rows == [("16", 101), ("8", 100)]


def test_families_add_up_to_their_phase(tmp_path: Path) -> None:
    file = NsysFile()
    file.range(DECODE, 0, 900)
    file.kernel(GEMM, 100, 130)
    file.kernel(FA2_DECODE, 200, 210, gridX=1)
    con = marts_of(tmp_path, file)
    rows = con.execute(
        "select family, gpu_time_ns, share_of_phase, is_attention from kernel_families"
    ).fetchall()
    assert rows == [("gemm", 30, 0.75, False), ("attention_decode", 10, 0.25, True)]


def test_a_bubble_names_what_ran_in_it(tmp_path: Path) -> None:
    file = NsysFile()
    file.range(DECODE, 0, 150)
    file.kernel(GEMM, 100, 200)
    file.range(DECODE, 300, 900)
    file.copy(350, 650, 4096, 2)
    file.kernel(GEMM, 700, 800)
    file.range(PREFILL, 1000, 1500)
    file.kernel(GEMM, 1100, 1200)
    file.range(DECODE, 1600, 1700)
    early = file.launch(1610)
    file.range(DECODE, 1800, 1900)
    waiting = file.launch(1810)
    file.kernel(GEMM, 1620, 2000, correlationId=early)
    file.kernel(GEMM, 2100, 2200, correlationId=waiting)
    con = marts_of(tmp_path, file)
    rows = con.execute(
        "select bubble_before_ns, bubble_copy_ns, bubble_cause from steps order by step_id"
    ).fetchall()
    assert rows == [
        (None, 0, "none"),
        (500, 300, "copy"),
        (300, 0, "host"),
        (420, 0, "host"),
        (100, 0, "device"),
    ]


def test_times_are_on_the_run_clock(tmp_path: Path) -> None:
    file = NsysFile()
    file.range(DECODE, 0, 900)
    file.kernel(GEMM, 100, 200)
    con = marts_of(tmp_path, file)
    assert con.execute("select start_ns, end_ns, gpu_start_ns from steps").fetchall() == [
        (UTC_NS, UTC_NS + 900, UTC_NS + 100)
    ]
    assert con.execute("select start_ns, end_ns from kernel_phases").fetchall() == [
        (UTC_NS + 100, UTC_NS + 200)
    ]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of recordings is not there")
@pytest.mark.parametrize("name", ["nsys-ai/h100_2gpu_1s.sqlite", "nsys-ai/mfu_2gpu_before.sqlite"])
def test_real_captures_conserve_time_and_union_per_device(name: str) -> None:
    truth = json.loads((CORPUS / "expected" / "facts.json").read_text())[name]["kernels_per_device"]
    con = trace_marts(CORPUS / name)
    rows = con.execute(
        "select device_id, sum(kernel_count), sum(gpu_time_ns), sum(busy_ns) from phase_totals "
        "group by 1 order by 1"
    ).fetchall()
    wanted = [(int(key), row["count"], row["total_ns"], row["busy_union_ns"]) for key, row in truth.items()]
    assert rows == wanted
    assert con.execute("select sum(gpu_time_ns) from kernel_families").fetchone() == (
        sum(row[2] for row in wanted),
    )


@needs_generator
@pytest.mark.parametrize("graph", ["node", "graph"])
def test_generated_phases_and_steps_equal_the_truth_to_the_nanosecond(tmp_path: Path, graph: str) -> None:
    path = generate(tmp_path, "--steps", "160", "--graph", graph, "--gpus", "2")
    truth = json.loads(Path(f"{path}.truth.json").read_text())
    assert truth["preemptions"] > 0
    epoch = truth["session_start_utc_ns"]
    con = trace_marts(path, offset_ns=epoch)
    for gpu in truth["gpus"]:
        ours = dict(
            con.execute(
                "select phase, gpu_time_ns from phase_totals where device_id = ?", [gpu["device_id"]]
            ).fetchall()
        )
        wanted = gpu["visible_kernel_ns"]
        assert {phase: ours.get(phase, 0) for phase in wanted} == wanted
    raw = con.execute(
        "select count(*), coalesce(sum(end_src_ns - start_src_ns), 0) from raw_graph_launches"
    ).fetchone()
    assert con.execute("select sum(graph_count), sum(graph_time_ns) from phase_totals").fetchone() == raw
    ours = con.execute(
        """
        select device_id, start_ns, end_ns, phase, sequence_count, new_tokens, recomputed_tokens > 0,
            kernel_count, gpu_start_ns, gpu_end_ns
        from steps order by device_id, start_ns
        """
    ).fetchall()
    wanted_steps = [
        (
            gpu,
            epoch + step["t_start_ns"],
            step["kind"],
            step["context_reqs"] + step["generation_reqs"],
            step["context_tokens"] + step["generation_tokens"],
            step["recomputed_tokens"] > 0,
            step["gpus"][gpu]["visible_kernels"],
            epoch + step["gpus"][gpu]["gpu_start_ns"],
            epoch + step["gpus"][gpu]["gpu_end_ns"],
        )
        for gpu in (0, 1)
        for step in truth["steps"]
    ]
    assert [row[:2] + row[3:] for row in ours] == wanted_steps
