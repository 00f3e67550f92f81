from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from builders_lines import (
    CORPUS,
    GIB,
    at,
    check_hostile,
    corpus_log,
    corpus_rows,
    hostile,
    lines_with_rows,
    needs_corpus,
    ns,
    states,
)
from builders_log import Loaded, load_lines
from kvcliff.readers.lines.sglang import SGLANG

DECODE = (
    "Decode batch. #running-req: 13, #token: 18298, token usage: 0.21, "
    "gen throughput (token/s): 240.70, #queue-req: 2"
)
PREFILL = (
    "Prefill batch, #new-seq: 4, #new-token: 8192, #cached-token: 2048, token usage: 0.30, "
    "#running-req: 10, #queue-req: 3, "
)
RETRACT = (
    "KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_tokens_gained: 768, "
    "#new_token_ratio: 0.0980 -> 0.3556"
)


def stamped(message: str, second: int = 0, ranks: str = "", fraction: str = "") -> str:
    return f"[2030-01-11 09:00:{second:02d}{fraction}{ranks}] {message}"


# --------------------------------------------------------------------------------------------------- batches


def test_usage_is_the_fullest_pool_and_live_tokens_only(tmp_path: Path) -> None:
    line = stamped(
        "Decode batch, #running-req: 4, #full token: 100, full token usage: 0.50, #swa token: 9, "
        "swa token usage: 0.90, mamba usage: 0.10, cpu token usage: 0.40, cuda graph: False, "
        "gen throughput (token/s): 5.00, #queue-req: 0, accept len: 2.50, some new field: 7"
    )
    row = load_lines(tmp_path, [line]).stats[0]
    assert (row["kv_used_ratio"], row["side_kv_used_ratio"], row["host_kv_used_ratio"]) == (0.9, 0.9, 0.4)
    assert (row["kv_used_tokens"], row["accept_length"], row["is_cuda_graph"]) == (100, 2.5, False)
    assert (row["kv_semantics"], row["is_action_logged"]) == ("live_tokens", True)


def test_prefill_is_a_sample_and_a_lookup(tmp_path: Path) -> None:
    loaded = load_lines(tmp_path, [stamped(PREFILL)])
    assert (loaded.stats[0]["running_count"], loaded.stats[0]["waiting_count"]) == (10, 3)
    lookup = loaded.lookups[0]
    assert (lookup["tier"], lookup["lookup_tokens"], lookup["hit_tokens"]) == ("hbm", 10240, 2048)


def test_lines_of_several_ranks_count_once(tmp_path: Path) -> None:
    lines = [stamped(DECODE, second, f" TP{rank}") for second in (0, 1) for rank in (0, 1, 2)]
    assert [row["line_no"] for row in load_lines(tmp_path, lines).stats] == [1, 4]


def test_data_parallel_ranks_are_engines(tmp_path: Path) -> None:
    lines = [stamped(DECODE, 0, f" DP{group} TP{group}") for group in (0, 1)]
    assert [row["engine"] for row in load_lines(tmp_path, lines).stats] == ["0", "1"]


def test_a_rank_takes_over_when_the_first_falls_silent(tmp_path: Path) -> None:
    lines = [
        "[2030-01-11 09:00:00 TP0] " + DECODE,
        "[2030-01-11 09:00:30 TP1] " + DECODE,
        "[2030-01-11 09:02:00 TP1] " + DECODE,
        "[2030-01-11 09:02:10 TP1] " + DECODE,
    ]
    assert [row["line_no"] for row in load_lines(tmp_path, lines).stats] == [1, 3, 4]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (DECODE[:50], "a decode line lacks the token usage"),
        (DECODE + ", #queue-req: 2", "a field appears twice in a batch line"),
        ("Decode batch. token usage: 0.3", "a batch line lacks a count"),
        ("Prefill batch: nothing", "a batch line has another form than known"),
    ],
)
def test_cut_lines_are_counted_with_a_reason(tmp_path: Path, message: str, reason: str) -> None:
    loaded = load_lines(tmp_path, [stamped(message), stamped(DECODE)])
    assert len(loaded.stats) == 1
    assert (loaded.report.skipped_count, loaded.report.first_skip_reason) == (1, reason)


