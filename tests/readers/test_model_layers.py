"""Kinds of layers as configurations spell them."""

import pytest

from builders_models import KNOWN_MODELS
from kvcliff.readers.model_shape import model_shape

BASE = {"num_hidden_layers": 12, "hidden_size": 64, "num_attention_heads": 4}
BY_NAME = {model.name: model.config for model in KNOWN_MODELS}


def shape(**more: object) -> dict[str, str]:
    return model_shape({**BASE, **more})


@pytest.mark.parametrize(
    ("more", "window", "layers"),
    [
        pytest.param({"model_type": "mistral", "sliding_window": 4096}, "4096", "12", id="all layers"),
        pytest.param({"model_type": "gemma2", "sliding_window": 4096}, "4096", "6", id="every other"),
        pytest.param({"model_type": "gemma3_text", "sliding_window": 512}, "512", "10", id="five of six"),
        pytest.param({"sliding_window": 512, "sliding_window_pattern": 4}, "512", "9", id="stated period"),
        pytest.param({"sliding_window": 512, "sliding_window_pattern": "LLLG"}, "512", "9", id="letters"),
        pytest.param(
            {"sliding_window": 9, "layer_types": ["sliding_attention"] * 5 + ["full_attention"] * 7},
            "9",
            "5",
            id="listed",
        ),
        pytest.param(
            {"sliding_window": 9, "use_sliding_window": True, "max_window_layers": 8},
            "9",
            "4",
            id="from a layer",
        ),
        pytest.param({"attention_chunk_size": 8192}, "8192", "9", id="chunks, three of four"),
        pytest.param(
            {"attention_chunk_size": 8192, "no_rope_layers": [1] * 6 + [0] * 6},
            "8192",
            "6",
            id="chunks, listed",
        ),
        pytest.param({"sliding_window": 9, "use_sliding_window": False}, None, None, id="switched off"),
        pytest.param({"sliding_window": None}, None, None, id="none"),
    ],
)
def test_windows(more: dict[str, object], window: str | None, layers: str | None) -> None:
    found = shape(**more)
    assert (found.get("sliding_window"), found.get("sliding_window_layers")) == (window, layers)


def test_layers_that_share_the_cache_of_others() -> None:
    kinds = (["sliding_attention"] * 2 + ["full_attention"]) * 4
    found = shape(sliding_window=9, layer_types=kinds, num_kv_shared_layers=6)
    assert (found["sliding_window_layers"], found["kv_shared_layers"]) == ("4", "6")
    assert shape(use_cla=True, cla_share_factor=2)["kv_shared_layers"] == "6"
    assert "kv_shared_layers" not in shape(num_kv_shared_layers=0)


@pytest.mark.parametrize(
    ("more", "state", "attention"),
    [
        ({"layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 3}, "9", "3"),
        ({"full_attention_interval": 4}, "9", "3"),
        ({"attn_layer_period": 8, "attn_layer_offset": 4}, "11", "1"),
        ({"layers_block_type": ["mamba"] * 10 + ["attention"] * 2}, "10", "2"),
        ({"block_types": ["recurrent", "recurrent", "attention"]}, "8", "4"),
        ({"attn_type_list": [0] * 7 + [1] * 5}, "7", "5"),
        ({"hybrid_override_pattern": "M-M-M*-M-M*-"}, "5", "2"),
    ],
)
def test_layers_with_a_constant_state(more: dict[str, object], state: str, attention: str) -> None:
    found = shape(**more)
    assert (found["state_layers"], found["attention_layers"]) == (state, attention)


def test_layers_that_are_feed_forward_only() -> None:
    assert shape(hybrid_override_pattern="M-M-M*-M-M*-")["mlp_layers"] == "5"


def test_attention_and_state_side_by_side() -> None:
    found = shape(model_type="falcon_h1")
    assert found["state_layers"] == "12"
    assert "attention_layers" not in found


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param(
            {
                "linear_num_key_heads": 16,
                "linear_key_head_dim": 128,
                "linear_num_value_heads": 32,
                "linear_value_head_dim": 128,
                "linear_conv_kernel_dim": 4,
            },
            ("32", "128", "128", "8192", "4"),
            id="gated delta",
        ),
        pytest.param(
            {
                "mamba_n_heads": 128,
                "mamba_d_head": 64,
                "mamba_d_state": 256,
                "mamba_n_groups": 1,
                "mamba_d_conv": 4,
            },
            ("128", "64", "256", "8704", "4"),
            id="Mamba-2",
        ),
        pytest.param(
            {"mamba_expand": 2, "mamba_d_state": 16, "mamba_d_conv": 4},
            ("1", "128", "16", "128", "4"),
            id="Mamba",
        ),
        pytest.param({"conv_L_cache": 3}, (None, None, None, "64", "3"), id="short convolution"),
        pytest.param({}, (None, None, None, None, None), id="unknown"),
    ],
)
def test_size_of_a_state(more: dict[str, object], expected: tuple[str | None, ...]) -> None:
    found = shape(full_attention_interval=4, **more)
    names = ("state_heads", "state_head_dim", "state_width", "conv_channels", "conv_kernel")
    assert tuple(found.get(name) for name in names) == expected


