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
