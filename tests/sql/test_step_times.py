"""step_times: durations of steps by what they compute, from the iteration log and from GPU traces."""

from builders_raw import Row, has_documented_columns, is_unique, table
from builders_serving import model

MS = 1_000_000


def logged(elapsed_ms: float, generation: int = 4, context: int = 0, **values: object) -> Row:
    return {
        "replica_id": "0", "source_id": 2, "context_requests": context, "context_tokens": 100 * context,
        "generation_requests": generation, "generation_tokens": generation, "elapsed_ms": elapsed_ms,
        **values,
    }  # fmt: skip


def traced(gpu_ms: float, phase: str = "decode", confidence: float = 0.9, **values: object) -> Row:
    return {
        "replica_id": "0", "phase": phase, "confidence": confidence, "sequence_count": 2,
        "gpu_busy_ns": 5 * MS, "bubble_before_ns": MS, "gpu_start_ns": 7,
        "gpu_end_ns": 7 + round(gpu_ms * MS), **values,
    }  # fmt: skip


def times(columns: str, log: list[Row], trace: list[Row]) -> list[tuple[object, ...]]:
    con = model("step_times", {}, {"int_iterations_timed": log, "steps": trace})
    assert is_unique(con, "step_times")
    assert has_documented_columns(con, "step_times")
    return table(con, f"select {columns} from step_times order by origin, step_class")


def test_steps_of_the_log_by_what_they_hold() -> None:
    steps = [logged(10), logged(20), logged(90, 4, 2), logged(300, 0, 1), logged(1, 0, 0)]
    rows = times("step_class, step_count, elapsed_p50_ms, sequence_count, context_tokens", steps, [])
    assert rows == [
        ("decode", 2, 15.0, 4.0, 0.0),
        ("mixed", 1, 90.0, 6.0, 200.0),
        ("prefill", 1, 300.0, 1.0, 100.0),
    ]


def test_quantiles_and_sum() -> None:
    steps = [logged(float(number)) for number in range(101)]
    columns = (
        "elapsed_p10_ms, elapsed_p25_ms, elapsed_p75_ms, elapsed_p90_ms, elapsed_p99_ms, elapsed_total_s"
    )
    assert times(columns, steps, []) == [(10.0, 25.0, 75.0, 90.0, 99.0, 5.05)]


def test_trace_steps_count_when_their_phase_is_acted_upon() -> None:
    steps = [traced(8), traced(80, confidence=0.79), traced(9, "other"), traced(40, "prefill")]
    rows = times("origin, step_class, step_count, elapsed_p50_ms, gpu_busy_ms, bubble_ms", [], steps)
    assert rows == [("trace", "decode", 1, 8.0, 5.0, 1.0), ("trace", "prefill", 1, 40.0, 5.0, 1.0)]


def test_step_without_gpu_work_has_no_time() -> None:
    assert times("step_class", [], [traced(8, gpu_start_ns=None, gpu_end_ns=None)]) == []


def test_levels_and_origins_stay_apart() -> None:
    rows = times("level, origin, elapsed_p50_ms", [logged(10), logged(30, level="c8")], [traced(8)])
    assert sorted(rows, key=str) == [
        ("c8", "iterations", 30.0),
        (None, "iterations", 10.0),
        (None, "trace", 8.0),
    ]
