"""The bandwidth ledger: what a step must move, how long that takes at best, and what it took."""

from typing import Any

import duckdb
import pytest

from builders_raw import Row, build, facts, has_documented_columns, is_unique, one, source, table

MODEL = source(1, "config.json", "model")
LOG = source(2, "server.log", "log")
#: 2 GB of KV in a pool of 1,000 tokens beside 14 GB of weights, on 2 TB/s.
SHAPE = facts(1, layers=1, kv_heads=1, head_dim=500_000, dtype="float16", model_type="llama")
TWO_TERABYTES = facts(0, hbm_bytes_per_s=2e12, weight_bytes=14_000_000_000)
POOL = facts(2, kv_cache_tokens=1_000)


def occupancy(ratio: float, running: int = 1, **more: object) -> Row:
    return {
        "replica_id": "0",
        "tier": "hbm",
        "origin": "metrics",
        "used_ratio": ratio,
        "running_count": running,
        "ts_ns": 0,
        **more,
    }


def step(
    line_no: int, ms: float, *, decode: int = 0, prompt: int = 0, kv: float | None = None, **more: object
) -> Row:
    return {
        "source_id": 2,
        "line_no": line_no,
        "src_ns": line_no,
        "engine": "0",
        "context_requests": min(prompt, 1),
        "context_tokens": prompt,
        "generation_requests": decode,
        "generation_tokens": decode,
        "elapsed_ms": ms,
        "kv_used_ratio": kv,
        "is_dummy": False,
        **more,
    }


def latency(itl_p50_ms: float, running: float, origin: str = "tokens") -> Row:
    return {
        "replica_id": "0",
        "origin": origin,
        "itl_p50_ms": itl_p50_ms,
        "running_count": running,
        "ts_ns": 0,
    }


def ledger(
    settings: list[Row],
    *,
    used: tuple[Row, ...] = (),
    steps: tuple[Row, ...] = (),
    gaps: tuple[Row, ...] = (),
    traced: tuple[Row, ...] = (),
    samples: tuple[Row, ...] = (),
    profiled: tuple[Row, ...] = (),
) -> duckdb.DuckDBPyConnection:
    con = build(
        "bandwidth_ledger",
        {"sources": [MODEL, LOG], "raw_settings": settings, "raw_log_iterations": steps},
        {
            "kv_occupancy": used,
            "token_latency": gaps,
            "steps": traced,
            "gpu_samples": samples,
            "counter_phases": profiled,
            "int_metric_values": (),
        },
    )
    assert has_documented_columns(con, "bandwidth_ledger")
    assert is_unique(con, "bandwidth_ledger")
    return con


def lines(con: duckdb.DuckDBPyConnection, step_class: str = "decode") -> dict[object, tuple[object, ...]]:
    rows = table(
        con,
        "select line, bytes, time_ms, tokens_per_s, ratio from bandwidth_ledger "
        f"where step_class = '{step_class}' order by line_no",
    )
    return {row[0]: row[1:] for row in rows}


def meaning(con: duckdb.DuckDBPyConnection, step_class: str = "decode", line: str = "cannot_tell") -> object:
    return one(
        con, f"select meaning from bandwidth_ledger where line = '{line}' and step_class = '{step_class}'"
    )[0]


def test_one_sequence_against_two_terabytes_per_second() -> None:
    con = ledger(SHAPE + TWO_TERABYTES + POOL, used=(occupancy(1.0),), gaps=(latency(12.0, 1),))
    assert lines(con) == {
        "weights": (14_000_000_000, 7.0, None, None),
        "kv_read": (2_000_000_000, 1.0, None, None),
        "kv_write": (2_000_000, 0.001, None, None),
        "floor": (16_000_000_000, 8.0, 125.0, pytest.approx(2 / 3)),
        "achievable": (None, 10.0, 100.0, None),
        "measured": (None, 12.0, pytest.approx(83.333, abs=0.001), None),
        "unexplained": (None, 2.0, None, None),
        "ratio_to_floor": (None, None, None, 1.5),
    }


