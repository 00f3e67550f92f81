"""How the serving side of a load test is recorded: metrics, log, client, and the KV stress test."""

from kvcliff.cli.howto import SGLANG, TENSORRT_LLM, VLLM, Engine, Howto, Placeholder, Step, switches_step
from kvcliff.findings.captures import CLIENT, DEVICE, scrape_loop, vllm_bench

_STRESS_PROMPT_TOKENS = 4096
_STRESS_OUTPUT_TOKENS = 1024
_STRESS_USER_TOKENS = _STRESS_PROMPT_TOKENS + _STRESS_OUTPUT_TOKENS
_SECONDS_PER_USER = 2


def _sglang_bench(prompt_tokens: int, output_tokens: int, load: str) -> str:
    return (
        f'python -m sglang.bench_serving --backend sglang --base-url {SGLANG.url} --model "$MODEL" '
        f"--dataset-name random-ids --random-input-len {prompt_tokens} --random-output-len {output_tokens} "
        f"--random-range-ratio 1 {load} --output-details --output-file client.jsonl"
    )


def _aiperf(engine: Engine, prompt_tokens: int, output_tokens: int, load: str) -> str:
    return (
        f'aiperf profile --model "$MODEL" --url {engine.url} --endpoint-type completions --streaming '
        f"--synthetic-input-tokens-mean {prompt_tokens} --synthetic-input-tokens-stddev 0 "
        f"--output-tokens-mean {output_tokens} --output-tokens-stddev 0 --extra-inputs ignore_eos:true "
        f"{load} --output-artifact-dir aiperf"
    )


def _scrape_steps(engine: Engine) -> tuple[Step, ...]:
    prometheus = Step(
        "Read the metrics every second while the load runs, in another shell",
        "the marker line in front of each answer gives it a time; a moment is known to within one interval",
        scrape_loop(engine.metrics_url, "metrics.prom"),
    )
    if engine is not TENSORRT_LLM:
        return (prometheus,)
    iterations = Step(
        "Read the iteration statistics too, in one more shell",
        "they state used blocks and paused requests per iteration; the server forgets what it has handed "
        "out, so only one reader may ask",
        f"while sleep 1; do curl -s {engine.url}/metrics; echo; done > iterations.json",
    )
    return (prometheus, iterations)


def scrape(engine: Engine) -> Howto:
    """Return how the server's metrics are recorded."""
    start = Step(
        "Start the server with its metrics",
        "vLLM serves them unasked" if engine is VLLM else "they are off by default",
        engine.server,
    )
    return Howto(
        "Scrapes of the server's metrics",
        "KV occupancy, waiting requests and preemptions over time: the swap point itself",
        (*switches_step(engine), start, *_scrape_steps(engine)),
    )


def log(engine: Engine) -> Howto:
    """Return how the server's log is recorded."""
    return Howto(
        "The server's log",
        "engine limits, and what every step was: prefill, decode or recomputation",
        (
            *switches_step(engine),
            Step("Start the server and keep its log", engine.log_reason, engine.logged_server),
        ),
    )


def client(engine: Engine) -> Howto:
    """Return how per-token times are recorded by a load client."""
    count = "--num-prompts 500 --max-concurrency 32"
    own = {
        VLLM.name: Step(
            "Load it with vLLM's own client",
            "without --save-detailed the times of single tokens are thrown away",
            CLIENT,
        ),
        SGLANG.name: Step(
            "Load it with SGLang's own client",
            "without --output-details only totals are kept; it never writes when a request began, so its "
            "streams cannot be laid beside the server's metrics",
            _sglang_bench(1024, 256, count),
        ),
        TENSORRT_LLM.name: Step(
            "Load it with vLLM's client",
            "trtllm-bench writes no time per token; this client speaks to any OpenAI-compatible server",
            vllm_bench(engine.url, 1024, 256, count),
        ),
    }
    aiperf = Step(
        "Or load it with AIPerf",
        "it writes wall-clock nanoseconds of every request and token, so no clock has to be fitted",
        _aiperf(engine, 1024, 256, "--request-count 500 --num-dataset-entries 500 --concurrency 32"),
    )
    return Howto(
        "Results of the load client with per-token times",
        "how long users' streams stood still, and whether their latency got worse",
        (own[engine.name], aiperf),
    )


