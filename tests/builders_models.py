"""Well-known models: the fields of their config.json that decide their size, written by hand."""

from dataclasses import dataclass, field
from typing import Any

Config = dict[str, Any]

_LLAMA: Config = {"model_type": "llama", "torch_dtype": "bfloat16", "tie_word_embeddings": False}


def _llama(
    layers: int, hidden: int, heads: int, kv_heads: int, width: int, vocab: int, **more: Any
) -> Config:
    shape = {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": width,
        "vocab_size": vocab,
    }
    return {**_LLAMA, **shape, **more}


@dataclass(frozen=True)
class KnownModel:
    """A published model.

    Attributes:
        name: name on the model hub.
        config: fields of its config.json.
        kv_bytes_per_token: growth of the 16-bit KV cache per token while no window is full, by hand.
        parameters: published number of parameters.
        active_parameters: published number that a token uses, ``None`` for dense models.
        tolerance: relative difference allowed for the parameters (figures published with two digits).
        sequence_bytes: 16-bit KV and state of one sequence at some context lengths, by hand.
    """

    name: str
    config: Config
    kv_bytes_per_token: int
    parameters: float
    active_parameters: float | None = None
    tolerance: float = 0.005
    sequence_bytes: dict[int, int] = field(default_factory=dict)


_DEEPSEEK_MLA: Config = {
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "q_lora_rank": 1536,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
_GPT_OSS: Config = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 2880,
    "vocab_size": 201_088,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
    "quantization_config": {
        "quant_method": "mxfp4",
        "modules_to_not_convert": [
            "model.layers.*.self_attn",
            "model.layers.*.mlp.router",
            "model.embed_tokens",
            "lm_head",
        ],
    },
}

