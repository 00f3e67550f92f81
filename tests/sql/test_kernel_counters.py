"""The kernel_counters mart: values with name, family, phase and quality."""

import pytest

from builders_ncu import CORPUS, NO_CORPUS, counter_values, kernel_row, session_row, value_rows
from builders_raw import Row, build, has_documented_columns, is_unique, source, table
from kvcliff.readers.nsight_compute_csv import READER as CSV_READER
from kvcliff.readers.nsight_compute_report import READER as REPORT_READER

DURATION = "gpu__time_duration.sum"


def rows(
    *kernels: Row, sessions: list[Row] | None = None, paths: tuple[str, ...] = ("a.ncu-rep",)
) -> dict[str, list[Row]]:
    numbered = [source(number, path, "counters") for number, path in enumerate(paths, start=1)]
    values = [
        value
        for kernel in kernels
        for value in value_rows({DURATION: 5e4}, int(str(kernel["kernel_no"])), int(str(kernel["source_id"])))
    ]
    return {
        "sources": numbered,
        "raw_counter_sessions": sessions or [session_row()],
        "raw_counter_kernels": list(kernels),
        **counter_values(values),
    }


def test_family_and_phase_come_from_name_range_and_grid() -> None:
    con = build(
        "kernel_counters",
        rows(
            kernel_row(0, "void flash_fwd_splitkv_kernel<Traits<1>, 0, 0>(Params)", grid_x=1),
            kernel_row(1, "ampere_gemm", nvtx_path="step/decode_batch"),
            kernel_row(2, "ampere_gemm", nvtx_path="prefill_batch"),
            kernel_row(3, "", scope="range", nvtx_path="mixed_batch"),
            kernel_row(4, "my_kernel"),
            kernel_row(5, "void flash_fwd_splitkv_kernel<Traits<1>, 0, 0>(Params)", grid_x=1024),
        ),
    )
    assert has_documented_columns(con, "kernel_counters")
    assert is_unique(con, "kernel_counters")
    assert table(con, "select kernel_no, family, phase, value from kernel_counters order by 1") == [
        (0, "attention_decode", "decode", 5e4),
        (1, "gemm", "decode", 5e4),
        (2, "gemm", "prefill", 5e4),
        (3, "range", "mixed", 5e4),
        (4, "other", None, 5e4),
        (5, "attention_unknown", None, 5e4),
    ]


def test_a_value_that_is_not_there_keeps_its_reason() -> None:
    given = rows(kernel_row())
    given.update(counter_values(value_rows({DURATION: None})))
    con = build("kernel_counters", given)
    assert table(con, "select metric, value, quality from kernel_counters") == [(DURATION, None, "nan")]


def test_exports_of_one_report_are_copies() -> None:
    paths = ("x/decode.ncu-rep", "x/decode.raw.csv", "x/other.raw.csv", "x/decode.details.csv")
    pages = ("report", "raw", "raw", "details")
    kernels = [kernel_row(0, source_id=number) for number in range(1, 5)]
    kernels.append(kernel_row(1, "another(int)", source_id=4))
    con = build(
        "kernel_counters",
        rows(
            *kernels,
            sessions=[session_row(number, page) for number, page in enumerate(pages, start=1)],
            paths=paths,
        ),
    )
    # The details page shows other kernels than the report: it is another collection.
    assert table(con, "select distinct source_id, is_copy from kernel_counters order by 1") == [
        (1, False),
        (2, True),
        (3, False),
        (4, False),
    ]


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
def test_recorded_report_and_its_raw_page_are_one() -> None:
    files = {
        1: (REPORT_READER, CORPUS / "ESMM-Research/a10g_roofline_c4.ncu-rep"),
        2: (CSV_READER, CORPUS / "expected/a10g_roofline_c4.raw.ncu2024.1.csv"),
        3: (CSV_READER, CORPUS / "expected/a10g_roofline_c4.summary_per-gpu.ncu2024.1.csv"),
    }
    given = {"sources": [source(number, file[1].name, "counters") for number, file in files.items()]}
    con = build("kernel_counters", given, files=files)
    assert is_unique(con, "kernel_counters")
    found = table(
        con,
        "select source_id, is_copy, count(*) from kernel_counters "
        f"where metric = '{DURATION}' group by 1, 2 order by 1",
    )
    assert found == [(1, False, 4), (2, True, 4), (3, True, 4)]


def test_an_empty_grid_with_a_duration_is_a_graph_and_not_a_failed_or_small_kernel() -> None:
    given = rows(kernel_row(0, "CUDA Graph", grid_x=0, grid_y=0, grid_z=0), kernel_row(1, "k", grid_x=0))
    values = {DURATION: 9e5, "launch__waves_per_multiprocessor": 0.0}
    given.update(counter_values([*value_rows(values, 0), *value_rows({DURATION: None}, 1)]))
    con = build("profiled_kernels", given)
    assert table(
        con,
        "select verdict = 'failed', duration_ns, wave_count, is_small_grid from profiled_kernels order by 1",
    ) == [(False, 900_000, None, False), (True, None, None, False)]
