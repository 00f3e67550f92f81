"""Which reader claims which file of the corpus: its own, and no foreign one."""

from pathlib import PurePosixPath

import pytest

from builders_metrics import CORPUS, NO_CORPUS
from kvcliff.readers import READERS, pick_reader
from kvcliff.readers.base import Source

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)

#: Patterns of paths in the corpus and the reader that must have them.
CLAIMS = (
    ("load_clients/aiperf_0.13.0/profile_export.jsonl", "aiperf"),
    ("load_clients/aiperf_0.13.0/profile_export_raw.head5.jsonl", "aiperf"),
    ("load_clients/aiperf_0.13.0/profile_export_aiperf.json", "aiperf"),
    ("load_clients/guidellm_0.8.1/benchmarks.json", "guidellm"),
    ("load_clients/generated/genai_perf_profile_export.json", "genai_perf"),
    ("load_clients/generated/inference_perf_per_request_lifecycle_metrics.json", "inference_perf"),
    ("load_clients/generated/sglang_bench_serving.jsonl", "sglang_bench"),
    ("load_clients/generated/trtllm_bench_request.json", "trtllm_bench"),
    ("load_clients/generated/llmperf_individual_responses.json", "llmperf"),
    ("load_clients/generated/vllm_bench_serve_*.json", "vllm_bench"),
    ("load_clients/inference-perf/*/*_lifecycle_metrics.json", "inference_perf"),
    ("request_traces/mooncake/*.jsonl", "request_trace"),
    ("request_traces/azure_2023/*.csv", "request_trace"),
    ("serving_lines/prom_api_query_range.jsonl", "prometheus_api"),
    ("serving_runs/vllm_cpu/clients/aiperf/profile_export.jsonl.gz", "aiperf"),
    ("serving_runs/vllm_cpu/clients/aiperf/profile_export_aiperf.json", "aiperf"),
    ("serving_runs/vllm_cpu/clients/guidellm.json", "guidellm"),
    ("serving_runs/vllm_cpu/*/bench*.json", "vllm_bench"),
    ("serving_runs/memory_gap/*/*/bench.json", "vllm_bench"),
    ("load_clients/generated/vllm_bench_serve_table.txt", "bench_table"),
    ("serving_runs/vllm_cpu/*/bench*.json.stdout.txt", "bench_table"),
)
#: Readers that must claim what the patterns say and nothing else.
MINE = {
    "aiperf",
    "genai_perf",
    "guidellm",
    "inference_perf",
    "k6",
    "llmperf",
    "locust",
    "prometheus_api",
    "request_trace",
    "sglang_bench",
    "trtllm_bench",
    "victoriametrics",
    "vllm_bench",
}


def test_every_file_goes_to_its_reader_or_to_none() -> None:
    wrong, met = [], set()
    for path in sorted(path for path in CORPUS.rglob("*") if path.is_file()):
        relative = path.relative_to(CORPUS).as_posix()
        if "/truth/" in f"/{relative}":
            continue
        reader, _ = pick_reader(Source(path, relative))
        name = None if reader is None else reader.name
        pattern, expected = next(
            ((pattern, owner) for pattern, owner in CLAIMS if PurePosixPath(relative).match(pattern)),
            (None, None),
        )
        if pattern is not None:
            met.add(pattern)
        if name != expected and (expected is not None or name in MINE):
            wrong.append((relative, name, expected))
    assert wrong == []
    assert met == {pattern for pattern, _ in CLAIMS}, "every pattern has a file"


def test_no_other_reader_wants_what_a_client_wrote() -> None:
    for pattern, expected in CLAIMS:
        for path in sorted(CORPUS.glob(pattern))[:3]:
            source = Source(path, path.name)
            others = {reader.name for reader in READERS if reader.sniff(source).score} - {expected}
            assert others == set(), path.name
