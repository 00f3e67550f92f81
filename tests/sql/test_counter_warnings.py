"""The counter_warnings mart: a warning is there exactly when its trigger is met."""

import csv

import pytest

from builders_ncu import CORPUS, NO_CORPUS, PCT, counter_values, kernel_row, session_row, value_rows
from builders_raw import Row, build, facts, has_documented_columns, is_unique, source, table
from kvcliff.readers.nsight_compute_csv import READER as CSV_READER
from kvcliff.readers.nsight_compute_report import READER as REPORT_READER
from kvcliff.resources import sql_root

READ = "lts__t_sectors_srcunit_tex_op_read_lookup_"
#: Collected in the best way: nothing to warn of.
CLEAN = {"cache_control": "none", "clock_control": "none", "replay_mode": "app-range"}
GOOD: dict[str, float | None] = {
    "gpu__time_duration.sum": 50_000.0,
    "profiler__replayer_passes": 1.0,
    f"{READ}hit.sum": 1.0,
    f"{READ}miss.sum": 1.0,
}


def warnings(
    session: dict[str, object] | None = None,
    metrics: dict[str, float | None] | None = None,
    *,
    settings: tuple[Row, ...] = (),
    devices: tuple[Row, ...] = (),
    **kernel: object,
) -> set[str]:
    con = build(
        "counter_warnings",
        {
            "sources": [source(1, "a.ncu-rep", "counters"), source(2, "server.log", "log")],
            "raw_counter_sessions": [session_row(**{**CLEAN, **(session or {})})],  # type: ignore[arg-type]
            "raw_counter_kernels": [kernel_row(**kernel)],  # type: ignore[arg-type]
            **counter_values(value_rows(GOOD if metrics is None else metrics)),
            "raw_counter_devices": list(devices),
            "raw_settings": list(settings),
        },
    )
    assert is_unique(con, "counter_warnings")
    assert has_documented_columns(con, "counter_warnings")
    return {str(row[0]) for row in table(con, "select warning from counter_warnings")}


def test_nothing_to_warn_of() -> None:
    assert warnings() == set()


OVERHEAD = {
    "dram__bytes.sum": 7.35e6,
    "dram__bytes.sum.peak_sustained": 200.0,
    "dram__cycles_elapsed.avg.per_second": 1e9,
}


@pytest.mark.parametrize(
    ("session", "metrics", "kernel", "expected"),
    [
        ({"cache_control": "all"}, {}, {}, {"caches_flushed"}),
        ({"replay_mode": "kernel"}, {}, {}, {"serialised"}),
        ({"replay_mode": "application"}, {}, {}, {"serialised"}),
        ({}, {"profiler__replayer_passes": 2.0}, {}, {"several_passes"}),
        (
            {"replay_mode": "kernel"},
            {"profiler__replayer_passes": 2.0},
            {},
            {"serialised", "several_passes", "warmed_by_itself"},
        ),
        ({"clock_control": "base"}, {}, {}, {"clocks_locked"}),
        ({}, {}, {"is_clock_locked": True}, {"clocks_locked"}),
        ({}, {"gpu__time_duration.sum": 19_999.0}, {}, {"short_kernels"}),
        ({}, {"gpu__time_duration.sum": 20_000.0}, {}, set()),
        ({}, {"lts__t_sector_hit_rate.pct": 100.1}, {}, {"hit_out_of_range"}),
        ({}, {"lts__t_sector_hit_rate.pct": 100.0}, {}, set()),
        ({"has_options": False, "cache_control": None, "clock_control": None}, {}, {}, {"settings_unknown"}),
        ({"stated_kernel_count": 1}, {}, {}, set()),
        ({"stated_kernel_count": 2}, {}, {}, {"partial_file"}),
        ({"is_cut": True, "stated_kernel_count": 1}, {}, {}, {"partial_file"}),
        ({"is_cut": False}, {}, {}, set()),
        ({"clock_control": "boost"}, {}, {}, {"clocks_locked"}),
        ({"clock_control": None}, {}, {"is_clock_locked": False}, set()),
        ({"is_refused": True}, {}, {}, {"permission_denied"}),
        ({}, {**OVERHEAD, f"gpu__dram_throughput{PCT}": 91.7}, {}, {"active_cycle_overhead"}),
        ({}, {**OVERHEAD, f"gpu__dram_throughput{PCT}": 78.0}, {}, set()),
        ({}, {**OVERHEAD, f"gpu__dram_throughput{PCT}": 91.7}, {"compute_capability": "8.0"}, set()),
        ({"cache_control": None}, {}, {}, set()),
        ({"replay_mode": "range"}, {}, {}, set()),
        ({"replay_mode": "kernel"}, {"profiler__replayer_passes": 1.0}, {}, {"serialised"}),
        ({}, {"lts__t_sector_hit_rate.pct": -0.1}, {}, {"hit_out_of_range"}),
        ({"is_refused": False}, {}, {}, set()),
    ],
)
def test_trigger(
    session: dict[str, object],
    metrics: dict[str, float | None],
    kernel: dict[str, object],
    expected: set[str],
) -> None:
    assert warnings(session, {**GOOD, **metrics}, **kernel) == expected