def test_other_heads_in_full_layers() -> None:
    found = shape(head_dim=256, global_head_dim=512, num_key_value_heads=4, num_global_key_value_heads=1)
    assert (found["head_dim"], found["full_head_dim"]) == ("256", "512")
    assert (found["kv_heads"], found["full_kv_heads"]) == ("4", "1")
    assert "full_head_dim" not in shape(head_dim=256, global_head_dim=256)


@pytest.mark.parametrize(
    ("more", "layers"),
    [
        ({"first_k_dense_replace": 3, "moe_layer_freq": 1}, "9"),
        ({"first_k_dense_replace": 1, "moe_layer_freq": 2}, "5"),
        ({"moe_layer_freq": [0] * 2 + [1] * 10}, "10"),
        ({"decoder_sparse_step": 2, "mlp_only_layers": []}, "6"),
        ({"decoder_sparse_step": 1, "mlp_only_layers": [0, 1]}, "10"),
        ({"interleave_moe_layer_step": 2}, "6"),
        ({"moe_layers": [1, 3, 5]}, "3"),
        ({"expert_layer_period": 2, "expert_layer_offset": 1}, "6"),
        ({"decoder_sparse_step": 1}, None),
    ],
)
def test_layers_with_experts(more: dict[str, object], layers: str | None) -> None:
    assert shape(num_experts=8, **more).get("moe_layers") == layers


def test_experts_of_known_models() -> None:
    deepseek, mixtral = model_shape(BY_NAME["DeepSeek-V3"]), model_shape(BY_NAME["Mixtral-8x7B"])
    assert (deepseek["num_experts"], deepseek["experts_per_token"], deepseek["moe_layers"]) == (
        "256",
        "8",
        "58",
    )
    assert deepseek["shared_expert_intermediate_size"] == "2048"
    assert (mixtral["num_experts"], mixtral["expert_intermediate_size"]) == ("8", "14336")
    assert "moe_layers" not in mixtral
    assert "num_experts" not in shape(num_experts=1)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, ("4", "128", "20", "linear")),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, ("4", None, None, "linear")),
        ({"quant_method": "mxfp4"}, ("4", "32", "8", "experts")),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, ("8", "16384", "32", "linear")),
        ({"quant_method": "fp8"}, ("8", None, None, "linear")),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, ("8", None, None, "linear")),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, ("4", "16", "8", "linear")),
        (
            {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.self_attn"]},
            ("8", None, None, "experts"),
        ),
        ({"quant_method": "brand_new"}, (None, None, None, None)),
    ],
)
def test_quantisation(method: dict[str, object], expected: tuple[str | None, ...]) -> None:
    found = shape(quantization_config=method)
    assert found["quantization"] == method["quant_method"]
    names = ("weight_bits", "quant_group_size", "quant_scale_bits", "quantized_part")
    assert tuple(found.get(name) for name in names) == expected


@pytest.mark.parametrize(
    "odd",
    [
        {"layer_types": [1, 2]},
        {"layer_types": ["brand_new"] * 12},
        {"hybrid_override_pattern": "XYZ"},
        {"num_kv_shared_layers": 99},
        {"num_kv_shared_layers": -1},
        {"moe_layer_freq": "often"},
        {"quantization_config": "fp8"},
        {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {}}},
        {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": 3}}},
        {"quantization_config": {"quant_method": "fp8", "weight_block_size": "128"}},
        {"num_hidden_layers": 10**15},
        {"num_hidden_layers": 0},
        {"text_config": {"num_hidden_layers": None}},
    ],
)
def test_odd_values_do_no_harm(odd: dict[str, object]) -> None:
    found = shape(**odd)
    assert all(isinstance(value, str) for value in found.values())
    assert found["hidden_size"] == "64"
