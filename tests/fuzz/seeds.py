"""Small valid inputs of every format, from which the fuzzers start."""

import gzip
import json
import lzma
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import zstandard

from builders_clients import (
    aiperf_gpu_record,
    aiperf_raw,
    aiperf_record,
    aiperf_summary,
    aiperf_summary_csv,
    genai_perf,
    guidellm,
    guidellm_csv,
    guidellm_old,
    inference_perf_requests,
    inference_perf_stage,
    k6_csv,
    k6_json,
    lines_of,
    llmperf_responses,
    llmperf_summary,
    locust_history,
    sglang_result,
    trtllm_report,
    trtllm_requests,
)
from builders_kineto import KinetoFile
from builders_log import access, headed, iteration, json_record, stats, stats_v0
from builders_metrics import MATRIX_ANSWER, VICTORIA_LINE, bench_result, client_line, csv_text, scrape
from builders_ncu import details_page, kernel, raw_page, report
from builders_nsys import FA2_DECODE, GEMM, KV_WRITE, NsysFile
from builders_nsys_forms import to_arrowdir, to_arrows, to_parquetdir

_SERVER_METRICS = {
    "endpoint_url": "http://gpu7:8000/metrics",
    "timestamp_ns": 1_896_134_400_000_000_000,
    "endpoint_latency_ns": 4_000_000,
    "metrics": {
        "vllm:num_requests_running": [{"labels": {"engine": "0"}, "value": 3.0}],
        "vllm:inter_token_latency_seconds": [
            {"labels": {"engine": "0"}, "sum": 1.5, "count": 9, "buckets": {"0.01": 4, "+Inf": 9}}
        ],
        "vllm:cache_config_info": [{"labels": {"num_gpu_blocks": "1024", "block_size": "16"}, "value": 1.0}],
    },
}
_TRTLLM_STATS = {
    "timestamp": "01-18-2030 09:00:01.250000",
    "iter": 1,
    "iterLatencyMS": 21.5,
    "hostStepTimeMS": None,
    "numQueuedRequests": 3,
    "kvCacheStats": {"maxNumBlocks": 100, "freeNumBlocks": 25, "cacheHitRate": 0.125},
    "inflightBatchingStats": {
        "numScheduledRequests": 40,
        "numContextRequests": 0,
        "numGenRequests": 40,
        "numPausedRequests": 1,
        "numCtxTokens": 0,
    },
}
_BENCH_TABLE = """\
============ Serving Benchmark Result ============
Successful requests:                     16
Failed requests:                         1
Maximum request concurrency:             8
Benchmark duration (s):                  13.76
Total input tokens:                      6090
Output token throughput (tok/s):         20.28
---------------Time to First Token----------------
Mean TTFT (ms):                          236.32
==================================================
"""
_SMI = """timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W]
2030/02/01 00:00:00.123, 0, NVIDIA H100 80GB HBM3, 60 %, 70000 MiB, 400.12 W
2030/02/01 00:00:01.123, 0, NVIDIA H100 80GB HBM3, [N/A], 70000 MiB, 401.12 W
"""
_DMON = "#Date Time gpu pwr sm\n#YYYYMMDD HH:MM:SS Idx W %\n 20300201 00:00:00 0 400 60\n"
_DCGMI = "#Entity   SMACT        DRAMA\nID\nGPU 0     0.912        0.512\nGPU 0     0.912        0.512\n"
_SUMS = """Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
60.0,1200,3,400.0,400.0,300,500,81.6,"void decode<float, (int)3>(T1 *)"
40.0,800,2,400.0,400.0,400,400,0.0,gemm
"""
_SHAPE = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "rope_scaling": {"rope_type": "yarn"},
    "quantization_config": {"quant_method": "fp8"},
    "layer_types": ["full_attention", "sliding_attention"],
}
_HISTOGRAM = """# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1"} 3
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} 4
vllm:time_to_first_token_seconds_sum{engine="0"} 0.5
vllm:time_to_first_token_seconds_count{engine="0"} 4
# TYPE odd_native histogram
up{a="b\\"c\\\\d\\n"} 2 3 # {trace_id="x"} 1 2
"""
_CONFIG = """\
Initializing a V1 LLM engine (v0.10.1) with config: model='m', speculative_config=None, \
dtype=torch.bfloat16, max_seq_len=2000, kv_cache_dtype=auto, compilation_config={"level":3}"""
#: A line or two of each producer, so that every grammar is met.
_LOGS = (
    f"{headed(stats())}\n{headed(iteration(3))}\n{access()}",
    f"{headed(stats_v0())}\n{json_record(stats())}",
    f"2030-01-15T09:00:00.123456789Z stdout F {headed(stats())}",
    """\
[2030-01-16 09:00:00 TP0] Decode batch. #running-req: 24, #token: 9000, token usage: 0.42, cuda graph: True, \
gen throughput (token/s): 1200.10, #queue-req: 3
[2030-01-16 09:00:01 TP0] Prefill batch. #new-seq: 2, #new-token: 900, #cached-token: 64, token usage: 0.50, \
#running-req: 24, #queue-req: 0
[2030-01-16 09:00:02 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 1, \
#new_tokens_gained: 9""",
    """\
slot update_slots: id  0 | task 5 | n_past = 100, n_tokens = 100
prompt eval time =    1200.50 ms /  2048 tokens (    0.59 ms per token,  1705.96 tokens per second)
       eval time =    5120.00 ms /   256 tokens (   20.00 ms per token,    50.00 tokens per second)""",
    '[GIN] 2030/01/20 - 09:00:05 | 200 |        1m2.5s |       127.0.0.1 | POST     "/api/generate?x=1"',
    """\
[2030-01-22 09:00:00,170] LMCache INFO: Reqid: cmpl-1, Total tokens 900, LMCache hit tokens: 512, \
need to load: 512 (cache_engine.py:12:lmcache)""",
    """\
2030-01-21 09:00:10,125 - lmdeploy - INFO - loggers.py:40 - Avg prompt throughput: 2475.3 tokens/s, \
Avg generation throughput: 133.8 tokens/s, Running: 6 reqs, Waiting: 1 reqs, GPU KV cache usage: 15.4%, """,
    """\
I0124 09:01:10.009000 28222 rpc_service.cpp:265] Master Metrics: Mem Storage: 1.00 GB / 2.00 GB (50.0%) | \
Keys: 9 (soft-pinned: 0) | Eviction: Success/Attempts=1/2, keys=10, size=1.00 GB""",
    """\
[01/18/2030-09:00:00] [TRT-LLM] [I] iter = 5, global_rank = 0, rank = 0, currank_total_requests = 3/9, \
host_step_time = 21.5ms, prev_device_step_time = 20.5ms, timestamp = 2030-01-18 09:00:00, \
num_scheduled_requests: 4, \
states = {'num_ctx_requests': 2, 'num_ctx_tokens': 96, 'num_generation_tokens': 40}""",
    """\
2030-01-19T09:00:01.313569Z  INFO generate{total_time="4.06s" validation_time="440\u00b5s" \
queue_time="1.204s" inference_time="3.6s" time_per_token="38.98ms" \
seed="None"}: text_generation_router::server: Success""",
    f"{headed(_CONFIG)}\n{headed('Available KV cache memory: 0.49 GiB')}",
)