def test_iteration_lines_win_and_leave_prefill_and_recompute_out() -> None:
    steps = (
        step(1, 20.0, decode=4, kv=0.5),
        step(2, 20.0, decode=4, kv=0.5),
        step(3, 500.0, decode=4, kv=0.5, generation_tokens=300),
        step(4, 400.0, decode=3, prompt=900, kv=0.5),
        step(5, 300.0, decode=4, kv=0.5, is_dummy=True),
    )
    con = ledger(
        SHAPE + TWO_TERABYTES + POOL, used=(occupancy(0.9, 7),), steps=steps, gaps=(latency(99.0, 7),)
    )
    found = lines(con)
    assert found["kv_read"] == (1_000_000_000, 0.5, None, None)
    assert found["floor"] == (15_000_000_000, 7.5, pytest.approx(4 / 7.5e-3), 0.375)
    assert found["measured"] == (None, 20.0, 200.0, None)
    assert one(
        con, "select origin from bandwidth_ledger where line = 'measured' and step_class = 'decode'"
    ) == ("iterations",)


def test_a_batch_reads_the_weights_once() -> None:
    con = ledger(SHAPE + TWO_TERABYTES + POOL, used=(occupancy(0.5, 10),), gaps=(latency(10.0, 10),))
    assert lines(con)["floor"] == (15_000_000_000, 7.5, pytest.approx(10 / 7.5e-3), 0.75)


def test_each_gpu_moves_its_share() -> None:
    settings = SHAPE + TWO_TERABYTES + POOL + facts(2, tensor_parallel_size=1, pipeline_parallel_size=2)
    con = ledger(settings, used=(occupancy(1.0),))
    assert lines(con)["weights"][0] == 7_000_000_000
    assert lines(con)["kv_read"][0] == 1_000_000_000


def test_throughput_stands_in_for_gaps_and_says_so() -> None:
    rate: Row = {
        "replica_id": "0",
        "origin": "counters",
        "tokens_per_s": 500.0,
        "running_count": 10.0,
        "ts_ns": 1,
    }
    con = ledger(SHAPE + TWO_TERABYTES + POOL, used=(occupancy(0.5, 10),), gaps=(rate,))
    assert lines(con)["measured"] == (None, 20.0, 500.0, None)
    assert meaning(con, line="measured") == "requests running / tokens per second; prefill steps are in it"
    con = ledger(SHAPE + TWO_TERABYTES + POOL, used=(occupancy(0.5, 10),), gaps=(rate, latency(12.0, 10)))
    assert lines(con)["measured"][1] == 12.0


def test_the_only_replica_is_the_same_under_two_names() -> None:
    used = occupancy(1.0, replica_id="host:8000/0")
    con = ledger(SHAPE + TWO_TERABYTES + POOL, used=(used,), gaps=(latency(12.0, 1),))
    assert one(con, "select replica_id, ratio from bandwidth_ledger where line = 'ratio_to_floor'") == (
        "host:8000/0",
        1.5,
    )


def test_two_replicas_are_never_mixed_up() -> None:
    used = (occupancy(1.0, replica_id="a"), occupancy(1.0, replica_id="b"))
    con = ledger(SHAPE + TWO_TERABYTES + POOL, used=used, gaps=(latency(12.0, 1),))
    assert "measured" not in lines(con)


