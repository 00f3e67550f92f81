"""The latency_jumps mart: jumps of token latency with their cause."""

import pytest

from builders_raw import Row, Rows, table
from builders_serving import S, model, ns

JUMP = {
    "replica_id": "0",
    "jump_no": 1,
    "metric": "itl_p50",
    "before_ms": 20.0,
    "after_ms": 60.0,
    "size_mads": 40.0,
    "at_ns": 60 * S,
    "end_ns": 64 * S,
    "bucket_ns": S,
}
POINT = {
    "replica_id": "0",
    "swap_point_id": 1,
    "e_proof": "counter",
    "pressure_at_ns": 50 * S,
    "at_ns": 55 * S,
    "end_ns": 60 * S,
}
STEPS = {
    "replica_id": "0",
    "jump_no": 1,
    "step_count": 10,
    "prefill_ms": 0.0,
    "busy_ms": 400.0,
    "decode_before_ms": 20.0,
    "decode_during_ms": 20.0,
    "batch_before": 4.0,
    "batch_during": 4.0,
}


def said(kind: str, second: float, error_s: float = 0) -> Row:
    return {"replica_id": "0", "event_no": 1, "kind": kind, "ts_ns": ns(second), "error_ns": ns(error_s)}


def sample(second: float, running: float, kv: float = 0.3, origin: str = "metrics") -> Row:
    return {
        "replica_id": "0",
        "source_id": 1,
        "origin": origin,
        "running_count": running,
        "kv_used_ratio": kv,
        "ts_ns": ns(second),
    }


def jump(
    columns: str = "cause",
    *,
    jumps: Rows = (JUMP,),
    points: Rows = (),
    events: Rows = (),
    samples: Rows = (),
    steps: Rows = (),
    clocks: Rows = (),
    tokens: Rows = (),
) -> list[tuple[object, ...]]:
    stubs = {
        "int_jump_spans": jumps,
        "swap_points": points,
        "engine_events": events,
        "int_kv_samples": samples,
        "int_jump_steps": steps,
        "gpu_samples": clocks,
        "int_latency_tokens": tokens,
    }
    con = model("latency_jumps", {}, stubs)
    return table(con, f"select {columns} from latency_jumps order by jump_id")


def cause(**given: Rows) -> str:
    ((found,),) = jump(**given)  # type: ignore[arg-type]
    return str(found)


def test_jump_in_a_swap_point_is_the_cache() -> None:
    assert cause(points=[POINT]) == "kv"


def test_jump_up_to_five_seconds_after_a_swap_point_is_the_cache() -> None:
    assert cause(points=[{**POINT, "end_ns": 55 * S}]) == "kv"
    assert cause(points=[{**POINT, "end_ns": ns(54.9)}]) == "unknown"


def test_jump_before_the_pressure_is_not_the_cache() -> None:
    assert cause(points=[{**POINT, "pressure_at_ns": ns(64.1), "end_ns": 90 * S}]) == "unknown"


def test_pressure_without_an_action_is_not_the_cause() -> None:
    assert cause(points=[{**POINT, "e_proof": None}]) == "unknown"


def test_swap_point_of_another_replica_is_not_the_cause() -> None:
    assert cause(points=[{**POINT, "replica_id": "1"}]) == "unknown"


def test_profiler_jit_and_graph_capture() -> None:
    assert cause(events=[said("profiler_stop", 60)]) == "profiler"
    assert cause(events=[said("jit", 61)]) == "jit"
    assert cause(events=[said("graph_capture", 62)]) == "graph_capture"


def test_event_counts_from_five_seconds_before_to_the_end() -> None:
    assert [cause(events=[said("jit", second)]) for second in (54.9, 55, 64, 64.1)] == [
        "unknown",
        "jit",
        "jit",
        "unknown",
    ]


def test_error_of_the_event_widens_that() -> None:
    assert cause(events=[said("jit", 54.5, 0.5)]) == "jit"
    assert cause(events=[said("jit", 64.5, 0.5)]) == "jit"


def test_cache_wins_over_what_the_engine_said() -> None:
    assert cause(points=[POINT], events=[said("jit", 61)]) == "kv"


def test_prefill_that_takes_half_of_the_time() -> None:
    assert cause(steps=[{**STEPS, "prefill_ms": 200.0}]) == "prefill"
    assert cause(steps=[{**STEPS, "prefill_ms": 199.0}]) == "unknown"


