"""Builders of small results in each load client's layout, and SQL over what a reader wrote.

All tell one story: a request of three chunks (250 ms, then gaps of 20 and 500 ms), and one that failed. Texts
that must never enter a table hold the words ``private`` and ``secret``.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import pytest

from builders_metrics import CORPUS, NO_CORPUS, TableSink, read, source_of
from kvcliff.readers import pick_reader
from kvcliff.readers.base import LoadReport, Reader, Source

MS = 1_000_000
S = 1_000_000_000
UNIX = 1_896_134_400
START_NS = UNIX * S
PERF_S = 51234.5
CLIENTS = CORPUS / "load_clients"
TABLES = ("raw_client_summary", "raw_client_requests", "raw_client_tokens", "raw_settings")
needs_corpus = pytest.mark.skipif(not CLIENTS.is_dir(), reason=NO_CORPUS)


def aiperf_record(number: int = 0, **changes: object) -> dict[str, object]:
    """Return one record of profile_export.jsonl."""
    start = START_NS + number * S
    record: dict[str, object] = {
        "metadata": {
            "x_request_id": f"req-{number}",
            "request_start_ns": start,
            "request_end_ns": start + 771 * MS,
            "benchmark_phase": "profiling",
            "was_cancelled": False,
        },
        "metrics": {
            "time_to_first_token": {"value": 250.0, "unit": "ms"},
            "inter_chunk_latency": {"value": [20.0, 500.0], "unit": "ms"},
            "request_latency": {"value": 0.77, "unit": "s"},
            "input_sequence_length": {"value": 64, "unit": "tokens"},
            "output_sequence_length": {"value": 5, "unit": "tokens"},
            "usage_prompt_tokens": {"value": 70, "unit": "tokens"},
            "usage_completion_tokens": {"value": 3, "unit": "tokens"},
        },
        "error": None,
    }
    record.update(changes)
    return record


def aiperf_raw(number: int = 0) -> dict[str, object]:
    """Return one record of profile_export_raw.jsonl; the first event brings no text."""
    chunk = '{"choices":[{"delta":{"content":"private"}}]}'
    details = '"prompt_tokens_details":{"cached_tokens":16}'
    usage = f'{{"choices":[],"usage":{{"prompt_tokens":70,"completion_tokens":3,{details}}}}}'
    events = [
        (100, '{"choices":[{"delta":{"role":"assistant","content":""}}]}'),
        (250, chunk),
        (270, chunk),
        (770, chunk),
        (770, usage),
        (771, "[DONE]"),
    ]
    metadata = aiperf_record(number)["metadata"]
    perf = 1_534_449_666_099
    return {
        "metadata": metadata,
        "start_perf_ns": perf,
        "request_headers": {"Authorization": "secret"},
        "status": 200,
        "responses": [
            {"perf_ns": perf + at * MS, "packets": [{"name": "data", "value": text}]} for at, text in events
        ],
        "payload": {"messages": [{"role": "user", "content": "private"}], "max_completion_tokens": 32},
    }


def aiperf_summary() -> dict[str, object]:
    """Return a profile_export_aiperf.json."""
    return {
        "schema_version": "1.4",
        "aiperf_version": "0.13.0",
        "request_throughput": {"unit": "requests/sec", "avg": 2.5},
        "request_count": {"unit": "requests", "avg": 5.0},
        "time_to_first_token": {"unit": "ms", "avg": 250.0, "p50": 240.0, "p99": 300.0},
        "request_latency": {"unit": "s", "avg": 0.77},
        "input_config": {
            "models": {"items": [{"name": "/home/secret/acme/llm-8b"}]},
            "endpoint": {"urls": ["http://secret"]},
            "phases": [{"kind": "warmup", "concurrency": 1}, {"kind": "profiling", "concurrency": 4}],
        },
        "run_info": {"cli_command": "aiperf secret"},
    }


def guidellm_request(number: int = 0, **changes: object) -> dict[str, object]:
    """Return one request of the newer GuideLLM family."""
    start = UNIX + number
    request: dict[str, object] = {
        "request_id": f"req-{number}",
        "request_args": "private",
        "output": "private",
        "info": {
            "status": "completed",
            "error": None,
            "timings": {
                "request_start": start,
                "first_token_iteration": start + 0.25,
                "last_token_iteration": start + 0.75,
                "request_end": start + 0.875,
            },
        },
        "prompt_tokens": 500,
        "output_tokens": 3,
        "request_latency": 0.875,
        "time_to_first_token_ms": 250.0,
    }
    request.update(changes)
    return request


def guidellm(*benchmarks: dict[str, object]) -> dict[str, object]:
    """Return a GuideLLM report."""
    return {
        "metadata": {"version": 2, "guidellm_version": "0.8.1"},
        "config": {"spec": {"backend": {"api_key": "secret"}}},
        "benchmarks": list(benchmarks) or [guidellm_benchmark()],
    }


def guidellm_benchmark(streams: int = 4, **changes: object) -> dict[str, object]:
    """Return one benchmark with one good request, a failed one and one that was cut off."""
    failed = guidellm_request(1)
    failed["info"] = {
        "status": "errored",
        "error": "TimeoutError: secret",
        "timings": {"request_start": UNIX + 1},
    }
    cut = guidellm_request(2, request_latency=None)
    cut["info"] = {"status": "cancelled", "error": "cancelled", "timings": {"request_start": UNIX + 2}}
    benchmark: dict[str, object] = {
        "type_": "generative_benchmark",
        "config": {
            "strategy": {"type_": "concurrent", "streams": streams},
            "backend": {"model": "acme/llm-8b"},
        },
        "scheduler_metrics": {"requests_made": {"successful": 1, "errored": 1, "incomplete": 1}},
        "metrics": {
            "time_to_first_token_ms": {
                "successful": {
                    "mean": 250.0,
                    "median": 250.0,
                    "count": 1,
                    "percentiles": {"p01": 1.0, "p99": 9.0},
                }
            },
            "request_latency": {"successful": {"mean": 0.875}},
        },
        "requests": {
            "successful": [guidellm_request()],
            "errored": [failed],
            "incomplete": [cut],
            "total": None,
        },
        "duration": 2.5,
    }
    benchmark.update(changes)
    return benchmark


def guidellm_old() -> dict[str, object]:
    """Return a report of the older family (0.2): flat times, no metadata."""
    request = {
        "type_": "generative_text_response",
        "request_id": "req-0",
        "prompt": "private",
        "output": "private",
        "prompt_tokens": 500,
        "output_tokens": 3,
        "start_time": UNIX,
        "first_token_time": UNIX + 0.25,
        "last_token_time": UNIX + 0.75,
        "end_time": UNIX + 0.875,
    }
    benchmark = {
        "type_": "generative_benchmark",
        "args": {"strategy": {"type_": "constant", "rate": 2.5}},
        "run_stats": {"requests_made": {"successful": 7, "errored": 0, "incomplete": 0}},
        "requests": {"successful": [request], "errored": [], "incomplete": []},
    }
    return {"benchmarks": [benchmark]}


def genai_perf() -> dict[str, object]:
    """Return a profile export: one request with an end mark, one without an answer."""
    chunk = 'data: {"choices":[{"delta":{"content":"private"}}]}\n\n'
    usage = 'data: {"choices":[],"usage":{"prompt_tokens":70,"completion_tokens":4}}\n\n'
    at = [START_NS + since * MS for since in (250, 270, 770, 771, 772)]
    return {
        "service_kind": "openai",
        "endpoint": "v1/chat/completions",
        "experiments": [
            {
                "experiment": {"mode": "concurrency", "value": 3},
                "requests": [
                    {
                        "timestamp": START_NS,
                        "request_inputs": {"payload": "secret"},
                        "response_timestamps": at,
                        "response_outputs": [
                            {"response": text}
                            for text in (chunk, chunk + chunk, chunk, usage, "data: [DONE]")
                        ],
                    },
                    {
                        "timestamp": START_NS + S,
                        "request_inputs": {"payload": "secret"},
                        "response_timestamps": [],
                        "response_outputs": [],
                    },
                ],
                "window_boundaries": [START_NS, START_NS + 2 * S],
            }
        ],
    }


def inference_perf_requests() -> list[dict[str, object]]:
    """Return a per_request_lifecycle_metrics.json: a good request and a failed one."""
    times = [PERF_S + since for since in (0.25, 0.27, 0.77)]
    good = {
        "start_time": PERF_S,
        "end_time": PERF_S + 0.78,
        "request": "private",
        "response": "private",
        "info": {
            "request_metrics": {"text": {"input_tokens": 500}},
            "response_metrics": {"output_tokens": 3, "server_usage": None, "output_token_times": times},
        },
        "error": None,
    }
    bad = {
        "start_time": PERF_S + 1,
        "end_time": PERF_S + 1.5,
        "request": "private",
        "info": {"request_metrics": {"text": {"input_tokens": 510}}, "response_metrics": None},
        "error": {"error_type": "TimeoutError", "error_msg": "secret"},
    }
    return [good, bad]


def inference_perf_stage(achieved: float = 2.0) -> dict[str, object]:
    """Return a stage report that planned two requests per second."""
    return {
        "load_summary": {
            "count": 60,
            "schedule_delay": {"mean": 0.5, "median": 0.25, "p99": 1.5},
            "send_duration": 30.0,
            "requested_rate": 2.0,
            "achieved_rate": achieved,
        },
        "successes": {
            "count": 59,
            "latency": {"time_to_first_token": {"mean": 0.25, "median": 0.24, "p99.9": 0.5}},
            "throughput": {"output_tokens_per_sec": 120.0},
        },
        "failures": {"count": 1},
    }


def sglang_result(**changes: object) -> dict[str, object]:
    """Return one result of bench_serving with details."""
    result: dict[str, object] = {
        "tag": "night",
        "backend": "sglang",
        "dataset_name": "random",
        "request_rate": float("inf"),
        "max_concurrency": 2,
        "duration": 2.5,
        "completed": 1,
        "total_input_tokens": 500,
        "total_output_tokens": 3,
        "mean_ttft_ms": 250.0,
        "p99_e2e_latency_ms": 770.0,
        "input_lens": [500, 510],
        "output_lens": [3, 0],
        "ttfts": [0.25, 0.0],
        "itls": [[0.02, 0.5], []],
        "generated_texts": ["private", ""],
        "errors": ["", "TimeoutError: secret"],
    }
    result.update(changes)
    return result


def trtllm_requests() -> list[dict[str, object]]:
    """Return a request file of trtllm-bench."""
    start = 51_234_500_000_000
    return [
        {
            "id": 7,
            "num_input_tokens": 500,
            "start_timestamp": start,
            "first_token_timestamp": start + 250 * MS,
            "end_timestamp": start + 770 * MS,
            "decode_iteration": 2,
            "time_to_first_token": 250 * MS,
            "intertoken_latency": 260 * MS,
            "output_tokens": 3,
        }
    ]


def trtllm_report() -> dict[str, object]:
    """Return a report of trtllm-bench."""
    return {
        "engine": {"model": "acme/llm-8b", "version": "1.2.0", "dtype": "bfloat16", "kv_cache_dtype": "FP8"},
        "world_info": {"tp_size": 2, "pp_size": 1, "max_batch_size": 256, "max_num_tokens": 8192},
        "request_info": {"num_requests": 60, "avg_num_concurrent_requests": 12.5},
        "performance": {
            "total_latency_ms": 30000.0,
            "request_throughput_req_s": 2.0,
            "request_latency_percentiles_ms": {"p50": 700.0, "p99": 900.0, "average": 710.0},
        },
        "streaming_metrics": {"avg_ttft_ms": 250.0, "ttft_percentiles": {"p99": 300.0}},
        "dataset": {"path": "/home/secret"},
    }


def llmperf_responses() -> list[dict[str, object]]:
    """Return an individual_responses.json: a good request and a failed one."""
    good = {
        "error_code": None,
        "error_msg": "",
        "inter_token_latency_s": 0.26,
        "ttft_s": 0.25,
        "end_to_end_latency_s": 0.77,
        "number_input_tokens": 500,
        "number_output_tokens": 3,
    }
    bad = {**good, "error_code": 500, "error_msg": "secret", "ttft_s": 0.0, "number_output_tokens": 0}
    return [good, bad]


def llmperf_summary() -> dict[str, object]:
    """Return a summary.json."""
    return {
        "model": "acme/llm-8b",
        "num_concurrent_requests": 8,
        "results_ttft_s_quantiles_p50": 0.25,
        "results_ttft_s_quantiles_p99": 0.5,
        "results_ttft_s_mean": 0.3,
        "results_number_errors": 1,
        "results_num_completed_requests": 59,
    }


def locust_history() -> str:
    """Return a stats_history.csv of two seconds with one endpoint."""
    header = (
        "Timestamp,User Count,Type,Name,Requests/s,Failures/s,50%,66%,99%,"
        "Total Request Count,Total Failure Count,Total Median Response Time"
    )
    rows = [
        f"{UNIX},4,POST,/v1/secret,2.0,0.0,700,750,900,2,0,700",
        f"{UNIX},4,,Aggregated,2.0,0.0,700,750,900,2,0,700",
        f"{UNIX + 1},8,,Aggregated,4.0,1.0,N/A,N/A,N/A,6,1,800",
    ]
    return "\n".join([header, *rows]) + "\n"


def k6_csv() -> str:
    """Return points of two requests, the second of which failed."""
    header = "metric_name,timestamp,metric_value,check,error,error_code,group,method,name,scenario,status,url"
    rows = [
        f"vus,{UNIX},8.000000,,,,,,,,,",
        f"http_req_duration,{UNIX},770.000000,,,,,POST,http://secret,default,200,http://secret",
        f"http_req_waiting,{UNIX},250.000000,,,,,POST,http://secret,default,200,http://secret",
        f"http_req_duration,{UNIX + 1},500.000000,,secret,1050,,POST,http://secret,default,0,http://secret",
    ]
    return "\n".join([header, *rows]) + "\n"


def k6_json() -> str:
    """Return one request as JSON lines."""
    tags = {"status": "200", "url": "http://secret"}
    point = {
        "type": "Point",
        "metric": "http_req_duration",
        "data": {"time": "2030-02-01T00:00:00.5Z", "value": 770.0, "tags": tags},
    }
    declared = {"type": "Metric", "data": {"name": "http_req_duration"}, "metric": "http_req_duration"}
    return f"{json.dumps(declared)}\n{json.dumps(point)}\n"


def lines_of(*records: object) -> str:
    """Return JSON lines."""
    return "".join(f"{json.dumps(record)}\n" for record in records)


def aiperf_summary_csv() -> str:
    """Return profile_export_aiperf.csv: two blocks about requests, one about GPUs."""
    return """Metric,avg,min,max,sum,p50,p99,std
