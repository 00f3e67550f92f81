"""The profiled_kernels mart: what limits a kernel, in the order of the questions."""

import pytest

from builders_ncu import CORPUS, NO_CORPUS, PCT, counter_values, kernel_row, session_row, value_rows
from builders_raw import Row, build, facts, has_documented_columns, is_unique, one, source, table
from kvcliff.readers.base import Reader
from kvcliff.readers.nsight_compute_csv import READER as CSV_READER
from kvcliff.readers.nsight_compute_report import READER as REPORT_READER

READ = "lts__t_sectors_srcunit_tex_op_read_lookup_"
#: A kernel that nothing limits but latency.
CALM = {
    "gpu__time_duration.sum": 100_000.0,
    f"sm__throughput{PCT}": 30.0,
    f"gpu__compute_memory_throughput{PCT}": 35.0,
    f"gpu__dram_throughput{PCT}": 35.0,
    f"lts__throughput{PCT}": 30.0,
    "sm__warps_active.avg.pct_of_peak_sustained_active": 50.0,
    "launch__waves_per_multiprocessor": 4.0,
}


def profiled(
    metrics: dict[str, float | None], *, settings: tuple[Row, ...] = (), **kernel: object
) -> dict[str, object]:
    """Return the row of one kernel with ``metrics`` on top of the calm ones."""
    con = build(
        "profiled_kernels",
        {
            "sources": [source(1, "a.ncu-rep", "counters"), source(2, "server.log", "log")],
            "raw_counter_sessions": [session_row()],
            "raw_counter_kernels": [kernel_row(**kernel)],  # type: ignore[arg-type]
            **counter_values(value_rows({**CALM, **metrics})),
            "raw_settings": list(settings),
        },
    )
    assert is_unique(con, "profiled_kernels")
    assert has_documented_columns(con, "profiled_kernels")
    names = [str(row[0]) for row in table(con, "describe profiled_kernels")]
    return dict(zip(names, one(con, "select * from profiled_kernels"), strict=True))


@pytest.mark.parametrize(
    ("metrics", "verdict"),
    [
        ({}, "latency"),
        ({"gpu__time_duration.sum": None}, "failed"),
        ({f"sm__throughput{PCT}": None}, "unknown"),
        ({"launch__waves_per_multiprocessor": 0.99}, "small_grid"),
        ({"launch__waves_per_multiprocessor": 1.0}, "latency"),
        ({"launch__waves_per_multiprocessor": 0.5, f"sm__throughput{PCT}": 85.0}, "compute"),
        ({f"sm__throughput{PCT}": 80.0}, "compute"),
        ({f"sm__throughput{PCT}": 79.9}, "compute_heavy"),
        ({f"gpu__dram_throughput{PCT}": 80.0, f"gpu__compute_memory_throughput{PCT}": 80.0}, "bandwidth"),
        ({f"gpu__dram_throughput{PCT}": 79.0, f"gpu__compute_memory_throughput{PCT}": 79.0}, "memory_heavy"),
        ({f"lts__throughput{PCT}": 60.0, f"gpu__compute_memory_throughput{PCT}": 60.0}, "l2"),
        (
            {
                f"lts__throughput{PCT}": 65.0,
                f"gpu__dram_throughput{PCT}": 65.0,
                f"gpu__compute_memory_throughput{PCT}": 65.0,
                f"sm__throughput{PCT}": 60.0,
            },
            "balanced",
        ),
        ({"sm__warps_active.avg.pct_of_peak_sustained_active": 19.9}, "low_occupancy"),
        ({"sm__warps_active.avg.pct_of_peak_sustained_active": 20.0}, "latency"),
    ],
)
def test_verdict(metrics: dict[str, float | None], verdict: str) -> None:
    assert profiled(metrics)["verdict"] == verdict


