"""int_run_extent: first and last moment of a run."""

from builders_raw import Row, Rows, table
from builders_serving import S, model

EMPTY: dict[str, Rows] = dict.fromkeys(
    ("int_kv_samples", "stg_client__requests", "kernel_phases", "steps", "gpu_samples"), ()
)


def extent(**stubs: list[Row]) -> list[tuple[object, ...]]:
    return table(
        model("int_run_extent", {}, {**EMPTY, **stubs}), "select start_ns, end_ns from int_run_extent"
    )


def test_all_sources_together() -> None:
    rows = extent(
        int_kv_samples=[{"ts_ns": 5 * S}, {"ts_ns": 9 * S}],
        stg_client__requests=[{"arrival_ns": 4 * S, "end_ns": 8 * S}, {"arrival_ns": None, "end_ns": None}],
        gpu_samples=[{"ts_ns": 12 * S}],
    )
    assert rows == [(4 * S, 12 * S)]


def test_without_times() -> None:
    assert extent() == [(None, None)]
