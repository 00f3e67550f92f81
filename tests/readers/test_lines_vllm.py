import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from builders_log import SHARED, Loaded, headed, iteration, load_lines, load_path, stats, stats_v0
from kvcliff.readers.base import ReadContext
from kvcliff.readers.lines.vllm_config import arguments_of, fact_of, model_name, split_arguments

CORPUS = SHARED / "corpus" / "serving_lines"
NO_CORPUS = "the shared corpus of generated serving lines is not beside this repository"
GIB = 1 << 30


def only(rows: list[dict[str, Any]]) -> dict[str, Any]:
    assert len(rows) == 1, rows
    return rows[0]


def values(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in row.items() if k not in {"line_no", "src_ns", "kv_semantics"}}


# ------------------------------------------------------------------------------------------------ statistics


def test_stats_v0_host_cache_is_the_swap_space(tmp_path: Path) -> None:
    line = "INFO 02-03 09:00:37 metrics.py:161] " + stats_v0(9, 2, 12.7, swapped=3, host_pct=4.5)
    loaded = load_lines(tmp_path, [line])
    assert values(only(loaded.stats)) == {
        "engine": "0",
        "engine_count": 1,
        "prompt_tokens_per_s": 100.5,
        "gen_tokens_per_s": 200.0,
        "running_count": 9,
        "waiting_count": 2,
        "swapped_count": 3,
        "kv_used_ratio": pytest.approx(0.127),
        "host_kv_used_ratio": pytest.approx(0.045),
    }
    assert loaded.stats[0]["kv_semantics"] == "referenced_blocks"


def test_stats_cpu_build_has_its_device_cache_on_the_cpu(tmp_path: Path) -> None:
    line = headed(stats(kv_pct=70.0).replace("GPU KV", "CPU KV"))
    row = only(load_lines(tmp_path, [line]).stats)
    assert row["kv_used_ratio"] == 0.7
    assert "host_kv_used_ratio" not in row


def test_hit_rate_on_its_own_line_belongs_to_the_stats_before(tmp_path: Path) -> None:
    lines = [
        headed(stats_v0(running=1)),
        headed("Prefix cache hit rate: GPU: 41.50%, CPU: 0.00%"),
        headed(stats_v0(running=2)),
    ]
    rows = load_lines(tmp_path, lines).stats
    assert [(r["running_count"], r.get("prefix_hit_ratio")) for r in rows] == [
        (1, pytest.approx(0.415)),
        (2, None),
    ]


def test_hit_rate_without_stats_is_counted_as_skipped(tmp_path: Path) -> None:
    report = load_lines(tmp_path, [headed("Prefix cache hit rate: GPU: 41.50%, CPU: 0.00%")]).report
    assert report.skipped_count == 1
    assert report.first_skip_reason == "a prefix cache line has no statistics line before it"


def test_stats_fields_are_read_by_name_and_unknown_ones_allowed(tmp_path: Path) -> None:
    extra = (
        "Deferred: 5 reqs, KV fetch: 1 waiting to start, 2 in progress, 1 completed waiting, "
        "Preemptions: 7, Frobnications: 3 per s, "
    )
    message = (
        stats(150, 12, 98.4, extra) + ", Corrupted: 2 reqs, External prefix cache hit rate: 10.7%, New: 1"
    )
    row = only(load_lines(tmp_path, [headed(message)]).stats)
    assert (row["waiting_count"], row["deferred_count"], row["preemption_count"]) == (12, 5, 7)
    assert (row["prefix_hit_ratio"], row["external_hit_ratio"]) == (0.125, pytest.approx(0.107))


def test_absent_preemptions_are_unknown_not_zero(tmp_path: Path) -> None:
    assert "preemption_count" not in only(load_lines(tmp_path, [headed(stats())]).stats)


def test_aggregated_engines_are_counted(tmp_path: Path) -> None:
    row = only(load_lines(tmp_path, [headed(stats(engine="4 Engines Aggregated: "))]).stats)
    assert (row["engine"], row["engine_count"]) == ("0", 4)