def test_without_occupancy_the_floor_counts_weights_alone() -> None:
    con = ledger(SHAPE + TWO_TERABYTES, gaps=(latency(14.0, 2),))
    assert lines(con)["kv_read"] == (None, None, None, None)
    assert lines(con)["floor"][:2] == (14_000_000_000, 7.0)
    assert meaning(con, line="kv_read") == "unknown; the floor counts the weights alone"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        pytest.param(facts(0, weight_bytes=14), "no floor: no file names the GPU", id="no GPU"),
        pytest.param(
            facts(0, weight_bytes=14, gpu_name="Brand New 9000"),
            "no floor: the GPU is not in the list of known parts",
            id="unknown GPU",
        ),
        pytest.param(
            facts(0, weight_bytes=14, gpu_name="NVIDIA H100 80GB HBM3", gpu_memory_bytes=68_416_438_272),
            "no floor: the memory size is not that of the known part with this name",
            id="memory contradicts the name",
        ),
        pytest.param(
            facts(0, weight_bytes=14, gpu_name="H100 64 GB HBM2e"),
            "no floor: the GPU is not in the list of known parts",
            id="another part of a known family",
        ),
        pytest.param(
            facts(0, hbm_bytes_per_s=2e12),
            "no floor: neither the engine nor the shape tells the size of the weights",
            id="no weights",
        ),
        pytest.param(
            facts(0, hbm_bytes_per_s=2e12, weight_bytes=14, num_experts=8),
            "no floor: a mixture of experts reads only the experts that the step needs",
            id="mixture of experts",
        ),
        pytest.param(
            facts(0, weight_bytes=14, device_type="cpu"),
            "no floor: the engine runs on a CPU whose memory bandwidth is not stated",
            id="CPU",
        ),
    ],
)
def test_no_floor_says_why(settings: list[Row], reason: str) -> None:
    con = ledger(settings, gaps=(latency(10.0, 1),), used=(occupancy(0.5),))
    assert "floor" not in lines(con)
    assert "ratio_to_floor" not in lines(con)
    assert lines(con)["measured"][1] == 10.0
    assert meaning(con) == reason


def test_a_cpu_engine_is_held_against_its_own_memory() -> None:
    con = ledger(
        facts(0, weight_bytes=1_000_000_000, device_type="cpu", host_memory_bytes_per_s=1e11),
        used=(occupancy(0.5),),
    )
    assert lines(con)["floor"][:2] == (1_000_000_000, 10.0)


@pytest.mark.parametrize(
    ("name", "bytes_per_s"),
    [
        ("NVIDIA H100 80GB HBM3", 3.35e12),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
        ("NVIDIA H100 PCIe", 2.0e12),
        ("NVIDIA H100 NVL", 3.9e12),
        ("NVIDIA H200", 4.8e12),
        ("NVIDIA A100-SXM4-40GB", 1.555e12),
        ("NVIDIA A100-SXM4-80GB", 2.039e12),
        ("NVIDIA A100 80GB PCIe", 1.935e12),
        ("NVIDIA A100-PCIE-40GB", 1.555e12),
        ("NVIDIA L4", 3.0e11),
        ("NVIDIA L40S", 8.64e11),
        ("NVIDIA L40", 8.64e11),
        ("NVIDIA A40", 6.96e11),
        ("Tesla T4", 3.2e11),
        ("Tesla V100-SXM2-32GB", 9.0e11),
        ("NVIDIA B200", 8.0e12),
        ("NVIDIA GB200", None),
        ("AMD Instinct MI300X", 5.3e12),
        ("NVIDIA A10", 6.0e11),
        ("NVIDIA A10G", None),
        ("NVIDIA A100", None),
        ("NVIDIA GeForce RTX 3090", 9.36e11),
        ("NVIDIA GeForce RTX 3090 Ti", None),
        ("NVIDIA GeForce RTX 4090", 1.008e12),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("NVIDIA GeForce RTX 5090", 1.792e12),
    ],
)
def test_bandwidth_of_known_names(name: str, bytes_per_s: float | None) -> None:
    con = build("int_gpu_facts", {"sources": [MODEL], "raw_settings": facts(1, gpu_name=name)})
    assert has_documented_columns(con, "int_gpu_facts")
    assert one(con, "select hbm_bytes_per_s from int_gpu_facts where level is null") == (bytes_per_s,)


@pytest.mark.parametrize(
    ("memory_bytes", "fits"),
    [
        (84_929_347_584, True),
        (int(85_899_345_920 * 0.91), True),
        (int(85_899_345_920 * 0.89), False),
        (100_931_731_456, False),
    ],
)
def test_memory_decides_whether_a_name_fits(memory_bytes: int, fits: bool) -> None:
    raw = facts(1, gpu_name="NVIDIA H100 80GB HBM3", gpu_memory_bytes=memory_bytes)
    con = build("int_gpu_facts", {"sources": [MODEL], "raw_settings": raw})
    assert one(con, "select hbm_bytes_per_s is not null from int_gpu_facts where level is null") == (fits,)


