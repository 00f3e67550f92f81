"""stg_log__events: log events on the run clock, by replica."""

from builders_raw import source
from builders_serving import S, log_row, rows_of

CLOCK = {"source_id": 2, "offset_ns": 10 * S, "uncertainty_ns": S, "method": "events"}


def test_time_is_shifted_to_the_run_clock() -> None:
    rows = rows_of(
        "stg_log__events",
        "kind, ts_ns, uncertainty_ns",
        clocks=[CLOCK],
        raw_log_events=[log_row(7, 3.5, kind="preempt")],
    )
    assert rows == [("preempt", 13_500_000_000, S)]


def test_event_without_time_keeps_none() -> None:
    line = {"source_id": 2, "line_no": 1, "kind": "oom"}
    assert rows_of("stg_log__events", "kind, replica_id, ts_ns", clocks=[CLOCK], raw_log_events=[line]) == [
        ("oom", "0", None)
    ]


def test_replica_is_the_file_and_the_engine_in_it() -> None:
    rows = rows_of(
        "stg_log__events",
        "replica_id",
        sources=[source(2, "b/server.log", "log", replica="b")],
        raw_log_events=[log_row(1, 1, kind="oom"), {**log_row(2, 2, kind="oom"), "engine": "3"}],
    )
    assert rows == [("b/0",), ("b/3",)]