@dataclass(frozen=True)
class Seed:
    """A valid input: the reader that takes it, its name, and its content by file name (one for a file).

    Attributes:
        reader: name of the reader.
        name: name of the file or folder.
        files: content by name inside a folder; the empty name for a file.
    """

    reader: str
    name: str
    files: Mapping[str, bytes]

    @property
    def is_folder(self) -> bool:
        """Whether it is an export folder."""
        return "" not in self.files


@lru_cache(maxsize=1)
def all_seeds() -> tuple[Seed, ...]:
    """Return the seeds of all readers; every reader has one at least."""
    return (*_files(), *_exports())


def _files() -> Iterator[Seed]:
    for reader, name, content in _contents():
        yield Seed(reader, name, {"": content if isinstance(content, bytes) else content.encode()})


def _contents() -> Iterator[tuple[str, str, str | bytes]]:
    text = (
        scrape({'vllm:num_requests_running{engine="0"}': 1, "up": "2 3"}, "# scrape 1896134400")
        + _HISTOGRAM
        + scrape({'vllm:num_requests_running{engine="0"}': 2}, "# scrape 1896134401")
    )
    yield "prometheus", "metrics.prom", text
    yield "prometheus", "metrics.prom.gz", gzip.compress(text.encode(), mtime=0)
    yield "prometheus", "metrics.prom.xz", lzma.compress(text.encode())
    yield "prometheus", "metrics.prom.zst", zstandard.compress(text.encode())
    yield "prometheus_api", "api.jsonl", lines_of(MATRIX_ANSWER, MATRIX_ANSWER)
    yield "victoriametrics", "export.jsonl", lines_of(VICTORIA_LINE, VICTORIA_LINE)
    yield "aiperf_server_metrics", "server_metrics_export.jsonl", lines_of(_SERVER_METRICS, _SERVER_METRICS)
    yield "kvcliff_client", "requests.jsonl", client_line(0) + "\n" + client_line(1) + "\n"
    yield "vllm_bench", "result.json", json.dumps(bench_result())
    yield "aiperf", "profile_export.jsonl", lines_of(aiperf_record(), aiperf_record(1))
    yield "aiperf", "profile_export_raw.jsonl", lines_of(aiperf_raw())
    yield "aiperf", "profile_export_aiperf.json", json.dumps(aiperf_summary())
    yield "aiperf_csv", "profile_export_aiperf.csv", aiperf_summary_csv()
    telemetry = lines_of(aiperf_gpu_record(), aiperf_gpu_record(1))
    yield "aiperf_gpu_telemetry", "gpu_telemetry_export.jsonl", telemetry
    yield "guidellm_csv", "benchmarks.csv", guidellm_csv({}, {})
    yield "guidellm", "benchmarks.json", json.dumps(guidellm())
    yield "guidellm", "old.json", json.dumps(guidellm_old())
    yield "genai_perf", "profile_export.json", json.dumps(genai_perf())
    yield "inference_perf", "per_request.json", json.dumps(inference_perf_requests())
    yield "inference_perf", "stage_0.json", json.dumps(inference_perf_stage())
    yield "sglang_bench", "bench.jsonl", lines_of(sglang_result(), sglang_result())
    yield "trtllm_bench", "requests.json", json.dumps(trtllm_requests())
    yield "trtllm_bench", "report.json", json.dumps(trtllm_report())
    yield "llmperf", "individual_responses.json", json.dumps(llmperf_responses())
    yield "llmperf", "summary.json", json.dumps(llmperf_summary())
    yield "locust", "history.csv", locust_history()
    yield "k6", "k6.csv", k6_csv()
    yield "k6", "k6.json", k6_json()
    yield "bench_table", "stdout.txt", _BENCH_TABLE
    series = [(0.5, 1, 0.5), (1.5, 2, 0.6)]
    yield "series_csv", "series.csv", csv_text("time [s],num_requests_running,token_usage", series)
    yield (
        "grafana_csv",
        "panel.csv",
        "Time,vllm:kv_cache_usage_perc,running\n2030-02-01 00:00:00,87%,12\n2030-02-01 00:00:15,1.5 K,13\n",
    )
    yield "device_metrics", "smi.csv", _SMI
    yield "device_metrics", "dmon.txt", _DMON
    yield "device_metrics", "dcgmi.txt", _DCGMI
    yield "model_config", "config.json", json.dumps(_SHAPE)
    mooncake = {"timestamp": 27, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}
    yield "request_trace", "trace.jsonl", lines_of(mooncake, mooncake)
    yield (
        "request_trace",
        "azure.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n",
    )
    yield "tensorrt_llm_stats", "stats.jsonl", lines_of(_TRTLLM_STATS, _TRTLLM_STATS)
    yield "nsight_systems_sums", "kern_sum.csv", _SUMS
    section = "GPU Speed Of Light Throughput"
    details = [(0, section, "DRAM Throughput", "%", "51.5"), (0, section, "Duration", "us", "1,234.5")]
    yield "nsight_compute_csv", "details.csv", details_page(details)
    metrics = ("dram__bytes.sum", "lts__t_sectors_op_read.sum")
    yield "nsight_compute_csv", "raw.csv", raw_page(metrics, ("Mbyte", ""), [("1.5", "99"), ("2.5", "n/a")])
    counted = {"dram__bytes.sum": 1.5e6, "device__attribute_display_name": "H100", "gpu__time.sum": None}
    content = report([kernel(counted, ranges=("step",)), kernel(counted, scope="range")])
    yield "nsight_compute_report", "report.ncu-rep", content
    trace = KinetoFile()
    correlation = trace.launch("cudaLaunchKernel", "1000.001")
    trace.gpu("kernel", KV_WRITE, "1010.5", "20.25", correlation=correlation)
    trace.gpu("gpu_memcpy", "Memcpy HtoD", "1040", "2", correlation=correlation, bytes=4096)
    trace.annotation("execute_context_0(0)_generation_4(4)", "990", "100")
    yield "kineto", "trace.json", trace.text()
    for number, lines in enumerate(_LOGS):
        yield "log", f"server{number}.log", lines + "\n"


def _exports() -> Iterator[Seed]:
    """Yield an Nsight Systems export in its four forms."""
    with tempfile.TemporaryDirectory() as scratch:
        export = NsysFile()
        export.gpu()
        export.range("execute_context_0(0)_generation_4(4)", 1_000, 90_000)
        for number, name in enumerate((KV_WRITE, FA2_DECODE, GEMM)):
            export.kernel(name, 2_000 + 5_000 * number, 6_000 + 5_000 * number)
        export.copy(50_000, 60_000, 1 << 20, 1)
        export.graph(61_000, 62_000)
        path = export.write(Path(scratch) / "run.sqlite")
        yield Seed("nsight_systems", "run.sqlite", {"": path.read_bytes()})
        arrows = to_arrows(path, Path(scratch) / "run.arrows")
        yield Seed("nsight_systems", "run.arrows", {"": arrows.read_bytes()})
        for folder in (
            to_parquetdir(path, Path(scratch) / "run_pqtdir"),
            to_arrowdir(path, Path(scratch) / "run_arwdir"),
        ):
            files = {item.name: item.read_bytes() for item in sorted(folder.iterdir())}
            yield Seed("nsight_systems", folder.name, files)
