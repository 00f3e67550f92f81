"""int_jump_steps: what the engine's steps did before and during a jump."""

from builders_raw import Row, table
from builders_serving import S, model, ns

JUMP = {"replica_id": "0", "jump_no": 1, "at_ns": 60 * S, "end_ns": 63 * S, "bucket_ns": S}


def step(
    end: float, elapsed_ms: float, generation: int = 4, context_tokens: int = 0, **values: object
) -> Row:
    return {
        "replica_id": "0",
        "source_id": 2,
        "line_no": round(end * 1000),
        "context_requests": 1 if context_tokens else 0,
        "context_tokens": context_tokens,
        "generation_requests": generation,
        "generation_tokens": generation,
        "elapsed_ms": elapsed_ms,
        "kv_used_ratio": 0.3,
        "end_ns": ns(end),
        **values,
    }


def steps(columns: str, *given: Row) -> list[tuple[object, ...]]:
    con = model("int_jump_steps", {}, {"int_jump_spans": [JUMP], "int_iterations_timed": given})
    return table(con, f"select {columns} from int_jump_steps")


def test_decode_steps_before_and_during() -> None:
    rows = steps(
        "decode_before_ms, decode_during_ms, batch_before, batch_during",
        step(40, 10, 4),
        step(41, 12, 4),
        step(42, 14, 6),
        step(61, 30, 5),
        step(62, 40, 5),
    )
    assert rows == [(12.0, 35.0, 4.0, 5.0)]


def test_prefill_steps_are_weighed_against_all() -> None:
    rows = steps(
        "step_count, prefill_ms, busy_ms", step(40, 10), step(61, 300, context_tokens=900), step(62, 20)
    )
    assert rows == [(2, 300.0, 320.0)]


def test_steps_that_prefill_or_recompute_are_no_decode_steps() -> None:
    rows = steps(
        "decode_during_ms",
        step(61, 300, context_tokens=900),
        step(61.5, 250, generation_tokens=200),
        step(62, 20),
    )
    assert rows == [(20.0,)]


def test_window_is_half_a_minute_before_and_a_bucket_after() -> None:
    rows = steps(
        "decode_before_ms, decode_during_ms", step(29.9, 99), step(30, 10), step(64, 20), step(64.1, 99)
    )
    assert rows == [(10.0, 20.0)]


def test_occupancy_before_and_during() -> None:
    rows = steps("kv_before_ratio, kv_during_ratio", step(40, 10), step(61, 10, kv_used_ratio=0.99))
    assert rows == [(0.3, 0.99)]


def test_jump_without_steps_has_no_row() -> None:
    assert steps("1", step(61, 10, replica_id="1")) == []


def test_what_slow_steps_took_beyond_a_decode_step() -> None:
    rows = steps(
        "slow_ms, slow_prefill_ms, longest_ms, longest_prefill_ms",
        step(40, 10),
        step(61, 14.9),
        step(61.5, 15),
        step(62, 100, context_tokens=900),
        step(62.5, 120),
    )
    assert rows == [(205.0, 90.0, 120.0, 100.0)]