def test_every_decode_step_slower_at_the_same_batch_is_the_host() -> None:
    assert cause(steps=[{**STEPS, "decode_during_ms": 30.0}]) == "cpu"
    assert cause(steps=[{**STEPS, "decode_during_ms": 29.9}]) == "unknown"


def test_slower_steps_of_a_larger_batch_are_concurrency() -> None:
    assert cause(steps=[{**STEPS, "decode_during_ms": 60.0, "batch_during": 5.0}]) == "cpu"
    assert cause(steps=[{**STEPS, "decode_during_ms": 60.0, "batch_during": 5.1}]) == "concurrency"


def test_more_running_requests_are_concurrency() -> None:
    assert cause(samples=[sample(40, 4), sample(61, 5)]) == "concurrency"
    assert cause(samples=[sample(40, 4), sample(61, 4.9)]) == "unknown"


def test_window_of_the_queue_is_half_a_minute() -> None:
    assert cause(samples=[sample(29.9, 4), sample(61, 8)]) == "unknown"


def test_steps_are_no_queue() -> None:
    assert (
        cause(samples=[sample(40, 4, origin="iterations"), sample(61, 8, origin="iterations")]) == "unknown"
    )


def test_occupancy_is_the_highest_during_the_jump() -> None:
    rows = jump("kv_used_ratio", samples=[sample(59, 4, 0.99), sample(60, 4, 0.4), sample(62, 4, 0.6)])
    assert rows == [(0.6,)]


def test_unknown_cause_says_what_was_excluded() -> None:
    ((with_steps,),) = jump("evidence", steps=[STEPS])
    ((without,),) = jump("evidence")
    assert with_steps == "excluded: KV, prefill, slower steps, more requests, profiler, JIT"
    assert "no iteration log" in str(without)


def test_size_width_and_error() -> None:
    rows = jump("metric, before_ms, after_ms, size_mads, width_ms, at_ns, error_ns, end_ns")
    assert rows == [("itl_p50", 20.0, 60.0, 40.0, 4000.0, 60 * S, S, 64 * S)]


def test_jumps_are_numbered_in_order_of_time() -> None:
    later = {**JUMP, "jump_no": 2, "at_ns": 90 * S, "end_ns": 91 * S}
    other = {**JUMP, "replica_id": "1", "at_ns": 70 * S, "end_ns": 71 * S}
    rows = jump("jump_id, replica_id, at_ns // 1000000000", jumps=[later, JUMP, other])
    assert rows == [(1, "0", 60), (2, "1", 70), (3, "0", 90)]


def clock(second: float, mhz: float) -> Row:
    return {"source_id": 4, "device_id": 0, "counter": "sm_clock_mhz", "value": mhz, "ts_ns": ns(second)}


@pytest.mark.parametrize(("mhz", "cause"), [(1600.0, "unknown"), (1500.0, "gpu_clock")])
def test_a_gpu_that_clocks_down_is_named(mhz: float, cause: str) -> None:
    clocks = [clock(second, 1700.0) for second in range(40, 60)] + [clock(62, mhz)]
    assert jump(clocks=clocks) == [(cause,)]


def test_a_slow_clock_comes_before_slow_steps() -> None:
    slow = {**STEPS, "decode_during_ms": 60.0}
    clocks = [clock(50, 1700.0), clock(61, 1000.0)]
    assert jump(steps=[slow]) == [("cpu",)]
    assert jump(steps=[slow], clocks=clocks) == [("gpu_clock",)]


def arrivals(second: int, zero_gap_ratio: float) -> Row:
    return {"replica_id": "0", "zero_gap_ratio": zero_gap_ratio, "ts_ns": second * S, "bucket_ns": S}


@pytest.mark.parametrize(
    ("before", "during", "cause"), [(0.0, 0.5, "client"), (0.0, 0.2, "unknown"), (0.5, 0.5, "unknown")]
)
def test_a_client_that_falls_behind_is_named(before: float, during: float, cause: str) -> None:
    tokens = [arrivals(second, before) for second in range(40, 60)]
    tokens += [arrivals(second, during) for second in range(60, 64)]
    assert jump(tokens=tokens) == [(cause,)]
