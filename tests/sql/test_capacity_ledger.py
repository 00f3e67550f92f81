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
    settings: list[Row], *used: Row, sources: tuple[Row, ...] = (MODEL, LOG), events: tuple[Row, ...] = ()
) -> duckdb.DuckDBPyConnection:
    con = build(
        "capacity_ledger",
        {"sources": sources, "raw_settings": settings, "raw_log_events": events},
        {"kv_occupancy": used},
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
            coalesce(sum(bytes) filter (where line <> 'total'), 0)
            <> coalesce(max(bytes) filter (where line = 'total'), 0)
            or coalesce(sum(tokens) filter (where line <> 'total'), 0)
            <> coalesce(max(tokens) filter (where line = 'total'), 0)
        """,
    )
    assert off == []


def lines(con: duckdb.DuckDBPyConnection, tier: str = "hbm") -> dict[object, tuple[object, ...]]:
    rows = table(
        con, f"select line, bytes, tokens from capacity_ledger where tier = '{tier}' order by line_no"
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


def test_nothing_stated_still_says_so() -> None:
    con = ledger([], occupancy(0.5))
    assert table(con, "select line, bytes, tokens, meaning from capacity_ledger order by line_no") == [
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
    ],
)
def test_private_models_keep_their_headers(model: str) -> None:
    settings = facts(1, **LLAMA_2_13B) + facts(2, num_gpu_blocks=2657, num_cpu_blocks=327, block_size=16)
    con = build(
        model, {"sources": [MODEL, LOG], "raw_settings": settings}, {"kv_occupancy": [occupancy(0.5)]}
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