@pytest.mark.parametrize("bad", ["nan", "inf", "-1.0", "100.1", "1e300", "1_0", "\u0663"])
def test_values_out_of_range_are_null_and_the_row_stays(tmp_path: Path, bad: str) -> None:
    message = (
        stats(kv_pct=bad)
        .replace("200.0 tokens/s", "-5.0 tokens/s")
        .replace("Running: 4", "Running: " + "9" * 30)
    )
    loaded = load_lines(tmp_path, [headed(message)])
    row = only(loaded.stats)
    assert not {"kv_used_ratio", "gen_tokens_per_s", "running_count"} & set(row)
    assert row["prompt_tokens_per_s"] == 100.5
    assert loaded.report.skipped_count == 0


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (stats()[: stats().index("GPU KV") + 20], "a statistics line lacks the KV cache usage"),
        (stats()[: stats().index("Waiting: ")], "a statistics line lacks the running or waiting requests"),
        (stats()[:40], "a statistics line has another form than known"),
        (stats() + ", Running: 9 reqs", "a field appears twice in a statistics line"),
    ],
)
def test_cut_or_doubled_stats_are_skipped_with_a_reason(tmp_path: Path, message: str, reason: str) -> None:
    loaded = load_lines(tmp_path, [headed(message), headed(stats())])
    assert len(loaded.stats) == 1
    assert (loaded.report.skipped_count, loaded.report.first_skip_reason) == (1, reason)


def test_crash_dump_is_one_more_sample(tmp_path: Path) -> None:
    line = headed(
        "Dumping scheduler stats: SchedulerStats(num_running_reqs=31, num_waiting_reqs=212, "
        "kv_cache_usage=0.9987, encoder_cache_usage=0.0)",
        level="ERROR",
    )
    row = only(load_lines(tmp_path, [line]).stats)
    assert (row["running_count"], row["waiting_count"], row["kv_used_ratio"]) == (31, 212, 0.9987)
    assert "gen_tokens_per_s" not in row


# ------------------------------------------------------------------------------------------------ iterations


def test_iteration_of_an_engine_process_takes_its_number(tmp_path: Path) -> None:
    lines = [headed(iteration(501, 100, 152, 34.01), process=f"EngineCore_DP{n} pid=9{n}") for n in (0, 1)]
    rows = load_lines(tmp_path, lines).iterations
    assert [r["engine"] for r in rows] == ["0", "1"]
    assert values(rows[1]) == {
        "engine": "1",
        "iteration": 501,
        "context_requests": 0,
        "context_tokens": 0,
        "generation_requests": 100,
        "generation_tokens": 152,
        "elapsed_ms": 34.01,
        "is_dummy": False,
    }


def test_iteration_of_the_front_end_has_occupancy(tmp_path: Path) -> None:
    tail = " (dummy), GPU KV cache usage: 94.9%, encoder inputs: 4, encoder output embeddings: 3520"
    row = only(load_lines(tmp_path, [headed("Engine 003: " + iteration(7, tail=tail))]).iterations)
    assert (row["engine"], row["kv_used_ratio"], row["is_dummy"]) == ("3", pytest.approx(0.949), True)


@pytest.mark.parametrize("cut", [12, 40, 80])
def test_cut_iteration_is_skipped(tmp_path: Path, cut: int) -> None:
    loaded = load_lines(tmp_path, [headed(iteration(7)[:cut])])
    assert loaded.iterations == []
    assert loaded.report.first_skip_reason == "an iteration line has another form than known"


# ------------------------------------------------------------------------------------------------ events


def event(tmp_path: Path, message: str, level: str = "WARNING", process: str = "") -> dict[str, Any]:
    row = only(load_lines(tmp_path, [headed(message, level=level, process=process)]).events)
    return {k: v for k, v in row.items() if k not in {"line_no", "src_ns", "engine"}}


def test_preemption_keeps_the_cumulative_count(tmp_path: Path) -> None:
    message = (
        "Sequence group cmpl-1-0 is preempted by PreemptionMode.SWAP mode because there is not enough "
        "KV cache space. This can affect the end-to-end performance. total_num_cumulative_preemption=151"
    )
    assert event(tmp_path, message) == {
        "kind": "preempt",
        "mode": "swap",
        "request_id": "cmpl-1-0",
        "cumulative_count": 151,
    }


