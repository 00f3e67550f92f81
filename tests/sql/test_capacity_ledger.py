"""The capacity ledger: parts of the memory that hold KV add up to its total, and the rest is named."""

from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st

from builders_raw import Row, build, facts, has_documented_columns, is_unique, one, source, table

GIB = 2**30
MODEL = source(1, "config.json", "model")
LOG = source(2, "server.log", "log")
LLAMA_2_13B: dict[str, Any] = {
    "model_type": "llama",
    "layers": 40,
    "hidden_size": 5120,
    "attention_heads": 40,
    "kv_heads": 40,
    "head_dim": 128,
    "intermediate_size": 13824,
    "vocab_size": 32000,
    "dtype": "float16",
}
RECORDED: dict[str, Any] = {
    "model_type": "llama",
    "layers": 8,
    "hidden_size": 768,
    "attention_heads": 12,
    "kv_heads": 4,
    "head_dim": 64,
    "intermediate_size": 2048,
    "vocab_size": 8192,
    "dtype": "bfloat16",
    "tie_word_embeddings": False,
}


def occupancy(
    ratio: float,
    *,
    tier: str = "hbm",
    replica: str = "0",
    level: str | None = None,
    ts_ns: int = 0,
    **more: object,
) -> Row:
    return {
        "level": level,
        "replica_id": replica,
        "tier": tier,
        "origin": "metrics",
        "used_ratio": ratio,
        "running_count": 4,
        "ts_ns": ts_ns,
        **more,
    }


def ledger(
    settings: list[Row],
    *used: Row,
    sources: tuple[Row, ...] = (MODEL, LOG),
    events: tuple[Row, ...] = (),
    requests: tuple[Row, ...] = (),
    rows: dict[str, tuple[Row, ...]] | None = None,
    metrics: tuple[Row, ...] = (),
) -> duckdb.DuckDBPyConnection:
    con = build(
        "capacity_ledger",
        {"sources": sources, "raw_settings": settings, "raw_log_events": events, **(rows or {})},
        {"kv_occupancy": used, "requests": requests, "int_metric_values": metrics},
    )
    assert has_documented_columns(con, "capacity_ledger")
    assert is_unique(con, "capacity_ledger")
    assert_balanced(con)
    return con


def assert_balanced(con: duckdb.DuckDBPyConnection) -> None:
    """The lines add up to the total to the byte and to the token."""
    off = table(
        con,
        """
        select level, replica_id, tier
        from capacity_ledger
        group by all
        having
            coalesce(sum(bytes) filter (where is_part), 0)
            <> coalesce(max(bytes) filter (where line = 'total'), 0)
            or coalesce(sum(tokens) filter (where is_part), 0)
            <> coalesce(max(tokens) filter (where line = 'total'), 0)
        """,
    )
    assert off == []


def lines(con: duckdb.DuckDBPyConnection, tier: str = "hbm") -> dict[object, tuple[object, ...]]:
    rows = table(
        con,
        "select line, bytes, tokens from capacity_ledger "
        f"where tier = '{tier}' and (is_part or line = 'total') order by line_no",
    )
    return {row[0]: row[1:] for row in rows}


def beside(con: duckdb.DuckDBPyConnection, tier: str = "hbm") -> dict[object, tuple[object, ...]]:
    """The lines that are no parts: bytes, tokens, requests and what they say."""
    rows = table(
        con,
        "select line, bytes, tokens, request_count, meaning from capacity_ledger "
        f"where tier = '{tier}' and not is_part and line <> 'total' order by line_no",
    )
    return {row[0]: row[1:] for row in rows}


def sizes(settings: list[Row], *columns: str) -> tuple[object, ...]:
    con = build("int_model_sizes", {"sources": [MODEL, LOG], "raw_settings": settings})
    assert has_documented_columns(con, "int_model_sizes")
    return one(con, f"select {', '.join(columns)} from int_model_sizes")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(facts(1, **LLAMA_2_13B), 819_200, id="llama-2-13b"),
        pytest.param(facts(1, **RECORDED), 8_192, id="recorded CPU model"),
        pytest.param(
            facts(1, **RECORDED) + facts(2, kv_cache_dtype="auto"), 8_192, id="auto is the model's type"
        ),
        pytest.param(facts(1, **RECORDED) + facts(2, kv_cache_dtype="fp8"), 4_096, id="FP8 KV halves"),
        pytest.param(
            facts(
                1,
                layers=61,
                kv_lora_rank=512,
                qk_rope_head_dim=64,
                kv_heads=128,
                head_dim=128,
                dtype="bfloat16",
            ),
            70_272,
            id="MLA",
        ),
    ],
)
def test_kv_bytes_per_token_of_a_model(settings: list[Row], expected: float) -> None:
    assert sizes(settings, "kv_bytes_per_token", "kv_origin", "kv_reason") == (expected, "shape", None)


