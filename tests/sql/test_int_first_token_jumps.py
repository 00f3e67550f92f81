"""int_first_token_jumps: waits for the first token that the queue explains."""

import pytest

from builders_raw import Row, Rows, table
from builders_serving import model, ns


def request(number: int, arrival: float, ttft_ms: float) -> Row:
    return {
        "replica_id": "0",
        "source_id": 3,
        "request_no": number,
        "ttft_ms": ttft_ms,
        "arrival_ns": ns(arrival),
        "first_token_ns": ns(arrival + ttft_ms / 1000),
    }


def load(ttft_ms: float = 3000.0, slow_count: int = 3, calm_count: int = 8) -> list[Row]:
    calm = [request(number, 10 + number, 200.0) for number in range(calm_count)]
    return calm + [request(20 + number, 20 + number / 10, ttft_ms) for number in range(slow_count)]


def sample(second: float, running: float, kv: float = 0.4, prompt_tokens: float = 0.0) -> Row:
    return {
        "replica_id": "0",
        "source_id": 1,
        "origin": "metrics",
        "running_count": running,
        "waiting_count": 3.0,
        "kv_used_ratio": kv,
        "prompt_tokens": prompt_tokens,
        "interval_ns": ns(1),
        "sample_no": round(second * 10),
        "ts_ns": ns(second),
    }


def queue(running: float, **values: float) -> list[Row]:
    return [sample(20.5 + number / 2, running, **values) for number in range(5)]


LIMIT = {"replica_id": "0", "running_limit": 8.0, "is_stated": True}
BUDGET = {"name": "max_num_batched_tokens", "number": 2048.0}


def step(second: float, context_tokens: int) -> Row:
    return {
        "replica_id": "0",
        "source_id": 2,
        "line_no": round(second * 10),
        "context_tokens": context_tokens,
        "generation_tokens": 8,
        "elapsed_ms": 100.0,
        "end_ns": ns(second),
    }


def causes(
    requests: Rows,
    samples: Rows = (),
    *,
    limits: Rows = (LIMIT,),
    steps: Rows = (),
    points: Rows = (),
    settings: Rows = (BUDGET,),
) -> list[object]:
    stubs = {
        "requests": requests,
        "swap_points": points,
        "int_settings_effective": settings,
        "int_kv_samples": samples,
        "int_engine_limits": limits,
        "int_iterations_timed": steps,
    }
    con = model("int_first_token_jumps", {}, stubs)
    return [row[0] for row in table(con, "select cause from int_first_token_jumps order by at_ns")]


@pytest.mark.parametrize(("running", "expected"), [(8.0, ["max_sequences"]), (7.0, ["head_of_line"])])
def test_a_full_batch_and_a_head_of_line_are_told_apart(running: float, expected: list[str]) -> None:
    assert causes(load(), queue(running)) == expected


def test_without_a_stated_limit_nothing_is_said_of_slots() -> None:
    assert causes(load(), queue(8.0), limits=[{**LIMIT, "is_stated": False}]) == []


def test_prefill_under_way_is_no_head_of_line() -> None:
    assert causes(load(), queue(7.0, prompt_tokens=1.0)) == []


def test_a_nearly_full_cache_is_no_head_of_line() -> None:
    assert causes(load(), queue(7.0, kv=0.79)) == ["head_of_line"]
    assert causes(load(), queue(7.0, kv=0.95)) == []


@pytest.mark.parametrize(("context_tokens", "expected"), [(1938, ["token_budget"]), (1937, [])])
def test_steps_full_of_prefill_are_the_token_budget(context_tokens: int, expected: list[str]) -> None:
    steps = [step(20.5 + number / 2, context_tokens) for number in range(5)]
    assert causes(load(), queue(7.0, prompt_tokens=900.0), steps=steps) == expected


def test_the_token_budget_has_to_be_stated() -> None:
    steps = [step(20.5 + number / 2, 2040) for number in range(5)]
    assert causes(load(), queue(7.0, prompt_tokens=900.0), steps=steps, settings=[]) == []


def test_waits_under_pressure_belong_to_the_swap_point() -> None:
    point = {"replica_id": "0", "swap_point_id": 1, "pressure_at_ns": ns(23), "end_ns": ns(30)}
    assert causes(load(), queue(8.0), points=[point]) == []
    assert causes(load(), queue(8.0), points=[{**point, "pressure_at_ns": ns(23.3)}]) == ["max_sequences"]


@pytest.mark.parametrize(("ttft_ms", "expected"), [(1000.0, ["max_sequences"]), (999.0, [])])
def test_a_wait_is_a_second_at_least(ttft_ms: float, expected: list[str]) -> None:
    assert causes(load(ttft_ms), [sample(20.2, 8.0), sample(20.8, 8.0)]) == expected


def test_a_wait_needs_a_calm_time_before_and_more_than_one_request() -> None:
    assert causes(load(calm_count=2), queue(8.0)) == []
    assert causes(load(slow_count=1), queue(8.0)) == []


def test_without_a_queue_nothing_is_said() -> None:
    assert causes(load()) == []
