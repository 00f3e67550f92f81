"""The calculator gives what the formulas of the ledgers give, for models whose figures are published."""

import json

import pytest

from builders_models import KNOWN_MODELS, KnownModel
from kvcliff.errors import UsageProblem
from kvcliff.readers.model_shape import model_shape
from kvcliff.store.calculator import Ledger, Load, calculate, find_gpu, gpu_names

GIB = 2**30
BY_NAME = {model.name: model for model in KNOWN_MODELS}


def of(name: str, load: Load | None = None, **more: object) -> Ledger:
    settings = model_shape(BY_NAME[name].config) | {key: str(value) for key, value in more.items()}
    return calculate(settings, load or Load(4096, 4096, 1))


@pytest.mark.parametrize("model", KNOWN_MODELS, ids=lambda model: model.name)
def test_known_models(model: KnownModel) -> None:
    # As a file would be read: no tuples, no Python values.
    settings = model_shape(json.loads(json.dumps(model.config)))
    found = calculate(settings, Load(4096, 4096, 1))
    assert found.model_kv_bytes_per_token == model.kv_bytes_per_token
    assert found.model_parameter_count == pytest.approx(model.parameters, rel=max(model.tolerance, 1e-12))
    if model.active_parameters is not None:
        active = found.model_active_parameter_count
        assert active == pytest.approx(model.active_parameters, rel=max(model.tolerance, 0.02))
    for context_tokens, expected in model.sequence_bytes.items():
        assert calculate(settings, Load(context_tokens, 1, 1)).sequence_bytes == expected


def test_at_least_twelve_models_of_every_kind() -> None:
    assert len(KNOWN_MODELS) >= 12
    kinds = {model.config["model_type"] for model in KNOWN_MODELS}
    assert {"llama", "mistral", "mixtral", "qwen3_moe", "gemma2", "deepseek_v3", "falcon", "opt"} <= kinds


@pytest.mark.parametrize(("name", "gib"), [("gpt-oss-20b", 12.8), ("gpt-oss-120b", 60.8)])
def test_checkpoint_size_of_four_bit_experts(name: str, gib: float) -> None:
    found = of(name).weight_bytes
    assert found is not None
    assert found / GIB == pytest.approx(gib, rel=0.003)


@pytest.mark.parametrize(
    ("method", "gib"),
    [
        # Llama-3.1-8B: 6.98 billion weights in matrices, 1.05 billion in embeddings that stay 16 bits wide.
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 6_979_321_856 * (4 + 20 / 128) / 8),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 6_979_321_856),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 6_979_321_856 * (1 + 4 / 16_384)),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int"}}
                },
                "ignore": ["lm_head"],
            },
            6_979_321_856,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}},
            },
            6_979_321_856 * 4.5 / 8,
        ),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 6_979_321_856 * 4.5 / 8),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, 6_979_321_856),
    ],
)
def test_quantised_weights(method: dict[str, object], gib: float) -> None:
    config = {**BY_NAME["Llama-3.1-8B"].config, "quantization_config": method}
    rest = 2 * (8_030_261_248 - 6_979_321_856)
    assert calculate(model_shape(config), Load(1, 1, 1)).weight_bytes == pytest.approx(gib + rest, rel=1e-6)


def test_an_unknown_quantisation_leaves_the_weights_unknown() -> None:
    config = {**BY_NAME["Llama-3.1-8B"].config, "quantization_config": {"quant_method": "brand_new"}}
    found = calculate(model_shape(config), Load(1, 1, 1))
    assert found.weight_bytes is None
    assert found.weight_reason == "quantised weights are not stated by the engine"
    assert found.decode_floor_ms is None


@pytest.mark.parametrize(
    ("name", "dtype", "factor"),
    [
        ("Llama-3.1-8B", "fp8", 1 / 2),
        ("Llama-3.1-8B", "fp8_e5m2", 1 / 2),
        ("Llama-3.1-8B", "int4", 1 / 4),
        ("Llama-3.1-8B", "int8_per_token_head", (1 + 4 / 128) / 2),
        ("Llama-3.1-8B", "nvfp4", 0.5625 / 2),
        ("Llama-3.1-8B", "auto", 1),
        ("DeepSeek-V3", "fp8_ds_mla", 656 / (576 * 2)),
    ],
)
def test_kv_of_other_types(name: str, dtype: str, factor: float) -> None:
    expected = BY_NAME[name].kv_bytes_per_token * factor
    assert of(name, kv_cache_dtype=dtype).model_kv_bytes_per_token == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "ranks", "part"),
    [
        ("Llama-3.1-70B", {"tensor_parallel_size": 4}, 1 / 4),
        # More ranks than KV heads copy the heads.
        ("Qwen2.5-7B", {"tensor_parallel_size": 8}, 1 / 4),
        ("Falcon-7B", {"tensor_parallel_size": 2}, 1),
        # The latent is kept whole on every rank.
        ("DeepSeek-V3", {"tensor_parallel_size": 8}, 1),
        ("Llama-3.1-70B", {"tensor_parallel_size": 4, "pipeline_parallel_size": 2}, 1 / 8),
    ],
)
def test_kv_of_one_gpu(name: str, ranks: dict[str, int], part: float) -> None:
    found = of(name, **ranks)
    assert found.kv_bytes_per_token == BY_NAME[name].kv_bytes_per_token * part
    assert found.model_kv_bytes_per_token == BY_NAME[name].kv_bytes_per_token


