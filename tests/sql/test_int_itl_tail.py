"""int_itl_tail: the server's ITL histogram as counts of each scrape interval."""

import math

from builders_raw import table
from builders_serving import S, histogram_rows, merge, model

COLUMNS = "scrape_no, le, cumulative_count"


def tail(raw: dict[str, list[dict[str, object]]], columns: str = COLUMNS) -> list[tuple[object, ...]]:
    con = model("int_itl_tail", raw)  # type: ignore[arg-type]
    return table(con, f"select {columns} from int_itl_tail order by source_id, scrape_no, le")


def test_counts_are_differences_of_two_scrapes() -> None:
    raw = histogram_rows({1: {0.05: 10, math.inf: 12}, 2: {0.05: 15, math.inf: 20}})
    assert tail(raw) == [(1, 0.05, 5.0), (1, math.inf, 8.0)]


def test_first_scrape_holds_what_was_before_and_is_left_out() -> None:
    assert tail(histogram_rows({1: {0.05: 10, math.inf: 12}})) == []


def test_interval_of_a_restart_is_left_out_with_all_bounds() -> None:
    # After the restart the first bound is higher than before, the total is lower.
    raw = histogram_rows({1: {0.05: 1, math.inf: 12}, 2: {0.05: 3, math.inf: 4}, 3: {0.05: 4, math.inf: 6}})
    assert tail(raw) == [(2, 0.05, 1.0), (2, math.inf, 2.0)]


def test_two_names_of_one_histogram_are_one() -> None:
    counts = {1: {math.inf: 12}, 2: {math.inf: 20}}
    other = histogram_rows(counts, name="vllm:time_per_output_token_seconds_bucket", first_series_id=80)
    assert tail(merge(histogram_rows(counts), other)) == [(1, math.inf, 8.0)]


def test_other_histograms_are_not_meant() -> None:
    raw = histogram_rows({1: {math.inf: 1}, 2: {math.inf: 2}}, name="vllm:time_to_first_token_seconds_bucket")
    assert tail(raw) == []


def test_interval_has_its_start_and_end() -> None:
    raw = histogram_rows({1: {math.inf: 1}, 4: {math.inf: 2}})
    assert tail(raw, "previous_ts_ns, ts_ns") == [(S, 4 * S)]
