"""Files of a simulated engine, as vLLM, SGLang and TensorRT-LLM write them, for diagnoses from end to end."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from accuracy.engine_sim import Arrival, Engine, History, Step, simulate

S = 1_000_000_000
#: 2026-03-02 10:00:00 UTC.
ORIGIN_S = 1_772_445_600
_PORT = 40001


@dataclass(frozen=True)
class Request:
    """A request as a load client keeps it: its name, its length, and when each token came."""

    name: str
    prompt_tokens: int
    max_tokens: int
    submit_ns: int
    token_ns: tuple[int, ...]


def closed_loop(
    engine: Engine,
    *,
    clients: int,
    prompt_tokens: int,
    output_tokens: int,
    end_s: float,
    until_s: float,
    ramp_s: float = 5.0,
    seed: int = 1,
) -> History:
    """Return the history of clients that send their next request when the last one is done."""
    generator = random.Random(seed)

    def sent(second: float) -> Arrival | None:
        if second > until_s:
            return None
        return Arrival(second + 0.05, prompt_tokens, round(output_tokens * generator.uniform(0.8, 1.2)))

    firsts = [sent(1.0 + ramp_s * number / clients) for number in range(clients)]
    return simulate(engine, [item for item in firsts if item], generator, end_s=end_s, follow_up=sent)


def at_ns(second: float) -> int:
    """Return the unix time of a second of the simulation."""
    return ORIGIN_S * S + round(second * S)


def requests_of(history: History, name: str = "r") -> tuple[Request, ...]:
    """Return the requests that got a token."""
    return tuple(
        Request(
            f"{name}{request.number:05d}",
            request.arrival.prompt_tokens,
            request.arrival.output_tokens,
            at_ns(request.arrival.second),
            tuple(at_ns(second) for second in request.token_seconds),
        )
        for request in history.requests
        if request.token_seconds
    )


def request_lines(requests: Iterable[Request]) -> list[str]:
    """Return requests as JSON lines with the time of each token."""
    return [
        json.dumps(
            {
                "id": request.name,
                "user": None,
                "tag": "load",
                "submit_ns": request.submit_ns,
                "prompt_tokens": request.prompt_tokens,
                "max_tokens": request.max_tokens,
                "headers_ns": request.submit_ns + 1_000_000,
                "token_ns": list(request.token_ns),
                "chunk_tokens": None,
                "done_ns": request.token_ns[-1],
                "finish_reason": "length",
                "usage": {
                    "prompt_tokens": request.prompt_tokens,
                    "completion_tokens": len(request.token_ns),
                },
                "error": None,
                "status": 200,
            }
        )
        for request in requests
    ]


def sampled(history: History, every_s: float, end_s: float) -> Iterator[tuple[float, Step]]:
    """Yield what the engine states of itself, every so many seconds: the last step that had ended."""
    index = -1
    for number in range(1, int(end_s / every_s) + 1):
        second = number * every_s
        while index + 1 < len(history.steps) and history.steps[index + 1].end_s <= second:
            index += 1
        if index >= 0:
            yield second, _settled(history.steps[index], second)


def _settled(step: Step, second: float) -> Step:
    """Return a step, or an engine at rest when it ended long ago."""
    if second - step.end_s < 1.0 or step.running:
        return step
    return replace(step, kv_used_ratio=0.0, running=0, waiting=0, swapped=0)


# ---- vLLM

_VLLM_CONFIG = (
    "Initializing a V1 LLM engine (v0.26.0) with config: model='m', dtype=torch.bfloat16, "
    "max_seq_len=4096, tensor_parallel_size=1, pipeline_parallel_size=1, kv_cache_dtype=auto, "
    "enable_prefix_caching=False"
)


def vllm_log(history: History, *, stats_s: float | None = 10.0, has_steps: bool = True) -> list[str]:
    """Return the log of a V1 engine: settings, one line a step, statistics lines."""
    engine = history.engine
    arguments = {"model": "m", "block_size": engine.block_tokens, "max_num_seqs": engine.running_limit}
    facts = (
        _VLLM_CONFIG,
        f"non-default args: {arguments}",
        f"GPU KV cache size: {engine.block_count * engine.block_tokens:,} tokens",
    )
    lines = [(0.0, fact) for fact in facts]
    if has_steps:
        lines += [(step.end_s, _iteration(number, step)) for number, step in enumerate(history.steps)]
    if stats_s is not None:
        lines += list(_vllm_stats(history, stats_s))
    return [_vllm_head(second, message) for second, message in sorted(lines, key=lambda line: line[0])]


def _vllm_head(second: float, message: str) -> str:
    stamp = datetime.fromtimestamp(ORIGIN_S + int(second), UTC)
    return f"(APIServer pid=7) INFO {stamp:%m-%d %H:%M:%S} [loggers.py:259] {message}"


def _iteration(number: int, step: Step) -> str:
    elapsed_ms = (step.end_s - step.start_s) * 1e3
    return (
        f"Engine 000: Iteration({number}): {step.context_requests} context requests, "
        f"{step.context_tokens} context tokens, {step.generation_requests} generation requests, "
        f"{step.generation_tokens} generation tokens, "
        f"iteration elapsed time: {elapsed_ms:.2f} ms, GPU KV cache usage: {step.kv_used_ratio:.1%}"
    )


def _vllm_stats(history: History, every_s: float) -> Iterator[tuple[float, str]]:
    prompted = generated = 0
    for second, step in sampled(history, every_s, history.steps[-1].end_s):
        rates = ((step.prompted - prompted) / every_s, (step.generated - generated) / every_s)
        message = (
            f"Engine 000: Avg prompt throughput: {rates[0]:.1f} tokens/s, "
            f"Avg generation throughput: {rates[1]:.1f} tokens/s, "
            f"Running: {step.running} reqs, Waiting: {step.waiting} reqs, "
            f"GPU KV cache usage: {step.kv_used_ratio:.1%}, Prefix cache hit rate: 0.0%"
        )
        yield second, message
        prompted, generated = step.prompted, step.generated


def vllm_scrapes(
    histories: Sequence[History], every_s: float, *, end_s: float, has_counter: bool = True
) -> list[str]:
    """Return scrapes of V1 engines behind one address, each a block of text with its time ahead."""
    series = [dict(sampled(history, every_s, end_s)) for history in histories]
    seconds = sorted({second for one in series for second in one})
    return [_vllm_scrape(second, [one.get(second) for one in series], has_counter) for second in seconds]


_VLLM_SERIES: tuple[tuple[str, str, Callable[[Step], float]], ...] = (
    ("kv_cache_usage_perc", "gauge", lambda step: round(step.kv_used_ratio, 4)),
    ("num_requests_running", "gauge", lambda step: step.running),
    ("num_requests_waiting", "gauge", lambda step: step.waiting),
    ("num_preemptions_total", "counter", lambda step: step.preemptions),
    ("request_success_total", "counter", lambda step: step.finished),
    ("prompt_tokens_total", "counter", lambda step: step.prompted),
    ("generation_tokens_total", "counter", lambda step: step.generated),
)


def _vllm_scrape(second: float, steps: Sequence[Step | None], has_counter: bool) -> str:
    start_ns = at_ns(second)
    lines = [f"# scrape start_unix_ns={start_ns} end_unix_ns={start_ns + 4_000_000} status=200"]
    for name, kind, value in _VLLM_SERIES:
        if not has_counter and name == "num_preemptions_total":
            continue
        lines.append(f"# TYPE vllm:{name} {kind}")
        lines += [
            f'vllm:{name}{{engine="{number}",model_name="m"}} {float(value(step))}'
            for number, step in enumerate(steps)
            if step is not None
        ]
    return "\n".join(lines) + "\n"


# ---- SGLang


def sglang_log(history: History, *, every_steps: int = 40) -> list[str]:
    """Return the log of an engine that retracts: a line a prefill, every so many steps, and a retraction."""
    lines = [
        *_sglang_facts(history.engine),
        *_sglang_retractions(history),
        *_sglang_batches(history, every_steps),
    ]
    return [
        f"[{datetime.fromtimestamp(ORIGIN_S + int(second), UTC):%Y-%m-%d %H:%M:%S}] {message}"
        for second, message in sorted(lines, key=lambda line: line[0])
    ]


def _sglang_facts(engine: Engine) -> Iterator[tuple[float, str]]:
    tokens, limit = engine.block_count * engine.block_tokens, engine.running_limit
    yield 0.0, f"server_args=ServerArgs(model_path='m', tp_size=1, dp_size=1, max_running_requests={limit})"
    size = f"#tokens: {tokens}, K size: 1.00 GB, V size: 1.00 GB"
    yield 0.0, f"KV Cache is allocated. dtype: torch.bfloat16, {size}"
    budget = "chunked_prefill_size=2048, max_prefill_tokens=16384"
    limits = f"max_running_requests={limit}, context_len=4096, available_gpu_mem=1.00 GB"
    yield 0.0, f"max_total_num_tokens={tokens}, {budget}, {limits}"


def _sglang_retractions(history: History) -> Iterator[tuple[float, str]]:
    retracted = Counter(event.second for event in history.preemptions)
    for number, (second, count) in enumerate(retracted.items()):
        gained = f"#retracted_reqs: {count}, #new_tokens_gained: {64 * count}"
        ratio = f"#new_token_ratio: 0.0980 -> {0.1 + number / 1e4:.4f}"
        yield second, f"KV cache pool is full. Retract requests. {gained}, {ratio}"


def _sglang_batches(history: History, every_steps: int) -> Iterator[tuple[float, str]]:
    tokens = history.engine.block_count * history.engine.block_tokens
    decodes = since = 0
    since_s = 0.0
    for step in history.steps:
        usage = f"token usage: {step.kv_used_ratio:.2f}"
        if step.context_requests:
            new = f"#new-seq: {step.context_requests}, #new-token: {step.context_tokens}, #cached-token: 0"
            load = f"#running-req: {step.running - step.context_requests}, #queue-req: {step.waiting}"
            yield step.end_s, f"Prefill batch, {new}, {usage}, {load}, input throughput (token/s): 900.00, "
            continue
        decodes += 1
        if decodes % every_steps == 0:
            pace = (step.generated - since) / (step.end_s - since_s)
            held = f"#running-req: {step.running}, #token: {round(step.kv_used_ratio * tokens)}"
            rate = f"cuda graph: True, gen throughput (token/s): {pace:.2f}, #queue-req: {step.waiting}"
            yield step.end_s, f"Decode batch, {held}, {usage}, {rate}"
            since, since_s = step.generated, step.end_s


# ---- TensorRT-LLM


def trtllm_iterations(history: History) -> list[str]:
    """Return the statistics of each iteration of an engine that pauses requests, as JSON lines."""
    return [
        json.dumps(_trtllm_iteration(history, number, step)) for number, step in enumerate(history.steps, 1)
    ]


def _trtllm_iteration(history: History, number: int, step: Step) -> dict[str, object]:
    engine = history.engine
    stamp = datetime.fromtimestamp(ORIGIN_S + step.end_s, UTC)
    elapsed_ms = round((step.end_s - step.start_s) * 1e3, 3)
    used = round(step.kv_used_ratio * engine.block_count)
    return {
        "timestamp": f"{stamp:%m-%d-%Y %H:%M:%S.%f}",
        "iter": number,
        "iterLatencyMS": elapsed_ms,
        "hostStepTimeMS": elapsed_ms,
        "numActiveRequests": step.running + step.waiting,
        "numQueuedRequests": step.waiting,
        "maxNumActiveRequests": engine.running_limit,
        "kvCacheStats": {
            "maxNumBlocks": engine.block_count,
            "freeNumBlocks": engine.block_count - used,
            "usedNumBlocks": used,
            "tokensPerBlock": engine.block_tokens,
        },
        "inflightBatchingStats": {
            "numScheduledRequests": step.running,
            "numContextRequests": step.context_requests,
            "numGenRequests": step.generation_requests,
            "numPausedRequests": sum(
                step.start_s <= event.second < step.end_s for event in history.preemptions
            ),
            "numCtxTokens": step.context_tokens,
        },
    }


# ---- vLLM V0

_V0_CONFIG = (
    "Initializing an LLM engine (v0.5.4) with config: model='m', dtype=torch.float16, max_seq_len=4096"
)
_V0_WARNING = (
    "Sequence group r{number:05d} is preempted by PreemptionMode.SWAP mode because there is not enough KV "
    "cache space. This can affect the end-to-end performance. Increase gpu_memory_utilization or "
    "tensor_parallel_size to provide more KV cache memory. total_num_cumulative_preemption={total}"
)


def vllm_v0_log(history: History, *, stats_s: float = 5.0) -> list[str]:
    """Return the log of a V0 engine that swaps: statistics lines and every 50th warning."""
    blocks = history.engine.block_count
    lines = [
        (0.0, "INFO", _V0_CONFIG),
        (0.0, "INFO", f"# GPU blocks: {blocks}, # CPU blocks: {blocks}"),
        *((second, "INFO", message) for second, message in _v0_stats(history, stats_s)),
        *(
            (event.second, "WARNING", _V0_WARNING.format(number=event.request_no, total=total))
            for total, event in enumerate(history.preemptions, 1)
            if total % 50 == 1
        ),
    ]
    stamped = (
        (datetime.fromtimestamp(ORIGIN_S + int(second), UTC), level, message)
        for second, level, message in sorted(lines, key=lambda line: line[0])
    )
    return [f"{level} {stamp:%m-%d %H:%M:%S} metrics.py:229] {message}" for stamp, level, message in stamped]


def _v0_stats(history: History, every_s: float) -> Iterator[tuple[float, str]]:
    prompted = generated = 0
    for second, step in sampled(history, every_s, history.steps[-1].end_s):
        rates = ((step.prompted - prompted) / every_s, (step.generated - generated) / every_s)
        host = min(8 * step.swapped / history.engine.block_count, 1.0)
        message = (
            f"Avg prompt throughput: {rates[0]:.1f} tokens/s, "
            f"Avg generation throughput: {rates[1]:.1f} tokens/s, Running: {step.running} reqs, "
            f"Swapped: {step.swapped} reqs, Pending: {step.waiting} reqs, "
            f"GPU KV cache usage: {step.kv_used_ratio:.1%}, CPU KV cache usage: {host:.1%}."
        )
        yield second, message
        prompted, generated = step.prompted, step.generated


def write(folder: Path, name: str, lines: Iterable[str]) -> Path:
    """Return a file of lines that was written."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("".join(line if line.endswith("\n") else f"{line}\n" for line in lines))
    return path