def test_both_peaks_stand_beside_each_other() -> None:
    """A recorded A10G: about 598 GB/s at the clock while it ran, 600 GB/s by its data sheet."""
    metrics = {"dram__bytes.sum.peak_sustained": 96.0, "dram__cycles_elapsed.avg.per_second": 6.23e9}
    row = profiled(metrics)
    assert row["measured_peak_bytes_per_s"] == row["peak_bytes_per_s"] == pytest.approx(598.1e9, rel=1e-3)
    assert row["theoretical_peak_bytes_per_s"] is None


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
def test_peaks_of_a_recorded_report() -> None:
    name = "ESMM-Research/a10g_roofline_c4.ncu-rep"
    con = build(
        "profiled_kernels",
        {"sources": [source(1, name, "counters")]},
        files={1: (REPORT_READER, CORPUS / name)},
    )
    sql = "select min(measured_peak_bytes_per_s), max(theoretical_peak_bytes_per_s) from profiled_kernels"
    measured, theoretical = one(con, sql)
    assert measured == pytest.approx(598e9, rel=0.01)
    assert theoretical == pytest.approx(600e9, rel=0.01)


STALL = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
FABRIC = f"lts__t_sectors_srcunit_ltcfabric{PCT}"
L2_FULL = {f"lts__throughput{PCT}": 85.0, f"gpu__compute_memory_throughput{PCT}": 85.0}


@pytest.mark.parametrize(
    ("metrics", "capability", "cause"),
    [
        ({}, "8.0", "stalls not collected"),
        ({STALL: 5.0, "smsp__average_warp_latency_per_inst_issued.ratio": 10.0}, "8.0", "memory latency"),
        ({STALL: 4.9, "smsp__average_warp_latency_per_inst_issued.ratio": 10.0}, "8.0", "other stalls"),
        # Half of 16 warps in flight, an issue in every second cycle: 16 warps for each issue.
        ({STALL: 8.0, "smsp__issue_active.avg.pct_of_peak_sustained_active": 50.0}, "8.0", "memory latency"),
        ({STALL: 7.9, "smsp__issue_active.avg.pct_of_peak_sustained_active": 50.0}, "8.0", "other stalls"),
        ({STALL: 7.9, "smsp__issue_active.avg.pct_of_peak_sustained_active": 50.0}, "8.6", "memory latency"),
        ({STALL: 7.9}, "8.0", "stalls not collected"),
        ({FABRIC: 60.0}, "8.0", "partition contention"),
        ({FABRIC: 59.9, **L2_FULL}, "8.0", "access pattern"),
        (
            {"lts__ltcfabric2lts_cycles_active.avg.pct_of_peak_sustained_elapsed": 60.0},
            "9.0",
            "partition contention",
        ),
        ({"lts__t_sectors.max": 120.0, "lts__t_sectors.avg": 100.0, **L2_FULL}, "8.6", "uneven slices"),
        ({"lts__t_sectors.max": 105.0, "lts__t_sectors.avg": 100.0, **L2_FULL}, "8.6", "no fabric metric"),
        (L2_FULL, "9.0", "fabric not collected"),
        ({f"sm__throughput{PCT}": 90.0, FABRIC: 90.0}, "8.0", None),
    ],
)
def test_cause_of_l2_and_latency(
    metrics: dict[str, float | None], capability: str, cause: str | None
) -> None:
    assert profiled(metrics, compute_capability=capability)["cause"] == cause


def test_a_busy_tensor_pipe_is_compute() -> None:
    tensor = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
    assert profiled({tensor: 80.0})["verdict"] == "compute"
    assert profiled({tensor: 79.0})["verdict"] == "latency"


def test_reads_of_host_memory_and_of_other_gpus() -> None:
    device = {"lts__t_sectors_srcunit_tex.sum": 1000.0}
    assert profiled({**device, "lts__d_sectors_fill_sysmem.sum": 10.0})["is_off_gpu"] is True
    assert profiled({**device, "lts__d_sectors_fill_sysmem.sum": 9.0})["is_off_gpu"] is False
    peer = "lts__t_sectors_srcunit_tex_aperture_peer_op_read.sum"
    assert profiled({**device, peer: 10.0})["is_off_gpu"] is True


def test_blocks_and_processors_stand_in_for_waves() -> None:
    calm = {"launch__waves_per_multiprocessor": None}
    size = {"grid_x": 1, "grid_y": 8, "grid_z": 10}
    assert profiled(dict(calm), **size)["verdict"] == "latency"
    stated = (*facts(0, gpu_name="NVIDIA GeForce RTX 5090"),)
    row = profiled(dict(calm), settings=stated, **size)
    assert (row["verdict"], row["block_count"], row["is_small_grid"]) == ("small_grid", 80, True)


