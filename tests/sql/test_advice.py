"""Every change with its gain, by hand, and what is not advised."""

from typing import Any

import duckdb
import pytest

from builders_advice import facts_with
from builders_raw import build, has_documented_columns, is_unique, one, table


def advise(running: tuple[int, ...] = (10,), **columns: object) -> duckdb.DuckDBPyConnection:
    curve = [
        {"replica_id": "0", "tier": "hbm", "running_count": count, "ts_ns": at_ns}
        for at_ns, count in enumerate(running)
    ]
    con = build("advice", {}, {"int_advice_facts": [facts_with(**columns)], "kv_occupancy": curve})
    assert has_documented_columns(con, "advice")
    assert is_unique(con, "advice")
    return con


def state(name: str, **columns: Any) -> tuple[object, ...]:
    return one(advise(**columns), f"select state, reason from advice where advice = '{name}'")


def test_the_order_is_fixed() -> None:
    order = [name for (name,) in table(advise(), "select advice from advice order by rank")]
    assert order == [
        "as_run",
        "gqa_model",
        "kv_fp8",
        "kv_int4",
        "cap_length",
        "cap_sequences",
        "prefix_sharing",
        "kv_tier",
    ]


def test_fp8_halves_and_int4_quarters() -> None:
    # FP8 saves 1 GB per step, read at 80 % of 1 TB/s: 1.25 ms of 16; floor 6 + 1 GB at 1 TB/s.
    rows = table(
        advise(used_ratio_peak=1.0, swap_count=1),
        "select kv_bytes_per_token, ceiling_tokens, ceiling_requests, peak_ratio, is_peak_fitting,"
        " floor_ms, step_ms, tokens_per_s from advice where advice in ('kv_fp8', 'kv_int4') order by rank",
    )
    assert rows == [
        (500.0, 16_000.0, 40.0, 0.5, True, 7.0, 14.75, pytest.approx(600 * 16 / 14.75)),
        (250.0, 32_000.0, 80.0, 0.25, True, 6.5, 14.125, pytest.approx(600 * 16 / 14.125)),
    ]


def test_a_peak_at_the_ceiling_did_not_fit_as_it_was() -> None:
    con = advise(used_ratio_peak=1.0)
    assert one(con, "select is_peak_fitting, state from advice where rank = 0") == (False, "measured")


def test_fp8_is_advised_only_where_kv_was_short() -> None:
    assert state("kv_fp8", kv_state="short")[0] == "advised"
    assert state("kv_fp8", kv_state="close")[0] == "optional"


def test_far_from_the_ceiling_only_speed_counts() -> None:
    # 1 GB of 8: 14.75 ms of 16 is 8 % more throughput; with 4 GB of KV it is 2 GB, 13.5 ms, 19 %.
    assert state("kv_fp8", kv_state="far")[0] == "no_gain"
    assert state("kv_fp8", kv_state="far", kv_read_bytes=4e9)[0] == "optional"
    unknown = state("kv_fp8", kv_state="far", step_reason="no file names the GPU")
    assert unknown == ("no_gain", "KV was far from its ceiling, and a gain in speed is not known")


def test_what_is_small_already_is_said() -> None:
    assert state("kv_fp8", element_bytes=1.0)[0] == "already"
    assert state("kv_int4", element_bytes=1.0)[0] == "optional"
    assert state("kv_fp8", element_bytes=None)[0] == "cannot_tell"


def test_gqa_is_stated_as_what_another_model_would_be() -> None:
    con = advise()
    row = one(con, "select state, kv_bytes_per_token, ceiling_tokens from advice where advice = 'gqa_model'")
    assert row == ("other_model", 250.0, 32_000.0)
    assert state("gqa_model", kv_heads=8.0)[0] == "already"
    assert state("gqa_model", is_mla=True)[0] == "already"
    assert state("gqa_model", kv_heads=None)[0] == "cannot_tell"


def test_a_length_cap_says_whom_it_refuses_and_what_it_frees() -> None:
    # Without the longest twentieth the mean falls from 400 to 350: 8,000 / 350 = 22 instead of 20.
    con = advise()
    row = one(
        con,
        "select state, cap, affected_ratio, ceiling_requests from advice where advice = 'cap_length'",
    )
    assert row == ("optional", 1000.0, 0.05, 22.0)
    assert state("cap_length", kept_tokens=370.0)[0] == "no_gain"
    assert state("cap_length", request_count=None)[0] == "cannot_tell"
    assert state("cap_length", kv_state="close")[0] == "no_gain"