def test_tensor_parallel_divides_only_where_stated() -> None:
    assert sizes(facts(1, **LLAMA_2_13B), "kv_bytes_per_token_gpu") == (819_200,)
    split = facts(1, **LLAMA_2_13B) + facts(2, tensor_parallel_size=4)
    assert sizes(split, "kv_bytes_per_token", "kv_bytes_per_token_gpu") == (819_200, 204_800)
    more_ranks_than_heads = facts(1, **RECORDED) + facts(2, tensor_parallel_size=8)
    assert sizes(more_ranks_than_heads, "kv_bytes_per_token_gpu") == (2_048,)
    stacked = facts(1, **LLAMA_2_13B) + facts(2, tensor_parallel_size=2, pipeline_parallel_size=2)
    assert sizes(stacked, "kv_bytes_per_token_gpu") == (204_800,)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (facts(1, dtype="float16"), "the shape of the model is not stated"),
        (facts(1, layers=32, kv_heads=8, head_dim=128), "the element type of the KV cache is not stated"),
        (facts(1, layers=32, dtype="float16", head_dim=128), "KV heads or head width are not stated"),
        (
            facts(1, layers=61, kv_lora_rank=512, dtype="float16"),
            "the rotary width of the latent attention is not stated",
        ),
    ],
)
def test_unknown_kv_bytes_say_why(settings: list[Row], reason: str) -> None:
    assert sizes(settings, "kv_bytes_per_token", "kv_reason") == (None, reason)


def test_pool_bytes_over_pool_tokens_stand_in_for_an_unknown_shape() -> None:
    assert sizes(
        facts(2, kv_cache_bytes=1 << 30, kv_cache_tokens=1 << 14), "kv_bytes_per_token_gpu", "kv_origin"
    ) == (65_536, "engine")


def test_stated_pool_bytes_lose_against_an_overridden_block_count() -> None:
    settings = facts(1, **RECORDED) + facts(2, kv_cache_bytes=134_217_728, num_gpu_blocks=128, block_size=32)
    assert sizes(settings, "kv_capacity_tokens", "kv_pool_bytes") == (4_096, 33_554_432)


def test_weights_are_taken_from_the_engine_first() -> None:
    stated = facts(1, **LLAMA_2_13B) + facts(2, weight_bytes=26_070_000_000)
    assert sizes(stated, "weight_bytes", "weight_origin") == (26_070_000_000, "server.log")
    assert sizes(facts(1, **RECORDED), "weight_bytes", "weight_origin") == (
        125_855_232,
        "estimated from the shape",
    )


def test_weights_of_a_rank_are_not_divided_again() -> None:
    ranks = facts(2, tensor_parallel_size=2) + [
        row for rank in (0, 1) for row in facts(2, scope=f"TP{rank}", weight_bytes=8 * GIB)
    ]
    assert sizes(ranks, "weight_bytes") == (8 * GIB,)
    unnamed = facts(2, tensor_parallel_size=2) + facts(2, weight_bytes=8 * GIB)
    assert sizes(unnamed, "weight_bytes") == (8 * GIB,)
    assert sizes(facts(0, weight_bytes=16 * GIB) + facts(2, tensor_parallel_size=2), "weight_bytes") == (
        8 * GIB,
    )


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"num_experts": 8}, "weights of a mixture of experts are not stated by the engine"),
        ({"quantization": "awq"}, "quantised weights are not stated by the engine"),
        ({"model_type": "brand_new"}, "neither the engine nor the shape tells the size of the weights"),
    ],
)
def test_weights_are_never_guessed(more: dict[str, Any], reason: str) -> None:
    assert sizes(facts(1, **{**RECORDED, **more}), "weight_bytes", "weight_reason") == (None, reason)


