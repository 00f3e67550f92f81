"""What advice starts from: measured rates, lengths and reuse, and why nothing can be predicted."""

from typing import Any

import duckdb
import pytest

from builders_raw import Row, build, has_documented_columns, is_unique, one

S = 1_000_000_000
SIZES: Row = {
    "kv_bytes_per_token_gpu": 1000.0,
    "full_kv_bytes_gpu": 1000.0,
    "window_kv_bytes_gpu": 0.0,
    "weight_bytes": 6e9,
    "matmul_parameters": 1e9,
    "full_pair_flops": 0.0,
    "window_pair_flops": 0.0,
    "prefill_pair_ratio": 1.0,
}
WORK: Row = {
    "replica_id": "0",
    "step_class": "decode",
    "weight_bytes": 6_000_000_000,
    "kv_read_bytes": 2_000_000_000,
    "bytes_per_s": 1e12,
    "compute_ms": 1.0,
    "step_ms": 16.0,
    "batch": 10.0,
}
USE: Row = {
    "replica_id": "0",
    "tier": "hbm",
    "used_ratio_peak": 0.5,
    "used_ratio_median": 0.4,
    "running_peak": 10.0,
    "running_at_peak": 9.0,
}


def advice_facts(
    work: dict[str, Any] | None = None,
    use: dict[str, Any] | None = None,
    running: tuple[int, ...] = (10, 10),
    **rows: Any,
) -> duckdb.DuckDBPyConnection:
    curve = [
        {"replica_id": "0", "tier": "hbm", "running_count": count, "ts_ns": at * S}
        for at, count in enumerate(running)
    ]
    stubs = {
        "int_ledger_places": [{"replica_id": "0"}],
        "int_ledger_kv_use": [{**USE, **(use or {})}],
        "int_ledger_pools": [{"replica_id": "0", "pool": "device", "tier": "hbm", "capacity_tokens": 8000}],
        "int_ledger_work": [{**WORK, **(work or {})}],
        "capacity_ledger": [{"replica_id": "0", "tier": "hbm", "line": "requests_fit", "tokens": 400}],
        "int_model_shape": [{"kv_element_bytes": 2.0, "kv_heads": 8.0, "attention_heads": 8.0}],
        "int_model_sizes": [SIZES],
        "int_gpu_facts": [{"pcie_bytes_per_s": 1e8, "flops_per_s": 1e13}],
        "int_settings_effective": [],
        "kv_occupancy": curve,
        "token_latency": [],
        "swap_points": [],
        "requests": [],
        "client_totals": [],
        "cache_hits": [],
        "request_trace_summary": [],
    }
    con = build("int_advice_facts", {}, {**stubs, **rows})
    assert has_documented_columns(con, "int_advice_facts")
    assert is_unique(con, "int_advice_facts")
    return con


def reason(name: str, **given: Any) -> object:
    return one(advice_facts(**given), f"select {name} from int_advice_facts")[0]


def test_a_run_at_full_batch_whose_steps_follow_the_bytes() -> None:
    row = one(
        advice_facts(),
        "select kv_state, step_reason, level_reason, floor_ms, tokens_per_s from int_advice_facts",
    )
    # Without a recorded rate the step's own stands in: 10 tokens in 16 ms.
    assert row == ("far", None, None, 8.0, 625.0)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        ({"reason": "no file names the GPU"}, "no file names the GPU"),
        ({"kv_read_bytes": None}, "the KV of the batch is not known"),
        ({"step_ms": None}, "no decode step was measured"),
        ({"step_ms": 33.0}, "steps take many times their floor, so bytes are not what limits them"),
        ({"compute_ms": 9.0}, "computing limits the steps, not memory"),
        ({"step_ms": 32.0, "compute_ms": 8.0}, None),
    ],
)
def test_why_no_step_can_be_predicted(work: dict[str, Any], words: str | None) -> None:
    assert reason("step_reason", work=work) == words


@pytest.mark.parametrize(("running", "is_full"), [((10, 8), True), ((10, 7), False)])
def test_full_batch_is_nine_tenths_of_the_highest(running: tuple[int, ...], is_full: bool) -> None:
    assert (reason("level_reason", running=running) is None) == is_full


@pytest.mark.parametrize(
    ("peak", "points", "state"),
    [
        (0.69, [], "far"),
        (0.7, [], "close"),
        (0.99, [], "close"),
        (0.99, [{"class": "pressure"}], "short"),
        (0.99, [{"class": "confirmed"}], "short"),
    ],
)
def test_whether_kv_was_a_problem(peak: float, points: list[Row], state: str) -> None:
    given = [{"replica_id": "0", "swap_point_id": 1, "at_ns": 0, "end_ns": S, **row} for row in points]
    assert reason("kv_state", use={"used_ratio_peak": peak}, swap_points=given) == state