KNOWN_MODELS: tuple[KnownModel, ...] = (
    KnownModel(
        "Llama-2-7B",
        _llama(32, 4096, 32, 32, 11_008, 32_000, torch_dtype="float16"),
        2 * 32 * 32 * 128 * 2,
        6_738_415_616,
        tolerance=0,
        sequence_bytes={4096: 2 * 2**30},
    ),
    KnownModel(
        "Llama-2-13B",
        _llama(40, 5120, 40, 40, 13_824, 32_000, torch_dtype="float16"),
        2 * 40 * 40 * 128 * 2,
        13_015_864_320,
        tolerance=0,
    ),
    KnownModel(
        "Llama-2-70B",
        _llama(80, 8192, 64, 8, 28_672, 32_000, torch_dtype="float16"),
        2 * 80 * 8 * 128 * 2,
        68_976_648_192,
        tolerance=0,
    ),
    KnownModel(
        "Llama-3.1-8B",
        _llama(32, 4096, 32, 8, 14_336, 128_256),
        2 * 32 * 8 * 128 * 2,
        8_030_261_248,
        tolerance=0,
        sequence_bytes={8192: 2**30},
    ),
    KnownModel(
        "Llama-3.1-70B",
        _llama(80, 8192, 64, 8, 28_672, 128_256),
        2 * 80 * 8 * 128 * 2,
        70_553_706_496,
        tolerance=0,
    ),
    KnownModel(
        "Mistral-7B-v0.1",
        _llama(32, 4096, 32, 8, 14_336, 32_000, model_type="mistral", sliding_window=4096),
        2 * 32 * 8 * 128 * 2,
        7_241_732_096,
        tolerance=0,
        sequence_bytes={4096: 512 * 2**20, 32_768: 512 * 2**20},
    ),
    KnownModel(
        "Mixtral-8x7B",
        _llama(
            32,
            4096,
            32,
            8,
            14_336,
            32_000,
            model_type="mixtral",
            sliding_window=None,
            num_local_experts=8,
            num_experts_per_tok=2,
        ),
        2 * 32 * 8 * 128 * 2,
        46_702_792_704,
        12.9e9,
        tolerance=0.005,
    ),
    KnownModel(
        "Qwen2.5-7B",
        _llama(
            28,
            3584,
            28,
            4,
            18_944,
            152_064,
            model_type="qwen2",
            use_sliding_window=False,
            sliding_window=131_072,
            max_window_layers=28,
        ),
        2 * 28 * 4 * 128 * 2,
        7_615_616_512,
    ),
    KnownModel(
        "Qwen3-30B-A3B",
        _llama(
            48,
            2048,
            32,
            4,
            6144,
            151_936,
            model_type="qwen3_moe",
            head_dim=128,
            num_experts=128,
            num_experts_per_tok=8,
            moe_intermediate_size=768,
            decoder_sparse_step=1,
            mlp_only_layers=[],
        ),
        2 * 48 * 4 * 128 * 2,
        30_532_122_624,
        3.3e9,
        tolerance=0.02,
    ),
    KnownModel(
        "Gemma-2-9B",
        {
            "model_type": "gemma2",
            "num_hidden_layers": 42,
            "hidden_size": 3584,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 256,
            "intermediate_size": 14_336,
            "vocab_size": 256_000,
            "sliding_window": 4096,
            "torch_dtype": "bfloat16",
        },
        2 * 42 * 8 * 256 * 2,
        9_241_705_984,
        sequence_bytes={8192: 2 * 8 * 256 * 2 * 21 * (8192 + 4096)},
    ),
    KnownModel(
        "Gemma-3-27B",
        {
            "model_type": "gemma3",
            "torch_dtype": "bfloat16",
            "text_config": {
                "model_type": "gemma3_text",
                "num_hidden_layers": 62,
                "hidden_size": 5376,
                "num_attention_heads": 32,
                "num_key_value_heads": 16,
                "head_dim": 128,
                "intermediate_size": 21_504,
                "vocab_size": 262_208,
                "sliding_window": 1024,
                "sliding_window_pattern": 6,
            },
        },
        2 * 62 * 16 * 128 * 2,
        27.0e9,
        tolerance=0.01,
        # Every sixth of the 62 layers is global: 10 of them.
        sequence_bytes={32_768: 2 * 16 * 128 * 2 * (10 * 32_768 + 52 * 1024)},
    ),
    KnownModel(
        "DeepSeek-V2",
        {
            **_DEEPSEEK_MLA,
            "model_type": "deepseek_v2",
            "num_hidden_layers": 60,
            "hidden_size": 5120,
            "intermediate_size": 12_288,
            "vocab_size": 102_400,
            "n_routed_experts": 160,
            "n_shared_experts": 2,
            "num_experts_per_tok": 6,
            "moe_intermediate_size": 1536,
            "first_k_dense_replace": 1,
            "moe_layer_freq": 1,
        },
        60 * (512 + 64) * 2,
        235.7e9,
        21e9,
        tolerance=0.02,
    ),
    KnownModel(
        "DeepSeek-V3",
        {
            **_DEEPSEEK_MLA,
            "model_type": "deepseek_v3",
            "num_hidden_layers": 61,
            "hidden_size": 7168,
            "intermediate_size": 18_432,
            "vocab_size": 129_280,
            "n_routed_experts": 256,
            "n_shared_experts": 1,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 2048,
            "first_k_dense_replace": 3,
            "moe_layer_freq": 1,
            "quantization_config": {
                "quant_method": "fp8",
                "fmt": "e4m3",
                "weight_block_size": [128, 128],
            },
        },
        61 * (512 + 64) * 2,
        671.0e9,
        37e9,
        tolerance=0.02,
    ),
    KnownModel(
        "Falcon-7B",
        {
            "model_type": "falcon",
            "num_hidden_layers": 32,
            "hidden_size": 4544,
            "num_attention_heads": 71,
            # The file states 71; multi-query attention has one head all the same.
            "num_kv_heads": 71,
            "multi_query": True,
            "new_decoder_architecture": False,
            "vocab_size": 65_024,
            "torch_dtype": "bfloat16",
        },
        2 * 32 * 1 * 64 * 2,
        6_921_720_704,
    ),
    KnownModel(
        "OPT-1.3B",
        {
            "model_type": "opt",
            "num_hidden_layers": 24,
            "hidden_size": 2048,
            "num_attention_heads": 32,
            "ffn_dim": 8192,
            "vocab_size": 50_272,
            "max_position_embeddings": 2048,
            "torch_dtype": "float16",
        },
        2 * 24 * 32 * 64 * 2,
        1_315_758_080,
    ),
    KnownModel(
        "gpt-oss-20b",
        {
            **_GPT_OSS,
            "num_hidden_layers": 24,
            "num_local_experts": 32,
            "layer_types": ["sliding_attention", "full_attention"] * 12,
        },
        2 * 24 * 8 * 64 * 2,
        20.9e9,
        # Published without the input embedding, which is looked up.
        3.61e9 + 201_088 * 2880,
        tolerance=0.02,
        sequence_bytes={8192: 2 * 8 * 64 * 2 * 12 * (8192 + 128)},
    ),
    KnownModel(
        "gpt-oss-120b",
        {
            **_GPT_OSS,
            "num_hidden_layers": 36,
            "num_local_experts": 128,
            "layer_types": ["sliding_attention", "full_attention"] * 18,
        },
        2 * 36 * 8 * 64 * 2,
        116.8e9,
        5.13e9 + 201_088 * 2880,
        tolerance=0.02,
    ),
    KnownModel(
        "Phi-3-mini-4k",
        _llama(32, 3072, 32, 32, 8192, 32_064, model_type="phi3", sliding_window=2047),
        2 * 32 * 32 * 96 * 2,
        3_821_079_552,
        tolerance=0,
        sequence_bytes={4096: 2 * 32 * 32 * 96 * 2 * 2047},
    ),
    KnownModel(
        "Qwen3-Next-80B-A3B",
        {
            "model_type": "qwen3_next",
            "num_hidden_layers": 48,
            "hidden_size": 2048,
            "num_attention_heads": 16,
            "num_key_value_heads": 2,
            "head_dim": 256,
            "intermediate_size": 5120,
            "vocab_size": 151_936,
            "full_attention_interval": 4,
            "linear_num_key_heads": 16,
            "linear_key_head_dim": 128,
            "linear_num_value_heads": 32,
            "linear_value_head_dim": 128,
            "linear_conv_kernel_dim": 4,
            "mamba_ssm_dtype": "float32",
            "num_experts": 512,
            "num_experts_per_tok": 10,
            "moe_intermediate_size": 512,
            "shared_expert_intermediate_size": 512,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
            "torch_dtype": "bfloat16",
            "tie_word_embeddings": False,
        },
        2 * 12 * 2 * 256 * 2,
        79_674_391_296,
        3_874_929_408,
        tolerance=0.03,
        sequence_bytes={
            1000: 1000 * 2 * 12 * 2 * 256 * 2 + 36 * (32 * 128 * 128 * 4 + (2 * 16 * 128 + 32 * 128) * 3 * 2)
        },
    ),
    KnownModel(
        "Jamba-v0.1",
        {
            "model_type": "jamba",
            "num_hidden_layers": 32,
            "hidden_size": 4096,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "intermediate_size": 14_336,
            "vocab_size": 65_536,
            "attn_layer_period": 8,
            "attn_layer_offset": 4,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "num_experts": 16,
            "num_experts_per_tok": 2,
            "mamba_d_state": 16,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
            "torch_dtype": "bfloat16",
            "tie_word_embeddings": False,
        },
        2 * 4 * 8 * 128 * 2,
        52e9,
        12e9,
        tolerance=0.03,
    ),
)
