"""stg_log__stats: statistics lines on the run clock."""

from builders_serving import S, log_row, rows_of


def test_line_on_the_run_clock() -> None:
    rows = rows_of(
        "stg_log__stats",
        "semantics, gen_tokens_per_s, running_count, deferred_count, kv_used_ratio, ts_ns",
        clocks=[{"source_id": 2, "offset_ns": -S, "uncertainty_ns": 0, "method": "zone"}],
        raw_log_stats=[
            log_row(
                1, 5, kv_semantics="live_tokens", gen_tokens_per_s=9.5, running_count=4, kv_used_ratio=0.25
            )
        ],
    )
    assert rows == [("live_tokens", 9.5, 4, None, 0.25, 4 * S)]


def test_levels_come_from_the_file() -> None:
    rows = rows_of(
        "stg_log__stats",
        "level, line_no",
        sources=[
            {"source_id": 2, "path": "c8/server.log", "level": "c8"},
            {"source_id": 4, "path": "c16/server.log", "level": "c16"},
        ],
        raw_log_stats=[log_row(1, 5), log_row(1, 6, source_id=4)],
    )
    assert rows == [("c16", 1), ("c8", 1)]
