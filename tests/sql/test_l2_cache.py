"""The l2_cache mart: sums of hits over sums of look-ups, bytes over time and peak."""

import pytest

from builders_ncu import PCT, counter_values, kernel_row, session_row, value_rows
from builders_raw import Row, build, has_documented_columns, is_unique, one, source, table

READ = "lts__t_sectors_srcunit_tex_op_read_lookup_"


def counters(
    hits: float, misses: float, duration_ns: float = 100_000.0, **more: float | None
) -> dict[str, float | None]:
    return {
        "gpu__time_duration.sum": duration_ns,
        f"sm__throughput{PCT}": 30.0,
        f"{READ}hit.sum": hits,
        f"{READ}miss.sum": misses,
        **more,
    }


def l2_cache(
    kernels: list[tuple[str, dict[str, float | None]]], session: Row | None = None, **kernel: object
) -> list[tuple[object, ...]]:
    con = build(
        "l2_cache",
        {
            "sources": [source(1, "a.ncu-rep", "counters")],
            "raw_counter_sessions": [session or session_row()],
            "raw_counter_kernels": [
                kernel_row(number, name, **kernel) for number, (name, _) in enumerate(kernels)
            ],  # type: ignore[arg-type]
            **counter_values(
                [row for number, (_, metrics) in enumerate(kernels) for row in value_rows(metrics, number)]
            ),
        },
    )
    assert is_unique(con, "l2_cache")
    assert has_documented_columns(con, "l2_cache")
    return table(
        con,
        "select family, hit_basis, profile_count, read_hit_sectors, read_lookup_sectors, read_hit_ratio "
        "from l2_cache order by family",
    )


def test_sums_are_divided_not_rates_averaged() -> None:
    found = l2_cache(
        [
            ("flash_fwd_splitkv_kernel<Traits<1>, 0, 0>", counters(90, 10)),
            ("flash_fwd_splitkv_kernel<Traits<1>, 0, 0>", counters(0, 900)),
            ("ampere_gemm", counters(5, 95)),
        ],
        grid_x=1,
    )
    assert found == [
        ("attention_decode", "read_pair", 2, 90, 1000, 0.09),
        ("gemm", "read_pair", 1, 5, 100, 0.05),
    ]


def test_mean_of_launches_counts_as_often_as_it_was_launched() -> None:
    found = l2_cache([("ampere_gemm", counters(5, 95))], launch_count=10)
    assert found == [("gemm", "read_pair", 1, 50, 1000, 0.05)]


def test_kernels_without_the_pair_do_not_dilute_it() -> None:
    bare = {"gpu__time_duration.sum": 5e4, "lts__t_sector_hit_rate.pct": 90.0}
    found = l2_cache([("ampere_gemm", counters(5, 95)), ("ampere_gemm", bare)])
    assert found == [("gemm", "read_pair_part", 2, 5, 100, 0.05)]
    assert l2_cache([("ampere_gemm", bare)]) == [("gemm", "all_clients", 1, None, None, None)]
    assert l2_cache([("ampere_gemm", {"gpu__time_duration.sum": 5e4})])[0][1] == "absent"


def test_dram_use_is_bytes_over_time_and_peak() -> None:
    dram = {"dram__bytes.sum.peak_sustained": 1000.0, "dram__cycles_elapsed.avg.per_second": 1e9}
    kernels = [
        counters(0, 1, 100_000.0, **{"dram__bytes.sum": 9e7, **dram}),
        counters(0, 1, 300_000.0, **{"dram__bytes.sum": 3e7, **dram}),
        {"gpu__time_duration.sum": None, **dram},
    ]
    con = build(
        "l2_cache",
        {
            "sources": [source(1, "a.ncu-rep", "counters")],
            "raw_counter_sessions": [session_row()],
            "raw_counter_kernels": [kernel_row(number) for number in range(3)],
            **counter_values(
                [row for number, item in enumerate(kernels) for row in value_rows(item, number)]
            ),
        },
    )
    row = one(
        con,
        "select dram_use_ratio, dram_bytes, duration_ns, profile_count, failed_count, peak_basis "
        "from l2_cache",
    )
    assert row == (pytest.approx(0.3), 120_000_000, 400_000, 2, 1, "measured_clock")


@pytest.mark.parametrize(
    ("session", "metrics", "warnings"),
    [
        ({}, {}, "caches_flushed"),
        ({"cache_control": "none", "replay_mode": "application"}, {}, None),
        (
            {"cache_control": "none"},
            {"profiler__replayer_passes": 9.0},
            "several_passes, warmed_by_itself",
        ),
        ({"has_options": False, "cache_control": None}, {}, "settings_unknown"),
        (
            {"cache_control": "none"},
            {"gpu__time_duration.sum": 19_999.0, "launch__waves_per_multiprocessor": 0.5},
            "short_kernels, small_grid",
        ),
        ({"cache_control": "none"}, {"lts__t_sector_hit_rate.pct": 101.0}, "hit_out_of_range"),
    ],
)
def test_warnings(session: dict[str, object], metrics: dict[str, float | None], warnings: str | None) -> None:
    con = build(
        "l2_cache",
        {
            "sources": [source(1, "a.ncu-rep", "counters")],
            "raw_counter_sessions": [session_row(**session)],  # type: ignore[arg-type]
            "raw_counter_kernels": [kernel_row()],
            **counter_values(value_rows({**counters(1, 1), **metrics})),
        },
    )
    assert one(con, "select warnings from l2_cache") == (warnings,)


def test_levels_stay_apart() -> None:
    con = build(
        "l2_cache",
        {
            "sources": [
                source(number, f"c{number}/a.ncu-rep", "counters", level=f"c{number}") for number in (1, 16)
            ],
            "raw_counter_sessions": [session_row(1), session_row(16)],
            "raw_counter_kernels": [kernel_row(source_id=1), kernel_row(source_id=16)],
            **counter_values(
                [
                    *value_rows(counters(9, 1), source_id=1),
                    *value_rows(counters(1, 9), source_id=16),
                ]
            ),
        },
    )
    assert table(con, "select level, read_hit_ratio from l2_cache order by level") == [
        ("c1", 0.9),
        ("c16", 0.1),
    ]