HTTP Waiting (TTFB) (ms),67.01,43.34,91.06,2680.32,66.79,89.70,11.24
Inter Chunk Latency (ms),6.79,0.00,36.62,8421.97,6.52,20.26,4.14
Time to First Token (ms),68.03,43.61,98.05,2721.23,,96.25,12.20

Metric,Value
Benchmark Duration (sec),2.85
Request Count,40.00
Request Throughput (requests/sec),14.00


Endpoint,GPU_Index,GPU_Name,GPU_UUID,Platform,Metric,avg,min,max
localhost,0,secret,GPU-1,nvidia,GPU Power Usage (W),300.00,100.00,400.00
"""


def aiperf_gpu_record(second: int = 0, index: int = 0, **changes: object) -> dict[str, object]:
    """Return one record of gpu_telemetry_export.jsonl, with the names that AIPerf used before 0.12."""
    data = {
        "gpu_power_usage": 350.5,
        "energy_consumption": 2.5,
        "gpu_utilization": 97.0,
        "gpu_memory_used": 72.5,
        "sm_utilization": 81.25,
        "xid_errors": None,
        "jpg_utilization": 1.0,
    }
    return {
        "timestamp_ns": START_NS + second * S,
        "dcgm_url": "http://localhost:9400/metrics",
        "gpu_index": index,
        "gpu_uuid": "GPU-secret",
        "gpu_model_name": "NVIDIA H100 80GB HBM3",
        "hostname": "node1",
        "telemetry_data": data,
        **changes,
    }


def guidellm_csv(*changes: Mapping[str, str]) -> str:
    """Return benchmarks.csv: three header rows, and a row per benchmark with cells changed by metric."""
    backend = json.dumps({"kind": "openai_http", "model": "/m/acme/llm-8b", "api_key": "secret"})
    columns = (
        (("Run Info", "Run ID", ""), "r-1"),
        (("Run Info", "Backend", ""), backend),
        (("Benchmark", "Strategy", ""), "concurrent@4"),
        (("Timings", "Duration", "Sec"), "1.5"),
        (("Request Counts", "Successful", ""), "7"),
        (("Request Latency", "Successful Sec", "Mean"), "0.25"),
        (("Time to First Token", "Successful ms", "Mean"), "90.5"),
        (("Time to First Token", "Successful ms", "Median"), "73.5"),
        (("Time to First Token", "Successful ms", "Percentiles"), json.dumps([float(n) for n in range(11)])),
        (("Scheduler Metrics", "Requests Made Successful", ""), "8"),
    )
    text = io.StringIO()
    rows = [[changed.get(title[1], cell) for title, cell in columns] for changed in changes]
    csv.writer(text).writerows([*zip(*(title for title, _ in columns), strict=True), *rows])
    return text.getvalue()


def load(folder: Path, name: str, content: object) -> tuple[TableSink, LoadReport]:
    """Write a file (an object becomes JSON), let the registry pick the reader, and load it.

    No text of a prompt, an answer, a header or a command may be in any table.
    """
    text = content if isinstance(content, str) else json.dumps(content)
    return load_source(source_of(folder, name, text))


def load_source(source: Source) -> tuple[TableSink, LoadReport]:
    """Let the registry pick the reader of a source, load it and look for texts that must not be there."""
    reader = picked(source)
    sink, report = read(reader, source)
    stored = str([sink.frame(table).to_dicts() for table in sorted(sink.tables())])
    assert "private" not in stored
    assert "secret" not in stored
    return sink, report


def picked(source: Source) -> Reader:
    """Return the reader that the registry picks."""
    reader, _ = pick_reader(source)
    assert reader is not None
    return reader


def corpus_file(*parts: str) -> Source:
    """Return a file of the corpus of load clients."""
    path = CLIENTS.joinpath(*parts)
    return Source(path, path.name)


def query(sink: TableSink, sql: str) -> Sequence[object]:
    """Return the single row of a query over the raw tables (without ``source_id``)."""
    with duckdb.connect() as con:
        for table in TABLES:
            frame = sink.frame(table)
            if frame.width:
                con.register(table, frame.to_arrow())
        (row,) = con.execute(sql).fetchall()
    return row


def totals(sink: TableSink, load_no: int = 0) -> dict[str, float]:
    """Return the totals of one load."""
    rows = sink.rows("raw_client_summary", "load_no", "name", "value")
    return {name: value for number, name, value in rows if number == load_no}  # type: ignore[misc]


#: The gaps between the chunks of requests, whether times are known or only gaps.
GAPS = """
    (select
        coalesce(src_ns - lag(src_ns) over (partition by request_no order by chunk_no),
                 case when chunk_no > 0 then gap_ns end) as gap
     from raw_client_tokens qualify chunk_no > 0)
"""
GAP_FACTS = f"""
    select count(*), quantile_cont(gap, 0.5) / 1e6, count(*) filter (where gap = 0), max(gap) / 1e6
    from {GAPS}
"""