def test_stated_bandwidth_beats_the_list() -> None:
    raw = facts(1, gpu_name="NVIDIA H100 80GB HBM3", hbm_bytes_per_s=3_352_320_000_000)
    con = build("int_gpu_facts", {"sources": [MODEL], "raw_settings": raw})
    assert one(con, "select hbm_bytes_per_s, bandwidth_origin from int_gpu_facts where level is null") == (
        3_352_320_000_000,
        "config.json",
    )


@pytest.mark.parametrize(
    ("stated", "flops_per_s"),
    [
        ({"dtype": "bfloat16"}, 989.4e12),
        ({"dtype": "bfloat16", "quantization": "awq_marlin"}, 989.4e12),
        ({"dtype": "bfloat16", "quantization": "fp8"}, 1978.9e12),
        ({"dtype": "bfloat16", "quantization": "compressed-tensors"}, None),
        ({"dtype": "float32"}, None),
        ({}, None),
    ],
)
def test_compute_rate_is_that_of_the_arithmetic(stated: dict[str, Any], flops_per_s: float | None) -> None:
    raw = facts(1, gpu_name="NVIDIA H100 80GB HBM3", **stated)
    con = build("int_gpu_facts", {"sources": [MODEL], "raw_settings": raw})
    assert one(con, "select flops_per_s from int_gpu_facts where level is null") == (flops_per_s,)


def test_every_seed_row_is_cited_and_plausible() -> None:
    con = build("int_gpu_facts", {"sources": [], "raw_settings": []})
    doubtful = """
        select gpu from gpus
        where
            source is null
            or hbm_bytes_per_s not between 1e11 and 1e13
            or memory_bytes % (1 << 30) <> 0
            or fp8_flops_per_s < bf16_flops_per_s
    """
    assert table(con, doubtful) == []


def test_speculation_makes_gaps_no_step_time() -> None:
    con = ledger(SHAPE + TWO_TERABYTES + facts(2, num_speculative_tokens=3), gaps=(latency(4.0, 1),))
    assert "measured" not in lines(con)
    assert meaning(con) == "no measured step: neither iteration lines nor token times"


def test_speculating_steps_count_accepted_tokens() -> None:
    steps = (step(1, 20.0, decode=2, generation_tokens=6, kv=0.0),)
    con = ledger(SHAPE + TWO_TERABYTES + POOL + facts(2, num_speculative_tokens=3), steps=steps)
    assert lines(con)["measured"] == (None, 20.0, 300.0, None)


def test_prefill_is_held_against_the_compute_rate() -> None:
    shape: dict[str, Any] = {
        "model_type": "llama",
        "layers": 10,
        "hidden_size": 1000,
        "attention_heads": 10,
        "kv_heads": 10,
        "head_dim": 100,
        "intermediate_size": 2000,
        "vocab_size": 1000,
        "dtype": "bfloat16",
    }
    settings = facts(1, **shape) + facts(0, hbm_bytes_per_s=2e12, peak_flops_per_s=1e12)
    con = ledger(settings, steps=(step(1, 300.0, prompt=800), step(2, 500.0, prompt=1200)))
    parameters = 10 * (4 * 1000 * 1000 + 3 * 1000 * 2000 + 2 * 1000) + 1000
    found = lines(con, "prefill")
    assert found["compute"][1] == pytest.approx(2 * parameters * 1000 / 1e12 * 1e3)
    assert found["floor"][1] == found["compute"][1]
    assert found["measured"] == (None, 400.0, 2500.0, None)
    assert found["ratio_to_floor"][3] == pytest.approx(400 / (2 * parameters * 1000 / 1e12 * 1e3))


def test_prefill_without_step_times_cannot_be_told() -> None:
    con = ledger(SHAPE + TWO_TERABYTES, gaps=(latency(10.0, 1),))
    assert meaning(con, "prefill") == "no floor: no file gives the length of prefill steps"


