"""int_latency_steps: latency per second from the iteration log."""

from builders_raw import Row, table
from builders_serving import S, model, ns


def step(end: float, elapsed_ms: float, generation: int = 4, context: int = 0, **values: object) -> Row:
    return {
        "replica_id": "0",
        "source_id": 2,
        "line_no": round(end * 1000),
        "context_requests": context,
        "context_tokens": 100 * context,
        "generation_requests": generation,
        "generation_tokens": generation,
        "elapsed_ms": elapsed_ms,
        "end_ns": ns(end),
        **values,
    }


def latency(columns: str, *steps: Row) -> list[tuple[object, ...]]:
    con = model("int_latency_steps", {}, {"int_iterations_timed": steps})
    return table(con, f"select {columns} from int_latency_steps order by replica_id, ts_ns")


def test_step_time_is_the_latency_of_all_in_it() -> None:
    rows = latency("token_count, itl_p50_ms, itl_max_ms", step(5, 10), step(5.1, 20), step(5.2, 90))
    assert rows == [(12, 20.0, 90.0)]


def test_step_that_decodes_nothing_is_no_latency() -> None:
    assert latency("itl_p50_ms, token_count, context_tokens", step(5, 300, 0, 2)) == [(None, 2, 200)]


def test_mixed_step_counts_for_its_decoders() -> None:
    assert latency("itl_p50_ms, token_count, context_tokens", step(5, 300, 4, 1)) == [(300.0, 5, 100)]


def test_step_counts_in_the_second_it_ends_in() -> None:
    assert latency("ts_ns", step(4.999, 10), step(5, 10)) == [(4 * S,), (5 * S,)]


def test_replicas_stay_apart() -> None:
    assert latency("replica_id, itl_p50_ms", step(5, 10), step(5, 30, replica_id="1")) == [
        ("0", 10.0),
        ("1", 30.0),
    ]