def _stress_clients(engine: Engine) -> tuple[Step, ...]:
    rate = 1 / _SECONDS_PER_USER
    aiperf = Step(
        "Add users with AIPerf",
        f"one more user every {_SECONDS_PER_USER} s, each asking again when answered, then a minute at full "
        "load; without so many data set entries prompts would repeat and share their KV",
        _aiperf(
            engine,
            _STRESS_PROMPT_TOKENS,
            _STRESS_OUTPUT_TOKENS,
            f'--concurrency "$USERS" --concurrency-ramp-duration $((USERS * {_SECONDS_PER_USER})) '
            f"--benchmark-duration $((USERS * {_SECONDS_PER_USER} + 60)) "
            "--num-dataset-entries $((USERS * 20))",
        ),
    )
    paced = Step(
        "Or with vLLM's client" if engine is VLLM else "Or with vLLM's client, which any such server answers",
        f"a request every {_SECONDS_PER_USER} s, evenly spaced by the high burstiness; raise the rate if "
        "occupancy levels off below full; take another --seed when you repeat it, or cached prompts "
        "come for free",
        vllm_bench(
            engine.url,
            _STRESS_PROMPT_TOKENS,
            _STRESS_OUTPUT_TOKENS,
            f"--ignore-eos --request-rate {rate} --burstiness 1000 --num-prompts $((USERS * 2)) --seed 1",
        ),
    )
    if engine is not SGLANG:
        return (aiperf, paced)
    own = Step(
        "Or with SGLang's own client",
        f"a request every {_SECONDS_PER_USER} s on average (it cannot space them evenly); raise the rate "
        "if occupancy levels off below full",
        _sglang_bench(
            _STRESS_PROMPT_TOKENS,
            _STRESS_OUTPUT_TOKENS,
            f"--request-rate {rate} --num-prompts $((USERS * 2))",
        ),
    )
    return (aiperf, own, paced)


def stress(engine: Engine) -> Howto:
    """Return the protocol of the KV stress test: empty to full, one user at a time."""
    prepare = (
        Step(
            "Start the server and keep its log",
            "a fresh server has an empty pool; the log states the pool's size and every step",
            engine.logged_server,
        ),
        Step(
            "Choose the number of users",
            f"half as many again as the pool holds at {_STRESS_USER_TOKENS:,} tokens each, so that it must "
            "overflow; the server's own limit of running requests must be higher",
            f"export USERS=$((${{POOL_TOKENS:?}} * 3 / 2 / {_STRESS_USER_TOKENS}))",
        ),
    )
    watch = Step(
        "Watch the GPU, in another shell",
        "a clock that drops would look like a cliff",
        DEVICE,
    )
    verdict = Step(
        "Diagnose the folder, when the load has ended",
        "inter-token latency that rises with occupancy from the start means bandwidth; flat, then a jump "
        f"near full occupancy means paging: there {engine.full_pool}; the report recognises such a test and "
        "says which of the two it was",
        # From outside: the database and the report must not land among the evidence.
        'cd .. && kvcliff diagnose "$OLDPWD"',
    )
    return Howto(
        "The KV stress test",
        f"where the cliff is: fixed prompts of {_STRESS_PROMPT_TOKENS:,} tokens that share nothing, fixed "
        f"outputs of {_STRESS_OUTPUT_TOKENS:,}, one more user every {_SECONDS_PER_USER} s from empty to full",
        (*switches_step(engine), *prepare, *_scrape_steps(engine), watch, *_stress_clients(engine), verdict),
        (
            Placeholder("$POOL_TOKENS", f"tokens that the KV pool holds: {engine.pool}"),
            Placeholder("$USERS", "set from $POOL_TOKENS; run the client in the same shell"),
        ),
    )
