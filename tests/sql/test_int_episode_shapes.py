"""The int_episode_shapes model: the ramp before an episode, what KV lacked, and what came after."""

import pytest

from builders_raw import Row, table
from builders_serving import S, model

SPAN: Row = {
    "replica_id": "0",
    "episode_no": 1,
    "pressure_at_ns": 60 * S,
    "at_ns": 62 * S,
    "end_ns": 80 * S,
    "recovered_at_ns": 90 * S,
}


def sample(second: int, kv: float, **values: object) -> Row:
    return {
        "replica_id": "0",
        "source_id": 1,
        "origin": "metrics",
        "kv_used_ratio": kv,
        "kv_footprint_ratio": 0.1,
        "running_count": 8.0,
        "waiting_count": 0.0,
        "sample_no": second,
        "ts_ns": second * S,
        "interval_ns": S,
        **values,
    }


def bucket(second: int, itl_p50_ms: float) -> Row:
    return {"replica_id": "0", "itl_p50_ms": itl_p50_ms, "ts_ns": second * S, "bucket_ns": S}


def shape(columns: str, samples: list[Row], buckets: list[Row], span: Row = SPAN) -> tuple[object, ...]:
    stubs = {
        "int_episode_spans": [span],
        "int_kv_pressure": samples,
        "int_engine_limits": [{"replica_id": "0", "running_limit": 16.0}],
        "token_latency": buckets,
    }
    (row,) = table(model("int_episode_shapes", {}, stubs), f"select {columns} from int_episode_shapes")
    return row


RAMP = [sample(second, 0.01 * second) for second in range(20, 60)]


def test_a_ramp_foretells_the_ceiling() -> None:
    columns = "round(kv_rise_per_s, 4), round(ramp_ceiling_ns / 1e9)"
    # One percent a second from 20 % at 20 s on: full at 100 s.
    assert shape(columns, RAMP, [bucket(second, 20) for second in range(20, 60)]) == (0.01, 100.0)


def test_without_a_ramp_nothing_is_foretold() -> None:
    flat = [sample(second, 0.9 + 0.001 * (second % 3)) for second in range(20, 60)]
    columns = "kv_rise_per_s, ramp_ceiling_ns, kv_itl_correlation"
    assert shape(columns, flat, [bucket(second, 20) for second in range(20, 60)]) == (None, None, None)


@pytest.mark.parametrize(("slope", "expected"), [(0.5, 1.0), (-0.5, -1.0), (0.0, None)])
def test_kv_and_latency_rise_together_or_not(slope: float, expected: float | None) -> None:
    buckets = [bucket(second, 60 + slope * second) for second in range(20, 60)]
    assert shape("kv_itl_correlation", RAMP, buckets) == (expected,)


def test_missing_kv_is_what_waits_less_what_is_free() -> None:
    # Twelve wait, eight slots are free, each request holds a tenth: 0.8 needed, 0.05 free.
    crowd = [*RAMP, sample(70, 0.95, waiting_count=12.0), sample(71, 0.95, waiting_count=2.0)]
    assert shape("round(missing_kv_ratio, 6)", crowd, []) == (0.75,)
    assert shape("missing_kv_ratio", RAMP, []) == (None,)


@pytest.mark.parametrize(("after_ms", "expected"), [(25, "recovered"), (30, "slower_after")])
def test_steps_decide_whether_it_recovered(after_ms: float, expected: str) -> None:
    buckets = [bucket(second, 20) for second in range(40, 60)]
    buckets += [bucket(second, after_ms) for second in range(90, 100)]
    assert shape("recovery", RAMP, buckets) == (expected,)


def test_a_record_that_ends_under_pressure_shows_no_recovery() -> None:
    assert shape("recovery", RAMP, [], {**SPAN, "recovered_at_ns": None}) == ("not_seen",)
