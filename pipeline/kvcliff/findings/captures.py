"""The commands that record what a finding lacks, and advice that several findings share."""

VLLM_URL = "http://localhost:8000"


def scrape_loop(url: str, file: str) -> str:
    """Return the loop that adds to ``file`` what ``url`` serves, every second and behind a time stamp."""
    return f'while sleep 1; do echo "# scrape $(date +%s.%N)"; curl -s {url}; done > {file}'


def vllm_bench(url: str, prompt_tokens: int, output_tokens: int, load: str) -> str:
    """Return a run of ``vllm bench serve`` that writes per-token times; ``load`` says how requests come."""
    return (
        f'vllm bench serve --base-url {url} --model "$MODEL" --dataset-name random '
        f"--random-input-len {prompt_tokens} --random-output-len {output_tokens} {load} "
        "--save-result --save-detailed --result-filename client.json"
    )


def nsys_profile(graph_trace: str, options: str, server: str) -> str:
    """Return a server under Nsight Systems; ``graph_trace`` says whether CUDA graphs are taken apart."""
    return (
        f"nsys profile -t cuda,nvtx --cuda-graph-trace={graph_trace} --gpu-metrics-devices=all "
        f"--trace-fork-before-exec=true {options} {server}"
    )


SCRAPE = scrape_loop(f"{VLLM_URL}/metrics", "metrics.prom")
CLIENT = vllm_bench(VLLM_URL, 1024, 256, "--num-prompts 500 --max-concurrency 32")
NSYS_EXPORT = "nsys export -t sqlite -f true -o trace.sqlite trace.nsys-rep"
#: One trace answers for GPU time, copies and HBM bandwidth alike.
TRACE = nsys_profile("node", "-o trace", 'vllm serve "$MODEL"') + f" && {NSYS_EXPORT}"
LOG = 'vllm serve "$MODEL" --enable-logging-iteration-details 2>&1 | tee server.log'
DEVICE = (
    "nvidia-smi --query-gpu=timestamp,index,name,utilization.gpu,utilization.memory,memory.used,"
    "power.draw,clocks.sm --format=csv -l 1 > gpu.csv"
)
PREFIX_CACHE = (
    'vllm serve "$MODEL" --enable-prefix-caching --enable-logging-iteration-details 2>&1 | tee server.log'
)
MODEL_SHAPE = 'cp "$MODEL_FOLDER"/config.json RUN/'
FEWER_BYTES = (
    "Cut the bytes of a decode step: KV quantisation (FP8), a GQA/MQA model, weight quantisation, "
    "shorter context."
)
MORE_KV_ROOM = "then give KV more room (shorter contexts, FP8 KV cache, more memory for KV)"
