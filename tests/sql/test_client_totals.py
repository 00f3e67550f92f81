"""client_totals: what load clients printed, kept without the times of their own clocks."""

from builders_serving import rows_of


def test_totals_of_each_load_without_times() -> None:
    rows = rows_of(
        "client_totals",
        "level, source_id, load_no, name, value",
        sources=[{"source_id": 3, "path": "c8/bench.json", "level": "c8"}],
        raw_client_summary=[
            {"source_id": 3, "load_no": 1, "name": "p99_itl_ms", "value": 80.5},
            {"source_id": 3, "load_no": 0, "name": "duration_s", "value": 12.5},
            {"source_id": 3, "load_no": 0, "name": "end_local_ns", "value": 1.7e18},
        ],
    )
    assert rows == [("c8", 3, 0, "duration_s", 12.5), ("c8", 3, 1, "p99_itl_ms", 80.5)]


RESULT = {"completed": 20.0, "duration_s": 12.504, "mean_itl_ms": 7.1261, "std_itl_ms": 0.5}
PRINTED = {"completed": 20.0, "duration_s": 12.5, "mean_itl_ms": 7.13}


def stated_twice(printed: dict[str, float], result: dict[str, float] = RESULT, level: str = "c8") -> set[int]:
    """Return the files that the totals are listed from."""
    rows = rows_of(
        "client_totals",
        "source_id",
        sources=[
            {"source_id": 3, "path": "client.log", "level": "c8"},
            {"source_id": 4, "path": "bench.json", "level": level},
        ],
        raw_client_summary=[
            {"source_id": source_id, "load_no": 0, "name": name, "value": value}
            for source_id, totals in ((3, printed), (4, result))
            for name, value in totals.items()
        ],
    )
    return {row[0] for row in rows}


def test_a_printed_table_and_its_result_are_one_load() -> None:
    assert stated_twice(PRINTED) == {4}
    assert stated_twice(RESULT) == {3}


def test_loads_that_differ_are_both_listed() -> None:
    assert stated_twice({**PRINTED, "duration_s": 12.52}) == {3, 4}
    assert stated_twice({**PRINTED, "p99_itl_ms": 9.0}) == {3, 4}
    assert stated_twice({"completed": 20.0}) == {3, 4}
    assert stated_twice(PRINTED, level="c16") == {3, 4}
