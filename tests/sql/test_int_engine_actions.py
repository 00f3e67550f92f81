"""int_engine_actions: what each source shows of preemptions, flips, recompute steps and swap copies."""

import pytest

from builders_raw import Row, Rows, table
from builders_serving import LOG, METRICS, MS, S, model, ns

NONE: dict[str, Rows] = dict.fromkeys(
    ("int_kv_pressure", "int_iterations_timed", "stg_log__events", "stg_log__stats", "transfers"), ()
)
LIMIT = {"replica_id": "0", "running_limit": 16.0, "speculative_tokens": 0.0}


def pressure(second: float, **values: object) -> Row:
    return {
        "replica_id": "0",
        "source_id": 1,
        "ts_ns": ns(second),
        "previous_ts_ns": ns(second - 1),
        "interval_ns": S,
        "uncertainty_ns": 0,
        "is_flip": False,
        **values,
    }


def step(line_no: int, end: float, requests: int, kv: float, **values: object) -> Row:
    return {
        "replica_id": "0",
        "source_id": 2,
        "line_no": line_no,
        "chain_id": 2,
        "step_no": line_no,
        "context_requests": 0,
        "generation_requests": requests,
        "generation_tokens": requests,
        "kv_used_ratio": kv,
        "elapsed_ms": 20.0,
        "start_ns": ns(end) - 20 * MS,
        "end_ns": ns(end),
        "error_ns": 5 * MS,
        **values,
    }


def event(second: float, kind: str = "preempt", line_no: int = 1, **values: object) -> Row:
    return {
        "replica_id": "0",
        "source_id": 2,
        "line_no": line_no,
        "kind": kind,
        "ts_ns": ns(second),
        "uncertainty_ns": 0,
        **values,
    }


def actions(columns: str, limit: Row = LIMIT, **stubs: Rows) -> list[tuple[object, ...]]:
    con = model(
        "int_engine_actions", {"sources": [METRICS, LOG]}, {**NONE, "int_engine_limits": [limit], **stubs}
    )
    return table(con, f"select {columns} from int_engine_actions order by action_no")


def test_counter_rise_proves_a_preemption_but_does_not_date_it() -> None:
    rows = actions(
        "kind, proof, event_count, is_prompt, low_ns, high_ns",
        int_kv_pressure=[pressure(40, preemption_delta=3)],
    )
    assert rows == [("preempt", "counter", 3, False, 39 * S, 40 * S)]


def test_counter_that_stands_still_is_no_action() -> None:
    assert actions("1", int_kv_pressure=[pressure(40, preemption_delta=0), pressure(41)]) == []


def test_counter_rise_can_be_late_by_the_usual_lag() -> None:
    rows = actions("earliest_ns", int_kv_pressure=[pressure(40, preemption_delta=1)])
    assert rows == [(34 * S,)]


def test_counter_rise_can_be_late_by_the_whole_blocked_stretch() -> None:
    rows = actions(
        "earliest_ns", int_kv_pressure=[pressure(40, preemption_delta=1, possible_since_ns=20 * S)]
    )
    assert rows == [(20 * S,)]


def test_counter_rise_is_late_by_a_recomputation_at_least() -> None:
    # In the sample before nobody waited and there was room: the victim waited in between, then spoke again.
    rise = pressure(40, preemption_delta=1, possible_since_ns=39 * S)
    assert actions("earliest_ns", int_kv_pressure=[rise]) == [(38 * S,)]


def test_flip_lies_between_two_samples() -> None:
    rows = actions(
        "kind, proof, event_count, is_prompt, earliest_ns, low_ns, high_ns, ts_ns",
        int_kv_pressure=[pressure(40, is_flip=True, flip_since_ns=ns(38))],
    )
    assert rows == [("flip", "gauges", 1, True, 38 * S, 39 * S, 40 * S, ns(39.5))]


def test_blocks_of_a_victim_go_in_the_step_that_it_misses() -> None:
    assert dropped(kv_before=0.97, kv_after=0.97) == [(1, True, ns(29.995), ns(30.005))]
    assert dropped(kv_before=0.97, kv_after=0.98) == []


