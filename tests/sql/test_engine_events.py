"""The engine_events mart: what the engine did or said at a moment."""

import pytest

from builders_raw import Row, Rows, table
from builders_serving import S, model, ns

ACTION = {
    "action_no": 1,
    "replica_id": "0",
    "source_id": 1,
    "kind": "preempt",
    "proof": "counter",
    "event_count": 3,
    "low_ns": 19 * S,
    "high_ns": 20 * S,
    "ts_ns": ns(19.5),
}


def event(kind: str, second: float = 5, **values: object) -> Row:
    return {"replica_id": "0", "source_id": 2, "line_no": 1, "kind": kind, "ts_ns": ns(second), **values}


def events(columns: str, actions: Rows = (), judged: Rows = (), said: Rows = ()) -> list[tuple[object, ...]]:
    stubs = {"int_engine_actions": actions, "int_actions_judged": judged, "stg_log__events": said}
    con = model("engine_events", {}, stubs)
    return table(con, f"select {columns} from engine_events order by event_no")


def test_action_with_half_its_width_as_error() -> None:
    rows = events("kind, proof, event_count, ts_ns, error_ns", [ACTION])
    assert rows == [("preempt", "counter", 3, ns(19.5), S // 2)]


def test_action_that_counts_is_marked() -> None:
    assert events("is_under_pressure", [ACTION], [{"action_no": 1}]) == [(True,)]
    assert events("is_under_pressure", [ACTION], [{"action_no": 2}]) == [(False,)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("jit", 1),
        ("oom", 1),
        ("fatal", 1),
        ("worker_stall", 1),
        ("profiler_stop", 1),
        ("preempt", 0),
        ("request_added", 0),
    ],
)
def test_log_events_beside_actions(kind: str, expected: int) -> None:
    assert len(events("1", said=[event(kind)])) == expected


def test_log_event_is_known_to_half_a_second_and_its_clock() -> None:
    rows = events("proof, event_count, error_ns", said=[event("oom", uncertainty_ns=S)])
    assert rows == [("log", 1, ns(1.5))]


def test_numbers_follow_the_time_and_do_not_depend_on_the_order_of_rows() -> None:
    said = [event("oom", 30), event("jit", 5), event("fatal", 30)]
    expected = [(1, "jit"), (2, "preempt"), (3, "fatal"), (4, "oom")]
    assert events("event_no, kind", [ACTION], said=said) == expected
    assert events("event_no, kind", [ACTION], said=said[::-1]) == expected
