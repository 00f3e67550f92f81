"""stg_sources: files with the offset of their clock."""

import pytest

from builders_serving import CLIENT, METRICS, rows_of


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


TIED = {"offset_ns": 70, "uncertainty_ns": 5, "method": "stated"}
UNTIED = {"offset_ns": 0, "uncertainty_ns": None, "method": "untied"}


@pytest.mark.parametrize(
    ("beside", "level", "expected"),
    [("metrics", None, None), ("client", None, None), ("device", None, 0), ("metrics", "8", 0)],
)
def test_times_that_no_tie_places_are_not_laid_beside_others(
    beside: str, level: str | None, expected: int | None
) -> None:
    rows = rows_of(
        "stg_sources",
        "source_id, comparable_offset_ns",
        sources=[{**METRICS, "role": beside, "level": level}, CLIENT],
        clocks=[{"source_id": 1, **TIED}, {"source_id": 3, **UNTIED}],
    )
    assert sorted(rows) == [(1, 70), (3, expected)]


def test_a_file_alone_keeps_its_own_time() -> None:
    rows = rows_of(
        "stg_sources", "comparable_offset_ns", sources=[CLIENT], clocks=[{"source_id": 3, **UNTIED}]
    )
    assert rows == [(0,)]