def test_streaming_kernel_has_no_reuse_whatever_all_clients_say() -> None:
    row = profiled(
        {
            "lts__t_sector_hit_rate.pct": 62.1,
            f"{READ}hit.sum": 0.0,
            f"{READ}miss.sum": 1000.0,
            "dram__bytes_read.sum": 32000.0,
            "dram__bytes_write.sum": 8000.0,
            "dram__bytes.sum.peak_sustained": 1280.0,
            "dram__cycles_elapsed.avg.per_second": 1e6,
        }
    )
    assert (row["hit_basis"], row["read_hit_ratio"], row["all_hit_ratio"]) == ("read_pair", 0, 0.621)
    assert (row["read_hit_sectors"], row["read_lookup_sectors"], row["dram_bytes"]) == (0, 1000, 40000)
    assert row["peak_basis"] == "measured_clock"
    assert row["dram_use_ratio"] == pytest.approx(40000 / (1e-4 * 1.28e9))


@pytest.mark.parametrize(
    ("metrics", "dram_bytes"),
    [
        ({"dram__bytes_op_read.sum": 5.0, "dram__bytes_op_write.sum": 2.0}, 7),
        ({"dram__bytes.sum": 9.0}, 9),
        ({"dram__bytes.sum.per_second": 1e6}, 100),
        ({"dram__bytes_read.sum": 5.0}, None),
    ],
)
def test_dram_bytes_of_every_naming(metrics: dict[str, float | None], dram_bytes: int | None) -> None:
    assert profiled(metrics)["dram_bytes"] == dram_bytes


def test_a_hit_rate_out_of_range_is_left_out() -> None:
    row = profiled({"lts__t_sector_hit_rate.pct": 171.0})
    assert (row["all_hit_ratio"], row["hit_basis"]) == (None, "all_clients")


RECORDED = {
    "llm-perf-opt/k0001_gemv_decode.details.csv": ("small_grid", True, 0.2766),
    "llm-perf-opt/k0002_gemv_decode2.details.csv": ("low_occupancy", True, 0.0530),
    "llm-perf-opt/k0003_wmma_gemm.details.csv": ("l2", False, 0.9540),
    "llm-perf-opt/k0005_gemm_prefill.details.csv": ("low_occupancy", False, 0.8044),
    "llm-perf-opt/k0009_fmha_cutlass.details.csv": ("latency", False, 0.6197),
    "llm-perf-opt/k0010_l2bound_elementwise.details.csv": ("l2", False, 0.9048),
    "llm-perf-opt/k0013_flash_splitkv.details.csv": ("small_grid", True, 0.1172),
}
REPORTS = {
    "ESMM-Research/a10g_basic_nan_c6.ncu-rep": [
        "memory_heavy",
        "compute",
        "compute",
        "balanced",
        "small_grid",
        "failed",
    ],
    "ESMM-Research/a10g_roofline_c4.ncu-rep": ["balanced", "small_grid", "small_grid", "small_grid"],
    "cudaCode/rtx2080ti_basic_c2.ncu-rep": ["compute", "latency"],
    "cuda_learning_mojo/gtx1660ti_basic_c4.ncu-rep": ["small_grid"] * 4,
    "superbenchmark/cublaslt_ncu.log": ["low_occupancy"],
}


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
def test_recorded_decode_and_prefill_kernels() -> None:
    files = {number: (CSV_READER, CORPUS / name) for number, name in enumerate(RECORDED, start=1)}
    given = {"sources": [source(number, name, "counters") for number, name in enumerate(RECORDED, start=1)]}
    con = build("profiled_kernels", given, files=files)
    found = table(
        con, "select verdict, is_short, round(all_hit_ratio, 4) from profiled_kernels order by source_id"
    )
    assert found == list(RECORDED.values())
    assert table(con, "select distinct hit_basis from profiled_kernels") == [("all_clients",)]


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
def test_recorded_reports() -> None:
    for name, verdicts in REPORTS.items():
        reader: Reader = REPORT_READER if name.endswith("rep") else CSV_READER
        con = build(
            "profiled_kernels", {"sources": [source(1, name, "counters")]}, files={1: (reader, CORPUS / name)}
        )
        assert [
            row[0] for row in table(con, "select verdict from profiled_kernels order by kernel_no")
        ] == verdicts
