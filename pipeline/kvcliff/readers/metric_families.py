"""Which metric families are read, what kind they are, and which device counters come with them."""

from dataclasses import dataclass
from typing import Final, Literal

MetricKind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True)
class MetricFamily:
    """One family of the allow-list; ``kind`` is used when the exposition has no TYPE line."""

    name: str
    kind: MetricKind


def _families(prefix: str, kind: MetricKind, names: str) -> tuple[MetricFamily, ...]:
    """Return one family per blank-separated name."""
    return tuple(MetricFamily(prefix + name, kind) for name in names.split())


# Names of several versions stand side by side (gpu_cache_usage_perc and kv_cache_usage_perc, say):
# which of them a diagnosis takes is the models' choice, never the reader's.
_VLLM: Final = (
    *_families(
        "vllm:",
        "gauge",
        """
        num_requests_running num_requests_waiting num_requests_swapped num_requests_waiting_by_reason
        num_requests_kv_fetch_by_stage gpu_cache_usage_perc cpu_cache_usage_perc kv_cache_usage_perc
        gpu_prefix_cache_hit_rate cpu_prefix_cache_hit_rate
        avg_prompt_throughput_toks_per_s avg_generation_throughput_toks_per_s engine_sleep_state
        kv_offload_cpu_cache_usage_perc kv_offload_cpu_cache_read_usage_perc
        kv_offload_cpu_cache_write_usage_perc simple_kv_offload_used_blocks
        simple_kv_offload_pending_store_blocks
        spec_decode_draft_acceptance_rate spec_decode_efficiency
        """,
    ),
    *_families(
        "vllm:",
        "counter",
        """
        num_preemptions_total prompt_tokens_total generation_tokens_total tokens_total
        prompt_tokens_by_source_total prompt_tokens_cached_total prompt_tokens_cached_by_source_total
        prompt_tokens_recomputed_total request_success_total admission_rejections_total
        corrupted_requests_total gpu_prefix_cache_queries_total gpu_prefix_cache_hits_total
        prefix_cache_queries_total prefix_cache_hits_total external_prefix_cache_queries_total
        external_prefix_cache_hits_total
        kv_offload_total_bytes_total kv_offload_total_time_total kv_offload_load_bytes_total
        kv_offload_load_time_total kv_offload_store_bytes_total kv_offload_store_time_total
        kv_offload_stores_skipped_total kv_offload_allocation_failure_total
        kv_offload_tiering_read_bytes_total kv_offload_tiering_read_time_total
        kv_offload_tiering_write_bytes_total kv_offload_tiering_write_time_total
        kv_offload_tiering_chunk_hits_total kv_offload_tiering_chunk_queries_total
        simple_kv_offload_load_blocks_total simple_kv_offload_save_outcomes_total
        nixl_num_failed_transfers_total nixl_num_kv_expired_reqs_total
        mooncake_store_operation_total mooncake_store_operation_bytes_total
        mooncake_store_operation_keys_total mooncake_store_operation_failed_keys_total
        mooncake_num_failed_transfers_total mooncake_num_kv_expired_reqs_total
        spec_decode_num_drafts_total spec_decode_num_draft_tokens_total
        spec_decode_num_accepted_tokens_total spec_decode_num_emitted_tokens_total
        estimated_flops_per_gpu_total estimated_read_bytes_per_gpu_total estimated_write_bytes_per_gpu_total
        """,
    ),
    *_families(
        "vllm:",
        "histogram",
        """
        time_to_first_token_seconds time_per_output_token_seconds inter_token_latency_seconds
        request_time_per_output_token_seconds e2e_request_latency_seconds request_queue_time_seconds
        request_prefill_time_seconds request_decode_time_seconds request_inference_time_seconds
        time_in_queue_requests model_forward_time_milliseconds model_execute_time_milliseconds
        iteration_tokens_total request_prompt_tokens request_generation_tokens
        request_max_num_generation_tokens request_params_max_tokens
        request_prefill_kv_computed_tokens request_num_preemptions
        kv_block_lifetime_seconds kv_block_idle_before_evict_seconds kv_block_reuse_gap_seconds
        kv_offload_size kv_offload_load_size kv_offload_store_size
        kv_offload_lookup_sync_delay_seconds kv_offload_lookup_async_delay_seconds
        kv_offload_tiering_promotion_latency nixl_xfer_time_seconds nixl_bytes_transferred
        mooncake_store_operation_time_seconds mooncake_xfer_time_seconds mooncake_bytes_transferred
        """,
    ),
)
_SGLANG: Final = (
    *_families(
        "sglang:",
        "gauge",
        """
        token_usage full_token_usage swa_token_usage mamba_usage utilization num_used_tokens
        kv_available_tokens kv_evictable_tokens kv_used_tokens max_total_num_tokens new_token_ratio
        pending_prealloc_token_usage total_retracted_reqs num_retracted_reqs num_running_reqs
        num_queue_reqs num_grammar_queue_reqs num_paused_reqs num_prefill_prealloc_queue_reqs
        num_prefill_bootstrap_queue_reqs num_prefill_inflight_queue_reqs num_prefill_infight_queue_reqs
        num_decode_prealloc_queue_reqs num_decode_transfer_queue_reqs gen_throughput cache_hit_rate
        is_cuda_graph fwd_occupancy spec_accept_length spec_accept_rate
        hicache_host_used_tokens hicache_host_total_tokens page_size context_len decode_sum_seq_lens
        kv_transfer_speed_gb_s kv_transfer_latency_ms
        """,
    ),
    *_families(
        "sglang:",
        "counter",
        """
        num_retracted_requests_total num_retracted_input_tokens_total num_retracted_output_tokens_total
        evicted_tokens_total num_aborted_requests num_aborted_requests_total num_requests_total
        prompt_tokens_total generation_tokens_total cached_tokens_total realtime_tokens_total
        prefill_effective_tokens_total cuda_graph_passes_total forward_execution_seconds_total
        gpu_execution_seconds_total scheduler_stage_seconds_total scheduler_process_cpu_seconds_total
        scheduler_idle_seconds_total backuped_tokens_total prefetched_tokens_total load_back_tokens_total
        load_back_bytes_total hicache_backup_bytes_total hicache_backup_tokens_total
        hicache_dropped_tokens_total hicache_backup_dropped_tokens_total
        estimated_flops_per_gpu_total estimated_read_bytes_per_gpu_total estimated_write_bytes_per_gpu_total
        """,
    ),
    *_families(
        "sglang:",
        "histogram",
        """
        time_to_first_token_seconds inter_token_latency_seconds time_per_output_token_seconds
        request_time_per_output_token_seconds e2e_request_latency_seconds queue_time_s queue_time_seconds
        per_stage_req_latency_seconds num_retractions eviction_duration_seconds
        load_back_duration_seconds hicache_backup_duration_seconds
        prompt_tokens_histogram generation_tokens_histogram uncached_prompt_tokens_histogram
        """,
    ),
)
_TENSORRT_LLM: Final = (
    *_families(
        "trtllm_",
        "gauge",
        """
        kv_cache_utilization kv_cache_host_utilization kv_cache_hit_rate kv_cache_max_blocks
        kv_cache_free_blocks kv_cache_used_blocks kv_cache_tokens_per_block num_requests_running
        num_requests_waiting num_context_requests num_generation_requests num_paused_requests
        num_scheduled_requests iteration_latency_seconds max_num_active_requests
        """,
    ),
    *_families("trtllm_", "counter", "kv_cache_onboard_bytes_total kv_cache_offload_bytes_total"),
    *_families(
        "trtllm_",
        "histogram",
        """
        e2e_request_latency_seconds time_to_first_token_seconds time_per_output_token_seconds
        request_queue_time_seconds request_prefill_time_seconds request_decode_time_seconds
        request_inference_time_seconds
        """,
    ),
    *_families(
        "nv_trt_llm_",
        "gauge",
        "request_metrics kv_cache_block_metrics inflight_batcher_metrics general_metrics",
    ),
)
_OTHER_ENGINES: Final = (
    *_families(
        "tgi_",
        "gauge",
        "queue_size batch_current_size batch_current_max_tokens batch_max_total_tokens",
    ),
    *_families("tgi_", "counter", "request_count request_success request_failure"),
    *_families("lmdeploy:", "gauge", "num_requests_running num_requests_waiting gpu_cache_usage_perc"),
    *_families("lmdeploy:", "counter", "prompt_tokens_total generation_tokens_total"),
    *_families(
        "lmdeploy:",
        "histogram",
        """
        time_to_first_token_seconds time_per_output_token_seconds e2e_request_latency_seconds
        request_queue_time_seconds request_prefill_time_seconds request_decode_time_seconds
        request_inference_time_seconds
        """,
    ),
    *_families("llamacpp:", "gauge", "kv_cache_usage_ratio requests_processing requests_deferred"),
    *_families("llamacpp:", "counter", "prompt_tokens_total tokens_predicted_total n_decode_total"),
)
_TIERS: Final = (
    *_families(
        "lmcache:",
        "counter",
        """
        num_retrieve_requests_total num_store_requests_total num_lookup_requests_total
        num_requested_tokens_total num_hit_tokens_total num_stored_tokens_total num_prompt_tokens_total
        num_vllm_hit_tokens_total num_remote_read_requests_total num_remote_read_bytes_total
        num_remote_write_requests_total num_remote_write_bytes_total local_cpu_evict_count_total
        local_cpu_evict_keys_count_total local_cpu_evict_failed_count_total
        """,
    ),
    *_families(
        "lmcache:",
        "gauge",
        """
        retrieve_hit_rate lookup_hit_rate local_cache_usage remote_cache_usage local_storage_usage
        """,
    ),
    *_families("lmcache:", "histogram", "time_to_retrieve time_to_store time_to_lookup"),
    *_families("master_", "gauge", "allocated_bytes total_capacity_bytes key_count"),
    *_families(
        "master_",
        "counter",
        """
        put_start_alloc_failures_total successful_evictions_total attempted_evictions_total
        evicted_size_bytes
        """,
    ),
)
#: Every family that enters ``raw_metric_series``; anything else on a metrics page is passed over.
METRIC_FAMILIES: Final[tuple[MetricFamily, ...]] = (
    *_VLLM,
    *_SGLANG,
    *_TENSORRT_LLM,
    *_OTHER_ENGINES,
    *_TIERS,
    MetricFamily("process_start_time_seconds", "gauge"),
)
_KINDS: Final = {family.name: family.kind for family in METRIC_FAMILIES}
_HISTOGRAM_PARTS: Final = ("_bucket", "_count", "_sum")
#: Exporters that allow no colon (Ray) write these instead.
_COLONLESS: Final = (
    ("ray_vllm_", "vllm:"),
    ("ray_vllm:", "vllm:"),
    ("vllm_", "vllm:"),
    ("sglang_", "sglang:"),
    ("lmcache_", "lmcache:"),
    ("llamacpp_", "llamacpp:"),
)