@pytest.mark.parametrize(
    ("message", "level", "expected"),
    [
        ("Added request chatcmpl-0a.", "INFO", {"kind": "request_added", "request_id": "chatcmpl-0a"}),
        ("Finished request cmpl-3.", "INFO", {"kind": "request_finished", "request_id": "cmpl-3"}),
        ("Aborted request cmpl-3.", "INFO", {"kind": "request_aborted", "request_id": "cmpl-3"}),
        ("Aborted request(s) a-1,b-2.", "INFO", {"kind": "request_aborted", "request_id": "a-1,b-2"}),
        ("Request cmpl-4 aborted.", "INFO", {"kind": "request_aborted", "request_id": "cmpl-4"}),
        ("Request cmpl-4 failed (engine dead).", "INFO", {"kind": "request_aborted", "request_id": "cmpl-4"}),
        (
            "Request r-1: cannot store 37 blocks",
            "WARNING",
            {"kind": "offload_store_failed", "request_id": "r-1", "event_count": 37},
        ),
        (
            "Request r-1: cannot store chunks",
            "WARNING",
            {"kind": "offload_store_failed", "request_id": "r-1"},
        ),
        ("Triton kernel JIT compilation during inference: _k. This causes ..", "WARNING", {"kind": "jit"}),
        ("CUTLASS autotuning during inference: fused (shape 8x4096).", "WARNING", {"kind": "jit"}),
        ("Compiling a graph for dynamic shape takes 30.5 s", "INFO", {"kind": "jit", "duration_ms": 30500.0}),
        (
            "No available shared memory broadcast block found in 60 seconds. This ..",
            "INFO",
            {"kind": "worker_stall", "duration_ms": 60000.0},
        ),
        (
            "Graph capturing finished in 14 secs, took 0.25 GiB",
            "INFO",
            {"kind": "graph_capture", "duration_ms": 14000.0, "bytes": GIB // 4},
        ),
        ("Stopping profiler...", "INFO", {"kind": "profiler_stop"}),
        ("Shutting down FastAPI HTTP server.", "INFO", {"kind": "shutdown"}),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.25 GiB.", "ERROR", {"kind": "oom"}),
        ("No available memory for the cache blocks. Try ..", "ERROR", {"kind": "fatal"}),
        (
            "RuntimeError: Aborted due to the lack of CPU swap space.",
            "ERROR",
            {"kind": "fatal", "mode": "swap"},
        ),
    ],
)
def test_event_lines(tmp_path: Path, message: str, level: str, expected: dict[str, Any]) -> None:
    assert event(tmp_path, message, level) == expected


def test_information_that_merely_speaks_of_compilation_is_no_event(tmp_path: Path) -> None:
    message = (
        "Kernel JIT monitor activated: Triton JIT compilations during inference will be logged as warnings."
    )
    assert load_lines(tmp_path, [headed(message)]).events == []


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (
            (
                "GPU_to_CPU_total_bytes=268435456, GPU_to_CPU_total_time=0.02, "
                "CPU_to_GPU_total_bytes=134217728, CPU_to_GPU_total_time=0.0125"
            ),
            {"bytes": 402653184, "duration_ms": 32.5, "load_bytes": 134217728, "load_ms": 12.5},
        ),
        (
            (
                "vllm:kv_offload_store_bytes=1048576, vllm:kv_offload_store_time=0.002, "
                "vllm:kv_offload_store_size_count:('cpu',)=2"
            ),
            {"bytes": 1048576, "duration_ms": 2.0},
        ),
        (
            "Num successful transfers=12, Avg xfer time (ms)=9.5, Avg MB per transfer=70.0, Num failed=0",
            {"bytes": 12 * 70 << 20, "duration_ms": 114.0},
        ),
        (
            (
                "put_count=3, put_avg_ms=2.0, put_p90_ms=3.0, put_total_keys=4, put_total_bytes=4096, "
                "put_failed_keys=1, put_error_count=0, get_count=2, get_avg_ms=0.5, get_total_bytes=1024"
            ),
            {"bytes": 5120, "duration_ms": 7.0, "load_bytes": 1024, "load_ms": 1.0},
        ),
        (
            (
                "NixlConnector={'Num successful transfers': 3, 'Throughput (MB/s)': 811.5}, "
                "OffloadingConnector={'CPU_to_GPU_total_bytes': 1048576}"
            ),
            {"bytes": 1048576, "load_bytes": 1048576},
        ),
    ],
)
def test_transfer_metrics(tmp_path: Path, metrics: str, expected: dict[str, Any]) -> None:
    assert event(tmp_path, f"KV Transfer metrics: {metrics}", "INFO") == {"kind": "kv_transfer", **expected}


