"""Kernel sums of ``nsys stats``: totals as the tool wrote them; other tables are refused by name."""

import json
from pathlib import Path

import pytest
from tests.builders_kineto import KeptRows

from kvcliff.errors import InputError
from kvcliff.readers import pick_reader
from kvcliff.readers.base import LoadReport, ReadContext, Source
from kvcliff.readers.nsight_systems_sums import READER

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "nsight_systems"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of recordings is not there")
HEADER = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"


def load(path: Path) -> tuple[dict[str, tuple[int, int]], LoadReport]:
    source = Source(path, path.name)
    assert pick_reader(source)[0] is READER
    kept = KeptRows()
    report = READER.load(source, kept, ReadContext())
    names = dict(kept.rows("raw_kernel_names", "kernel_id", "name"))
    sums = kept.rows("raw_kernel_sums", "kernel_id", "launch_count", "total_ns")
    return {names[number]: (count, total) for number, count, total in sums}, report


@needs_corpus
@pytest.mark.parametrize(
    ("stage", "names", "launches", "total_ns"),
    [
        ("all-stage", 113, 1_695_983, 4_946_064_742),
        ("prefill", 97, 6_660, 65_691_733),
        ("decode", 46, 78_016, 179_072_697),
        ("clip", 19, 387, 3_424_837),
        ("sam", 36, 652, 21_895_142),
        ("projector", 2, 2, 35_488),
    ],
)
def test_real_tables_of_every_stage(stage: str, names: int, launches: int, total_ns: int) -> None:
    sums, report = load(CORPUS / "llm-perf-opt" / f"{stage}.cuda_gpu_kern_sum.csv")
    assert len(sums) == names
    assert sum(count for count, _ in sums.values()) == launches
    assert sum(total for _, total in sums.values()) == total_ns
    assert (report.skipped_count, report.damage) == (0, None)
    assert "no times" in report.notes[0]


@needs_corpus
@pytest.mark.parametrize("report_name", ["cuda_gpu_kern_sum", "cuda_gpu_kern_gb_sum"])
def test_sums_equal_the_expected_ones(report_name: str) -> None:
    sums, _ = load(CORPUS / "expected" / "h100_2gpu_1s" / f"{report_name}.csv")
    truth = json.loads((CORPUS / "expected" / "facts.json").read_text())["nsys-ai/h100_2gpu_1s.sqlite"]
    wanted = {row["name"]: (row["count"], row["total_ns"]) for row in truth["kernels_by_demangled_name"]}
    assert sums == wanted


@needs_corpus
def test_every_other_table_of_the_tool_is_refused_by_name() -> None:
    seen = set()
    for path in sorted((CORPUS / "expected").rglob("*.csv")):
        if not path.stat().st_size or "kern_sum" in path.name or "kern_gb_sum" in path.name:
            continue
        with pytest.raises(InputError) as error:
            load(path)
        assert "table of nsys stats; only kernel sums are read" in error.value.message
        seen.add(path.name)
    assert len(seen) > 8
    assert "nvtx_kern_sum.csv" not in seen
    with pytest.raises(InputError, match="the nvtx_kern_sum table"):
        load(CORPUS / "expected" / "h100_2gpu_1s" / "nvtx_kern_sum.csv")


@needs_corpus
def test_a_skipped_report_says_so() -> None:
    sums, report = load(CORPUS / "expected" / "lighttransport" / "cuda_gpu_kern_sum.csv")
    assert (sums, report.row_count) == ({}, 0)
    assert report.notes == ("nsys stats skipped this report: the capture holds no such data",)


def test_units_of_the_header_and_lines_before_it(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    text = HEADER.replace("(ns)", "(us)")
    path.write_text(
        f"Generating SQLite file run.sqlite\nProcessing [run.sqlite]\n\n{text}\n1.0,2.5,4,1,1,1,2,0,k\n"
    )
    assert load(path)[0] == {"k": (4, 2500)}


def test_quoted_names_grids_and_bad_lines(tmp_path: Path) -> None:
    path = tmp_path / "gpukernsum.csv"
    header = HEADER.replace(",Name", ",GridXYZ,BlockXYZ,Name")
    lines = [
        '1,10,1,1,1,3,7,None,"  1 1 1","  1 1 1","void k<int, float>(a, b)"',
        '1,20,2,1,1,2,9,None,"  2 1 1","  1 1 1","void k<int, float>(a, b)"',
        "1,soon,2,1,1,2,9,0,g,b,broken",
        "1,2",
    ]
    path.write_text("\n".join([header, *lines]) + "\n")
    sums, report = load(path)
    assert sums == {"void k<int, float>(a, b)": (3, 30)}
    assert report.skipped_count == 2


def test_foreign_tables_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("time,kv_usage\n1,0.5\n")
    reader, _ = pick_reader(Source(path, path.name))
    assert reader is not READER