def test_experts_are_shared_by_their_own_ranks() -> None:
    one, four = of("Mixtral-8x7B"), of("Mixtral-8x7B", tensor_parallel_size=2, expert_parallel_size=4)
    assert one.weight_bytes is not None
    experts = 32 * 8 * 3 * 4096 * 14_336 * 2
    assert four.weight_bytes == (one.weight_bytes - experts) / 2 + experts / 4


def test_a_decode_step_reads_what_its_batch_touches() -> None:
    single, many = of("Mixtral-8x7B"), of("Mixtral-8x7B", Load(1, 1, 64))
    assert single.touched_experts == 2
    assert many.touched_experts == pytest.approx(8, rel=1e-6)
    embedding = 32_000 * 4096 * 2
    assert single.step_weight_bytes == pytest.approx(2 * 12_879_925_248 - embedding)
    assert many.step_weight_bytes == pytest.approx(2 * 46_702_792_704 - embedding, rel=1e-6)


def test_flops_of_a_token() -> None:
    found = of("Llama-3.1-8B", Load(context_tokens=1000, prompt_tokens=1000, batch=1))
    matrices = 8_030_261_248 - 2 * 128_256 * 4096
    head, pairs = 128_256 * 4096, 32 * 4 * 4096
    assert found.decode_flops == pytest.approx(2 * (matrices + head) + 1000 * pairs)
    assert found.prefill_flops == pytest.approx(2 * matrices * 1000 + pairs * 1000 * 1001 / 2)


def test_windows_bound_the_attention_flops() -> None:
    found = of("Mistral-7B-v0.1", Load(context_tokens=100_000, prompt_tokens=100_000, batch=1))
    near = of("Mistral-7B-v0.1", Load(context_tokens=4096, prompt_tokens=4096, batch=1))
    assert found.decode_flops == near.decode_flops


def test_worked_examples() -> None:
    stated = {
        "weight_bytes": "14000000000",
        "kv_bytes_per_token": "2000000",
        "hbm_bytes_per_s": "2e12",
        "pcie_bytes_per_s": "50e9",
    }
    found = calculate(stated, Load(context_tokens=1000, prompt_tokens=1000, batch=1))
    assert (found.decode_floor_ms, found.decode_tokens_per_s) == (8.0, 125.0)
    assert (found.achievable_ms, found.achievable_tokens_per_s) == (10.0, 100.0)
    assert (found.swap_ms, found.hbm_ms, found.swap_realistic_ms) == (40.0, 1.0, 80.0)


def test_pool_of_llama_2_13b_on_the_recorded_gpu() -> None:
    memory, rest = round(63.43 * GIB), round((24.55 - 24.28 + 0.10) * GIB)
    load = Load(4096, 4096, 64, block_tokens=16, limit_ratio=0.9, other_bytes=rest)
    found = of("Llama-2-13B", load, gpu_memory_bytes=memory, weight_bytes=round(24.28 * GIB))
    assert found.block_count == pytest.approx(2657, rel=0.02)
    from_shape = of("Llama-2-13B", load, gpu_memory_bytes=memory)
    assert from_shape.block_count == pytest.approx(2657, rel=0.02)


def test_requests_take_whole_blocks() -> None:
    load = Load(context_tokens=100, prompt_tokens=100, batch=1, block_tokens=16)
    found = of("Llama-3.1-8B", load, gpu_memory_bytes=16_060_522_496 + 112 * 131_072 * 3)
    assert (found.request_bytes, found.request_count, found.block_count) == (112 * 131_072, 3, 21)


def test_every_known_gpu_is_found_by_its_name() -> None:
    for name in gpu_names():
        assert find_gpu(name) == name
        found = calculate({"gpu_name": name}, Load(1, 1, 1))
        assert (found.gpu_model, found.bandwidth_reason) == (name, None)
        assert found.bandwidth_bytes_per_s
        assert found.memory_bytes


@pytest.mark.parametrize(
    ("spoken", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM 80GB"),
        ("h100 pcie", "H100 PCIe 80GB"),
        ("H100 SXM", "H100 SXM 80GB"),
        ("Tesla T4", "T4 16GB"),
        ("L4", "L4 24GB"),
    ],
)
def test_gpu_names_as_people_write_them(spoken: str, name: str) -> None:
    assert find_gpu(spoken) == name


def test_a_doubtful_gpu_is_refused() -> None:
    with pytest.raises(UsageProblem, match="more than one GPU is called H100"):
        find_gpu("H100")
    with pytest.raises(UsageProblem, match="not in the list"):
        find_gpu("Brand New 9000")


def test_stated_rates_win_over_the_table() -> None:
    found = of("Llama-3.1-8B", gpu_name="H100 SXM 80GB", hbm_bytes_per_s=1e12, gpu_memory_bytes=80 * GIB)
    assert (found.bandwidth_bytes_per_s, found.gpu_model) == (1e12, "H100 SXM 80GB")


def test_nothing_given_is_nothing_known() -> None:
    found = calculate({}, Load(1, 1, 1))
    assert found.kv_bytes_per_token is None
    assert found.kv_reason == "the shape of the model is not stated"
    assert found.pool_bytes is None