def test_uncertainty_of_the_clock_widens_both_ends() -> None:
    rows = actions(
        "earliest_ns, low_ns, high_ns",
        int_kv_pressure=[pressure(40, is_flip=True, flip_since_ns=ns(38), uncertainty_ns=100 * MS)],
    )
    assert rows == [(ns(37.9), ns(38.9), ns(40.1))]


def test_step_with_more_tokens_than_requests_recomputes() -> None:
    rows = actions(
        "kind, proof, mode, tokens, is_prompt, low_ns, high_ns",
        int_iterations_timed=[step(1, 30, 9, 1.0, generation_tokens=9 + 250)],
    )
    assert rows == [("recompute_step", "resume", "recompute", 251, False, ns(29.975), ns(30.005))]


@pytest.mark.parametrize(("tokens", "expected"), [(36, 0), (37, 1)])
def test_speculative_tokens_are_no_recomputation(tokens: int, expected: int) -> None:
    # Three speculative tokens and one sure one for each of nine requests.
    rows = actions(
        "kind",
        limit={**LIMIT, "speculative_tokens": 3.0},
        int_iterations_timed=[step(1, 30, 9, 1.0, generation_tokens=tokens)],
    )
    assert len(rows) == expected


def dropped(
    kv_before: float = 1.0, kv_after: float = 0.9, resume_s: float = 33.0
) -> list[tuple[object, ...]]:
    """Return drops when one of ten requests vanishes at 30.02 s and something is recomputed later."""
    return actions(
        "event_count, is_prompt, low_ns, high_ns",
        int_iterations_timed=[
            step(1, 30, 10, kv_before),
            step(2, 30.02, 9, kv_after),
            step(3, resume_s, 9, 0.9, generation_tokens=300),
        ],
    )[:-1]


def test_request_that_vanishes_at_the_ceiling_and_is_recomputed_was_preempted() -> None:
    # It happened when the smaller step began.
    assert dropped() == [(1, True, ns(29.995), ns(30.005))]


@pytest.mark.parametrize(("kv_before", "expected"), [(0.949, 0), (0.95, 1)])
def test_request_that_vanishes_below_the_ceiling_finished(kv_before: float, expected: int) -> None:
    assert len(dropped(kv_before=kv_before)) == expected


@pytest.mark.parametrize(("kv_after", "expected"), [(0.79, 0), (0.8, 1)])
def test_occupancy_that_collapses_is_the_end_of_a_batch(kv_after: float, expected: int) -> None:
    assert len(dropped(kv_after=kv_after)) == expected


@pytest.mark.parametrize(("resume_s", "expected"), [(59.9, 1), (60.1, 0)])
def test_recomputation_has_to_follow_in_half_a_minute(resume_s: float, expected: int) -> None:
    assert len(dropped(resume_s=resume_s)) == expected


def test_request_that_vanishes_without_recomputation_finished() -> None:
    rows = actions("kind", int_iterations_timed=[step(1, 30, 10, 1.0), step(2, 30.02, 9, 1.0)])
    assert rows == []


def test_log_line_dates_within_its_second() -> None:
    rows = actions(
        "kind, proof, mode, request_id, event_count, is_prompt, low_ns, high_ns",
        stg_log__events=[event(20, mode="swap", request_id="cmpl-1")],
    )
    assert rows == [("preempt", "log", "swap", "cmpl-1", 1, True, 20 * S, 21 * S)]


@pytest.mark.parametrize(("step_ns", "expected"), [(MS, MS), (S, S), (7 * S, S)])
def test_log_line_dates_within_the_step_of_its_stamps(step_ns: int, expected: int) -> None:
    rows = actions(
        "low_ns, high_ns - low_ns",
        stg_log__events=[event(20)],
        stg_settings=[{"source_id": 2, "name": "log_stamp_resolution_ns", "number": float(step_ns)}],
    )
    assert rows == [(20 * S, expected)]