def test_nothing_known_is_said_for_both_classes() -> None:
    con = ledger([])
    assert table(
        con, "select step_class, line, meaning from bandwidth_ledger where line = 'cannot_tell' order by 1"
    ) == [
        ("decode", "cannot_tell", "no floor: no file states the model or the size of its weights"),
        ("prefill", "cannot_tell", "no floor: no file states the model or the size of its weights"),
    ]


@pytest.mark.parametrize("model", ["int_ledger_steps", "int_ledger_work", "int_gpu_facts"])
def test_private_models_keep_their_headers(model: str) -> None:
    raw = {
        "sources": [MODEL, LOG],
        "raw_settings": SHAPE + TWO_TERABYTES + POOL,
        "raw_log_iterations": [step(1, 20.0, decode=1), step(2, 90.0, prompt=100)],
    }
    con = build(model, raw, {"kv_occupancy": [occupancy(0.5)], "token_latency": [latency(10.0, 1)]})
    assert has_documented_columns(con, model)
    assert is_unique(con, model)


MIXTURE = facts(
    1,
    model_type="qwen3_moe",
    layers=48,
    hidden_size=2048,
    attention_heads=32,
    kv_heads=4,
    head_dim=128,
    vocab_size=151_936,
    num_experts=128,
    experts_per_token=8,
    expert_intermediate_size=768,
    dtype="bfloat16",
)
EXPERT_BYTES = 48 * 128 * 3 * 2048 * 768 * 2


@pytest.mark.parametrize(("batch", "touched"), [(1, 8 / 128), (16, 1 - (1 - 8 / 128) ** 16)])
def test_a_mixture_reads_the_experts_that_its_batch_touches(batch: int, touched: float) -> None:
    con = ledger(
        MIXTURE + facts(0, hbm_bytes_per_s=2e12) + POOL,
        used=(occupancy(0.5, batch),),
        gaps=(latency(10.0, batch),),
    )
    weights = lines(con)["weights"][0]
    # Embedding rows are looked up, not read; the rest of 30.53 billion parameters is.
    everything = 2 * (30_532_110_336 - 151_936 * 2048)
    assert weights == pytest.approx(everything - EXPERT_BYTES * (1 - touched), rel=1e-6)
    assert f"{round(100 * touched)} % of the experts expected" in str(meaning(con, line="weights"))
    assert "cannot_tell" not in lines(con)


def test_the_batch_decides_which_experts_are_read() -> None:
    con = ledger(MIXTURE + facts(0, hbm_bytes_per_s=2e12))
    assert "how many tokens share a step" in str(meaning(con))


def test_an_input_embedding_is_looked_up_and_not_read() -> None:
    shape: dict[str, Any] = {
        "model_type": "llama",
        "layers": 32,
        "hidden_size": 4096,
        "attention_heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
        "intermediate_size": 14_336,
        "vocab_size": 128_256,
        "dtype": "bfloat16",
    }
    table_bytes = 128_256 * 4096 * 2
    untied = lines(ledger(facts(1, **shape) + facts(0, hbm_bytes_per_s=2e12)))
    assert untied["weights"][0] == 2 * 8_030_261_248 - table_bytes
    tied = lines(ledger(facts(1, **shape, tie_word_embeddings="true") + facts(0, hbm_bytes_per_s=2e12)))
    assert tied["weights"][0] == 2 * 8_030_261_248 - table_bytes


def traced_step(number: int, start_ms: float, busy_ms: float, idle_ms: float, **more: object) -> Row:
    start_ns = round(start_ms * 1e6)
    return {
        "replica_id": "0",
        "source_id": 7,
        "step_id": number,
        "device_id": 0,
        "phase": "decode",
        "confidence": 0.95,
        "generation_requests": 4,
        "generation_tokens": 4,
        "context_tokens": 0,
        "kv_read_tokens": 250,
        "gpu_busy_ns": round(busy_ms * 1e6),
        "bubble_before_ns": round(idle_ms * 1e6),
        "gpu_start_ns": start_ns,
        "gpu_end_ns": start_ns + round(busy_ms * 1e6),
        **more,
    }