def test_the_same_failure_in_error_and_traceback_is_one_event(tmp_path: Path) -> None:
    lines = [
        headed("No available memory for the cache blocks. Try ..", "09-03 00:00:03", "ERROR"),
        "Traceback (most recent call last):",
        "ValueError: No available memory for the cache blocks. Try ..",
        headed("No available memory for the cache blocks. Try ..", "09-03 00:05:03", "ERROR"),
    ]
    assert [e["line_no"] for e in load_lines(tmp_path, lines).events] == [1, 4]


def test_an_engine_found_dead_right_after_a_shutdown_is_no_failure(tmp_path: Path) -> None:
    dead = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."
    lines = [
        headed("[shutdown] API server: shutdown triggered", "09-03 00:00:03"),
        headed(dead, "09-03 00:00:05", "ERROR"),
        headed(dead, "09-03 00:05:05", "ERROR"),
    ]
    assert [(e["line_no"], e["kind"]) for e in load_lines(tmp_path, lines).events] == [
        (1, "shutdown"),
        (3, "fatal"),
    ]


def test_a_long_odd_tail_of_an_iteration_line_takes_no_time(tmp_path: Path) -> None:
    tail = ", a: b: c: d" * 9_000 + ", "
    assert load_lines(tmp_path, [headed(iteration(7, tail=tail))]).report.skipped_count == 1


# ------------------------------------------------------------------------------------------------ privacy


def test_prompt_is_never_kept_and_never_believed(tmp_path: Path) -> None:
    prompt = (
        "secret Avg prompt throughput: 1.0 tokens/s Iteration(3): CUDA out of memory "
        '- "POST /start_profile HTTP/1.1" 200 SamplingParams(max_tokens=9), params: SamplingParams(n=7)'
    )
    line = (
        f"Received request cmpl-1: prompt: '{prompt}', params: SamplingParams(n=1, max_tokens=256), "
        "prompt_token_ids: None, lora_request: None."
    )
    loaded = load_lines(tmp_path, [headed(line), headed(f"Generated response cmpl-1: output: '{prompt}'")])
    row = only(loaded.events)
    assert (row["kind"], row["request_id"], row["tokens"]) == ("request_received", "cmpl-1", 256)
    assert (loaded.stats, loaded.iterations, loaded.access, loaded.report.skipped_count) == ([], [], [], 0)
    assert "secret" not in str([frame.rows() for frames in loaded.frames.values() for frame in frames])


def test_arguments_that_are_no_facts_are_never_kept(tmp_path: Path) -> None:
    line = (
        "args: Namespace(host=None, api_key='sk-topsecret', model='/data/private/llama-2-13b', "
        "max_num_seqs=96, chat_template='{{ a, b }}', ssl_keyfile='/etc/key', "
        "quantization='sk-topsecret with blank', dtype='auto', "
        "download_dir='/home/me', max_model_len=None)"
    )
    loaded = load_lines(tmp_path, [headed(line)])
    assert loaded.facts() == {("", "model_name"): "llama-2-13b", ("", "max_num_seqs"): "96"}
    assert "private" not in str(loaded.settings)
    assert "topsecret" not in str(loaded.settings)


# ------------------------------------------------------------------------------------------------ facts


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("acme/llm-8b", "acme/llm-8b"),
        ("llm", "llm"),
        ("/data/models/llama/llama-2-13b/", "llama-2-13b"),
        ("./model-small", "model-small"),
        ("~/m/x", "x"),
        ("C:\\models\\x", "x"),
        ("s3://bucket/a/x", "x"),
        ("/root/hub/models--acme--llm-8b/snapshots/0a1b2c", "acme/llm-8b"),
        ("has blank", None),
        ("", None),
    ],
)
def test_model_name_of_a_path_is_its_last_part(text: str, name: str | None) -> None:
    assert model_name(text) == name


def test_arguments_split_outside_brackets_and_quotes_only() -> None:
    text = "a=1, b={'x': (1, 2), 'y': ']'}, c=F(g='h, i', j=[1]), d='it\\'s, so', e=<M.NONE: 0>), f=2"
    assert dict(split_arguments(text)) == {
        "a": "1",
        "b": "{'x': (1, 2), 'y': ']'}",
        "c": "F(g='h, i', j=[1])",
        "d": "'it\\'s, so'",
        "e": "<M.NONE: 0>",
    }


