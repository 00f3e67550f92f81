"""Large serving inputs for speed measurements: an engine log, concatenated scrapes, client results."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

_START_S = 1_790_000_000
_BLOCK_LINES = 20_000
_BLOCK_SCRAPES = 50
_MODEL = "meta-llama/Llama-3.1-8B-Instruct"
_PARAMETERS = (
    "SamplingParams(n=1, presence_penalty=0.0, frequency_penalty=0.0, repetition_penalty=1.0, "
    "temperature=0.7, top_p=0.95, top_k=0, min_p=0.0, seed=None, stop=[], "
    "max_tokens=256, min_tokens=0, logprobs=None)"
)
_BOUNDS = ("0.01", "0.025", "0.05", "0.075", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "+Inf")
_HISTOGRAMS = (
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
)


def write_vllm_log(path: Path, size_bytes: int, lines_per_second: int = 100) -> int:
    """Write a vLLM log, one line in ten a statistics line, the rest access and request lines.

    Returns:
        How many lines were written.
    """
    return _write(path, _log_blocks(lines_per_second), size_bytes)


def _log_blocks(lines_per_second: int) -> Iterator[str]:
    number = 0
    while True:
        yield "".join(_log_line(number + place, lines_per_second) for place in range(_BLOCK_LINES))
        number += _BLOCK_LINES


def _log_line(number: int, lines_per_second: int) -> str:
    day, rest = divmod(number // lines_per_second, 86_400)
    hour, minute, second = rest // 3600, rest // 60 % 60, rest % 60
    stamp = f"{1 + day // 28:02d}-{1 + day % 28:02d} {hour:02d}:{minute:02d}:{second:02d}"
    head = f"(APIServer pid=41) INFO {stamp}"
    name = f"cmpl-{number // 10 * 2_654_435_761 % (1 << 64):016x}-{number % 10 % 3}"
    kind = number % 10
    if kind == 0:
        return (
            f"{head} [loggers.py:310] Engine 000: Avg prompt throughput: {number % 9000}.5 tokens/s, "
            f"Avg generation throughput: {number % 2000}.1 tokens/s, Running: {number % 64} reqs, "
            f"Waiting: {number % 7} reqs, GPU KV cache usage: {number % 100}.3%, "
            f"Prefix cache hit rate: {number % 50}.0%\n"
        )
    if kind < 4:
        return f"{head} [logger.py:63] Received request {name}: params: {_PARAMETERS}, lora_request: None.\n"
    if kind < 6:
        return f"{head} [async_llm.py:270] Added request {name}.\n"
    asked = "GET /metrics" if kind == 6 else "POST /v1/completions"
    place = f"10.0.3.{number % 250}:{30_000 + number % 20_000}"
    return f'(APIServer pid=41) INFO:     {place} - "{asked} HTTP/1.1" 200 OK\n'


def write_scrapes(path: Path, size_bytes: int, other_count: int = 300) -> int:
    """Write concatenated scrapes of a vLLM server, one a second and each behind its time.

    Args:
        path: file to write.
        size_bytes: least size.
        other_count: series of the page that no engine metric belongs to.

    Returns:
        How many lines were written.
    """
    return _write(path, _scrape_blocks(other_count), size_bytes)


def _scrape_blocks(other_count: int) -> Iterator[str]:
    second = 0
    while True:
        yield "".join(_scrape(second + place, other_count) for place in range(_BLOCK_SCRAPES))
        second += _BLOCK_SCRAPES


def _scrape(second: int, other_count: int) -> str:
    labels = f'engine="0",model_name="{_MODEL}"'
    at_ns = (_START_S + second) * 10**9
    gauges = (
        ("num_requests_running", f"{second % 64}.0"),
        ("num_requests_waiting", f"{second % 5}.0"),
        ("kv_cache_usage_perc", f"0.{second % 1000:03d}"),
        ("generation_tokens_total", f"{second * 613}.0"),
        ("num_preemptions_total", f"{second // 60}.0"),
    )
    parts = [f"# scrape start_unix_ns={at_ns} end_unix_ns={at_ns + 4_000_000} status=200\n"]
    parts += [f"# TYPE vllm:{name} gauge\nvllm:{name}{{{labels}}} {value}\n" for name, value in gauges]
    for family in _HISTOGRAMS:
        parts.append(f"# HELP vllm:{family} Histogram.\n# TYPE vllm:{family} histogram\n")
        parts += [
            f'vllm:{family}_bucket{{engine="0",le="{bound}",model_name="{_MODEL}"}} {second * place}.0\n'
            for place, bound in enumerate(_BOUNDS, start=1)
        ]
        parts.append(f"vllm:{family}_count{{{labels}}} {second * 12}.0\n")
        parts.append(f"vllm:{family}_sum{{{labels}}} {second * 0.613:.6f}\n")
    parts.append("# HELP http_request_duration_seconds Other metrics of the page.\n")
    parts += [
        f'http_request_duration_seconds_bucket{{handler="/v1/{number}",le="0.5"}} {second}.0\n'
        for number in range(other_count)
    ]
    return "".join(parts)


def write_vllm_bench(path: Path, request_count: int, token_count: int) -> None:
    """Write a detailed result of ``vllm bench serve`` with a time for every token."""
    totals = {
        "date": "20260921-141320",
        "backend": "vllm",
        "model_id": "m",
        "tokenizer_id": "m",
        "num_prompts": request_count,
        "request_rate": "inf",
        "max_concurrency": 64,
        "duration": 1000.0,
        "completed": request_count,
    }
    arrays = {
        "input_lens": [512] * request_count,
        "output_lens": [token_count] * request_count,
        "ttfts": [0.1 + number % 50 / 1000 for number in range(request_count)],
        "start_times": [5000.0 + number / 100 for number in range(request_count)],
        "errors": [""] * request_count,
    }
    _write_gaps(path, {**totals, **arrays}, request_count, token_count)


def write_sglang_bench(path: Path, request_count: int, token_count: int) -> None:
    """Write a detailed result of SGLang's ``bench_serving`` with a gap for every token."""
    totals = {
        "backend": "sglang",
        "dataset_name": "random",
        "request_rate": "inf",
        "max_concurrency": 64,
        "duration": 1000.0,
        "completed": request_count,
        "total_input_tokens": 512 * request_count,
        "total_output_tokens": token_count * request_count,
        "input_lens": [512] * request_count,
        "output_lens": [token_count] * request_count,
        "ttfts": [0.1 + number % 50 / 1000 for number in range(request_count)],
        "errors": [""] * request_count,
    }
    _write_gaps(path, totals, request_count, token_count)


