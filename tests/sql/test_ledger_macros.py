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


def test_parameters_of_known_models() -> None:
    llama_2_13b = "40, 5120, 40, 40, 128, 13824, 32000, true, false"
    recorded = "8, 768, 12, 4, 64, 2048, 8192, true, false"
    assert value(f"dense_parameter_count({llama_2_13b})") == 13_015_864_320
    assert value(f"2 * dense_parameter_count({recorded})") == 125_855_232


def test_prefill_floor() -> None:
    assert value("prefill_floor_ms(forward_flops(7e9, 1000), 1e15)") == pytest.approx(14.0)


def test_a_zero_rate_is_unknown() -> None:
    assert value("transfer_ms(1, 0)") is None
    assert value("step_tokens_per_s(1, 0)") is None
