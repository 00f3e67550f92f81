"""stg_log__iterations: iteration lines on the run clock."""

from builders_serving import S, log_row, rows_of


def test_line_on_the_run_clock() -> None:
    rows = rows_of(
        "stg_log__iterations",
        "iteration, context_tokens, generation_requests, elapsed_ms, is_dummy, ts_ns",
        clocks=[{"source_id": 2, "offset_ns": S, "uncertainty_ns": 0, "method": "zone"}],
        raw_log_iterations=[
            log_row(
                4, 9, iteration=17, context_tokens=0, generation_requests=3, elapsed_ms=12.5, is_dummy=False
            )
        ],
    )
    assert rows == [(17, 0, 3, 12.5, False, 10 * S)]


def test_line_of_an_unknown_file_is_left_out() -> None:
    assert rows_of("stg_log__iterations", "line_no", raw_log_iterations=[log_row(1, 1, source_id=99)]) == []
