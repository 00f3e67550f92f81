"""The token_latency mart: latency and throughput per second, from the best source of each second."""

import pytest

from builders_raw import Row, Rows, table
from builders_serving import S, model, ns

NONE: dict[str, Rows] = dict.fromkeys(
    (
        "int_latency_tokens",
        "int_latency_histogram",
        "int_latency_steps",
        "int_latency_rates",
        "int_token_streams",
        "int_kv_samples",
    ),
    (),
)


def bucket(second: int, p50_ms: float | None = 20.0, **values: object) -> Row:
    return {
        "replica_id": "0",
        "token_count": 40,
        "itl_p50_ms": p50_ms,
        "itl_p90_ms": p50_ms,
        "itl_p99_ms": p50_ms,
        "itl_max_ms": p50_ms,
        "ts_ns": second * S,
        "bucket_ns": S,
        **values,
    }


def rate(second: int, tokens_per_s: float, origin: str = "counters") -> Row:
    return {
        "replica_id": "0",
        "origin": origin,
        "tokens_per_s": tokens_per_s,
        "ts_ns": second * S,
        "bucket_ns": S,
    }


def stream(chunks: int, zero_gaps: int) -> Row:
    return {
        "replica_id": "0",
        "source_id": 3,
        "request_no": 0,
        "chunk_count": chunks,
        "zero_gap_count": zero_gaps,
    }


def latency(columns: str, **stubs: Rows) -> list[tuple[object, ...]]:
    con = model("token_latency", {}, {**NONE, **stubs})
    return table(con, f"select {columns} from token_latency order by level, replica_id, ts_ns")


ALL: dict[str, Rows] = {
    "int_latency_tokens": [bucket(5, 20.0)],
    "int_latency_histogram": [bucket(5, 25.0)],
    "int_latency_steps": [bucket(5, 30.0)],
    "int_latency_rates": [rate(5, 90.0), rate(5, 70.0, "log")],
}


def test_token_arrivals_come_first() -> None:
    assert latency("origin, itl_p50_ms, tokens_per_s", **ALL) == [("tokens", 20.0, 40.0)]


def test_histogram_comes_second_and_borrows_its_rate() -> None:
    rest = {**ALL, "int_latency_tokens": ()}
    assert latency("origin, itl_p50_ms, token_count, tokens_per_s", **rest) == [("histogram", 25.0, 40, 40.0)]


def test_iteration_log_comes_third() -> None:
    rest = {**ALL, "int_latency_tokens": (), "int_latency_histogram": ()}
    assert latency("origin, itl_p50_ms, tokens_per_s", **rest) == [("iterations", 30.0, 40.0)]


def test_rates_come_last_without_latency() -> None:
    assert latency(
        "origin, tokens_per_s, itl_p50_ms, token_count", int_latency_rates=ALL["int_latency_rates"]
    ) == [("counters", 90.0, None, None)]
    assert latency("origin, tokens_per_s", int_latency_rates=[rate(5, 70.0, "log")]) == [("log", 70.0)]


def test_each_second_is_chosen_by_itself() -> None:
    rows = latency(
        "ts_ns // 1000000000, origin",
        int_latency_tokens=[bucket(5)],
        int_latency_histogram=[bucket(5), bucket(6)],
    )
    assert rows == [(5, "tokens"), (6, "histogram")]


def test_second_in_which_only_first_tokens_arrived_has_no_token_latency() -> None:
    rows = latency("origin", int_latency_tokens=[bucket(5, None)], int_latency_histogram=[bucket(5)])
    assert rows == [("histogram",)]


@pytest.mark.parametrize(("zero_gaps", "expected"), [(20, "tokens"), (21, "histogram")])
def test_starved_client_falls_back(zero_gaps: int, expected: str) -> None:
    rows = latency("origin", **ALL, int_token_streams=[stream(100, zero_gaps)])
    assert rows == [(expected,)]


def test_queue_is_the_mean_of_the_samples_in_the_second() -> None:
    samples = [
        {
            "replica_id": "0",
            "origin": origin,
            "running_count": running,
            "waiting_count": waiting,
            "ts_ns": ns(second),
        }
        for origin, running, waiting, second in [
            ("metrics", 4.0, 0.0, 5.2),
            ("metrics", 6.0, 3.0, 5.7),
            ("iterations", 90.0, None, 5.5),
            ("metrics", 50.0, 0.0, 6.0),
        ]
    ]
    rows = latency("running_count, waiting_count", int_latency_tokens=[bucket(5)], int_kv_samples=samples)
    assert rows == [(5.0, 1.5)]


def test_prefill_tokens_come_from_the_iteration_log() -> None:
    rows = latency(
        "origin, context_tokens",
        int_latency_tokens=[bucket(5), bucket(6)],
        int_latency_steps=[bucket(5, context_tokens=900)],
    )
    assert rows == [("tokens", 900), ("tokens", None)]


def test_replicas_and_levels_stay_apart() -> None:
    rows = latency(
        "level, replica_id, origin",
        int_latency_tokens=[bucket(5)],
        int_latency_histogram=[bucket(5, replica_id="1"), bucket(5, level="c8")],
    )
    assert sorted(rows, key=str) == [
        ("c8", "0", "histogram"),
        (None, "0", "tokens"),
        (None, "1", "histogram"),
    ]
