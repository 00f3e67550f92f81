"""The ledger formulas give the figures that can be checked by hand."""

import duckdb
import pytest

from kvcliff.store.models import load_macros

GIB = 2**30


def value(expression: str) -> object:
    with duckdb.connect() as con:
        con.execute("create temp table thresholds (name varchar, value double)")
        load_macros(con)
        row = con.execute(f"select {expression}").fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        pytest.param(
            "32, 32, 128, dtype_bytes('float16')", 512 * 1024, id="32 layers, hidden 4096, MHA, FP16"
        ),
        pytest.param(
            "80, 32, 128, dtype_bytes('torch.float16')", 1.25 * 2**20, id="80 layers, hidden 4096, MHA, FP16"
        ),
        pytest.param("8, 4, 64, dtype_bytes('bfloat16')", 8_192, id="recorded CPU model, GQA"),
        pytest.param("40, 40, 128, dtype_bytes('half')", 819_200, id="llama-2-13b"),
        pytest.param("32, 8, 128, dtype_bytes('fp8_e4m3')", 64 * 1024, id="GQA 4:1 with FP8 KV"),
    ],
)
def test_kv_bytes_per_token(shape: str, expected: float) -> None:
    assert value(f"kv_bytes_per_token({shape})") == expected


def test_kv_of_4096_tokens() -> None:
    assert value("4096 * kv_bytes_per_token(32, 32, 128, 2)") == 2 * GIB
    assert value("4096 * kv_bytes_per_token(80, 32, 128, 2)") == 5 * GIB


def test_pool_of_llama_2_13b_is_what_its_log_says() -> None:
    assert value("kv_bytes_per_token(40, 40, 128, 2) * 16 * 2657") == pytest.approx(32.43 * GIB, rel=1e-3)


def test_latent_attention_stores_latent_and_rope_once() -> None:
    assert value("mla_kv_bytes_per_token(61, 512, 64, 2)") == 61 * 576 * 2


def test_unknown_inputs_give_no_number() -> None:
    assert value("dtype_bytes('auto')") is None
    assert value("dtype_bytes(null)") is None
    assert value("kv_bytes_per_token(32, null, 128, 2)") is None
    assert value("mla_kv_bytes_per_token(61, 512, null, 2)") is None
    assert value("decode_floor_ms(14e9, 2e9, null)") is None
    assert value("decode_floor_ms(null, 2e9, 2e12)") is None


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float32", 4),
        ("torch.bfloat16", 2),
        ("fp8_e5m2", 1),
        ("int8", 1),
        ("nvfp4", 0.5),
        ("int4", 0.5),
        ("w4a16", None),
    ],
)
def test_dtype_bytes(dtype: str, expected: float | None) -> None:
    assert value(f"dtype_bytes('{dtype}')") == expected


@pytest.mark.parametrize(
    ("ranks", "heads", "is_mla", "expected"),
    [("8", "32", "false", 8), ("8", "4", "false", 4), ("null", "32", "false", 1), ("8", "null", "true", 1)],
)
def test_kv_shards(ranks: str, heads: str, is_mla: str, expected: int) -> None:
    assert value(f"kv_shard_count({ranks}, {heads}, {is_mla})") == expected


def test_decode_floor_of_one_sequence() -> None:
    assert value("decode_floor_ms(14e9, 2e9, 2e12)") == 8.0
    assert value("step_tokens_per_s(1, decode_floor_ms(14e9, 2e9, 2e12))") == 125.0


def test_swap_of_two_gigabytes() -> None:
    assert value("transfer_ms(2e9, 50e9)") == 40.0
    assert value("transfer_ms(2e9, 2e12)") == 1.0


def shape(**fields: float | bool | str | None) -> str:
    """Return a struct literal with the fields that parameter macros read; the rest is a small dense model."""
    whole = {
        "layers": 8,
        "hidden_size": 768,
        "attention_heads": 12,
        "kv_heads": 4,
        "head_dim": 64,
        "intermediate_size": 2048,
        "vocab_size": 8192,
        "attention_layers": 8,
        "mlp_layers": 8,
        "moe_layers": 0,
        "state_layers": 0,
        "mlp_matrices": 3,
        "num_experts": None,
        "experts_per_token": None,
        "expert_intermediate_size": None,
        "shared_expert_intermediate_size": 0,
        "kv_lora_rank": None,
        "q_lora_rank": None,
        "qk_nope_head_dim": None,
        "qk_rope_head_dim": None,
        "value_head_dim": 64,
        "state_heads": None,
        "state_head_dim": None,
        "conv_channels": None,
        "is_mla": False,
        "is_tied": False,
        **fields,
    }
    listed = (f"{name} := {'null' if item is None else str(item).lower()}" for name, item in whole.items())
    return f"struct_pack({', '.join(listed)})"


