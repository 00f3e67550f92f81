from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from builders_lines import GIB, at, check_hostile, corpus_log, corpus_rows, hostile, needs_corpus, ns, states
from builders_log import load_lines
from kvcliff.readers.lines.tensorrt_llm import TENSORRT_LLM

STATES = "states = {'num_ctx_requests': 2, 'num_ctx_tokens': 4096, 'num_generation_tokens': 40}"
LINE = (
    "[01/17/2030-09:00:03] [TRT-LLM] [RANK 0] [I] iter = 17, host_step_time = 91.78ms, "
    f"num_scheduled_requests: 42, {STATES}"
)


def test_fields_are_found_one_by_one(tmp_path: Path) -> None:
    moved = (
        "[01/17/2030-09:00:03] [TRT-LLM] [I] [_torch][RANK 3] iter = 8, global_rank = 7, rank = 3, "
        f"num_scheduled_requests = 42, kv_cache_util = 0.5, prev_device_step_time = 19.5ms, {STATES}"
    )
    row = load_lines(tmp_path, [moved]).iterations[0]
    assert (row["engine"], row["iteration"], row["context_requests"]) == ("3", 8, 2)
    assert (row["generation_requests"], row["generation_tokens"]) == (40, 40)
    assert (row["kv_used_ratio"], row["previous_device_ms"]) == (0.5, 19.5)
    assert (row["kv_semantics"], "elapsed_ms" in row) == ("used_blocks", False)


def test_values_that_are_not_available_are_null(tmp_path: Path) -> None:
    line = LINE.replace("iter = 17", "iter = 17, kv_cache_util = N/A, prev_device_step_time = N/A")
    row = load_lines(tmp_path, [line]).iterations[0]
    assert not {"kv_used_ratio", "previous_device_ms"} & set(row)
    assert row["elapsed_ms"] == 91.78


def test_ranks_and_the_prefix_of_mpirun(tmp_path: Path) -> None:
    lines = [f"{rank}: " + LINE.replace("RANK 0", f"RANK {rank}") for rank in (0, 1)]
    assert [row["engine"] for row in load_lines(tmp_path, lines).iterations] == ["0", "1"]


def test_the_first_iteration_is_warm_up(tmp_path: Path) -> None:
    lines = [LINE.replace("iter = 17", f"iter = {number}") for number in (1, 2)]
    assert [row["is_warmup"] for row in load_lines(tmp_path, lines).iterations] == [True, False]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LINE[:-40], "an iteration line lacks a field"),
        (
            LINE.replace("'num_ctx_requests': 2", "'num_ctx_requests': 99"),
            "an iteration line has more context requests than requests",
        ),
        (LINE[20:], "an iteration line has no complete head"),
    ],
)
def test_cut_lines_are_counted_with_a_reason(tmp_path: Path, text: str, reason: str) -> None:
    report = load_lines(tmp_path, [text]).report
    assert (report.skipped_count, report.first_skip_reason) == (1, reason)


@needs_corpus
def test_corpus() -> None:
    name = "trtllm_iteration_log.log"
    rows, loaded = corpus_rows(name), corpus_log(name)
    for row in rows:
        if row["kind"] == "kv_memory":
            facts = {
                "kv_cache_bytes": str(round(row["available_gib"] * GIB)),
                "kv_bytes_per_token": str(row["kv_size_bytes_per_token"]),
                "total_gpu_memory_bytes": str(round(row["device_total_gib"] * GIB)),
                "kv_memory_fraction": str(row["fraction"]),
                "engine": "tensorrt_llm",
            }
            states(loaded, facts)
            continue
        found = at(loaded.iterations, row["line"])
        assert found["src_ns"] == ns(row["time"])
        _check(found, row)
    assert len(loaded.iterations) == sum(row["kind"] == "iteration" for row in rows) == 32


def _check(found: dict[str, Any], row: dict[str, Any]) -> None:
    ms = row["elapsed_s"] * 1e3 if row["host_step_ms"] is None else row["host_step_ms"]
    assert found["elapsed_ms"] == ms
    assert (found["iteration"], found["context_requests"]) == (row["iter"], row["ctx_reqs"])
    assert (found["context_tokens"], found["generation_tokens"]) == (row["ctx_tokens"], row["gen_tokens"])
    assert found["context_requests"] + found["generation_requests"] == row["scheduled"]
    assert found["engine"] == str(row.get("rank", 0))
    assert found.get("previous_device_ms") == row.get("prev_device_ms")
    assert found.get("kv_used_ratio") == row.get("kv_util")
    assert found["is_warmup"] is row.get("warmup", False)


# ---------------------------------------------------------------------------------------------- hostile

LINES = (
    LINE,
    "1: " + LINE.replace("RANK 0", "RANK 1"),
    (
        "[01/17/2030-09:00:00] [TRT-LLM] [I] Peak memory during x: 7 GiB, available KV cache memory when "
        "calculating max tokens: 55.00 GiB, fraction is set 0.85, kv size is 45000. device "
        "total memory 139.81 GiB"
    ),
)


@settings(max_examples=200, deadline=None)
@given(hostile(LINES))
def test_hostile_variants(line: bytes) -> None:
    check_hostile(TENSORRT_LLM, line)


@pytest.mark.fuzz
@settings(max_examples=5000, deadline=None)
@given(hostile(LINES))
def test_many_hostile_variants(line: bytes) -> None:
    check_hostile(TENSORRT_LLM, line)