def canonical_name(exposed: str) -> str:
    """Return the engine's own spelling of an exposed metric name (``ray_vllm_x`` is ``vllm:x``)."""
    for prefix, engine in _COLONLESS:
        if exposed.startswith(prefix):
            return engine + exposed.removeprefix(prefix)
    return exposed


def known_kind(name: str) -> MetricKind | None:
    """Return the kind of a series name of the allow-list, or ``None`` when it is not on it.

    Histogram parts (``_bucket``, ``_count``, ``_sum``) belong to their family; ``_created`` never does.
    """
    kind = _KINDS.get(name)
    if kind is not None and kind != "histogram":
        return kind
    family = next((name.removesuffix(part) for part in _HISTOGRAM_PARTS if name.endswith(part)), "")
    return "histogram" if _KINDS.get(family) == "histogram" else None


@dataclass(frozen=True)
class DeviceCounter:
    """A device counter under a foreign name: canonical name, and what to multiply the value with.

    ``is_ratio_or_pct`` marks a name that one DCGM version gave to a percentage and the next to a ratio.
    """

    foreign: str
    counter: str
    factor: float = 1.0
    is_ratio_or_pct: bool = False


_MIB: Final = float(1 << 20)
#: DCGM field names, the ones before and after the renaming of DCGM 4.6. Ratios become per cent.
#: GPU_UTIL_RATIO is an integer percentage in DCGM 4.6 (field 203) and a ratio since 4.7 (field 1613).
DCGM_COUNTERS: Final[tuple[DeviceCounter, ...]] = (
    DeviceCounter("DCGM_FI_DEV_GPU_UTIL", "gpu_busy_pct"),
    DeviceCounter("DCGM_FI_DEV_GPU_UTIL_RATIO", "gpu_busy_pct", 100.0, is_ratio_or_pct=True),
    DeviceCounter("DCGM_FI_DEV_MEM_COPY_UTIL", "mem_busy_pct"),
    DeviceCounter("DCGM_FI_DEV_MEM_COPY_UTIL_RATIO", "mem_busy_pct", 100.0, is_ratio_or_pct=True),
    DeviceCounter("DCGM_FI_DEV_FB_USED", "memory_used_bytes", _MIB),
    DeviceCounter("DCGM_FI_DEV_FB_FREE", "memory_free_bytes", _MIB),
    DeviceCounter("DCGM_FI_DEV_FB_RESERVED", "memory_reserved_bytes", _MIB),
    DeviceCounter("DCGM_FI_DEV_SM_CLOCK", "sm_clock_mhz"),
    DeviceCounter("DCGM_FI_DEV_MEM_CLOCK", "mem_clock_mhz"),
    DeviceCounter("DCGM_FI_DEV_POWER_USAGE", "power_w"),
    DeviceCounter("DCGM_FI_DEV_BOARD_POWER_WATTS", "power_w"),
    DeviceCounter("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", "energy_total_j"),
    DeviceCounter("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "energy_total_j", 1e-3),
    DeviceCounter("DCGM_FI_DEV_GPU_TEMP", "temperature_c"),
    DeviceCounter("DCGM_FI_DEV_GPU_TEMP_CELSIUS", "temperature_c"),
    DeviceCounter("DCGM_FI_DEV_MEMORY_TEMP", "memory_temperature_c"),
    DeviceCounter("DCGM_FI_DEV_XID_ERRORS", "xid_error_code"),
    DeviceCounter("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "graphics_active_pct", 100.0),
    DeviceCounter("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", "graphics_active_pct", 100.0),
    DeviceCounter("DCGM_FI_PROF_SM_ACTIVE", "sm_active_pct", 100.0),
    DeviceCounter("DCGM_FI_PROF_SM_UTIL_RATIO", "sm_active_pct", 100.0),
    DeviceCounter("DCGM_FI_PROF_SM_OCCUPANCY", "sm_occupancy_pct", 100.0),
    DeviceCounter("DCGM_FI_PROF_SM_OCCUPANCY_RATIO", "sm_occupancy_pct", 100.0),
    DeviceCounter("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "tensor_active_pct", 100.0),
    DeviceCounter("DCGM_FI_PROF_TENSOR_UTIL_RATIO", "tensor_active_pct", 100.0),
    DeviceCounter("DCGM_FI_PROF_DRAM_ACTIVE", "dram_active_pct", 100.0),
    DeviceCounter("DCGM_FI_PROF_DRAM_UTIL_RATIO", "dram_active_pct", 100.0),
    DeviceCounter("DCGM_FI_PROF_PCIE_TX_BYTES", "tx_pcie_bytes_per_s"),
    DeviceCounter("DCGM_FI_PROF_PCIE_RX_BYTES", "rx_pcie_bytes_per_s"),
    DeviceCounter("DCGM_FI_PROF_NVLINK_TX_BYTES", "tx_nvlink_bytes_per_s"),
    DeviceCounter("DCGM_FI_PROF_NVLINK_RX_BYTES", "rx_nvlink_bytes_per_s"),
)
_DCGM: Final = {counter.foreign: counter for counter in DCGM_COUNTERS}
#: DCGM's blanks: no value, not found, not supported, no permission; integer and floating-point kind.
_BLANKS: Final = (140_737_488_355_328.0, 9_223_372_036_854_775_792.0)
_BLANK_WIDTH: Final = 16.0


def dcgm_counter(name: str) -> DeviceCounter | None:
    """Return the device counter behind a DCGM field name, or ``None``."""
    return _DCGM.get(name)


def is_dcgm_blank(value: float) -> bool:
    """Return whether a value is one of DCGM's placeholders for "no value"."""
    return any(blank <= value < blank + _BLANK_WIDTH for blank in _BLANKS) or value >= _BLANKS[1]
