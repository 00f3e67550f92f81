"""The counter_phases mart: counters carried over to the launches of a trace."""

import pytest

from builders_ncu import counter_values, kernel_row, session_row, value_rows
from builders_raw import Row, build, has_documented_columns, is_unique, source, table

READ = "lts__t_sectors_srcunit_tex_op_read_lookup_"
ATTENTION = "void flash_fwd_splitkv_kernel<Traits<(int)1>, (bool)0, 0>(Params)"


def launch(kernel_no: int, kernel_id: int, dur_ns: int, phase: str = "decode", **more: object) -> Row:
    family = "attention_decode" if kernel_id == 1 else "gemm"
    start_ns = kernel_no * 1_000_000
    return {
        "source_id": 9,
        "kernel_no": kernel_no,
        "device_id": 0,
        "kernel_id": kernel_id,
        "phase": phase,
        "family": family,
        "start_ns": start_ns,
        "end_ns": start_ns + dur_ns,
        **more,
    }


NAMES: list[Row] = [
    {
        "kernel_id": 1,
        "name": "flash_fwd_splitkv_kernel<Traits<1>,0,0>(Params)",
        "short_name": "flash_fwd_splitkv_kernel",
    },
    {"kernel_id": 2, "name": "ampere_gemm", "short_name": "ampere_gemm"},
    {"kernel_id": 3, "name": "other_kernel", "short_name": "other_kernel"},
]


def counters(hits: float, misses: float, **more: float | None) -> dict[str, float | None]:
    return {"gpu__time_duration.sum": 1e5, f"{READ}hit.sum": hits, f"{READ}miss.sum": misses, **more}


def phases(
    launches: list[Row], kernels: list[tuple[str, dict[str, float | None]]]
) -> list[tuple[object, ...]]:
    con = build(
        "counter_phases",
        {
            "sources": [source(1, "a.ncu-rep", "counters"), source(9, "trace.sqlite", "trace")],
            "raw_counter_sessions": [session_row()],
            "raw_counter_kernels": [kernel_row(number, name) for number, (name, _) in enumerate(kernels)],
            **counter_values(
                [row for number, (_, metrics) in enumerate(kernels) for row in value_rows(metrics, number)]
            ),
        },
        {"kernel_phases": launches, "kernel_names": NAMES},
    )
    assert is_unique(con, "counter_phases")
    assert has_documented_columns(con, "counter_phases")
    return table(
        con,
        "select phase, launch_count, covered_count, coverage_ratio, read_hit_ratio, attention_hit_ratio, "
        "dram_use_ratio, is_covered from counter_phases order by phase",
    )


def test_launches_of_the_trace_weigh() -> None:
    launches = [launch(number, 1, 100) for number in range(3)] + [launch(9, 2, 700)]
    found = phases(launches, [(ATTENTION, counters(10, 90)), ("ampere_gemm", counters(0, 700))])
    # Three launches with 10 of 100, one with 0 of 700.
    assert found == [("decode", 4, 4, 1.0, 0.03, 0.1, None, True)]


def test_profiled_launches_of_one_kernel_are_averaged() -> None:
    found = phases([launch(0, 1, 100)], [(ATTENTION, counters(10, 90)), (ATTENTION, counters(90, 210))])
    assert found == [("decode", 1, 1, 1.0, 0.25, 0.25, None, True)]


@pytest.mark.parametrize(("other_ns", "is_covered"), [(100, True), (101, False)])
def test_coverage_decides_whether_the_phase_is_spoken_of(other_ns: int, is_covered: bool) -> None:
    (row,) = phases([launch(0, 1, 100), launch(1, 3, other_ns)], [(ATTENTION, counters(10, 90))])
    assert row[:3] == ("decode", 2, 1)
    assert row[3] == pytest.approx(100 / (100 + other_ns))
    assert row[7] is is_covered


def test_bytes_go_over_the_time_of_the_trace() -> None:
    dram = {
        "dram__bytes.sum": 6e7,
        "dram__bytes.sum.peak_sustained": 1000.0,
        "dram__cycles_elapsed.avg.per_second": 1e9,
    }
    (row,) = phases([launch(0, 2, 100_000)], [("ampere_gemm", counters(0, 1, **dram))])
    assert row[6] == pytest.approx(0.6)


def test_counters_of_another_phase_do_not_count() -> None:
    launches = [launch(0, 2, 100), launch(1, 2, 100, "prefill"), launch(2, 2, 100, "mixed")]
    con = build(
        "counter_phases",
        {
            "sources": [source(1, "a.ncu-rep", "counters"), source(9, "trace.sqlite", "trace")],
            "raw_counter_sessions": [session_row()],
            "raw_counter_kernels": [kernel_row(0, "ampere_gemm", nvtx_path="prefill_batch")],
            **counter_values(value_rows(counters(1, 3))),
        },
        {"kernel_phases": launches, "kernel_names": NAMES},
    )
    assert table(con, "select phase, covered_count, read_hit_ratio from counter_phases order by phase") == [
        ("decode", 0, None),
        ("mixed", 1, 0.25),
        ("prefill", 1, 0.25),
    ]


def test_counters_of_the_same_grid_come_first() -> None:
    work = [
        {"source_id": 9, "work_no": number, "is_opaque": False, "grid_x": grid_x}
        for number, grid_x in enumerate((64, 128, 256))
    ]
    con = build(
        "counter_phases",
        {
            "sources": [source(1, "a.ncu-rep", "counters"), source(9, "trace.sqlite", "trace")],
            "raw_counter_sessions": [session_row()],
            "raw_counter_kernels": [
                kernel_row(number, "ampere_gemm", grid_x=grid_x) for number, grid_x in enumerate((64, 128))
            ],
            **counter_values([*value_rows(counters(10, 90)), *value_rows(counters(30, 70), 1)]),
        },
        {
            "kernel_phases": [
                launch(number, 2, 100, phase) for number, phase in enumerate(("decode", "prefill", "other"))
            ],
            "kernel_names": NAMES,
            "int_gpu_work": work,
        },
    )
    # The third grid was not profiled: the mean of both stands in.
    assert table(con, "select phase, read_hit_ratio from counter_phases order by phase") == [
        ("decode", 0.1),
        ("other", 0.2),
        ("prefill", 0.3),
    ]


def test_no_trace_or_no_counters_no_rows() -> None:
    assert phases([], [(ATTENTION, counters(1, 1))]) == []
    assert phases([launch(0, 1, 100)], []) == []


def test_phases_stay_apart() -> None:
    launches = [launch(0, 1, 100), launch(1, 2, 100, "prefill")]
    found = phases(launches, [(ATTENTION, counters(1, 1)), ("ampere_gemm", counters(1, 3))])
    assert [(row[0], row[4]) for row in found] == [("decode", 0.5), ("prefill", 0.25)]
