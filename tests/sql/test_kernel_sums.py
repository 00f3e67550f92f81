"""Kernel sums get family and phase by name, and never enter the marts of launches with times."""

from pathlib import Path

import duckdb
from tests.builders_nsys import FA2_DECODE, FI_DECODE, GEMM, TableSink, build_marts, raw_tables
from tests.builders_raw import has_documented_columns, is_unique

from kvcliff.readers.base import ReadContext, Source
from kvcliff.readers.nsight_systems_sums import READER

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