def test_hbm_of_llama_2_13b_balances() -> None:
    settings = (
        facts(1, **LLAMA_2_13B)
        + facts(2, num_gpu_blocks=2657, block_size=16, weight_bytes=26_070_000_000)
        + facts(0, gpu_memory_bytes=68_416_438_272)
    )
    con = ledger(settings, occupancy(0.5, ts_ns=1), occupancy(0.25, ts_ns=2))
    pool = 2657 * 16 * 819_200
    assert lines(con) == {
        "weights": (26_070_000_000, None),
        "kv_used_peak": (pool // 2, 21_256),
        "kv_free": (pool // 2, 21_256),
        "rest": (68_416_438_272 - 26_070_000_000 - pool, None),
        "total": (68_416_438_272, 42_512),
    }
    shares = table(
        con,
        "select sum(share) filter (where line <> 'total'), max(share) filter (where line = 'total') "
        "from capacity_ledger",
    )
    assert shares == [(pytest.approx(1.0), 1.0)]


def test_stated_parts_have_their_own_lines() -> None:
    settings = facts(
        2,
        gpu_memory_bytes=80 * GIB,
        weight_bytes=26 * GIB,
        kv_cache_bytes=40 * GIB,
        activation_memory_bytes=4 * GIB,
        non_torch_memory_bytes=1 * GIB,
    )
    events = (
        {"source_id": 2, "line_no": 9, "src_ns": 0, "engine": "0", "kind": "graph_capture", "bytes": 2 * GIB},
    )
    con = ledger(settings, events=events)
    assert {line: row[0] for line, row in lines(con).items()} == {
        "weights": 26 * GIB,
        "kv_pool": 40 * GIB,
        "activations": 4 * GIB,
        "cuda_graphs": 2 * GIB,
        "non_torch": 1 * GIB,
        "rest": 7 * GIB,
        "total": 80 * GIB,
    }


def test_peak_of_the_framework_is_counted_without_its_weights() -> None:
    settings = facts(
        2,
        total_gpu_memory_bytes=80 * GIB,
        weight_bytes=26 * GIB,
        peak_torch_memory_bytes=30 * GIB,
        kv_cache_bytes=40 * GIB,
    )
    assert lines(ledger(settings))["activations"] == (4 * GIB, None)


@pytest.mark.parametrize(
    ("limit", "beyond", "rest"),
    [("0.75", 20 * GIB, 10 * GIB), ("0.5", 30 * GIB, 0), ("1.0", None, 30 * GIB)],
)
def test_memory_that_the_engine_may_not_take_explains_at_most_the_rest(
    limit: str, beyond: int | None, rest: int
) -> None:
    con = ledger(
        facts(
            2,
            gpu_memory_bytes=80 * GIB,
            weight_bytes=20 * GIB,
            kv_cache_bytes=30 * GIB,
            gpu_memory_utilization=limit,
        )
    )
    found = lines(con)
    assert found.get("beyond_limit", (None,))[0] == beyond
    assert found["rest"][0] == rest


def test_contradicting_facts_show_as_a_negative_rest() -> None:
    settings = facts(
        2,
        gpu_memory_bytes=40 * GIB,
        weight_bytes=30 * GIB,
        kv_cache_bytes=20 * GIB,
        gpu_memory_utilization=0.9,
    )
    con = ledger(settings)
    assert one(con, "select bytes, meaning from capacity_ledger where line = 'rest'") == (
        -10 * GIB,
        "the stated parts exceed the memory: facts contradict each other",
    )


def test_unknown_weights_are_said_to_be_in_the_rest() -> None:
    con = ledger(facts(2, gpu_memory_bytes=40 * GIB, kv_cache_bytes=20 * GIB, model_type="brand_new"))
    assert one(con, "select bytes, meaning from capacity_ledger where line = 'weights'") == (
        None,
        "neither the engine nor the shape tells the size of the weights; they are part of the rest",
    )
    assert one(con, "select bytes, meaning from capacity_ledger where line = 'rest'") == (
        20 * GIB,
        "not explained; holds the parts that are unknown above",
    )


def test_without_the_memory_size_only_the_kv_pool_is_booked() -> None:
    settings = facts(1, **RECORDED) + facts(2, num_gpu_blocks=128, block_size=32)
    con = ledger(settings, occupancy(1.0))
    assert lines(con) == {
        "kv_used_peak": (33_554_432, 4_096),
        "kv_free": (0, 0),
        "total": (33_554_432, 4_096),
    }
    assert one(con, "select meaning from capacity_ledger where line = 'total'") == (
        "KV pool only: the size of the memory is not stated",
    )


def test_a_cpu_engine_keeps_its_pool_in_host_memory() -> None:
    settings = facts(1, **RECORDED) + facts(
        2, num_gpu_blocks=128, block_size=32, device_type="cpu", host_kv_bytes=8_192_000
    )
    con = ledger(settings, occupancy(0.5))
    assert lines(con, "hbm") == {}
    assert lines(con, "host")["kv_used_peak"] == (16_777_216, 2_048)
    assert lines(con, "host_offload") == {"kv_pool": (8_192_000, 1_000), "total": (8_192_000, 1_000)}


def test_tokens_alone_when_the_shape_is_unknown() -> None:
    con = ledger(facts(2, kv_cache_tokens=1000), occupancy(0.3))
    assert lines(con) == {"kv_used_peak": (None, 300), "kv_free": (None, 700), "total": (None, 1000)}
    assert one(con, "select share, meaning from capacity_ledger where line = 'kv_used_peak'")[
        0
    ] == pytest.approx(0.3)
    assert one(con, "select meaning from capacity_ledger where line = 'total'") == (
        "KV pool in tokens; bytes unknown: the shape of the model is not stated",
    )


def test_the_host_tier_has_its_own_books() -> None:
    settings = facts(1, **LLAMA_2_13B) + facts(2, num_gpu_blocks=2657, num_cpu_blocks=327, block_size=16)
    con = ledger(settings, occupancy(0.5), occupancy(0.25, tier="host"))
    assert lines(con, "host") == {
        "kv_used_peak": (1_308 * 819_200, 1_308),
        "kv_free": (3_924 * 819_200, 3_924),
        "total": (5_232 * 819_200, 5_232),
    }


def test_levels_and_replicas_have_their_own_books() -> None:
    sources = (
        MODEL,
        source(2, "8/server.log", "log", level="8"),
        source(3, "16/server.log", "log", level="16"),
    )
    settings = (
        facts(1, **RECORDED)
        + facts(2, num_gpu_blocks=100, block_size=10)
        + facts(3, num_gpu_blocks=200, block_size=10)
    )
    con = ledger(
        settings,
        occupancy(0.1, level="8"),
        occupancy(0.2, level="16"),
        occupancy(0.4, level="16", replica="1"),
        sources=sources,
    )
    assert table(
        con, "select level, replica_id, tokens from capacity_ledger where line = 'kv_used_peak' order by all"
    ) == [
        ("16", "0", 400),
        ("16", "1", 800),
        ("8", "0", 100),
    ]


#: What the log of a recorded llama-2-13b run states of a 64 GB part.
PROFILED: dict[str, Any] = {
    "num_gpu_blocks": 2657,
    "block_size": 16,
    "total_gpu_memory_bytes": round(63.43 * GIB),
    "gpu_memory_utilization": 0.9,
    "peak_torch_memory_bytes": round(24.55 * GIB),
    "non_torch_memory_bytes": round(0.10 * GIB),
    "max_num_seqs": 64,
}


def test_block_count_follows_from_memory_weights_and_peak() -> None:
    con = ledger(facts(1, **LLAMA_2_13B) + facts(2, **PROFILED), occupancy(0.5))
    room, tokens, _, meaning = beside(con)["pool_check"]
    assert room == pytest.approx(2657 * 16 * 819_200, rel=1e-3)
    assert tokens == 2657 * 16
    assert meaning == "memory x limit less weights, peak and rest; the pool is 100.0 % of it"


def test_a_pool_of_other_size_shows_in_the_check() -> None:
    halved = {**PROFILED, "num_gpu_blocks": 1329}
    con = ledger(facts(1, **LLAMA_2_13B) + facts(2, **halved), occupancy(0.5))
    assert str(beside(con)["pool_check"][3]).endswith("the pool is 50.0 % of it")


@pytest.mark.parametrize(("blocks", "words"), [(2657, "100.0 % of it"), (128, "4.8 % of it: the block")])
def test_the_pool_that_the_engine_prints_is_held_against_the_books(blocks: int, words: str) -> None:
    stated = {"num_gpu_blocks": blocks, "block_size": 16, "kv_cache_bytes": 2657 * 16 * 819_200}
    con = ledger(facts(1, **LLAMA_2_13B) + facts(2, **stated), occupancy(0.5))
    assert words in str(beside(con)["pool_printed"][3])
    assert beside(con)["pool_printed"][0] == 2657 * 16 * 819_200


def test_telemetry_is_held_against_the_parts() -> None:
    settings = facts(1, **LLAMA_2_13B) + facts(2, **PROFILED)
    device = source(3, "nvidia_smi.csv", "device")
    parts = 2657 * 16 * 819_200 + round(24.55 * GIB) + round(0.10 * GIB)

    def said(used_bytes: int) -> str:
        sample = {"source_id": 3, "device_id": 0, "counter": "memory_used_bytes", "src_ns": 0}
        con = ledger(
            settings,
            occupancy(0.5),
            sources=(MODEL, LOG, device),
            rows={"raw_device_samples": ({**sample, "value": float(used_bytes)},)},
        )
        assert beside(con)["device_used"][0] == used_bytes
        return str(beside(con)["device_used"][3])

    assert "0.93 GiB more than the parts above" in said(parts + round(0.93 * GIB))
    assert "0.50 GiB less than the parts above" in said(parts - round(0.5 * GIB))


def test_last_blocks_are_half_empty_on_average() -> None:
    settings = facts(1, **LLAMA_2_13B) + facts(2, num_gpu_blocks=100, block_size=16)
    con = ledger(settings, occupancy(0.5, semantics="referenced_blocks", running_count=8))
    assert lines(con)["kv_used_peak"] == ((800 - 60) * 819_200, 740)
    assert lines(con)["kv_block_tails"] == (60 * 819_200, 60)
    assert lines(con)["kv_free"] == (800 * 819_200, 800)
    assert "kv_block_tails" not in lines(
        ledger(settings, occupancy(0.5, semantics="live_tokens", running_count=8))
    )


def test_cached_prefixes_are_apart_from_free_room_where_the_engine_says_so() -> None:
    settings = facts(1, **LLAMA_2_13B) + facts(2, kv_cache_tokens=1_000)
    gauge = {"replica_id": "0", "source_id": 2, "series_id": 1, "scrape_no": 1, "ts_ns": 5}
    metrics = (
        {**gauge, "name": "sglang:kv_evictable_tokens", "value": 300.0},
        {**gauge, "series_id": 2, "name": "sglang:max_total_num_tokens", "value": 1_000.0},
    )
    con = ledger(settings, occupancy(0.6, ts_ns=5, semantics="live_tokens"), metrics=metrics)
    assert lines(con)["kv_cached"] == (300 * 819_200, 300)
    assert lines(con)["kv_free"] == (100 * 819_200, 100)


def test_requests_of_the_runs_lengths() -> None:
    settings = facts(1, **LLAMA_2_13B) + facts(2, num_gpu_blocks=2657, block_size=16)
    requests = tuple(
        {"source_id": 4, "request_no": number, "prompt_tokens": 300, "output_tokens": tokens, **more}
        for number, (tokens, more) in enumerate(
            [(200, {}), (210, {}), (9_000, {"is_error": True}), (9_000, {"is_warmup": True})]
        )
    )
    con = ledger(settings, occupancy(0.5, running_count=40), requests=requests)
    # 505 tokens on average take 32 blocks of 16; 2,657 blocks hold 83 of them.
    assert beside(con)["requests_fit"][:3] == (512 * 819_200, 512, 83)
    assert beside(con)["requests_fit"][3] == "83 requests of this run's mean length fit at their full length"
    assert beside(con)["per_request"][3] == ("share of one of 40 running requests at the highest occupancy")
    assert beside(con)["per_request"][:3] == (21_256 // 40 * 819_200 + 327_680, 531, 40)


def test_more_requests_than_fit_are_explained() -> None:
    settings = facts(1, **LLAMA_2_13B) + facts(2, num_gpu_blocks=100, block_size=16)
    request = {"source_id": 4, "request_no": 1, "prompt_tokens": 790, "output_tokens": 10}
    con = ledger(settings, occupancy(0.9, running_count=19), requests=(request,))
    count, words = beside(con)["requests_fit"][2:]
    assert count == 2
    assert str(words).endswith("; 19 ran at once: shared prefixes, or not yet at full length")


def test_totals_of_a_client_stand_in_for_its_requests() -> None:
    settings = facts(1, **LLAMA_2_13B) + facts(2, num_gpu_blocks=2657, block_size=16)
    total = {"source_id": 3, "load_no": 0}
    con = ledger(
        settings,
        occupancy(0.5),
        sources=(MODEL, LOG, source(3, "bench.json", "client")),
        rows={
            "raw_client_summary": (
                {**total, "name": "completed", "value": 10.0},
                {**total, "name": "total_input_tokens", "value": 3_000.0},
                {**total, "name": "total_output_tokens", "value": 2_050.0},
            )
        },
    )
    assert beside(con)["requests_fit"][1:3] == (512, 83)


def test_long_sequences_give_room_back_in_windowed_layers() -> None:
    windowed = {**LLAMA_2_13B, "sliding_window": 1_024, "sliding_window_layers": 20}
    settings = facts(1, **windowed) + facts(2, num_gpu_blocks=1_000, block_size=16)
    requests = ({"source_id": 4, "request_no": 1, "prompt_tokens": 4_000, "output_tokens": 96},)
    con = ledger(settings, occupancy(0.5), requests=requests)
    request_bytes = 409_600 * (4_096 + 1_024)
    assert beside(con)["requests_fit"][:3] == (request_bytes, 4_096, 16_000 * 819_200 // request_bytes)


@pytest.mark.parametrize(
    ("used", "waiting", "running", "words"),
    [
        (0.99, 0, 64, "no request waited"),
        (0.99, 9, 40, "KV pool: at its ceiling in 100 % of the samples with waiting requests"),
        (0.50, 9, 64, "max_num_seqs (64): the pool was at its ceiling in 0 % of the samples"),
        (0.50, 9, 40, "token budget of a step, or a limit that no file states"),
    ],
)
def test_what_held_requests_back(used: float, waiting: int, running: int, words: str) -> None:
    con = ledger(
        facts(1, **LLAMA_2_13B) + facts(2, **PROFILED),
        occupancy(used, waiting_count=waiting, running_count=running),
    )
    assert str(beside(con)["admission"][3]).startswith(words)
    assert beside(con)["admission"][2] == 64


def test_a_store_outside_the_engine_has_its_own_books() -> None:
    sample = {"source_id": 2, "line_no": 1, "tier": "mooncake", "capacity_bytes": 100 * GIB}
    con = ledger(
        facts(1, **LLAMA_2_13B),
        occupancy(0.5),
        rows={
            "raw_tier_samples": (
                {**sample, "src_ns": 0, "used_bytes": 10 * GIB},
                {**sample, "line_no": 2, "src_ns": 1, "used_bytes": 40 * GIB},
            )
        },
    )
    assert lines(con, "remote") == {
        "kv_used_peak": (40 * GIB, None),
        "kv_free": (60 * GIB, None),
        "total": (100 * GIB, None),
    }


def test_nothing_stated_still_says_so() -> None:
    con = ledger([], occupancy(0.5))
    assert table(
        con,
        "select line, bytes, tokens, meaning from capacity_ledger "
        "where is_part or line = 'total' order by line_no",
    ) == [
        ("kv_pool", None, None, "no file states how many tokens the KV cache holds"),
        (
            "total",
            None,
            None,
            "KV pool in tokens; bytes unknown: no file states how many tokens the KV cache holds",
        ),
    ]


@pytest.mark.parametrize(
    "model",
    [
        "int_model_shape",
        "int_model_sizes",
        "int_ledger_places",
        "int_ledger_kv_use",
        "int_ledger_pools",
        "int_ledger_parts",
        "int_ledger_checks",
    ],
)
def test_private_models_keep_their_headers(model: str) -> None:
    settings = facts(1, **LLAMA_2_13B) + facts(2, num_gpu_blocks=2657, num_cpu_blocks=327, block_size=16)
    con = build(
        model,
        {"sources": [MODEL, LOG], "raw_settings": settings},
        {"kv_occupancy": [occupancy(0.5)], "requests": []},
    )
    assert has_documented_columns(con, model)
    assert is_unique(con, model)


@settings_of_hypothesis(max_examples=15, deadline=None, derandomize=True, database=None)
@given(
    memory_bytes=st.one_of(st.none(), st.integers(1, 200 * GIB)),
    weight_bytes=st.one_of(st.none(), st.integers(0, 200 * GIB)),
    pool_tokens=st.one_of(st.none(), st.integers(1, 1_000_000)),
    limit=st.one_of(st.none(), st.floats(0, 1)),
    ratio=st.one_of(st.none(), st.floats(0, 1)),
)
def test_the_books_balance_whatever_is_stated(
    memory_bytes: int | None,
    weight_bytes: int | None,
    pool_tokens: int | None,
    limit: float | None,
    ratio: float | None,
) -> None:
    stated: dict[str, Any] = {
        "gpu_memory_bytes": memory_bytes,
        "weight_bytes": weight_bytes,
        "kv_cache_tokens": pool_tokens,
        "gpu_memory_utilization": limit,
    }
    used = () if ratio is None else (occupancy(ratio),)
    con = ledger(facts(1, **RECORDED) + facts(2, **{k: v for k, v in stated.items() if v is not None}), *used)
    assert table(con, "select count(*) from capacity_ledger where line = 'total'") == [(1,)]
    con.close()
