"""Kernel sums get family and phase by name, and never enter the marts of launches with times."""

import csv
from pathlib import Path

import duckdb
import pytest
from tests.builders_nsys import (
    FA2_DECODE,
    FI_DECODE,
    GEMM,
    SOFTMAX,
    NsysFile,
    TableSink,
    build_marts,
    raw_tables,
    trace_marts,
)
from tests.builders_raw import has_documented_columns, is_unique

from kvcliff.readers.base import ReadContext, Source
from kvcliff.readers.nsight_systems_sums import READER

STAGES = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "nsight_systems" / "llm-perf-opt"
HEADER = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"


def sums_of(tmp_path: Path, *lines: tuple[int, int, str]) -> duckdb.DuckDBPyConnection:
    from_file = [f'1,{total},{count},1,1,1,{total},0,"{name}"' for total, count, name in lines]
    path = tmp_path / "cuda_gpu_kern_sum.csv"
    path.write_text("\n".join([HEADER, *from_file]) + "\n")
    con = raw_tables()
    READER.load(Source(path, path.name), TableSink(con, 1), ReadContext())
    con.execute(
        "insert into sources values (1, 'sums.csv', 'nsight_systems_sums', 'counters', null, null, null)"
    )
    build_marts(con, ("kernel_sums", "kernel_phases", "kernel_names"))
    return con


def test_family_and_phase_by_name(tmp_path: Path) -> None:
    con = sums_of(tmp_path, (900, 3, FI_DECODE), (400, 2, GEMM), (50, 5, FA2_DECODE))
    rows = con.execute(
        "select name, sums.family, phase, launch_count, gpu_time_ns, min_ns, max_ns "
        "from kernel_sums as sums join kernel_names using (kernel_id) order by gpu_time_ns desc"
    ).fetchall()
    assert [row[1:] for row in rows] == [
        ("attention_decode", "decode", 3, 900, 1, 900),
        ("gemm", None, 2, 400, 1, 400),
        ("attention_unknown", None, 5, 50, 1, 50),
    ]
    assert con.execute("select count(*) from kernel_phases").fetchone() == (0,)
    assert is_unique(con, "kernel_sums")
    assert has_documented_columns(con, "kernel_sums")


def stage_kernels(stage: str) -> set[str]:
    """Return the kernel names of a real table that holds one stage of inference alone."""
    with (STAGES / f"{stage}.cuda_gpu_kern_sum.csv").open(encoding="utf-8", newline="") as file:
        return {row["Name"] for row in csv.DictReader(file)}


@pytest.mark.skipif(not STAGES.is_dir(), reason="the corpus of recordings is not there")
@pytest.mark.parametrize(("stage", "other"), [("prefill", "decode"), ("decode", "prefill")])
def test_no_kernel_of_a_real_stage_is_called_the_other(tmp_path: Path, stage: str, other: str) -> None:
    """Names that occur in one stage alone, with a narrow and a wide grid, each in a step of its own."""
    names = sorted(stage_kernels(stage) - stage_kernels(other))
    assert len(names) > 5
    con = sums_of(tmp_path, *((100, 1, name) for name in names))
    assert con.execute("select count(*) from kernel_sums where phase = ?", [other]).fetchone() == (0,)
    families = con.execute("select count(*) from kernel_sums where family = ?", [f"attention_{other}"])
    assert families.fetchone() == (0,)
    file = NsysFile()
    for number, (name, grid) in enumerate((name, grid) for name in names for grid in (1, 9)):
        file.kernel(name, 1_000_000 * (number + 1), 1_000_000 * (number + 1) + 5000, gridX=grid)
        file.kernel(SOFTMAX, 1_000_000 * (number + 1) + 9000, 1_000_000 * (number + 1) + 9500)
    con = trace_marts(file.write(tmp_path / "run.sqlite"))
    assert con.execute("select count(*) from kernel_phases where phase = ?", [other]).fetchone() == (0,)