def parameters(struct: str) -> object:
    """Return the parameters of a dense, untied model unless the struct says that it is tied."""
    parts = ", ".join(
        f"{part}({struct})"
        for part in (
            "embedding_parameters",
            "shared_parameters",
            "one_expert_parameters",
            "norm_parameters",
        )
    )
    return value(f"parameter_count({parts}, null, {'is_tied := true' in struct})")


def test_parameters_of_known_models() -> None:
    llama_2_13b = shape(
        layers=40,
        hidden_size=5120,
        attention_heads=40,
        kv_heads=40,
        head_dim=128,
        intermediate_size=13_824,
        vocab_size=32_000,
        attention_layers=40,
        mlp_layers=40,
    )
    assert parameters(llama_2_13b) == 13_015_864_320
    assert parameters(shape()) == 125_855_232 / 2
    assert parameters(shape(is_tied=True)) == 125_855_232 / 2 - 8192 * 768
    assert parameters(shape(mlp_matrices=None)) is None


def test_experts_that_a_batch_touches() -> None:
    assert value("8 * expected_expert_ratio(8, 2, 1)") == 2
    assert value("expected_expert_ratio(8, 2, 2)") == pytest.approx(1 - 0.75**2)
    assert value("expected_expert_ratio(128, 8, 10000)") == pytest.approx(1)
    assert value("expected_expert_ratio(null, 8, 4)") is None


def test_weights_that_a_step_reads() -> None:
    assert value("step_weight_bytes(100, 80, 0, 8, 2, 1)") == 40
    assert value("step_weight_bytes(100, null, 10, null, null, 1)") == 90
    assert value("step_weight_bytes(100, null, null, null, null, 1)") == 100
    assert value("step_weight_bytes(100, null, 0, 8, 2, 1)") is None


def test_sequences_with_windows_and_states() -> None:
    assert value("sequence_kv_bytes(10000, 100, 10, 4096, 7)") == 1_000_000 + 40_960 + 7
    assert value("sequence_kv_bytes(1000, 100, 10, 4096, 0)") == 110_000
    assert value("sequence_kv_bytes(1000, 100, 0, null, null)") == 100_000


def test_causal_pairs() -> None:
    assert value("causal_pairs(4, null)") == 10
    assert value("causal_pairs(4, 2)") == 1 + 2 + 2 + 2
    assert value("causal_pairs(4, 9)") == 10


def test_blocks_requests_and_room() -> None:
    assert value("kv_pool_room_bytes(80, 0.9, 50, 2)") == 20
    assert value("block_count(1000, 16, 3)") == 20
    assert value("block_count(-5, 16, 3)") == 0
    assert value("block_count(null, 16, 3)") is None
    assert value("whole_blocks(33, 16)") == 48
    assert value("request_capacity(1000, 300)") == 3
    assert value("request_capacity(null, 300)") is None


def test_the_swap_route_is_the_slower_of_link_and_host() -> None:
    assert value("swap_bytes_per_s(64e9, 50e9, 1)") == 50e9
    assert value("swap_bytes_per_s(64e9, null, 0.5)") == 32e9
    assert value("swap_bytes_per_s(null, 50e9, 1)") is None


def test_stored_weights_carry_their_scales() -> None:
    assert value("stored_weight_bytes(4, 128, 20)") == (4 + 20 / 128) / 8
    assert value("stored_weight_bytes(4, 32, 8)") == 4.25 / 8
    assert value("stored_weight_bytes(8, null, null)") == 1
    assert value("stored_weight_bytes(null, 128, 20)") is None


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("fp8_e4m3", 1),
        ("int8_per_token_head", 1 + 4 / 128),
        ("nvfp4", 0.5625),
        ("mxfp4", 0.53125),
        ("bfloat16", 2),
        ("auto", None),
    ],
)
def test_kv_elements_carry_their_scales(dtype: str, expected: float | None) -> None:
    assert value(f"kv_element_bytes('{dtype}', 128)") == expected


def test_the_longer_of_moving_and_computing_is_the_floor() -> None:
    assert value("step_floor_ms(16e9, 2e12, null)") == 8.0
    assert value("step_floor_ms(16e9, 2e12, 3)") == 8.0
    assert value("step_floor_ms(16e9, 2e12, 11)") == 11.0
    assert value("step_floor_ms(null, 2e12, 11)") is None


def test_all_reduces_of_tensor_parallelism() -> None:
    assert value("all_reduce_bytes(32, 4096, 1, 2, 1)") == 0
    assert value("all_reduce_bytes(32, 4096, 1, 2, 8)") == 2 * 32 * 4096 * 2 * 2 * 7 / 8


def test_prefill_floor() -> None:
    assert value("prefill_floor_ms(forward_flops(7e9, 1000), 1e15)") == pytest.approx(14.0)


def test_a_zero_rate_is_unknown() -> None:
    assert value("transfer_ms(1, 0)") is None
    assert value("step_tokens_per_s(1, 0)") is None