def test_a_value_that_is_cut_is_not_taken() -> None:
    assert dict(split_arguments("a=1, compilation_config={'cudagraph_mode': 'FU")) == {"a": "1"}


def test_arguments_with_classes_in_them_are_scanned() -> None:
    text = "{'model': './m', 'max_num_seqs': 32, 'profiler': Profiler(x='a, b'), 'enforce_eager': True}"
    found = arguments_of(text)
    assert (found["model"], found["max_num_seqs"], found["enforce_eager"]) == ("./m", "32", "True")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("swap_space", "4", ("swap_space_bytes", str(4 * GIB), "bytes")),
        ("gpu_memory_utilization", "0.90", ("gpu_memory_utilization", "0.9", "ratio")),
        ("gpu_memory_utilization", "9.0", None),
        ("max_num_seqs", "-3", None),
        ("quantization", "None", ("quantization", "none", None)),
        (
            "speculative_config",
            "{'model': 'x', 'num_speculative_tokens': 3}",
            ("num_speculative_tokens", "3", None),
        ),
        (
            "speculative_config",
            "SpeculativeConfig(draft_model='x', num_spec_tokens=5)",
            ("num_speculative_tokens", "5", None),
        ),
        (
            "compilation_config",
            "{'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>}",
            ("cuda_graph_mode", "FULL_AND_PIECEWISE", None),
        ),
        (
            "kv_transfer_config",
            "{'kv_connector': 'NixlConnector', 'kv_role': 'kv_both'}",
            ("kv_connector", "NixlConnector", None),
        ),
        ("enforce_eager", "maybe", None),
        ("api_key", "sk-1", None),
    ],
)
def test_facts_of_arguments(key: str, value: str, expected: tuple[str, str, str | None] | None) -> None:
    fact = fact_of(key, value)
    assert (tuple(fact) if fact else None) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("vLLM API server version 0.10.0", {"engine": "vllm", "engine_version": "0.10.0"}),
        (
            (
                "Initializing a V1 LLM engine (v0.11.2) with config: model='acme/m', dtype=torch.bfloat16, "
                "max_seq_len=4096, compilation_config={'cudagraph_mode': <CUDAGraphMode.FULL: 2>}, "
                "enable_chunked_prefill=True"
            ),
            {
                "engine": "vllm",
                "engine_version": "0.11.2",
                "engine_generation": "V1",
                "model_name": "acme/m",
                "dtype": "bfloat16",
                "max_model_len": "4096",
                "cuda_graph_mode": "FULL",
                "enable_chunked_prefill": "true",
            },
        ),
        ("Loading model weights took 24.2840 GB", {"weight_bytes": str(round(24.284 * GIB))}),
        (
            "Model loading took 13.7544 GiB memory and 18.402113 seconds",
            {"weight_bytes": str(round(13.7544 * GIB))},
        ),
        (
            (
                "Memory profiling results: total_gpu_memory=63.43GiB initial_memory_usage=24.89GiB "
                "peak_torch_memory=24.55GiB non_torch_memory=0.10GiB kv_cache_size=32.44GiB "
                "gpu_memory_utilization=0.90"
            ),
            {
                "total_gpu_memory_bytes": str(round(63.43 * GIB)),
                "peak_torch_memory_bytes": str(round(24.55 * GIB)),
                "non_torch_memory_bytes": str(round(0.10 * GIB)),
                "kv_cache_bytes": str(round(32.44 * GIB)),
                "gpu_memory_utilization": "0.9",
            },
        ),
        ("# GPU blocks: 2657, # CPU blocks: 327", {"num_gpu_blocks": "2657", "num_cpu_blocks": "327"}),
        ("# cuda blocks: 62433, # CPU blocks: 4096", {"num_gpu_blocks": "62433", "num_cpu_blocks": "4096"}),
        ("# GPU blocks: 77", {"num_gpu_blocks": "77"}),
        ("GPU KV cache size: 1,587,648 tokens", {"kv_cache_tokens": "1587648"}),
        (
            "CPU KV cache size: 4,096 tokens, Maximum concurrency for 2,048 tokens per request: 2.00x",
            {"kv_cache_tokens": "4096", "max_model_len": "2048"},
        ),
        ("Available KV cache memory: 62.57 GiB", {"kv_cache_bytes": str(round(62.57 * GIB))}),
        ("Overriding num_gpu_blocks=512 with num_gpu_blocks_override=128", {"num_gpu_blocks": "128"}),
        (
            "Using FLASH_ATTN attention backend out of potential backends: ['A', 'B']",
            {"attention_backend": "FLASH_ATTN"},
        ),
        ("Using Flash Attention backend on V1 engine.", {"attention_backend": "Flash Attention"}),
        ("Using XFormers backend.", {"attention_backend": "XFormers"}),
        ("Using ray distributed backend.", {}),
        ("Using max model len 65536", {"max_model_len": "65536"}),
    ],
)
def test_start_up_lines(tmp_path: Path, message: str, expected: dict[str, str]) -> None:
    assert {
        name: value for (_, name), value in load_lines(tmp_path, [headed(message)]).facts().items()
    } == expected