# -------------------------------------------------------------------------------------------- clock and head


def test_times_of_day_gain_a_day_at_midnight(tmp_path: Path) -> None:
    lines = [f"[{clock}] [gpu_id=0] {DECODE}" for clock in ("23:59:58", "00:00:02", "23:59:59", "00:00:03")]
    loaded = load_lines(tmp_path, lines)
    first = loaded.stats[0]["src_ns"]
    assert [(row["src_ns"] - first) // 10**9 for row in loaded.stats] == [0, 4, 1, 5]
    assert loaded.stamp_facts()["log_stamp_year_known"] == "false"


def test_outer_stamp_wins_over_the_local_one(tmp_path: Path) -> None:
    lines = ["2030-01-11T07:00:00.5Z " + stamped(DECODE)]
    assert load_lines(tmp_path, lines).stats[0]["src_ns"] == ns("2030-01-11T07:00:00.5+00:00")


def test_a_head_behind_a_progress_bar_is_found(tmp_path: Path) -> None:
    lines = ["  0%|          | 0/23 [00:00<?, ?it/s]" + stamped(DECODE, ranks=" TP0")]
    assert len(load_lines(tmp_path, lines).stats) == 1


def test_access_lines_are_counted_between_stamps(tmp_path: Path) -> None:
    post = 'INFO:     127.0.0.1:{} - "POST /generate HTTP/1.1" 200 OK'
    get = 'INFO:     127.0.0.1:{} - "GET /metrics HTTP/1.1" 200 OK'
    lines = [
        stamped(text.format(port), second) for second in (1, 2) for text in (post, get) for port in range(5)
    ]
    lines.insert(7, stamped(DECODE, 1))
    rows = load_lines(tmp_path, lines).access
    assert sorted((r["path_class"], r["access_count"]) for r in rows) == [
        ("completions", 5),
        ("completions", 5),
        ("metrics", 5),
        ("metrics", 5),
    ]
    assert {r["after_src_ns"] for r in rows} == {ns(f"2030-01-11T09:00:0{second}+00:00") for second in (1, 2)}


def test_brackets_around_lines_of_others_stay_envelopes(tmp_path: Path) -> None:
    lines = ["[2030-03-04 10:00:00] INFO 03-04 10:00:00 [loggers.py:1] Iteration(1): x"]
    assert (
        load_lines(tmp_path, lines).report.first_skip_reason
        == "an iteration line has another form than known"
    )


# ----------------------------------------------------------------------------------------------- retractions


def test_retractions_of_all_ranks_are_one_event(tmp_path: Path) -> None:
    lines = [stamped(RETRACT, 5, f" TP{rank}") for rank in range(8)]
    loaded = load_lines(tmp_path, [*lines, stamped(RETRACT.replace("768", "12"), 5, " TP0")])
    assert [(e["line_no"], e["event_count"], e["tokens"]) for e in loaded.events] == [(1, 2, 768), (9, 2, 12)]
    assert {(e["kind"], e["mode"]) for e in loaded.events} == {("retract", "retract")}


def test_the_same_words_later_are_another_retraction(tmp_path: Path) -> None:
    lines = [stamped(RETRACT, second, " TP0") for second in (5, 9)]
    assert len(load_lines(tmp_path, lines).events) == 2


def test_a_test_switch_is_no_retraction(tmp_path: Path) -> None:
    lines = [stamped("Testing retraction. #retracted_reqs: 1, #new_tokens_gained: 12")]
    loaded = load_lines(tmp_path, lines)
    assert (loaded.events, loaded.report.skipped_count) == ([], 0)


# ---------------------------------------------------------------------------------------- facts and requests


def test_arguments_kept_are_listed_ones(tmp_path: Path) -> None:
    line = stamped(
        "server_args=ServerArgs(model_path='/data/models/m-7b', api_key='sk-secret', page_size=16, "
        "config=CudaGraphConfig(decode=PhaseConfig(backend='full', bs=[1, 2])), disable_radix_cache=True, "
        "chunked_prefill_size=-1, attention_backend='fa3', max_running_requests=None)"
    )
    facts = load_lines(tmp_path, [line, stamped(DECODE)]).facts()
    assert facts == {
        ("", "model_name"): "m-7b",
        ("", "block_size"): "16",
        ("", "enable_prefix_caching"): "false",
        ("", "attention_backend"): "fa3",
        ("", "engine"): "sglang",
    }


def test_memory_is_binary_but_for_the_hierarchical_cache(tmp_path: Path) -> None:
    lines = [
        stamped("KV Cache is allocated. #tokens: 100, KV size: 2.00 GB"),
        stamped("Allocating 32.00 GB host memory for hierarchical KV cache."),
        stamped("SWA KV Cache is allocated. #tokens: 7, KV size: 1.00 GB"),
        stamped("KV Cache VA upper bound. #tokens: 900, KV size: 9.00 GB"),
    ]
    facts = load_lines(tmp_path, lines).facts()
    assert facts["", "kv_cache_bytes"] == str(2 * GIB)
    assert facts["", "kv_cache_tokens"] == "100"
    assert facts["", "host_kv_bytes"] == "32000000000"


def test_request_lines_give_counts_and_no_text(tmp_path: Path) -> None:
    answer = "secret 'meta_info': {'prompt_tokens': 1}"
    line = stamped(
        f"Finish: obj=GenerateReqInput(rid='r1', text='secret'), out={{'text': \"{answer}\", "
        "'meta_info': {'id': 'r1', 'prompt_tokens': 1000, 'completion_tokens': 256, "
        "'total_retractions': 2, 'e2e_latency': 7.25, 'queue_time': 0.5}}"
    )
    loaded = load_lines(tmp_path, [line])
    row = loaded.requests[0]
    assert (row["request_id"], row["prompt_tokens"], row["output_tokens"]) == ("r1", 1000, 256)
    assert (row["retraction_count"], row["total_ms"], row["queue_ms"]) == (2, 7250.0, 500.0)
    assert "secret" not in str(loaded.requests + loaded.events + loaded.settings)


# ---------------------------------------------------------------------------------------------- corpus


def _stats_of(row: dict[str, Any]) -> dict[str, Any]:
    names = {
        "running": "running_count",
        "queue": "waiting_count",
        "gen_tps": "gen_tokens_per_s",
        "input_tps": "prompt_tokens_per_s",
        "tokens": "kv_used_tokens",
        "accept_len": "accept_length",
        "cuda_graph": "is_cuda_graph",
        "cpu_token_usage": "host_kv_used_ratio",
    }
    expected = {ours: row[theirs] for theirs, ours in names.items() if theirs in row}
    pools = [row[key] for key in ("token_usage", "swa_token_usage", "mamba_usage") if key in row]
    if pools:
        expected["kv_used_ratio"] = max(pools)
    if "cache_hit_pct" in row:
        expected["prefix_hit_ratio"] = pytest.approx(row["cache_hit_pct"] / 100)
    return expected | {
        "engine": str(row["rank"].get("DP", 0)),
        "engine_count": 1,
        "kv_semantics": "live_tokens",
    }


def _check_batch(loaded: Loaded, row: dict[str, Any]) -> None:
    found = at(loaded.stats, row["line"])
    kept = {
        key: value for key, value in found.items() if key not in {"line_no", "src_ns", "is_action_logged"}
    }
    kept.pop("side_kv_used_ratio", None)
    assert kept == _stats_of(row)
    if row["kind"] == "prefill":
        lookup = at(loaded.lookups, row["line"])
        tokens = row["new_tokens"] + row["cached_tokens"]
        assert (lookup["lookup_tokens"], lookup["hit_tokens"]) == (tokens, row["cached_tokens"])


def _check_retraction(loaded: Loaded, row: dict[str, Any]) -> None:
    if row.get("counts_as_event") is False:
        assert row["line"] not in lines_with_rows(loaded)
        return
    found = at(loaded.events, row["line"])
    assert (found["kind"], found["event_count"]) == ("retract", row["retracted"])
    assert found.get("tokens") == row.get("new_tokens_gained")


def _check_request(loaded: Loaded, row: dict[str, Any]) -> None:
    if row["kind"] != "request_time_stats":
        event = at(loaded.events, row["line"])
        assert (event["kind"], event["request_id"]) == (row["kind"], row["request_id"])
        assert event["src_ns"] == ns(row["time"])
    if row["kind"] == "request_received":
        return
    names = {
        "request_id": "request_id",
        "prompt_tokens": "prompt_tokens",
        "input_tokens": "prompt_tokens",
        "completion_tokens": "output_tokens",
        "output_tokens": "output_tokens",
        "cached_tokens": "cached_tokens",
        "total_retractions": "retraction_count",
        "attempts": "attempt_count",
        "queue_ms": "queue_ms",
        "forward_ms": "run_ms",
    }
    found = at(loaded.requests, row["line"])
    assert {ours: found[ours] for theirs, ours in names.items() if theirs in row} == {
        ours: row[theirs] for theirs, ours in names.items() if theirs in row
    }
    if "e2e_latency_s" in row:
        assert (found["total_ms"], found["queue_ms"]) == (
            row["e2e_latency_s"] * 1e3,
            row["queue_time_s"] * 1e3,
        )


def _gib(value: float) -> str:
    return str(round(value * GIB))


def _check_memory(loaded: Loaded, row: dict[str, Any]) -> None:
    if row["what"] == "Load weight end":
        states(loaded, {"weight_bytes": _gib(row["used_gib"])})
    elif row["what"].endswith("graph end"):
        event = at(loaded.events, row["line"])
        assert (event["kind"], event["bytes"]) == ("graph_capture", round(row["used_gib"] * GIB))
    else:
        assert row["line"] not in lines_with_rows(loaded)


def _check_pool(loaded: Loaded, row: dict[str, Any]) -> None:
    size = row["kv_gib"] if "kv_gib" in row else row["k_gib"] + row["v_gib"]
    states(loaded, {"kv_cache_tokens": str(row["tokens"]), "kv_cache_bytes": _gib(size)})
    if "dtype" in row:
        states(loaded, {"kv_cache_dtype": row["dtype"].removeprefix("torch.")})


def _check_limits(loaded: Loaded, row: dict[str, Any]) -> None:
    facts = {
        "kv_cache_tokens": str(row["max_total_num_tokens"]),
        "max_num_batched_tokens": str(row["chunked_prefill_size"]),
        "max_num_seqs": str(row["max_running_requests"]),
        "max_model_len": str(row["context_len"]),
    }
    states(loaded, facts | ({"free_gpu_memory_bytes": _gib(row["avail_gib"])} if "avail_gib" in row else {}))


def _check_arguments(loaded: Loaded, row: dict[str, Any]) -> None:
    names = {
        "model_path": "model_name",
        "tp_size": "tensor_parallel_size",
        "page_size": "block_size",
        "mem_fraction_static": "mem_fraction_static",
        "chunked_prefill_size": "max_num_batched_tokens",
        "attention_backend": "attention_backend",
    }
    args = row["args"]
    states(loaded, {ours: str(args[theirs]) for theirs, ours in names.items() if theirs in args})


def _check_fatal(loaded: Loaded, row: dict[str, Any]) -> None:
    assert at(loaded.events, row["line"])["kind"] == "fatal"


def _check_prefetch(loaded: Loaded, row: dict[str, Any]) -> None:
    found = at(loaded.transfers, row["line"])
    assert (found["tier"], found["direction"], found["request_id"]) == (
        "hicache",
        "prefetch",
        row["request_id"],
    )
    assert (found["tokens"], found["asked_tokens"]) == (row["loaded"], row["matched"])


def _check_drop(loaded: Loaded, row: dict[str, Any]) -> None:
    assert at(loaded.events, row["line"])["kind"] == "offload_store_failed"


def _check_host(loaded: Loaded, row: dict[str, Any]) -> None:
    states(loaded, {"host_kv_bytes": str(round(row["gb_decimal"] * 1e9))})


def _check_access(loaded: Loaded, row: dict[str, Any]) -> None:
    assert at(loaded.access, row["line"])["status"] == row["status"]


def _check_silent(loaded: Loaded, row: dict[str, Any]) -> None:
    assert row["line"] not in lines_with_rows(loaded)


CHECKS: dict[str | None, Callable[[Loaded, dict[str, Any]], None]] = {
    "prefill": _check_batch,
    "decode": _check_batch,
    "retract": _check_retraction,
    "retract_test": _check_silent,
    "fatal": _check_fatal,
    "server_args": _check_arguments,
    "memory": _check_memory,
    "kv_pool": _check_pool,
    "limits": _check_limits,
    "hicache_host": _check_host,
    "hicache_prefetch": _check_prefetch,
    "hicache_drop": _check_drop,
    "request_received": _check_request,
    "request_finished": _check_request,
    "request_time_stats": _check_request,
    "access": _check_access,
    None: _check_silent,
}


def _cases() -> list[str]:
    return sorted(path.name for path in CORPUS.glob("sglang_*.log")) if CORPUS.is_dir() else []


@needs_corpus
@pytest.mark.parametrize("name", _cases())
def test_corpus(name: str) -> None:
    rows, loaded = corpus_rows(name), corpus_log(name)
    # Times of day have no date: they count from the first of January of the year given.
    shift_ns = ns("2030-01-10T00:00:00+00:00") - ns("2030-01-01T00:00:00+00:00") if "0.1_0.2" in name else 0
    for row in rows:
        CHECKS[row["kind"]](loaded, row)
        if row["kind"] in {"prefill", "decode"}:
            assert at(loaded.stats, row["line"])["src_ns"] == ns(row["time"]) - shift_ns
        elif row["kind"] == "retract" and row.get("counts_as_event", True):
            assert at(loaded.events, row["line"])["src_ns"] == ns(row["time"]) - shift_ns
    assert len(loaded.stats) == sum(row["kind"] in {"prefill", "decode"} for row in rows)


# --------------------------------------------------------------------------------------------------- hostile

LINES = (
    stamped(DECODE, ranks=" DP1 TP0"),
    stamped(PREFILL, fraction=".123"),
    "[23:59:58] [gpu_id=3] " + DECODE,
    stamped(RETRACT, ranks=" TP0"),
    stamped("server_args=ServerArgs(model_path='a/b', tp_size=2, x=F(y=[1, 2]))"),
    stamped("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 87552, K size: 6.01 GB, V size: 6.01 GB"),
    stamped("max_total_num_tokens=9, max_prefill_tokens=1, max_running_requests=2, context_len=3"),
    stamped("Finish: obj=G(rid='r'), out={'meta_info': {'prompt_tokens': 10, 'e2e_latency': 7.25}}"),
    stamped('{"timestamp": "2030-01-16T09:00:08.123", "event": "request.finished", "rid": "j1", "out": {}}'),
    stamped("ReqTimeStats(rid=n0, input_len=512, output_len=64, type=unified): queue_duration=10.00ms"),
    stamped("HiCache prefetch dropped req=abc1 completed=0 matched=128 loaded=0 occupied=64"),
)


@settings(max_examples=200, deadline=None)
@given(hostile(LINES))
def test_hostile_variants(line: bytes) -> None:
    check_hostile(SGLANG, line)


@pytest.mark.fuzz
@settings(max_examples=5000, deadline=None)
@given(hostile(LINES))
def test_many_hostile_variants(line: bytes) -> None:
    check_hostile(SGLANG, line)
