"""int_files_chained: rotated logs and interrupted scrapers leave files that are read on as one."""

import pytest

from builders_raw import Row, Rows, source, table
from builders_serving import S, model

NONE: dict[str, Rows] = dict.fromkeys(("stg_log__stats", "stg_log__iterations", "stg_log__events"), ())
SECOND = source(5, "second", "log")


def lines(source_id: int, *seconds: float) -> list[Row]:
    return [
        {"source_id": source_id, "line_no": number, "ts_ns": round(second * S)}
        for number, second in enumerate(seconds, 1)
    ]


def chains(stats: list[Row], other: Row | None = None, uncertainty_ns: int = 0) -> list[tuple[object, ...]]:
    con = model(
        "int_files_chained",
        {
            "sources": [source(2, "first", "log"), {**SECOND, **(other or {})}],
            "clocks": [
                {"source_id": number, "offset_ns": 0, "uncertainty_ns": uncertainty_ns} for number in (2, 5)
            ],
        },
        {"stg_metrics__scrapes": [], **NONE, "stg_log__stats": stats},
    )
    return table(con, "select source_id, chain_id, first_no from int_files_chained order by source_id")


def test_file_that_begins_where_another_ends_goes_on() -> None:
    assert chains([*lines(2, 10, 20), *lines(5, 30)]) == [(2, 2, 0), (5, 2, 3)]


def test_order_is_that_of_time() -> None:
    assert chains([*lines(2, 30), *lines(5, 10, 20)]) == [(2, 5, 3), (5, 5, 0)]


def test_lines_of_one_second_may_stand_in_both() -> None:
    assert chains([*lines(2, 10, 20), *lines(5, 20, 30)]) == [(2, 2, 0), (5, 2, 3)]


@pytest.mark.parametrize(("uncertainty_ms", "chain_id"), [(99, 5), (100, 2)])
def test_clocks_may_overlap_by_what_they_are_off(uncertainty_ms: int, chain_id: int) -> None:
    found = chains([*lines(2, 10, 20.2), *lines(5, 20, 30)], uncertainty_ns=uncertainty_ms * 1_000_000)
    assert [row[1] for row in found] == [2, chain_id]


@pytest.mark.parametrize("other", [{"level": "8"}, {"replica": "b"}])
def test_levels_and_replicas_are_apart(other: Row) -> None:
    assert chains([*lines(2, 10, 20), *lines(5, 30)], other) == [(2, 2, 0), (5, 5, 0)]


def test_overlapping_files_stand_alone() -> None:
    assert chains([*lines(2, 10, 30), *lines(5, 20, 40)]) == [(2, 2, 0), (5, 5, 0)]
