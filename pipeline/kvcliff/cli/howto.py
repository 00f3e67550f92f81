"""What ``howto`` tells of one topic, and the engines that it knows the commands of."""

from dataclasses import dataclass

from kvcliff.findings.captures import LOG, VLLM_URL


@dataclass(frozen=True)
class Placeholder:
    """A name in commands that the reader fills in, or an option to think about.

    Attributes:
        name: as it stands in the commands.
        meaning: what to put there, or when to leave it out.
    """

    name: str
    meaning: str


@dataclass(frozen=True)
class Step:
    """One command.

    Attributes:
        what: what it does.
        why: the one reason for doing it this way.
        command: one line of shell.
    """

    what: str
    why: str
    command: str


@dataclass(frozen=True)
class Howto:
    """How one kind of evidence is recorded.

    Attributes:
        title: what is recorded.
        purpose: what a diagnosis learns from it.
        steps: the commands, in the order in which they are run.
        placeholders: names in the commands besides ``$MODEL``.
    """

    title: str
    purpose: str
    steps: tuple[Step, ...]
    placeholders: tuple[Placeholder, ...] = ()


@dataclass(frozen=True)
class Engine:
    """What differs between engines.

    Attributes:
        name: as given to ``--engine``.
        url: where its server listens by default.
        metrics_path: where it serves Prometheus metrics.
        server: how its server starts, with metrics switched on.
        logged_server: the same with the log that tells most, kept in ``server.log``.
        log_reason: why these log switches.
        profiled_server: how its server starts when a profiler waits for the window.
        profiled_environment: variables of that server.
        step_marks: what its NVTX ranges tell.
        window: opens and closes the profiler's window from a second shell.
        pool: where it says how many tokens its KV pool holds.
        full_pool: what it does when the pool is full.
    """

    name: str
    url: str
    metrics_path: str
    server: str
    logged_server: str
    log_reason: str
    profiled_server: str
    profiled_environment: str
    step_marks: str
    window: str
    pool: str
    full_pool: str

    @property
    def metrics_url(self) -> str:
        """Where the server's Prometheus metrics are read."""
        return self.url + self.metrics_path


MODEL = Placeholder("$MODEL", "the model that is served: export MODEL=<Hugging Face name or folder>")

VLLM = Engine(
    name="vllm",
    url=VLLM_URL,
    metrics_path="/metrics",
    server='vllm serve "$MODEL"',
    logged_server=f"VLLM_LOG_STATS_INTERVAL=1 {LOG}",
    log_reason="one line per step tells prefill, decode and recomputation apart (vLLM 0.14.1 and newer); "
    "KV use and preemptions come every second instead of every ten",
    profiled_server='vllm serve "$MODEL" --profiler-config \'{"profiler": "cuda"}\'',
    profiled_environment="VLLM_WORKER_MULTIPROC_METHOD=spawn",
    step_marks="with the cuda profiler (vLLM 0.13 and newer; before it VLLM_TORCH_CUDA_PROFILE=1) every step "
    "is an NVTX range that counts its prefill and decode requests; forked workers would lose their ranges, "
    "spawned ones keep them",
    window=f"curl -X POST {VLLM_URL}/start_profile; sleep 60; curl -X POST {VLLM_URL}/stop_profile",
    pool='"GPU KV cache size: N tokens" in server.log',
    full_pool="requests are preempted (vllm:num_preemptions_total)",
)

_SGLANG_URL = "http://localhost:30000"
_SGLANG_SERVER = 'python -m sglang.launch_server --model-path "$MODEL" --enable-metrics'
SGLANG = Engine(
    name="sglang",
    url=_SGLANG_URL,
    metrics_path="/metrics",
    server=_SGLANG_SERVER,
    logged_server=f"{_SGLANG_SERVER} --decode-log-interval 1 2>&1 | tee server.log",
    log_reason="SGLang logs one decode step in 40 unless told otherwise; with every step the log shows when "
    "the pool filled and which requests were retracted",
    profiled_server=_SGLANG_SERVER,
    profiled_environment="SGLANG_ENABLE_NVTX_SCHEDULER=1",
    step_marks="the scheduler's stages become NVTX ranges (SGLang 0.5.17 and newer, needs the nvtx package, "
    "below 0.2.12 for nsys up to 2024.2); the phase of a step is told by its kernels",
    window=f"curl -X POST {_SGLANG_URL}/start_profile -H 'Content-Type: application/json' "
    """-d '{"activities": ["CUDA_PROFILER"]}'; sleep 60; """
    f"curl -X POST {_SGLANG_URL}/stop_profile",
    pool='"max_total_num_tokens=N" in server.log',
    full_pool="requests are retracted (server.log says so)",
)

_TENSORRT_LLM_SERVER = 'trtllm-serve "$MODEL" --extra_llm_api_options trtllm.yaml'
TENSORRT_LLM = Engine(
    name="tensorrt_llm",
    url="http://localhost:8000",
    metrics_path="/prometheus/metrics",
    server=_TENSORRT_LLM_SERVER,
    logged_server=f"{_TENSORRT_LLM_SERVER} 2>&1 | tee server.log",
    log_reason="with print_iter_log the server writes one line per iteration: its requests, its context "
    "tokens and its time",
    profiled_server=_TENSORRT_LLM_SERVER,
    profiled_environment="TLLM_PROFILE_START_STOP=500-1500 TLLM_LLMAPI_ENABLE_NVTX=1",
    step_marks="every iteration is an NVTX range that counts its context and generation requests; the window "
    "is iterations 500 to 1500, beyond compilation and warm-up",
    window="",
    pool="trtllm_kv_cache_max_blocks times trtllm_kv_cache_tokens_per_block in its metrics",
    full_pool="requests are paused (policy MAX_UTILIZATION) or merely wait (GUARANTEED_NO_EVICT)",
)

ENGINES: tuple[Engine, ...] = (VLLM, SGLANG, TENSORRT_LLM)


def switches_step(engine: Engine) -> tuple[Step, ...]:
    """Return the step that writes the settings file of a server that takes its switches from one."""
    if engine is not TENSORRT_LLM:
        return ()
    return (
        Step(
            "Write the server's switches",
            "statistics, iteration log and Prometheus metrics are all off by default",
            r"printf 'enable_iter_perf_stats: true\nprint_iter_log: true\nreturn_perf_metrics: true\n' "
            "> trtllm.yaml",
        ),
    )
