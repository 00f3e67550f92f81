"""int_run_extent: first and last moment of a run."""

from builders_raw import Row, Rows, table
from builders_serving import S, model

EMPTY: dict[str, Rows] = dict.fromkeys(
    ("int_kv_samples", "stg_client__requests", "kernel_phases", "steps", "gpu_samples"), ()
)
PLACED: list[Row] = [{"source_id": number, "comparable_offset_ns": 0} for number in (1, 2, 3)]


def extent(**stubs: list[Row]) -> list[tuple[object, ...]]:
    return table(
        model("int_run_extent", {}, {**EMPTY, "stg_sources": PLACED, **stubs}),
        "select start_ns, end_ns from int_run_extent",
    )


def test_all_sources_together() -> None:
    rows = extent(
        int_kv_samples=[{"source_id": 1, "ts_ns": 5 * S}, {"source_id": 1, "ts_ns": 9 * S}],
        stg_client__requests=[
            {"source_id": 2, "arrival_ns": 4 * S, "end_ns": 8 * S},
            {"source_id": 2, "arrival_ns": None, "end_ns": None},
        ],
        gpu_samples=[{"source_id": 3, "ts_ns": 12 * S}],
    )
    assert rows == [(4 * S, 12 * S)]


def test_a_file_that_no_tie_places_does_not_stretch_the_run() -> None:
    rows = extent(
        stg_sources=[*PLACED[:1], {"source_id": 2, "comparable_offset_ns": None}],
        int_kv_samples=[{"source_id": 1, "ts_ns": 5000 * S}, {"source_id": 1, "ts_ns": 9000 * S}],
        gpu_samples=[{"source_id": 2, "ts_ns": 12 * S}],
    )
    assert rows == [(5000 * S, 9000 * S)]


def test_without_times() -> None:
    assert extent() == [(None, None)]