def test_a_fact_is_kept_once_per_rank_and_again_when_it_changes(tmp_path: Path) -> None:
    lines = [
        headed(f"Model loading took {size} GiB and 2.0 seconds", process=f"Worker_TP{rank} pid=5{rank}")
        for rank, size in [(0, 10.0), (1, 10.0), (0, 10.0), (0, 10.005), (0, 11.0)]
    ]
    rows = [
        (r["line_no"], r["scope"], r["value"])
        for r in load_lines(tmp_path, lines).settings
        if r["name"] == "weight_bytes"
    ]
    assert rows == [(1, "tp0", str(10 * GIB)), (2, "tp1", str(10 * GIB)), (5, "tp0", str(11 * GIB))]


# ------------------------------------------------------------------------------------------------ corpus


def _ns(text: str) -> int:
    """ISO time with up to nine digits of a second as ns."""
    stamp = datetime.fromisoformat(text[:19] + text[-6:])
    fraction = text[19:-6].lstrip(".").ljust(9, "0")
    return int(stamp.timestamp()) * 1_000_000_000 + int(fraction)


def _corpus_cases() -> list[Path]:
    return sorted(CORPUS.glob("vllm_*.log")) if CORPUS.is_dir() else []


def _context(header: dict[str, Any], rows: list[dict[str, Any]]) -> ReadContext:
    first = next((row["time"] for row in rows if row.get("time")), "2030")
    zone = header["context"].get("engine_tz", "+00:00")
    sign = -1 if zone[0] == "-" else 1
    return ReadContext(
        time_zone_offset_s=sign * (int(zone[1:3]) * 3600 + int(zone[4:6]) * 60), year=int(first[:4])
    )


def _stats_of(row: dict[str, Any]) -> dict[str, Any]:
    number = str(row.get("engine", 0))
    replica = row.get("service") or (row["pod"].removeprefix("pod/") if "pod" in row else "")
    expected: dict[str, Any] = {
        "engine": f"{replica}/{number}" if replica else number,
        "engine_count": row.get("aggregated_engines", 1),
        "prompt_tokens_per_s": row["prompt_tps"],
        "gen_tokens_per_s": row["gen_tps"],
        "running_count": row["running"],
        "waiting_count": row["waiting"],
        "kv_used_ratio": pytest.approx(row["kv_pct"] / 100),
    }
    names = {
        "swapped": "swapped_count",
        "deferred": "deferred_count",
        "preemptions_in_interval": "preemption_count",
    }
    expected |= {ours: row[theirs] for theirs, ours in names.items() if theirs in row}
    ratios = {
        "cpu_kv_pct": "host_kv_used_ratio",
        "prefix_hit_pct": "prefix_hit_ratio",
        "ext_prefix_hit_pct": "external_hit_ratio",
    }
    return expected | {
        ours: pytest.approx(row[theirs] / 100) for theirs, ours in ratios.items() if theirs in row
    }


def _iteration_of(row: dict[str, Any]) -> dict[str, Any]:
    expected = {
        "engine": str(row.get("engine", 0)),
        "iteration": row["iteration"],
        "context_requests": row["ctx_reqs"],
        "context_tokens": row["ctx_tokens"],
        "generation_requests": row["gen_reqs"],
        "generation_tokens": row["gen_tokens"],
        "elapsed_ms": row["elapsed_ms"],
        "is_dummy": row.get("dummy", False),
    }
    return expected | ({"kv_used_ratio": pytest.approx(row["kv_pct"] / 100)} if "kv_pct" in row else {})


def _gib(row: dict[str, Any], key: str) -> str:
    return str(round(row[key] * GIB))


