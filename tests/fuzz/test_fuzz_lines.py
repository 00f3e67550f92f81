"""Hostile variants of every kind of line that vLLM and its web server write: nothing breaks, nothing is lost.

The other producers have the same in their own tests (``tests/readers/test_lines_*.py``).
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders_lines import check_hostile, hostile
from kvcliff.readers.lines import GRAMMARS

_GRAMMARS = {grammar.name: grammar for grammar in GRAMMARS}
_V1 = "(APIServer pid=41) INFO 11-30 17:29:05 [loggers.py:310] "
_THROUGHPUT = (
    "Avg prompt throughput: 10.5 tokens/s, Avg generation throughput: 7.1 tokens/s, Running: 3 reqs, "
)
_WARNING = "WARNING 11-30 17:29:05 [scheduler.py:12] "
#: Kind of line and an example of it.
VLLM_LINES = {
    "stats_v0": "INFO 11-30 17:29:05 metrics.py:345] "
    + _THROUGHPUT
    + "Swapped: 1 reqs, Pending: 3 reqs, GPU KV cache usage: 91.3%, CPU KV cache usage: 3.0%.",
    "stats_v1": _V1
    + "Engine 001: "
    + _THROUGHPUT
    + "Waiting: 3 reqs, Preemptions: 3, GPU KV cache usage: 91.3%, Prefix cache hit rate: 33.0%, "
    "External prefix cache hit rate: 10.3%",
    "stats_newest": _V1
    + "4 Engines Aggregated: "
    + _THROUGHPUT
    + "Waiting: 3 reqs, Deferred: 1 reqs, KV fetch: 1 waiting to start, 3 in progress, 0 completed waiting, "
    "XPU KV cache usage: 91.3%",
    "prefix_hit_v0": "INFO 11-30 17:29:05 metrics.py:361] Prefix cache hit rate: GPU: 13.00%, CPU: 0.00%",
    "iteration": _V1
    + "Engine 000: Iteration(310): 1 context requests, 130 context tokens, 3 generation requests, "
    "3 generation tokens, iteration elapsed time: 10.31 ms (dummy), GPU KV cache usage: 13.0%",
    "preemption_v0": _WARNING
    + "Sequence group cmpl-1-0 is preempted by PreemptionMode.SWAP mode because there is not enough KV cache "
    "space. This can affect the end-to-end performance. total_num_cumulative_preemption=301",
    "request": _V1 + "Received request cmpl-1: params: SamplingParams(n=1, max_tokens=130), lora: no",
    "added": _V1 + "Added request cmpl-103.",
    "aborted": _V1 + "Request cmpl-103 aborted.",
    "offload": _WARNING + "Request cmpl-103: cannot store 30 blocks",
    "transfer": _V1
    + "KV Transfer metrics: Num successful transfers=13, Avg xfer time (ms)=9.5, Avg MB per transfer=70.0",
    "transfer_store": _V1 + "KV Transfer metrics: put_count=3, put_avg_ms=2.0, put_total_bytes=409",
    "jit": _WARNING
    + "Triton kernel JIT compilation during inference: kernel_103. This causes a latency spike;",
    "stall": _V1 + "No available shared memory broadcast block found in 103 second(s).",
    "oom": "ERROR 11-30 17:29:05 [core.py:12] torch.OutOfMemoryError: CUDA out of memory. Tried 1.30 GiB",
    "crash": "ERROR 11-30 17:29:05 [dump.py:12] Dumping scheduler stats: SchedulerStats(num_running_reqs=3, "
    "num_waiting_reqs=10, kv_cache_usage=0.931)",
    "kv_size": _V1
    + "GPU KV cache size: 1,587,648 tokens, Maximum concurrency for 2,048 tokens per request: 775.30x",
    "blocks": "INFO 11-30 17:29:05 executor.py:12] # cuda blocks: 5103, # CPU blocks: 1300",
    "capture": _V1 + "Graph capturing finished in 13 secs, took 0.31 GiB",
    "config": "INFO 11-30 17:29:05 [core.py:12] Initializing a V1 LLM engine (v0.13.0) with config: "
    "model='m', dtype=torch.bfloat16, max_seq_len=1300, tensor_parallel_size=1, kv_cache_dtype=auto, seed=0",
    "arguments": _V1 + "non-default args: {'model': 'm', 'max_num_seqs': 130, 'block_size': 16}",
    "json": '{"asctime": "2030-11-30 17:29:05,131", "levelname": "INFO", "name": "vllm", '
    '"processName": "APIServer", '
    '"process": 13, "message": "Engine 000: ' + _THROUGHPUT + 'Waiting: 3 reqs, GPU KV cache usage: 13.1%"}',
    "docker": "2030-11-30T17:29:05.130013Z " + _V1 + "Engine 000: " + _THROUGHPUT + "Waiting: 3 reqs",
    "cri": "2030-11-30T17:29:05.13+01:00 stdout P " + _V1 + "Engine 000: " + _THROUGHPUT + "Waiting: 3 reqs",
    "journald": "Nov 30 17:29:05 host vllm[13]: " + _V1 + "Engine 000: " + _THROUGHPUT + "Waiting: 3 reqs",
    "compose": "vllm-1  | " + _V1 + "Engine 000: " + _THROUGHPUT + "Waiting: 3 reqs",
}
UVICORN_LINES = {
    "access": 'INFO:     10.0.3.1:3010 - "POST /v1/completions HTTP/1.1" 200 OK',
    "ready": "INFO:     Application startup complete.",
}
KINDS = [
    *(("vllm", kind, line) for kind, line in VLLM_LINES.items()),
    *(("uvicorn", kind, line) for kind, line in UVICORN_LINES.items()),
]


@settings(max_examples=200, deadline=None)
@given(hostile(tuple(VLLM_LINES.values())))
def test_hostile_lines_of_vllm(line: bytes) -> None:
    check_hostile(_GRAMMARS["vllm"], line)


@settings(max_examples=200, deadline=None)
@given(hostile(tuple(UVICORN_LINES.values())))
def test_hostile_lines_of_uvicorn(line: bytes) -> None:
    check_hostile(_GRAMMARS["uvicorn"], line)


@pytest.mark.fuzz
@pytest.mark.parametrize(
    ("producer", "line"), [(p, line) for p, _, line in KINDS], ids=[k for _, k, _ in KINDS]
)
@settings(max_examples=5000, deadline=None)
@given(data=st.data())
def test_many_hostile_lines(producer: str, line: str, data: st.DataObject) -> None:
    check_hostile(_GRAMMARS[producer], data.draw(hostile((line,))))
