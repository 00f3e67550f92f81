"""Reader of ``trtllm-bench`` files: requests (``--request_json``) and the report (``--report_json``)."""

from collections.abc import Mapping
from typing import Final

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.client_json import load_requests_or_report
from kvcliff.readers.client_rows import CLIENT_TABLES, ClientRequest, ClientWriter
from kvcliff.readers.client_totals import LATENCY_STATISTICS, latency_total
from kvcliff.readers.json_values import count, error_kind, label, members_of, nanoseconds, number

_TOTALS: Final = (
    ("request_info", "num_requests", "requests", 1.0),
    ("request_info", "avg_num_concurrent_requests", "mean_concurrency", 1.0),
    ("request_info", "avg_input_length", "mean_prompt_tokens", 1.0),
    ("request_info", "avg_output_length", "mean_output_tokens", 1.0),
    ("performance", "total_latency_ms", "duration_s", 1e-3),
    ("performance", "avg_request_latency_ms", "mean_e2el_ms", 1.0),
    ("performance", "request_throughput_req_s", "request_throughput_per_s", 1.0),
    ("performance", "system_output_throughput_tok_s", "output_tokens_per_s", 1.0),
    ("performance", "system_total_throughput_tok_s", "total_tokens_per_s", 1.0),
    ("streaming_metrics", "avg_ttft_ms", "mean_ttft_ms", 1.0),
    ("streaming_metrics", "avg_tpot_ms", "mean_tpot_ms", 1.0),
)
_PERCENTILES: Final = (
    ("performance", "request_latency_percentiles_ms", "e2el"),
    ("streaming_metrics", "ttft_percentiles", "ttft"),
    ("streaming_metrics", "tpot_percentiles", "tpot"),
)
_SETTINGS: Final = (
    ("engine", "model", "model_name"),
    ("engine", "version", "engine_version"),
    ("engine", "dtype", "dtype"),
    ("engine", "kv_cache_dtype", "kv_cache_dtype"),
    ("engine", "quantization", "quantization"),
    ("world_info", "tp_size", "tensor_parallel_size"),
    ("world_info", "pp_size", "pipeline_parallel_size"),
    ("world_info", "max_batch_size", "max_num_seqs"),
    ("world_info", "max_num_tokens", "max_num_batched_tokens"),
    ("world_info", "scheduling_policy", "scheduling_policy"),
    ("machine", "name", "gpu_name"),
)


def _sniff(source: Source) -> Sniff:
    """Return how much the head looks like a file of trtllm-bench."""
    head = source.head
    start = head.lstrip()[:1]
    if start == b"[" and b'"num_input_tokens"' in head and b'"first_token_timestamp"' in head:
        return Sniff(92, "trtllm-bench requests")
    if start == b"{" and b'"world_info"' in head and b'"request_throughput_req_s"' in head:
        return Sniff(92, "trtllm-bench report")
    return NO_MATCH


def _request(entry: Mapping[str, object]) -> ClientRequest | None:
    """Return one request, ``None`` when it has no start; ``-1`` stands for a time that never came."""
    start_ns = nanoseconds(entry.get("start_timestamp"), 1)
    if start_ns is None:
        return None
    request_no = count(entry.get("id"))
    return ClientRequest(
        request_id=label(entry.get("id")) or (None if request_no is None else str(request_no)),
        submit_ns=start_ns,
        ttft_ns=nanoseconds(entry.get("time_to_first_token"), 1),
        first_token_ns=nanoseconds(entry.get("first_token_timestamp"), 1),
        done_ns=nanoseconds(entry.get("end_timestamp"), 1),
        prompt_tokens=count(entry.get("num_input_tokens")),
        output_tokens=count(entry.get("output_tokens")),
        error_kind=error_kind(entry.get("error")),
    )


def _load_report(report: Mapping[str, object], writer: ClientWriter) -> None:
    """Take totals and settings of a report."""
    for part, key, name, factor in _TOTALS:
        value = number(members_of(report.get(part)).get(key))
        writer.total(0, name, None if value is None else value * factor)
    for part, key, short in _PERCENTILES:
        values = members_of(members_of(report.get(part)).get(key))
        for statistic in LATENCY_STATISTICS:
            writer.total(0, latency_total(statistic, short), number(values.get(statistic)))
    for part, key, name in _SETTINGS:
        writer.setting(name, members_of(report.get(part)).get(key))
    writer.setting("engine", "tensorrt_llm")


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Read requests or the report into the client tables."""
    del context
    return load_requests_or_report(
        source,
        sink,
        request=_request,
        skip_reason="request has no start time",
        report=_load_report,
        clock="monotonic",
    )


READER = Reader(
    name="trtllm_bench",
    title="trtllm-bench requests and report (JSON)",
    tables=CLIENT_TABLES,
    sniff=_sniff,
    load=_load,
    role="client",
    tried_on_real_files=False,
)