def test_steps_of_the_trace_give_kv_read_and_idle_time() -> None:
    traced = tuple(traced_step(number, 10.0 * number, 8.0, 2.0) for number in range(3))
    con = ledger(SHAPE + TWO_TERABYTES + POOL, used=(occupancy(0.9, 4),), traced=traced)
    found = lines(con)
    # 250 labelled tokens of 2 MB each, not 90 % of the pool.
    assert found["kv_read"] == (500_000_000, 0.25, None, None)
    assert found["measured"][1] == 10.0
    assert found["gpu_idle"][1] == 2.0
    parts = found["achievable"][1], found["gpu_idle"][1], found["unexplained"][1]
    assert sum(part for part in parts if isinstance(part, float)) == pytest.approx(10.0)


def test_counters_tell_what_was_moved_while_steps_ran() -> None:
    traced = tuple(traced_step(number, 10.0 * number, 8.0, 2.0) for number in range(3))
    counter = {"source_id": 7, "device_id": 0}
    samples = tuple(
        {**counter, "counter": name, "value": value, "ts_ns": round(ms * 1e6)}
        for ms in (1.0, 5.0, 9.0, 11.0)
        for name, value in (("dram_read_pct", 0.0 if ms == 9.0 else 85.0), ("dram_write_pct", 5.0))
    )
    con = ledger(SHAPE + TWO_TERABYTES + POOL, used=(occupancy(0.9, 4),), traced=traced, samples=samples)
    # The sample at 9 ms lies between two steps. 90 % of 2 TB/s over 8 ms of GPU time:
    assert lines(con)["moved"] == (14_400_000_000, None, None, pytest.approx(0.9))


def test_profiled_kernels_stand_in_for_samples_where_they_cover_the_phase() -> None:
    phase = {"device_id": 0, "phase": "decode", "dram_use_ratio": 0.7, "is_covered": True}
    settings = SHAPE + TWO_TERABYTES + POOL
    con = ledger(settings, used=(occupancy(1.0),), gaps=(latency(12.0, 1),), profiled=(phase,))
    assert lines(con)["moved"][3] == pytest.approx(0.7)
    thin = ledger(
        settings, used=(occupancy(1.0),), gaps=(latency(12.0, 1),), profiled=({**phase, "is_covered": False},)
    )
    assert "moved" not in lines(thin)


def test_all_reduces_have_their_own_line() -> None:
    settings = facts(1, layers=32, hidden_size=4096, kv_heads=8, head_dim=128, dtype="float16") + facts(
        0, hbm_bytes_per_s=2e12, weight_bytes=14_000_000_000, nvlink_bytes_per_s=3e11, tensor_parallel_size=4
    )
    con = ledger(settings + POOL, used=(occupancy(0.5, 8),), gaps=(latency(10.0, 8),))
    sent = 2 * 32 * 8 * 4096 * 2 * 2 * 3 / 4
    assert lines(con)["collectives"][:2] == (round(sent), pytest.approx(sent / 3e11 * 1e3))
    found = lines(con)
    total = sum(
        value
        for line in ("achievable", "collectives", "unexplained")
        if isinstance(value := found[line][1], float)
    )
    assert total == pytest.approx(10.0)


def test_a_large_batch_is_bound_by_its_flops() -> None:
    shape: dict[str, Any] = {
        "model_type": "llama",
        "layers": 32,
        "hidden_size": 4096,
        "attention_heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
        "intermediate_size": 14_336,
        "vocab_size": 128_256,
        "dtype": "bfloat16",
    }
    facts_of_gpu = facts(0, hbm_bytes_per_s=3.35e12, peak_flops_per_s=1e14)
    con = ledger(facts(1, **shape) + facts_of_gpu, gaps=(latency(200.0, 512),))
    assert lines(con)["compute"][1] > lines(con)["floor"][1]
    assert lines(con)["achievable"][1] == pytest.approx(lines(con)["compute"][1] / 0.8)
    assert lines(con)["compute"][1] == pytest.approx(2 * 7_504_924_672 * 512 / 1e14 * 1e3, rel=1e-3)