_CONFIG_NAMES = {
    "model": "model_name",
    "max_seq_len": "max_model_len",
    "chunked_prefill_enabled": "enable_chunked_prefill",
}


def _config_facts(config: dict[str, Any]) -> dict[str, str]:
    def text(value: object) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value).removeprefix("torch.")

    return {_CONFIG_NAMES.get(key, key): text(value) for key, value in config.items()}


FACTS: dict[str, Callable[[dict[str, Any]], dict[str, str]]] = {
    "version": lambda r: {"engine": "vllm", "engine_version": r["version"]},
    "engine_config": lambda r: (
        {"engine": "vllm"}
        | _config_facts(r["config"])
        | ({"engine_version": r["version"]} if "version" in r else {})
        | ({"engine_generation": r["engine_generation"]} if "engine_generation" in r else {})
    ),
    "cli_args": lambda r: _config_facts(r["args"]),
    "max_model_len": lambda r: {"max_model_len": str(r["max_model_len"])},
    "chunked_prefill": lambda r: {
        "enable_chunked_prefill": "true",
        "max_num_batched_tokens": str(r["max_num_batched_tokens"]),
    },
    "kv_blocks": lambda r: {"num_gpu_blocks": str(r["gpu_blocks"]), "num_cpu_blocks": str(r["cpu_blocks"])},
    "weights": lambda r: {"weight_bytes": _gib(r, "gib" if "gib" in r else "gb")},
    "kv_memory": lambda r: {"kv_cache_bytes": _gib(r, "gib")},
    "kv_tokens": lambda r: {"kv_cache_tokens": str(r["tokens"])},
    "max_concurrency": lambda r: {"max_model_len": str(r["tokens_per_request"])},
    "num_gpu_blocks": lambda r: {"num_gpu_blocks": str(r["blocks"])},
    "attention_backend": lambda r: {"attention_backend": r["backend"]},
    "memory_split": lambda r: (
        (
            {"total_gpu_memory_bytes": _gib(r, "total_gib"), "gpu_memory_utilization": str(r["utilization"])}
            if "total_gib" in r
            else {}
        )
        | (
            {
                "non_torch_memory_bytes": _gib(r, "non_torch_gib"),
                "activation_memory_bytes": _gib(r, "activation_gib"),
            }
            if "weights_gib" in r
            else {}
        )
    ),
}
EVENTS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "preemption_v0": lambda r: {
        "kind": "preempt",
        "mode": r["mode"].lower(),
        "request_id": r["request_id"],
        "cumulative_count": r["cumulative"],
    },
    "jit_spike": lambda _: {"kind": "jit"},
    "worker_stall": lambda r: {"kind": "worker_stall", "duration_ms": r["seconds"] * 1e3},
    "graph_capture": lambda r: {"kind": "graph_capture", "duration_ms": r["seconds"] * 1e3},
    "offload_store_failed": lambda r: (
        {"kind": "offload_store_failed", "request_id": r["request_id"]}
        | ({"event_count": r["blocks"]} if r["blocks"] is not None else {})
    ),
    "request_received": lambda r: {
        "kind": "request_received",
        "request_id": r["request_id"],
        "tokens": r["max_tokens"],
    },
    "request_added": lambda r: {"kind": "request_added", "request_id": r["request_id"]},
    "request_finished": lambda r: {"kind": "request_finished", "request_id": r["request_id"]},
    "request_aborted": lambda r: {"kind": "request_aborted", "request_id": r["request_id"]},
    "kv_transfer": lambda _: {"kind": "kv_transfer"},
    "nixl_expired": lambda r: {"kind": "kv_expired", "request_id": r["request_id"]},
}
#: Kinds that no raw table has a place for.
WITHOUT_ROWS = {
    None,
    "batch_descriptor",
    "capture_bar",
    "graph_memory",
    "init_time",
    "mfu",
    "offload_alloc",
    "spec_decode",
}


def _at(rows: list[dict[str, Any]], line_no: int) -> dict[str, Any]:
    return only([row for row in rows if row["line_no"] == line_no])


