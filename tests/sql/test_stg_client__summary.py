"""stg_client__summary: totals that load clients printed, by level."""

from builders_serving import rows_of


def test_total_with_the_level_of_its_file() -> None:
    rows = rows_of(
        "stg_client__summary",
        "level, load_no, name, value",
        sources=[{"source_id": 3, "path": "c8/bench.json", "level": "c8"}],
        raw_client_summary=[{"source_id": 3, "load_no": 0, "name": "duration_s", "value": 12.5}],
    )
    assert rows == [("c8", 0, "duration_s", 12.5)]