def _write_gaps(path: Path, members: Mapping[str, object], request_count: int, token_count: int) -> None:
    """Write an object of the given members and the gaps of all requests behind them."""
    rows = [
        json.dumps(
            [round(0.02 + (step * 7 + row) % 97 / 1e4 + 1.23e-5, 9) for step in range(token_count - 1)]
        )
        for row in range(16)
    ]
    with path.open("w", encoding="ascii") as file:
        file.write(json.dumps(members)[:-1] + ', "itls": [')
        for number in range(request_count):
            file.write((", " if number else "") + rows[number % len(rows)])
        file.write("]}\n")


def write_kvcliff_client(path: Path, request_count: int, token_count: int) -> None:
    """Write request lines with the wall-clock time of every token in nanoseconds."""
    with path.open("w", encoding="ascii") as file:
        for number in range(request_count):
            start_ns = _START_S * 10**9 + number * 10_000_000
            times = [start_ns + 100_000_000 + 20_000_123 * step for step in range(token_count)]
            row = {
                "id": f"r{number}",
                "submit_ns": start_ns,
                "token_ns": times,
                "done_ns": times[-1],
                "usage": {"prompt_tokens": 512, "completion_tokens": token_count},
            }
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


def _write(path: Path, blocks: Iterator[str], size_bytes: int) -> int:
    written, count = 0, 0
    with path.open("w", encoding="ascii") as file:
        while written < size_bytes:
            block = next(blocks)
            file.write(block)
            written += len(block)
            count += block.count("\n")
    return count
