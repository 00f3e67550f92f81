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
    "is_abrupt": True,
    "at_ns": 60 * S,
    "peak_ns": 62 * S,
    "end_ns": 64 * S,
    "bucket_ns": S,
}
POINT = {
    "replica_id": "0",
    "swap_point_id": 1,
    "class": "confirmed",
    "e_proof": "counter",
    "error_ns": 0,
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
    matched: Rows = (),
    kernels: Rows = (),
    waits: Rows = (),
) -> list[tuple[object, ...]]:
    stubs = {
        "int_jump_spans": jumps,
        "swap_points": points,
        "engine_events": events,
        "int_kv_samples": samples,
        "int_jump_steps": steps,
        "gpu_samples": clocks,
        "int_latency_tokens": tokens,
        "int_collectives_matched": matched,
        "kernel_phases": kernels,
        "int_first_token_jumps": waits,
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
    assert cause(steps=[{**STEPS, "decode_during_ms": 60.0, "batch_during": 9.6}]) == "concurrency"


def test_more_running_requests_are_concurrency() -> None:
    small = {**JUMP, "after_ms": 30.0}
    assert cause(jumps=[small], samples=[sample(40, 4), sample(61, 5)]) == "concurrency"
    assert cause(jumps=[small], samples=[sample(40, 4), sample(61, 4.9)]) == "unknown"


def test_a_batch_explains_no_more_growth_than_its_own() -> None:
    # Latency three times as high: a batch 2.4 times as large may do that with a quarter of scatter.
    assert cause(samples=[sample(40, 5), sample(61, 12)]) == "concurrency"
    assert cause(samples=[sample(40, 5), sample(61, 11.9)]) == "unknown"


def test_more_requests_explain_no_tail() -> None:
    tail = {**JUMP, "metric": "itl_max"}
    assert cause(jumps=[tail], samples=[sample(40, 4), sample(61, 16)]) == "unknown"


def test_a_ramp_that_follows_the_batch_is_no_jump() -> None:
    ramp = {**JUMP, "is_abrupt": False}
    assert jump(jumps=[ramp], samples=[sample(40, 4), sample(61, 16)]) == []
    assert jump(jumps=[ramp], steps=[{**STEPS, "decode_during_ms": 30.0}]) == [("cpu",)]


def test_a_jump_that_peaked_before_the_first_action_is_not_its_effect() -> None:
    later = {**POINT, "at_ns": 63 * S, "end_ns": 80 * S}
    prefill = {**STEPS, "slow_ms": 300.0, "slow_prefill_ms": 200.0}
    assert cause(points=[POINT], steps=[prefill]) == "kv"
    assert cause(points=[{**later, "at_ns": 62 * S - 1}], steps=[prefill]) == "kv"
    ((name, words),) = jump("cause, evidence", points=[{**later, "at_ns": 62 * S}], steps=[prefill])
    assert name == "prefill"
    assert str(words).endswith("; KV pressure with preemptions came with it or after it")


def test_a_swap_point_without_harm_leaves_a_jump_to_what_explains_it() -> None:
    calm = {**POINT, "class": "pressure"}
    prefill = {**STEPS, "slow_ms": 300.0, "slow_prefill_ms": 200.0}
    assert cause(points=[calm], steps=[prefill]) == "prefill"
    assert cause(points=[calm], steps=[STEPS]) == "kv"


@pytest.mark.parametrize(("slow_prefill_ms", "expected"), [(150.0, "prefill"), (149.0, "unknown")])
def test_prefill_explains_half_of_what_slow_steps_took(slow_prefill_ms: float, expected: str) -> None:
    assert cause(steps=[{**STEPS, "slow_ms": 300.0, "slow_prefill_ms": slow_prefill_ms}]) == expected


@pytest.mark.parametrize(("longest_ms", "expected"), [(30.0, "prefill"), (29.0, "unknown")])
def test_one_prefill_step_as_long_as_the_jump_explains_it(longest_ms: float, expected: str) -> None:
    assert cause(steps=[{**STEPS, "longest_prefill_ms": longest_ms}]) == expected


def test_a_median_that_rose_with_decode_did_not_rise_by_prefill() -> None:
    steps = {**STEPS, "slow_ms": 300.0, "slow_prefill_ms": 200.0}
    assert cause(steps=[{**steps, "decode_during_ms": 39.9}]) == "prefill"
    assert cause(steps=[{**steps, "decode_during_ms": 40.0}]) == "cpu"


def counted(second: float, prompt_tokens: float, running: float = 4, kv: float = 0.3) -> Row:
    row = {**sample(second, running, kv), "prompt_tokens": prompt_tokens}
    return {**row, "previous_ts_ns": ns(second - 1), "sample_no": round(second)}


@pytest.mark.parametrize(
    ("prompt_tokens", "running", "kv", "expected"),
    [
        (200.0, 4, 0.3, "prefill"),
        (199.0, 4, 0.3, "unknown"),
        (125.0, 4, 0.3, "cpu"),
        (125.0, 5.1, 0.3, "unknown"),
        (125.0, 4, 0.5, "unknown"),
    ],
)
def test_counters_stand_in_for_the_iteration_log(
    prompt_tokens: float, running: float, kv: float, expected: str
) -> None:
    samples = [counted(second, 100.0) for second in range(40, 60)]
    samples += [counted(second, prompt_tokens, running, kv) for second in range(61, 64)]
    assert cause(samples=samples) == expected


def test_without_prompt_counters_nothing_stands_in() -> None:
    assert cause(samples=[sample(40, 4), sample(61, 4)]) == "unknown"


def test_a_long_jump_is_not_put_down_to_one_moment() -> None:
    long = {**JUMP, "end_ns": 72 * S, "peak_ns": 70 * S}
    assert cause(jumps=[long], events=[said("jit", 60.9)]) == "unknown"
    assert cause(jumps=[long], events=[said("jit", 61)]) == "jit"


def test_a_step_as_long_as_the_silence_is_not_the_client() -> None:
    tokens = [arrivals(second, 0.0) for second in range(40, 60)] + [arrivals(61, 0.5)]
    assert cause(tokens=tokens, steps=[{**STEPS, "longest_ms": 29.0}]) == "client"
    assert cause(tokens=tokens, steps=[{**STEPS, "longest_ms": 30.0}]) == "unknown"


@pytest.mark.parametrize(("skew_ms", "expected"), [(67.0, "communication"), (66.0, "unknown")])
def test_ranks_that_wait_for_the_last_one_are_named(skew_ms: float, expected: str) -> None:
    # Of the growth from 20 to 60 ms waits have to be half: a third of the four seconds, in twenty operations.
    matched = [
        {"source_id": 1, "kernel_no": n, "skew_ns": ns(skew_ms / 1000), "is_last": True} for n in range(20)
    ]
    kernels = [{"source_id": 1, "kernel_no": n, "end_ns": ns(60.1 + n / 10)} for n in range(20)]
    assert jump(matched=matched, kernels=kernels) == [(expected,)]


def test_unknown_cause_says_what_was_excluded_and_what_could_not_be_looked_at() -> None:
    ((with_steps,),) = jump("evidence", steps=[STEPS])
    ((without,),) = jump("evidence")
    assert with_steps == (
        "excluded: prefill, slower steps, more requests, profiler, JIT, graph capture; "
        "no data for: KV, client, GPU clock, rank skew"
    )
    assert without == (
        "excluded: profiler, JIT, graph capture; "
        "no data for: KV, prefill, slower steps, more requests, client, GPU clock, rank skew"
    )


def test_window_of_the_queue_is_half_a_minute() -> None:
    assert cause(samples=[sample(29.9, 4), sample(61, 8)]) == "unknown"


def test_steps_are_no_queue() -> None:
    assert (
        cause(samples=[sample(40, 4, origin="iterations"), sample(61, 8, origin="iterations")]) == "unknown"
    )


def test_occupancy_is_the_highest_during_the_jump() -> None:
    rows = jump("kv_used_ratio", samples=[sample(59, 4, 0.99), sample(60, 4, 0.4), sample(62, 4, 0.6)])
    assert rows == [(0.6,)]


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
