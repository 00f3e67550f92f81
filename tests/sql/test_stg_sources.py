"""stg_sources: files with the offset of their clock."""

from builders_serving import METRICS, rows_of


def test_offset_of_the_clock() -> None:
    rows = rows_of(
        "stg_sources",
        "source_id, offset_ns, uncertainty_ns",
        sources=[METRICS],
        clocks=[{"source_id": 1, "offset_ns": 70, "uncertainty_ns": 5, "method": "stated"}],
    )
    assert rows == [(1, 70, 5)]


def test_without_clock_the_own_time_stays_and_the_uncertainty_is_unknown() -> None:
    assert rows_of("stg_sources", "source_id, offset_ns, uncertainty_ns", sources=[METRICS]) == [(1, 0, None)]