def test_cumulative_lines_count_what_happened_between_them() -> None:
    lines = [
        event(20 + number, line_no=number, cumulative_count=count)
        for number, count in enumerate([1, 51, 101])
    ]
    assert [row[0] for row in actions("event_count", stg_log__events=lines)] == [1, 50, 50]


def test_line_that_states_its_number_of_requests() -> None:
    lines = [event(20, "retract", line_no=1, event_count=7), event(21, "pause", line_no=2)]
    assert actions("kind, event_count", stg_log__events=lines) == [("retract", 7), ("pause", 1)]


def test_cumulative_count_of_a_restarted_engine_counts_one() -> None:
    lines = [event(20, line_no=1, cumulative_count=51), event(90, line_no=2, cumulative_count=1)]
    assert [row[0] for row in actions("event_count", stg_log__events=lines)] == [51, 1]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("retract", 1),
        ("swap_out", 1),
        ("offload_store_failed", 1),
        ("oom", 0),
        ("jit", 0),
        ("request_added", 0),
    ],
)
def test_events_that_are_actions(kind: str, expected: int) -> None:
    assert len(actions("1", stg_log__events=[event(20, kind)])) == expected


def stats(second: float, preemptions: int | None, line_no: int) -> Row:
    return {
        "replica_id": "0",
        "source_id": 2,
        "line_no": line_no,
        "preemption_count": preemptions,
        "ts_ns": ns(second),
        "uncertainty_ns": 0,
    }


def test_statistics_line_counts_preemptions_since_the_line_before() -> None:
    lines = [stats(10, 0, 1), stats(20, 4, 2), stats(30, None, 3)]
    rows = actions("kind, proof, event_count, low_ns, high_ns", stg_log__stats=lines)
    assert rows == [("preempt", "log", 4, 10 * S, 21 * S)]
    fine = {"source_id": 2, "name": "log_stamp_resolution_ns", "number": float(MS)}
    rows = actions("low_ns, high_ns", stg_log__stats=lines, stg_settings=[fine])
    assert rows == [(10 * S, 20 * S + MS)]


def transfer(kind: str, second: float, **values: object) -> Row:
    return {
        "replica_id": "0",
        "source_id": 1,
        "kind": kind,
        "is_kv_swap": True,
        "start_ns": ns(second),
        **values,
    }


def test_swap_copies_follow_the_decision_within_a_step_of_the_scheduler() -> None:
    rows = actions("kind, proof, mode, low_ns, high_ns", transfers=[transfer("dtoh", 5), transfer("htod", 6)])
    assert rows == [
        ("copies_out", "copies", "swap", ns(4.99), 5 * S),
        ("copies_in", "copies", "swap", ns(5.99), 6 * S),
    ]


def test_other_copies_are_no_action() -> None:
    assert actions("1", transfers=[transfer("dtoh", 5, is_kv_swap=False)]) == []


def test_actions_are_numbered_in_order_of_their_upper_bound() -> None:
    rows = actions(
        "action_no, proof",
        int_kv_pressure=[
            pressure(40, is_flip=True, possible_since_ns=ns(39)),
            pressure(42, preemption_delta=1),
        ],
        stg_log__events=[event(39)],
    )
    assert [row[0] for row in rows] == [1, 2, 3]
    assert rows[-1][1] == "counter"


def test_level_goes_through() -> None:
    rows = actions(
        "level, replica_id",
        limit={**LIMIT, "level": "c8", "replica_id": "a/0"},
        int_iterations_timed=[step(1, 30, 9, 1.0, generation_tokens=300, level="c8", replica_id="a/0")],
    )
    assert rows == [("c8", "a/0")]


@pytest.mark.parametrize("kind", ["retract", "pause"])
def test_a_line_may_state_several_requests(kind: str) -> None:
    rows = actions("kind, proof, event_count", stg_log__events=[event(10, kind, event_count=3)])
    assert rows == [(kind, "log", 3)]
