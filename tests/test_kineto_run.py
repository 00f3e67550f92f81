"""A run whose only trace is a PyTorch profile of a CPU: steps, no swap point, no failed capture."""

import json
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from tests.builders_cli import run_command
from tests.builders_kineto import KinetoFile

RUN = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "serving_runs" / "vllm_cpu" / "kineto"
needs_corpus = pytest.mark.skipif(not RUN.is_dir(), reason="the corpus of recordings is not there")


def diagnose(run: Path, cwd: Path) -> dict[str, dict[str, object]]:
    """Return the findings of a run by name."""
    done = run_command("diagnose", run, "--db", "runs.duckdb", "-o", "out", "--force", cwd=cwd)
    assert done.returncode == 0, done.stderr
    with closing(duckdb.connect(str(cwd / "runs.duckdb"), read_only=True)) as con:
        rows = con.execute("select finding, verdict, summary, capture from findings order by all").fetchall()
    return {name: {"verdict": verdict, "summary": text, "capture": how} for name, verdict, text, how in rows}


@needs_corpus
def test_the_recorded_run_of_vllm_on_a_cpu(tmp_path: Path) -> None:
    findings = diagnose(RUN, tmp_path)
    assert findings["swap_point"]["verdict"] == "not_found"
    assert findings["capture_failed"]["verdict"] == "not_found"
    with closing(duckdb.connect(str(tmp_path / "runs.duckdb"), read_only=True)) as con:
        steps = con.execute(
            "select phase, count(*), sum(context_tokens), sum(generation_tokens) from steps "
            "where label_kind = 'vllm' group by phase order by phase"
        ).fetchall()
        states = con.execute(
            "select distinct verdict, reason from captures where capability = 'kernels'"
        ).fetchall()
    assert steps == [("decode", 20, 0, 69), ("mixed", 2, 992, 4), ("other", 2, 0, 0), ("prefill", 2, 448, 0)]
    assert states == [
        ("not_traced", "the profiler recorded CPU operators only; no GPU was there to trace"),
    ]
    assert json.loads((tmp_path / "out" / "report.json").read_text())


def test_kernels_of_a_profile_lie_in_the_steps_that_launched_them(tmp_path: Path) -> None:
    for number, label in enumerate(("execute_context_1(64)_generation_0(0)", "step[DECODE bs=2 toks=2]")):
        file = KinetoFile()
        file.annotation(label, "1000", "100")
        launch = file.launch("cudaLaunchKernel", "1010")
        # The GPU is behind: the kernel runs after the step's range on the host has ended.
        file.gpu("kernel", "nvjet_tst_128x64", "1200", "50", correlation=launch)
        folder = tmp_path / f"run{number}"
        folder.mkdir()
        file.write(folder / "rank0.pt.trace.json.gz")
        findings = diagnose(folder, tmp_path)
        assert findings["capture_failed"]["summary"] == "The GPU trace holds 1 kernels."
    with closing(duckdb.connect(str(tmp_path / "runs.duckdb"), read_only=True)) as con:
        rows = con.execute(
            "select phase, evidence, step_id, end_ns - start_ns from kernel_phases order by phase"
        ).fetchall()
    assert rows == [("decode", "step_label", 1, 50_000), ("prefill", "step_label", 1, 50_000)]


def test_ranks_of_one_engine_are_devices(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for rank in (0, 1):
        file, pid = KinetoFile(rank=rank), 100 + rank
        for number, counts in enumerate(("context_1(64)_generation_0(0)", "context_0(0)_generation_8(8)")):
            at = 1000 * (number + 1)
            file.annotation(f"execute_{counts}", f"{at}", "900", pid=pid)
            launch = file.launch("cudaLaunchKernel", f"{at + 10}", pid=pid, tid=1032)
            file.gpu("kernel", "nvjet_tst_128x64", f"{at + 300}", "40", device=rank, correlation=launch)
        file.write(run / f"rank{rank}.pt.trace.json.gz")
    diagnose(run, tmp_path)
    with closing(duckdb.connect(str(tmp_path / "runs.duckdb"), read_only=True)) as con:
        rows = con.execute(
            "select device_id, phase, kernel_count, gpu_time_ns from phase_totals order by all"
        ).fetchall()
    assert rows == [(rank, phase, 1, 40_000) for rank in (0, 1) for phase in ("decode", "prefill")]
