"""Stress tests are told from other loads, and what their two curves say."""

from typing import Any

import pytest

from builders_raw import Row, build, has_documented_columns, is_unique, one, table

S = 1_000_000_000
LENGTH = 20


def stress(
    *,
    itl_ms: Any = lambda _: 20.0,
    top: float = 1.0,
    first: float = 0.0,
    seconds: int = LENGTH,
    points: tuple[Row, ...] = (),
    hits: tuple[Row, ...] = (),
    prompts: tuple[int, ...] = (4096,) * 10,
    outputs: tuple[int, ...] = (1024,) * 10,
) -> Any:
    """Build the mart for a load that fills the pool evenly in some seconds and then keeps it full."""
    ways = [min(second / seconds, 1.0) for second in range(2 * seconds)]
    curve = [
        {"replica_id": "0", "tier": "hbm", "used_ratio": first + (top - first) * way, "ts_ns": second * S}
        for second, way in enumerate(ways)
    ]
    latency = [
        {"replica_id": "0", "itl_p50_ms": itl_ms(way), "ts_ns": second * S, "bucket_ns": S}
        for second, way in enumerate(ways)
    ]
    requests = [
        {"source_id": 1, "request_no": number, "prompt_tokens": prompt, "output_tokens": output}
        for number, (prompt, output) in enumerate(zip(prompts, outputs, strict=True))
    ]
    con = build(
        "stress_tests",
        {},
        {
            "requests": requests,
            "kv_occupancy": curve,
            "token_latency": latency,
            "swap_points": points,
            "cache_hits": hits,
        },
    )
    assert has_documented_columns(con, "stress_tests")
    assert is_unique(con, "stress_tests")
    return con


def point(at_s: float = 19.0) -> Row:
    return {"swap_point_id": 1, "replica_id": "0", "class": "confirmed", "at_ns": round(at_s * S)}


def test_both_curves_rise_together() -> None:
    con = stress(itl_ms=lambda way: 20 + 20 * way)
    verdict, low, high, correlation = one(
        con, "select verdict, itl_low_ms, itl_high_ms, kv_itl_correlation from stress_tests"
    )
    # A bucket belongs to the KV at its end; sevenths of a third: medians at 3 and 15.5 of 20 seconds.
    assert verdict == "bandwidth"
    assert low < 24 < 34 < high < 40
    assert correlation == pytest.approx(1.0, abs=0.01)


def test_a_jump_at_the_ceiling_is_paging() -> None:
    con = stress(itl_ms=lambda way: 20.0 if way < 1 else 90.0, points=(point(),))
    assert one(con, "select verdict, swap_count, full_ns from stress_tests") == ("paging", 1, 19 * S)


def test_a_rise_and_then_a_swap_point_is_both() -> None:
    con = stress(itl_ms=lambda way: 20 + 20 * way, points=(point(),))
    assert one(con, "select verdict from stress_tests") == ("both",)


def test_flat_to_the_ceiling() -> None:
    assert one(stress(), "select verdict, kv_itl_correlation from stress_tests") == ("flat", None)


def test_a_pool_that_was_not_filled_decides_nothing() -> None:
    assert one(stress(top=0.9), "select verdict from stress_tests") == ("not_full",)


def test_without_latency_nothing_is_decided() -> None:
    assert one(stress(itl_ms=lambda _: None), "select verdict from stress_tests") == ("no_latency",)


@pytest.mark.parametrize(
    "load",
    [
        {"prompts": (4096,) * 8 + (5000,) * 2},
        {"outputs": (1024,) * 8 + (100,) * 2},
        {"first": 0.3},
        {"top": 0.7},
        {"seconds": 5},
        {"prompts": (4096,) * 5, "outputs": (1024,) * 5},
        {"hits": ({"tier": "hbm", "hit_tokens": 90, "lookup_tokens": 100},)},
    ],
    ids=["prompts vary", "outputs vary", "not empty", "never full", "all at once", "few", "shared"],
)
def test_other_loads_are_no_stress_tests(load: dict[str, Any]) -> None:
    assert table(stress(**load), "select verdict from stress_tests") == []
