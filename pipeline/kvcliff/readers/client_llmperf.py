"""Reader of llmperf results: requests without times (``*_individual_responses.json``), and the summary."""

from collections.abc import Mapping
from typing import Final

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.client_json import load_requests_or_report
from kvcliff.readers.client_rows import CLIENT_TABLES, ClientRequest, ClientWriter
from kvcliff.readers.client_totals import LATENCY_STATISTICS, latency_total
from kvcliff.readers.json_values import count, error_kind, nanoseconds, number
from kvcliff.units import NS_PER_S

_TOTALS: Final = (
    ("num_concurrent_requests", "max_concurrency"),
    ("results_num_requests_started", "requests"),
    ("results_num_completed_requests", "completed"),
    ("results_number_errors", "failed"),
    ("results_mean_output_throughput_token_per_s", "output_tokens_per_s"),
)
#: llmperf's inter-token latency is the end-to-end latency over the output tokens: TTFT is in it.
_LATENCIES: Final = (
    ("ttft_s", "ttft"),
    ("inter_token_latency_s", "latency_per_token"),
    ("end_to_end_latency_s", "e2el"),
)


def _sniff(source: Source) -> Sniff:
    """Return how much the head looks like a file of llmperf."""
    head = source.head
    start = head.lstrip()[:1]
    if start == b"[" and b'"number_input_tokens"' in head and b'"end_to_end_latency_s"' in head:
        return Sniff(91, "llmperf requests")
    if start == b"{" and b'"num_concurrent_requests"' in head and b'"results_ttft_s_' in head:
        return Sniff(91, "llmperf summary")
    return NO_MATCH


def _request(entry: Mapping[str, object]) -> ClientRequest | None:
    """Return one request, ``None`` for something else."""
    if "end_to_end_latency_s" not in entry and "error_code" not in entry:
        return None
    code, text = entry.get("error_code"), entry.get("error_msg")
    failed = error_kind(code if code not in (None, "", -1) else text)
    ttft_ns = nanoseconds(entry.get("ttft_s"), NS_PER_S)
    return ClientRequest(
        ttft_ns=None if failed and not ttft_ns else ttft_ns,
        latency_ns=nanoseconds(entry.get("end_to_end_latency_s"), NS_PER_S),
        prompt_tokens=count(entry.get("number_input_tokens")),
        output_tokens=count(entry.get("number_output_tokens")),
        error_kind=failed,
    )


def _load_summary(summary: Mapping[str, object], writer: ClientWriter) -> None:
    """Take the totals of a summary."""
    for key, name in _TOTALS:
        writer.total(0, name, number(summary.get(key)))
    for key, short in _LATENCIES:
        for statistic in LATENCY_STATISTICS:
            part = f"quantiles_{statistic}" if statistic.startswith("p") else statistic
            seconds = number(summary.get(f"results_{key}_{part}"))
            writer.total(0, latency_total(statistic, short), None if seconds is None else seconds * 1000)
    writer.setting("model_name", summary.get("model"))


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Read requests or the summary into the client tables."""
    del context
    return load_requests_or_report(
        source,
        sink,
        request=_request,
        skip_reason="element is no request",
        report=_load_summary,
        clock="none",
    )


READER = Reader(
    name="llmperf",
    title="llmperf requests and summary (JSON)",
    tables=CLIENT_TABLES,
    sniff=_sniff,
    load=_load,
    role="client",
    tried_on_real_files=False,
)
