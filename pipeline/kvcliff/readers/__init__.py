"""All readers, and the choice of one for a source."""

from typing import Final

from kvcliff.readers import (
    aiperf_gpu_telemetry,
    aiperf_server_metrics,
    client_aiperf,
    client_aiperf_csv,
    client_bench_table,
    client_genai_perf,
    client_guidellm,
    client_guidellm_csv,
    client_inference_perf,
    client_k6,
    client_kvcliff,
    client_llmperf,
    client_locust,
    client_sglang_bench,
    client_trtllm_bench,
    client_vllm_bench,
    device_metrics,
    grafana_csv,
    kineto,
    log,
    model_config,
    nsight_compute_csv,
    nsight_compute_report,
    nsight_systems,
    nsight_systems_sums,
    prometheus,
    prometheus_api,
    request_traces,
    series_csv,
    tensorrt_llm_stats,
)
from kvcliff.readers.base import NO_MATCH, Reader, Sniff, Source

#: Asked in this order; the surest wins, the first of equals.
READERS: Final[tuple[Reader, ...]] = (
    nsight_systems.READER,
    nsight_systems_sums.READER,
    nsight_compute_report.READER,
    nsight_compute_csv.READER,
    kineto.READER,
    prometheus.READER,
    prometheus_api.READER,
    prometheus_api.EXPORT_READER,
    aiperf_server_metrics.READER,
    aiperf_gpu_telemetry.READER,
    client_kvcliff.READER,
    client_vllm_bench.READER,
    client_aiperf.READER,
    client_aiperf_csv.READER,
    client_guidellm.READER,
    client_guidellm_csv.READER,
    client_genai_perf.READER,
    client_inference_perf.READER,
    client_sglang_bench.READER,
    client_trtllm_bench.READER,
    client_llmperf.READER,
    client_locust.READER,
    client_k6.READER,
    client_bench_table.READER,
    series_csv.READER,
    grafana_csv.READER,
    device_metrics.READER,
    model_config.READER,
    request_traces.READER,
    tensorrt_llm_stats.READER,
    log.READER,
)


def pick_reader(source: Source) -> tuple[Reader | None, Sniff]:
    """Return the reader that is surest of ``source`` and its reason; ``None`` when none knows it.

    Raises:
        InputError: the source cannot be opened.
    """
    best: tuple[Reader | None, Sniff] = (None, NO_MATCH)
    for reader in READERS:
        sniff = reader.sniff(source)
        if sniff.score > best[1].score:
            best = (reader, sniff)
    return best