def test_a_cap_of_sequences_is_what_ran_while_the_pool_was_full() -> None:
    # In three of four samples more than 5 ran; 5 of 10 read 6 + 1 GB: 16 x 7 / 8 = 14 ms.
    con = advise(running=(5, 8, 10, 10), sequences_held=5.0, swap_count=1)
    row = one(
        con,
        "select state, cap, affected_ratio, step_ms, tokens_per_s from advice where advice = 'cap_sequences'",
    )
    assert row == ("advised", 5.0, 0.75, 14.0, pytest.approx(600 * 0.5 * 16 / 14))


def test_without_a_swap_point_the_cap_is_what_fits() -> None:
    # 8,000 tokens hold 20 requests of 400; at a peak of 0.8 with 10 running 12 would fill the pool.
    con = advise(used_ratio_peak=0.8)
    assert one(con, "select cap, state from advice where advice = 'cap_sequences'") == (12.0, "no_gain")


def test_a_lower_level_without_swap_points_is_the_better_cap() -> None:
    con = advise(sequences_held=8.0, sequences_calm=4.0, swap_count=1)
    row = one(con, "select cap, reason from advice where advice = 'cap_sequences'")
    assert row == (4.0, "a lower level of this sweep had no swap point")


@pytest.mark.parametrize(
    ("hit", "reuse", "origin", "expected"),
    [
        (None, None, None, "cannot_tell"),
        (0.0, 0.0, "hits of the prefix cache", "unsuitable"),
        (0.3, 0.3, "hits of the prefix cache", "cannot_tell"),
        (0.9, 0.9, "hits of the prefix cache", "already"),
        (0.3, 0.35, "request trace, an unlimited cache", "already"),
        (0.1, 0.6, "request trace, an unlimited cache", "advised"),
        (None, 0.6, "request trace, an unlimited cache", "advised"),
    ],
)
def test_prefix_sharing_goes_by_what_was_measured(
    hit: float | None, reuse: float | None, origin: str | None, expected: str
) -> None:
    assert state("prefix_sharing", hit_ratio=hit, reuse_ratio=reuse, reuse_origin=origin)[0] == expected


def test_prefix_caching_that_is_off_is_said() -> None:
    verdict, reason = state("prefix_sharing", is_caching_off=True)
    assert verdict == "cannot_tell"
    assert str(reason).startswith("prefix caching is off")


def test_a_tier_has_three_estimates() -> None:
    con = advise(reuse_ratio=0.6, hit_ratio=0.1, transfer_ms=40.0, recompute_ms=100.0)
    row = one(
        con,
        "select state, reuse_ratio, transfer_ms, recompute_ms, prefetch_ratio from advice"
        " where advice = 'kv_tier'",
    )
    # Four of ten fetches may be late by 40 ms: the mean wait is a step of 16 ms.
    assert row == ("optional", 0.6, 40.0, 100.0, pytest.approx(0.6))


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"kv_state": "far"}, "unsuitable"),
        ({"kv_state": "close"}, "unsuitable"),
        ({"reuse_ratio": 0.05, "hit_ratio": 0.05}, "unsuitable"),
        ({"reuse_ratio": None}, "cannot_tell"),
        ({"hit_ratio": 0.58}, "unsuitable"),
        ({"transfer_ms": 120.0}, "unsuitable"),
        ({"tier_hit_ratio": 0.05}, "unsuitable"),
        ({"tier_hit_ratio": 0.4, "hit_ratio": 0.5}, "already"),
        ({"transfer_ms": None}, "cannot_tell"),
    ],
)
def test_when_a_tier_does_not_pay_is_said(columns: dict[str, object], expected: str) -> None:
    given = {"reuse_ratio": 0.6, "hit_ratio": 0.1, "transfer_ms": 40.0, "recompute_ms": 100.0, **columns}
    assert state("kv_tier", **given)[0] == expected


def test_a_transfer_shorter_than_a_step_needs_no_prefetch() -> None:
    con = advise(reuse_ratio=0.6, transfer_ms=10.0, recompute_ms=100.0)
    assert one(con, "select prefetch_ratio from advice where advice = 'kv_tier'") == (0.0,)