def test_hits_of_all_clients_count_twice_on_two_partitions_only() -> None:
    metrics: dict[str, float | None] = {
        "gpu__time_duration.sum": 5e4,
        "lts__t_sector_hit_rate.pct": 60.0,
    }
    assert warnings(metrics=metrics, compute_capability="9.0") == {"fabric_counted_twice"}
    assert warnings(metrics=metrics, compute_capability="8.0") == {"fabric_counted_twice"}
    assert warnings(metrics=metrics, compute_capability="8.6") == set()
    assert warnings(metrics={**metrics, **GOOD}, compute_capability="9.0") == set()


def test_basic_set_has_no_memory_metrics() -> None:
    assert warnings(metrics={"gpu__time_duration.sum": 5e4}) == {"memory_metrics_absent"}


def test_shared_gpu() -> None:
    name = {"source_id": 1, "device_id": 0, "attribute": "display_name", "text": "NVIDIA A100 MIG 1g.5gb"}
    assert warnings(devices=(name,)) == {"shared_gpu"}
    assert warnings(devices=({**name, "text": "NVIDIA A100-SXM4-40GB"},)) == set()


def test_replay_of_an_engine_that_holds_all_memory() -> None:
    replay: dict[str, object] = {"replay_mode": "kernel"}
    full = tuple(facts(2, gpu_memory_utilization=0.9))
    assert warnings(replay, settings=full) == {"serialised", "replay_of_full_memory"}
    assert warnings(replay, settings=tuple(facts(2, gpu_memory_utilization=0.8))) == {"serialised"}
    assert warnings(settings=full) == set()


@pytest.mark.parametrize(
    ("path", "is_known"),
    [("x/a.session.csv", True), ("x/other.csv", True), ("other.csv", False)],
)
def test_session_page_beside_the_kernels(path: str, is_known: bool) -> None:
    unknown = {"has_options": False, "cache_control": None, "clock_control": None, "replay_mode": None}
    con = build(
        "counter_warnings",
        {
            "sources": [source(1, "x/a.raw.csv", "counters"), source(2, path, "counters")],
            "raw_counter_sessions": [
                session_row(1, "raw", **unknown),
                session_row(2, "session", **{**CLEAN, "cache_control": "all"}),
            ],
            "raw_counter_kernels": [kernel_row()],
            **counter_values(value_rows(GOOD)),
        },
    )
    expected = "caches_flushed" if is_known else "settings_unknown"
    assert table(con, "select source_id, warning from counter_warnings") == [(1, expected)]


def test_every_warning_has_its_text() -> None:
    with (sql_root() / "seeds/counter_warning_texts.csv").open(newline="") as file:
        texts = {row["warning"] for row in csv.DictReader(file)}
    model = (sql_root() / "marts/counter_warnings.sql").read_text()
    assert {name for name in texts if f"'name': '{name}'" in model} == texts
    assert model.count("'name': '") == len(texts)


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
def test_recorded_files() -> None:
    files = {
        1: (REPORT_READER, "cuda_learning_mojo/gtx1660ti_truncated_70000.ncu-rep"),
        2: (CSV_READER, "llm-perf-opt/k0013_flash_splitkv.details.csv"),
    }
    con = build(
        "counter_warnings",
        {"sources": [source(number, path, "counters") for number, (_, path) in files.items()]},
        files={number: (reader, CORPUS / path) for number, (reader, path) in files.items()},
    )
    found: dict[object, list[object]] = {}
    for source_id, warning in table(
        con, "select source_id, warning from counter_warnings order by 1, warning_no"
    ):
        found.setdefault(source_id, []).append(warning)
    assert found == {
        1: [
            *("caches_flushed", "clocks_locked", "serialised", "several_passes", "short_kernels"),
            *("memory_metrics_absent", "partial_file"),
        ],
        2: ["short_kernels", "settings_unknown"],
    }