def test_what_ran_in_the_worst_swap_point() -> None:
    points = [
        {"replica_id": "0", "swap_point_id": 1, "class": "pressure", "at_ns": 0, "end_ns": 9 * S},
        {"replica_id": "0", "swap_point_id": 2, "class": "probable", "at_ns": 2 * S, "end_ns": 4 * S},
    ]
    con = advice_facts(running=(9, 9, 7, 6, 5, 9), swap_points=points)
    row = one(con, "select sequences_held, swap_count, pressure_count from int_advice_facts")
    assert row == (6.0, 1, 1)


def test_lengths_and_the_longest_twentieth() -> None:
    requests = [
        {"source_id": 1, "request_no": number, "prompt_tokens": 90 if number else 1000, "output_tokens": 10}
        for number in range(20)
    ]
    requests.append(
        {"source_id": 1, "request_no": 20, "prompt_tokens": 9999, "output_tokens": 1, "is_error": True}
    )
    row = one(
        advice_facts(requests=requests),
        "select request_count, long_tokens, over_ratio, kept_tokens, mean_tokens from int_advice_facts",
    )
    assert row == (20.0, 100.0, 0.05, 100.0, pytest.approx(2910 / 20))


def test_rates_are_means_over_the_time_with_requests() -> None:
    latency = [
        {"replica_id": "0", "tokens_per_s": rate, "running_count": running, "ts_ns": at * S, "bucket_ns": S}
        for at, (rate, running) in enumerate([(500.0, 10), (700.0, 10), (0.0, 0)])
    ]
    assert reason("tokens_per_s", token_latency=latency) == 600.0


def test_reuse_is_the_larger_of_hits_and_trace() -> None:
    hits = [{"replica_id": "0", "tier": "hbm", "hit_tokens": 30, "lookup_tokens": 100}]
    con = advice_facts(cache_hits=hits, request_trace_summary=[{"reusable_block_ratio": 0.5}])
    row = one(con, "select hit_ratio, reuse_ratio, reuse_origin from int_advice_facts")
    assert row == (0.3, 0.5, "request trace, an unlimited cache")
    assert reason("reuse_origin", cache_hits=hits) == "hits of the prefix cache"


def test_hits_of_a_tier_count_as_reuse() -> None:
    # Of 100 tokens that the engine looked up 20 were in HBM and 50 in host memory.
    hits = [
        {"replica_id": "0", "tier": "hbm", "hit_tokens": 20, "lookup_tokens": 100},
        {"replica_id": "0", "tier": "host", "hit_tokens": 50, "lookup_tokens": 80},
    ]
    row = one(
        advice_facts(cache_hits=hits),
        "select hit_ratio, tier_hit_ratio, reuse_ratio, reuse_origin from int_advice_facts",
    )
    assert row == (0.7, 0.5, 0.7, "hits of the prefix cache and its tiers")


def test_prefix_caching_that_is_switched_off() -> None:
    given = [{"name": "enable_prefix_caching", "value": "false"}]
    assert reason("is_caching_off", int_settings_effective=given) is True
    assert reason("is_caching_off") is False


def test_break_even_of_fetching_and_computing() -> None:
    # Half of a prompt of 200 tokens: 100 kB over half of 100 MB/s, and 2 x 1e9 x 100 FLOPs at 1e13.
    con = advice_facts(
        request_trace_summary=[{"reusable_block_ratio": 0.5}],
        client_totals=[
            {"source_id": 1, "load_no": 0, "name": "total_input_tokens", "value": 2000.0},
            {"source_id": 1, "load_no": 0, "name": "completed", "value": 10.0},
        ],
    )
    row = one(con, "select prompt_tokens, transfer_ms, recompute_ms from int_advice_facts")
    assert row == (200.0, pytest.approx(2.0), pytest.approx(20.0))


def test_a_dense_model_of_unknown_shape_computes_with_all_its_weights() -> None:
    # 6 GB of 2 bytes are 3e9 weights: 2 x 3e9 x 100 FLOPs at 1e13.
    totals = [
        {"source_id": 1, "load_no": 0, "name": "total_input_tokens", "value": 2000.0},
        {"source_id": 1, "load_no": 0, "name": "completed", "value": 10.0},
    ]
    sizes = {**SIZES, "matmul_parameters": None, "element_bytes": 2.0, "is_moe": False}
    given = {"request_trace_summary": [{"reusable_block_ratio": 0.5}], "client_totals": totals}
    assert reason("recompute_ms", int_model_sizes=[sizes], **given) == pytest.approx(60.0)
    assert reason("recompute_ms", int_model_sizes=[{**sizes, "is_moe": True}], **given) is None