def _check(loaded: Loaded, row: dict[str, Any], check_time: bool) -> None:
    kind, line_no = row["kind"], row["line"]
    found: dict[str, Any] | None = None
    if kind == "stats":
        found = _at(loaded.stats, line_no)
        expected = _stats_of(row)
        if "prefix_hit_pct" not in row:
            expected |= (
                {"prefix_hit_ratio": found["prefix_hit_ratio"]}
                if "swapped" in row and "prefix_hit_ratio" in found
                else {}
            )
        assert values(found) == expected
    elif kind == "iteration":
        found = _at(loaded.iterations, line_no)
        assert values(found) == _iteration_of(row)
    elif kind == "prefix_hit_v0":
        before = [stats_row for stats_row in loaded.stats if stats_row["line_no"] < line_no][-1]
        assert before["prefix_hit_ratio"] == pytest.approx(row["gpu_pct"] / 100)
    elif kind in EVENTS:
        found = _at(loaded.events, line_no)
        expected = EVENTS[kind](row)
        assert {key: found[key] for key in expected} == expected
    elif kind == "access":
        assert any(r["line_no"] == line_no and r["status"] == row["status"] for r in loaded.access)
    elif kind == "fatal":
        _check_fatal(loaded, row)
    elif kind in FACTS:
        scopes = {scope for scope, _ in loaded.facts()}
        for name, value in FACTS[kind](row).items():
            assert any(loaded.facts().get((scope, name)) == value for scope in scopes), (
                name,
                value,
                loaded.facts(),
            )
    else:
        assert kind in WITHOUT_ROWS, kind
    if found is not None and check_time and "time" in row:
        assert found["src_ns"] == _ns(row["time"])


def _check_fatal(loaded: Loaded, row: dict[str, Any]) -> None:
    if row["reason"] == "dump_scheduler_stats":
        found = _at(loaded.stats, row["line"])
        assert (found["running_count"], found["waiting_count"], found["kv_used_ratio"]) == (
            row["running"],
            row["waiting"],
            row["kv_cache_usage"],
        )
    elif "duplicate_of_line" in row:
        assert row["line"] not in {e["line_no"] for e in loaded.events}
    else:
        assert _at(loaded.events, row["line"])["kind"] in {"fatal", "oom"}


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
@pytest.mark.parametrize("path", _corpus_cases(), ids=lambda path: path.stem)
def test_corpus_of_every_version(path: Path) -> None:
    header, *rows = [
        json.loads(line) for line in path.with_suffix(".expected.jsonl").read_text().splitlines()
    ]
    loaded = load_path(path, _context(header, rows))
    assert loaded.report.skipped_count == 0
    for row in rows:
        # One zone for a file cannot place replicas of several zones.
        _check(loaded, row, check_time=row.get("service") != "vllm-b-1")
    silent = {row["line"] for row in rows if row["kind"] in WITHOUT_ROWS - {"spec_decode"}}
    assert not silent & {
        r["line_no"] for r in [*loaded.stats, *loaded.iterations, *loaded.events, *loaded.access]
    }
    assert len(loaded.stats) == sum(
        r["kind"] == "stats" or r.get("reason") == "dump_scheduler_stats" for r in rows
    )
    assert len(loaded.iterations) == sum(r["kind"] == "iteration" for r in rows)


# ------------------------------------------------------------------------------------------------ other tiers


@pytest.mark.parametrize(
    ("message", "kind", "request_id"),
    [
        (
            "Releasing expired KV blocks for request a-1 which were retrieved by 0 remote worker(s) before x",
            "kv_expired",
            "a-1",
        ),
        (
            "Request a-1 timed out after 30 seconds without being sent. Freeing its blocks.",
            "kv_expired",
            "a-1",
        ),
        ("NIXL transfer failure: lost | Context: {}", "tier_error", None),
    ],
)
def test_kv_lost_between_engines(tmp_path: Path, message: str, kind: str, request_id: str | None) -> None:
    event = only(load_lines(tmp_path, [headed(message, level="WARNING")]).events)
    assert (event["kind"], event.get("request_id")) == (kind, request_id)


def test_native_host_tier(tmp_path: Path) -> None:
    lines = [
        headed("SimpleCPUOffloadScheduler: Allocating 100 CPU blocks (2.00 GB, mode=lazy)"),
        headed("Request a-1 hit 512 offloaded tokens after 64 GPU hit tokens", level="DEBUG"),
    ]
    loaded = load_lines(tmp_path, lines)
    assert loaded.facts() == {("", "num_cpu_blocks"): "100", ("", "host_kv_bytes"): str(2 * GIB)}
    lookup = only(loaded.lookups)
    assert (lookup["tier"], lookup["hit_tokens"], lookup["engine_tokens"]) == ("host", 512, 64)
