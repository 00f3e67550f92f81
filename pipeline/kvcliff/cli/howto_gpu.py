"""How the GPU's side of a load test is recorded: Nsight Systems, Nsight Compute and telemetry."""

from kvcliff.cli.howto import SGLANG, TENSORRT_LLM, VLLM, Engine, Howto, Placeholder, Step, switches_step
from kvcliff.findings.captures import DEVICE, NSYS_EXPORT, nsys_profile, scrape_loop
from kvcliff.findings.counter_captures import NCU_FABRIC_METRICS, NCU_METRICS

_NSYS_OPTIONS = (
    "--sample=none --cpuctxsw=none --capture-range=cudaProfilerApi --capture-range-end=stop -o trace"
)


def _window(engine: Engine, why: str) -> tuple[Step, ...]:
    """Return the step that opens the profiler's window, where the server does not do so itself."""
    if engine is TENSORRT_LLM:
        return ()
    return (Step("Open the window for a minute, under load, from another shell", why, engine.window),)


def nsys(engine: Engine) -> Howto:
    """Return how an Nsight Systems trace is recorded."""
    profiled = [
        f"{engine.profiled_environment} {nsys_profile(mode, _NSYS_OPTIONS, engine.profiled_server)}"
        for mode in ("node", "graph")
    ]
    steps = [
        *switches_step(engine),
        Step(
            "Start the server under nsys, every kernel for itself",
            f"node mode shows the kernels inside CUDA graphs, at some cost in time; {engine.step_marks}",
            profiled[0],
        ),
        Step(
            "Or start it with each CUDA graph as one piece",
            "graph mode disturbs the timing least, but a decode step is then one opaque block",
            profiled[1],
        ),
        *_window(
            engine,
            "captures over five minutes are beyond what nsys supports, and its event buffers are bounded",
        ),
        Step(
            "Stop the server with Ctrl-C, then export",
            "a killed server leaves an unfinished .qdstrm; the SQLite file needs no nsys to be read",
            NSYS_EXPORT,
        ),
    ]
    if engine is SGLANG:
        steps.append(_pytorch_trace(engine))
    return Howto(
        "An Nsight Systems trace",
        "where GPU time goes by phase, what KV blocks are copied, and how busy HBM is",
        tuple(steps),
        (
            Placeholder(
                "--gpu-metrics-devices=all",
                "samples HBM and SM activity; leave it out while DCGM or ncu uses the counters (up to nsys "
                "2024.2 it is called --gpu-metrics-device)",
            ),
        ),
    )


def _pytorch_trace(engine: Engine) -> Step:
    return Step(
        "Or take a PyTorch trace of a plain server",
        "SGLang marks a step as EXTEND or DECODE in PyTorch ranges only, which nsys does not see",
        f"curl -X POST {engine.url}/start_profile -H 'Content-Type: application/json' "
        r'-d "{\"activities\": [\"CPU\", \"GPU\"], \"num_steps\": 200, \"output_dir\": \"$PWD\"}"',
    )


def ncu(engine: Engine) -> Howto:
    """Return how Nsight Compute counters are recorded."""
    attribution = (
        f"{engine.profiled_environment} ncu --target-processes all --profile-from-start off --nvtx "
        "--launch-skip 20 --launch-count 60 --section LaunchStats --section Occupancy --section SpeedOfLight "
        f'--metrics "$METRICS" --clock-control none -f -o decode_c32 {engine.profiled_server}'
    )
    single_process = "VLLM_ENABLE_V1_MULTIPROCESSING=0 " if engine is VLLM else ""
    in_situ = (
        f"{single_process}ncu --target-processes all --replay-mode app-range --cache-control none "
        '--clock-control none --nvtx --nvtx-include "decode]" --metrics "$METRICS" -f -o decode_warm_c32 '
        "python decode_step.py"
    )
    export = " && ".join(
        f"LC_ALL=C ncu --import decode_c32.ncu-rep --csv --page {page} > decode_c32.{page}.csv"
        for page in ("raw", "session")
    )
    steps = (
        *switches_step(engine),
        Step(
            "Name the metrics",
            "the default set has neither the L2 look-ups nor the DRAM bytes that a verdict rests on",
            f"METRICS={','.join(NCU_METRICS)}",
        ),
        Step(
            "On A100, H100, H200 and GH200 add the L2 fabric",
            "contention between L2 partitions is claimed only on this evidence; other chips lack it",
            f'METRICS="$METRICS,{",".join(NCU_FABRIC_METRICS)}"',
        ),
        Step(
            "Attribution: count single kernels of a server under load",
            "tells what bounds each kernel; caches are flushed before every pass, so hit rates are those of "
            "a cold cache; one concurrency per file, here 32, stated in its name; kernel replay saves and "
            "restores the memory that a kernel writes: leave it room (KV memory at 80 % of the GPU or less)",
            attribution,
        ),
        *_window(engine, "opened when all 32 requests decode, it leaves loading, warm-up and prefill out"),
        Step(
            "In situ: count one whole decode step with warm caches",
            "replaying the application and leaving the caches alone is the sound measure of reuse between "
            "kernels; kernel replay would warm the cache with its own passes",
            in_situ,
        ),
        Step(
            "Export, if the .ncu-rep itself cannot be handed over",
            "LC_ALL=C keeps decimal points; the session page holds the cache, clock and replay settings "
            "without which numbers cannot be judged",
            export,
        ),
    )
    script = Placeholder(
        "decode_step.py",
        "your script: the engine's offline API, a fixed seed, 32 requests, and one decode step inside "
        'torch.cuda.nvtx.range("decode") in the process that launches the kernels; ncu runs it once per '
        "pass, so it must do the same each time",
    )
    return Howto(
        "Nsight Compute counters",
        "L2 reuse, DRAM traffic and parallelism of single kernels",
        steps,
        (Placeholder("$METRICS", "set by the first METRICS command; stay in that shell"), script),
    )


def gpu(engine: Engine) -> Howto:
    """Return how GPU telemetry is recorded; the same for every engine."""
    del engine
    return Howto(
        "GPU telemetry",
        "clocks, power and memory of the GPU, which tell throttling from paging",
        (
            Step(
                "Ask nvidia-smi every second",
                "it is on every machine; its times are local, so state time_zone in run.toml",
                DEVICE,
            ),
            Step(
                "Or read the DCGM exporter",
                "DCGM_FI_PROF_DRAM_ACTIVE is the share of time in which HBM moves data, which nvidia-smi "
                "cannot tell",
                scrape_loop("http://localhost:9400/metrics", "gpu.prom"),
            ),
            Step(
                "Or ask dcgmi for SM and DRAM activity and PCIe traffic",
                "needs no exporter, but writes no times: state interval_ms = 1000 for the file in run.toml",
                "dcgmi dmon -e 1002,1005,1009,1010 -d 1000 > dcgm.txt",
            ),
        ),
    )
