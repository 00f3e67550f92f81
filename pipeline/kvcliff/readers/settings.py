"""Canonical names of settings, and the frame that carries them to ``raw_settings``."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import polars as pl

from kvcliff.readers.json_values import whole_text

SettingGroup = Literal["model", "engine", "gpu", "slo", "clock"]


@dataclass(frozen=True)
class SettingName:
    """One canonical setting.

    Attributes:
        name: canonical name, as in ``raw_settings.name``.
        unit: unit of the value, or ``None`` for text and plain numbers.
        group: what the setting describes; also its table in ``run.toml``.
        meaning: one phrase for the documentation.
    """

    name: str
    unit: str | None
    group: SettingGroup
    meaning: str


@dataclass(frozen=True)
class Setting:
    """One fact that a file states; ``line_no`` counts from 1, ``scope`` is '' for the engine as a whole."""

    line_no: int
    scope: str
    name: str
    value: str


def _named(group: SettingGroup, *rows: tuple[str, str | None, str]) -> tuple[SettingName, ...]:
    """Return the canonical settings of one group."""
    return tuple(SettingName(name, unit, group, meaning) for name, unit, meaning in rows)


SETTING_NAMES: Final[tuple[SettingName, ...]] = (
    *_named(
        "model",
        ("model_name", None, "model as the server or the client names it, folders cut off"),
        ("model_type", None, "architecture family (llama, qwen3_moe ...)"),
        ("layers", None, "transformer layers"),
        ("hidden_size", None, "width of the residual stream"),
        ("attention_heads", None, "query heads"),
        ("kv_heads", None, "key/value heads (fewer than query heads: GQA; 1: MQA)"),
        ("head_dim", None, "elements per head"),
        ("intermediate_size", None, "width of the feed-forward layer"),
        ("vocab_size", "tokens", "vocabulary"),
        ("dtype", None, "element type of weights and activations"),
        ("quantization", None, "weight quantisation method"),
        ("sliding_window", "tokens", "attention window of sliding-window layers"),
        ("sliding_window_layers", None, "layers with a windowed cache of their own; all when none is stated"),
        ("attention_layers", None, "layers with attention, when not all have it"),
        ("kv_shared_layers", None, "attention layers that read the KV cache of another layer"),
        ("mlp_layers", None, "layers with a feed-forward part, when not all have it"),
        ("full_kv_heads", None, "key/value heads of full-attention layers, when others differ"),
        ("full_head_dim", None, "elements per head of full-attention layers, when others differ"),
        ("v_head_dim", None, "elements per value head, when keys are wider or narrower"),
        ("kv_lora_rank", None, "latent width of MLA"),
        ("qk_rope_head_dim", None, "rotary width of MLA keys"),
        ("qk_nope_head_dim", None, "width of MLA keys without the rotary part"),
        ("q_lora_rank", None, "latent width of MLA queries"),
        ("state_layers", None, "layers that keep a state of constant size (Mamba, linear attention)"),
        ("state_heads", None, "heads of a state layer"),
        ("state_head_dim", None, "elements per head of a state layer"),
        ("state_width", None, "states kept per element of a head"),
        ("conv_channels", None, "channels of the short convolution of a state layer"),
        ("conv_kernel", None, "length of that convolution"),
        ("state_dtype", None, "element type of the states, when not the model's"),
        ("num_experts", None, "experts of a mixture layer"),
        ("experts_per_token", None, "experts used per token"),
        ("moe_layers", None, "layers with experts; all when only experts are stated"),
        ("expert_intermediate_size", None, "feed-forward width of one expert"),
        ("shared_expert_intermediate_size", None, "feed-forward width of the experts that every token uses"),
        ("weight_bits", None, "bits of a quantised weight"),
        ("quant_group_size", None, "quantised weights that share a scale"),
        ("quant_scale_bits", None, "bits of that scale and zero point"),
        ("quantized_part", None, "linear: all matrices but embeddings are quantised; experts: experts alone"),
        ("tie_word_embeddings", None, "whether input and output embeddings are one matrix"),
        ("max_position_embeddings", "tokens", "longest position the model knows"),
        ("weight_bytes", "bytes", "memory of the weights on one replica"),
    ),
    *_named(
        "engine",
        ("engine", None, "vllm, sglang, tensorrt_llm ..."),
        ("engine_version", None, "version of the engine"),
        ("engine_generation", None, "V0 or V1 of vLLM"),
        ("device_type", None, "cpu when the engine runs on no GPU"),
        ("block_size", "tokens", "tokens per KV block"),
        ("num_gpu_blocks", "blocks", "KV blocks in HBM"),
        ("num_cpu_blocks", "blocks", "KV blocks in host memory"),
        ("kv_cache_tokens", "tokens", "tokens that the KV cache holds"),
        ("kv_cache_bytes", "bytes", "memory of the KV cache in HBM"),
        ("host_kv_bytes", "bytes", "memory of a host KV tier"),
        ("swap_space_bytes", "bytes", "host memory kept for swapped KV blocks"),
        ("kv_bytes_per_token", "bytes", "memory of one token in the KV cache"),
        ("kv_cache_dtype", None, "element type of the KV cache; auto means the model's"),
        ("gpu_memory_utilization", "ratio", "share of HBM that the engine may take"),
        ("mem_fraction_static", "ratio", "share of HBM for weights and KV cache (SGLang)"),
        ("kv_memory_fraction", "ratio", "share of the free HBM for the KV cache (TensorRT-LLM)"),
        ("free_gpu_memory_bytes", "bytes", "HBM left unused after start-up"),
        ("enable_prefix_caching", None, "whether shared prefixes are reused"),
        ("enable_chunked_prefill", None, "whether prefill is cut into chunks"),
        ("kv_offloading_backend", None, "how KV blocks go to a host tier"),
        ("max_num_seqs", None, "most requests in one step"),
        ("max_num_batched_tokens", "tokens", "most tokens in one step"),
        ("max_model_len", "tokens", "longest request"),
        ("preemption_mode", None, "recompute or swap"),
        ("scheduling_policy", None, "order of the waiting queue"),
        ("tensor_parallel_size", None, "ranks that share each layer"),
        ("pipeline_parallel_size", None, "ranks that share the layer stack"),
        ("data_parallel_size", None, "replicas of the model in one engine"),
        ("expert_parallel_size", None, "ranks that share the experts; as tensor parallel when not stated"),
        ("num_speculative_tokens", "tokens", "draft tokens per step"),
        ("enforce_eager", None, "whether CUDA graphs are switched off"),
        ("cuda_graph_mode", None, "which steps run as CUDA graphs"),
        ("attention_backend", None, "attention kernels in use"),
        ("kv_connector", None, "connector to a KV tier outside the engine"),
        ("activation_memory_bytes", "bytes", "peak memory of activations while profiling"),
        ("peak_torch_memory_bytes", "bytes", "peak memory of the framework while profiling"),
        ("non_torch_memory_bytes", "bytes", "memory taken outside the framework"),
        ("total_gpu_memory_bytes", "bytes", "memory of one GPU as the engine sees it"),
    ),
    *_named(
        "gpu",
        ("gpu_name", None, "product name"),
        ("gpu_count", None, "GPUs of the run"),
        ("gpu_memory_bytes", "bytes", "HBM of one GPU"),
        ("hbm_bytes_per_s", "bytes_per_s", "peak HBM bandwidth"),
        ("peak_flops_per_s", "flops_per_s", "peak dense FLOPs in the model's element type"),
        ("pcie_bytes_per_s", "bytes_per_s", "host link, one direction"),
        ("host_memory_bytes_per_s", "bytes_per_s", "host memory bandwidth"),
        ("nvlink_bytes_per_s", "bytes_per_s", "NVLink, one direction"),
        ("sm_count", None, "streaming multiprocessors"),
        ("l2_bytes", "bytes", "L2 cache"),
        ("driver_version", None, "GPU driver"),
    ),
    *_named(
        "slo",
        ("slo_ttft_ms", "ms", "promised time to first token"),
        ("slo_itl_ms", "ms", "promised time between tokens"),
    ),
    *_named(
        "clock",
        ("series_clock", None, "clock of a metric series: unix, local (zone unknown), relative or none"),
        ("device_clock", None, "clock of GPU telemetry: unix, local (zone unknown), relative or none"),
        ("client_clock", None, "clock of a load client: unix, monotonic or none"),
        ("log_stamp_year_known", None, "whether the stamps of a log have a year"),
        ("log_stamp_zone_known", None, "whether the zone of a log's stamps is known"),
        ("log_stamp_resolution_ns", "ns", "smallest step between two stamps of a log"),
    ),
)
_UNITS: Final = {setting.name: setting.unit for setting in SETTING_NAMES}


def settings_frame(settings: Iterable[Setting]) -> pl.DataFrame:
    """Return the rows for ``raw_settings``; the unit comes from the registry, the first of equal keys stays.

    Raises:
        KeyError: a name is not canonical (a bug of the reader).
    """
    first: dict[tuple[int, str, str], Setting] = {}
    for setting in settings:
        first.setdefault((setting.line_no, setting.scope, setting.name), setting)
    rows = list(first.values())
    return pl.DataFrame(
        {
            "line_no": pl.Series([row.line_no for row in rows], dtype=pl.Int64),
            "scope": pl.Series([whole_text(row.scope) for row in rows], dtype=pl.String),
            "name": pl.Series([row.name for row in rows], dtype=pl.String),
            "value": pl.Series([whole_text(row.value) for row in rows], dtype=pl.String),
            "unit": pl.Series([_UNITS[row.name] for row in rows], dtype=pl.String),
        }
    )


def without_folders(name: str) -> str:
    """Return a model name with the folders of a file path cut off; hub names (``org/model``) stay."""
    is_path = name.startswith(("/", "./", "../", "~")) or "\\" in name or name.count("/") > 1
    return name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1] if is_path else name
