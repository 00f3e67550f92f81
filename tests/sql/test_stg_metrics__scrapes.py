"""stg_metrics__scrapes: when a scrape's values were true, on the run clock."""

from builders_serving import S, rows_of

SCRAPE = {"source_id": 1, "scrape_no": 0, "src_ns": 10 * S, "is_timed": True}


def test_the_end_of_the_scrape_counts() -> None:
    rows = rows_of(
        "stg_metrics__scrapes",
        "ts_ns, scrape_dur_ns",
        clocks=[{"source_id": 1, "offset_ns": 5, "uncertainty_ns": 0, "method": "stated"}],
        raw_metric_scrapes=[{**SCRAPE, "end_src_ns": 10 * S + 300}],
    )
    assert rows == [(10 * S + 305, 300)]


def test_without_an_end_the_start_counts_and_the_scrape_takes_no_time() -> None:
    assert rows_of("stg_metrics__scrapes", "ts_ns, scrape_dur_ns", raw_metric_scrapes=[SCRAPE]) == [
        (10 * S, 0)
    ]
