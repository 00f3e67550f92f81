"""int_actions_judged: which engine actions count, and which flips better evidence refutes."""

import pytest

from builders_raw import Row, Rows, table
from builders_serving import S, model, ns

PERIOD = {"replica_id": "0", "start_ns": 10 * S, "end_ns": 50 * S}


def action(action_no: int, low: float, high: float, proof: str = "gauges", **values: object) -> Row:
    kinds = {"gauges": "flip", "counter": "preempt", "resume": "recompute_step", "log": "preempt"}
    return {
        "action_no": action_no,
        "replica_id": "0",
        "source_id": 1,
        "kind": kinds[proof],
        "proof": proof,
        "event_count": 1,
        "is_prompt": proof in ("gauges", "log"),
        "earliest_ns": ns(low),
        "low_ns": ns(low),
        "high_ns": ns(high),
        "ts_ns": ns((low + high) / 2),
        **values,
    }


def sample(
    second: float, *, running: float = 9, waiting: float = 3, origin: str = "metrics", **values: object
) -> Row:
    return {
        "replica_id": "0",
        "source_id": 1,
        "origin": origin,
        "running_count": running,
        "waiting_count": waiting,
        "preemption_total": 0.0 if origin == "metrics" else None,
        "ts_ns": ns(second),
        **values,
    }


def counting(
    *actions: Row, samples: Rows = (), periods: Rows = (PERIOD,), columns: str = "action_no"
) -> list[object]:
    stubs = {"int_engine_actions": actions, "int_pressure_periods": periods, "int_kv_samples": samples}
    con = model("int_actions_judged", {}, stubs)
    return [
        row[0] if len(row) == 1 else row
        for row in table(con, f"select {columns} from int_actions_judged order by 1")
    ]


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(8.5, 9.9, []), (9, 10, [1]), (30, 31, [1]), (50, 51, [1]), (50.1, 51, [])]
)
def test_action_counts_when_it_touches_a_pressure_period(
    low: float, high: float, expected: list[int]
) -> None:
    assert counting(action(1, low, high, "gauges")) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("retract", [1]), ("pause", [1]), ("preempt", [1]), ("swap_out", [1]), ("offload_store_failed", [])],
)
def test_what_the_engine_logs_needs_no_gauge(kind: str, expected: list[int]) -> None:
    # The line itself says that KV was short; a failed store into a tier says nothing of the device's cache.
    assert counting(action(1, 70, 71, "log", kind=kind)) == expected
    assert counting(action(1, 70, 71, "log", kind=kind), periods=[]) == expected


@pytest.mark.parametrize(("low", "expected"), [(80, [1]), (80.1, [])])
def test_late_proof_counts_half_a_minute_after_the_pressure(low: float, expected: list[int]) -> None:
    assert counting(action(1, low, low + 1, "counter")) == expected


def test_late_proof_counts_at_the_end_of_its_pressure() -> None:
    assert counting(action(1, 60, 61, "counter"), columns="mark_ns") == [50 * S]


def test_action_inside_counts_at_its_own_upper_bound() -> None:
    assert counting(action(1, 30, 31), columns="mark_ns") == [31 * S]


def test_without_pressure_nothing_counts() -> None:
    assert counting(action(1, 30, 31, "counter"), periods=[]) == []


def test_pressure_of_another_replica_or_level_does_not_count() -> None:
    others = [{**PERIOD, "replica_id": "1"}, {**PERIOD, "level": "c8"}]
    assert counting(action(1, 30, 31, "gauges"), periods=others) == []


def test_action_in_two_periods_counts_once() -> None:
    two = [PERIOD, {**PERIOD, "start_ns": 52 * S, "end_ns": 60 * S}]
    assert counting(action(1, 40, 55, "counter"), periods=two) == [1]


@pytest.mark.parametrize(("last_s", "expected"), [(60.9, [1]), (61, [])])
def test_counter_that_stands_still_for_half_a_minute_refutes_a_flip(
    last_s: float, expected: list[int]
) -> None:
    samples = [sample(second) for second in (0, 30, 31, 45, last_s)]
    assert counting(action(1, 30, 31), samples=samples) == expected


def test_counter_that_rises_later_confirms_the_flip() -> None:
    samples = [sample(second) for second in (0, 30, 31, 45, 90)]
    assert counting(action(1, 30, 31), action(2, 58, 59, "counter"), samples=samples) == [1, 2]


def test_counter_that_rose_before_the_flip_does_not_confirm_it() -> None:
    samples = [sample(second) for second in (0, 30, 31, 45, 90)]
    assert counting(action(1, 30, 31), action(2, 20, 21, "counter"), samples=samples) == [2]


def test_without_counter_and_iteration_log_nothing_refutes_a_flip() -> None:
    samples = [sample(second, preemption_total=None) for second in (0, 30, 31, 90)]
    assert counting(action(1, 30, 31), samples=samples) == [1]


def test_engine_that_goes_idle_without_a_count_refutes_a_flip() -> None:
    # Everything finished four seconds later; a victim would have been resumed and counted.
    samples = [sample(30), sample(31), sample(35, running=0, waiting=0)]
    assert counting(action(1, 30, 31), samples=samples) == []


@pytest.mark.parametrize(("last_s", "expected"), [(38, [1]), (38.1, [])])
def test_queue_that_empties_without_a_count_refutes_a_flip(last_s: float, expected: list[int]) -> None:
    # The waiting requests were let in at 35 s; three seconds later the counter had its chance.
    samples = [sample(30), sample(31), sample(35, waiting=0), sample(last_s)]
    assert counting(action(1, 30, 31), samples=samples) == expected


def test_iteration_log_without_recomputation_refutes_a_flip() -> None:
    samples = [sample(second, origin="iterations", waiting=None) for second in (0, 30, 61)]  # type: ignore[arg-type]
    assert counting(action(1, 30, 31), samples=samples) == []


def test_iteration_log_with_recomputation_confirms_it() -> None:
    samples = [sample(second, origin="iterations", waiting=None) for second in (0, 30, 61)]  # type: ignore[arg-type]
    assert counting(action(1, 30, 31), action(2, 33, 33.2, "resume"), samples=samples) == [1, 2]


def test_only_flips_can_be_refuted() -> None:
    samples = [sample(second) for second in (0, 30, 31, 45, 90)]
    assert counting(action(1, 30, 31, "log"), samples=samples) == [1]


def test_witness_of_another_replica_refutes_nothing() -> None:
    samples = [sample(second, replica_id="1") for second in (0, 30, 31, 45, 90)]
    assert counting(action(1, 30, 31), samples=samples) == [1]
