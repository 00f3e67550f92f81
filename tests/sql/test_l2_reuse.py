"""The l2_reuse and counter_limits marts and findings on sweeps with known hits and fabric traffic."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from builders_ncu import PCT, kernel, report
from builders_ncu_sweep import ATTENTION, GEMM, Counted, at_rate, write_level
from builders_raw import build, has_documented_columns, is_unique, needed, source, table
from kvcliff.findings import concurrency_knee, counter_limits, l2_reuse
from kvcliff.findings.base import Result
from kvcliff.store.models import build_models, load_models
from kvcliff.store.plan import plan_run

LOADS = (1, 2, 4, 8, 16, 32)
MARTS = ("l2_reuse", "counter_limits", "concurrency_knee")
#: Attention hits at 60 % up to 4 requests, then KV no longer fits.
CLIFF = (0.62, 0.61, 0.6, 0.2, 0.19, 0.18)
GQA = (
    '{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, '
    '"num_key_value_heads": 8, "torch_dtype": "float16", "vocab_size": 32000, "intermediate_size": 11008}'
)


def sweep(
    folder: Path,
    rates: Sequence[float],
    loads: Sequence[int] = LOADS,
    *,
    kernels: Callable[[float], Sequence[Counted]] = lambda rate: [at_rate(rate)],
    **how: str,
) -> duckdb.DuckDBPyConnection:
    """Return the staged run of a written sweep."""
    for load, rate in zip(loads, rates, strict=True):
        write_level(folder, load, kernels(rate), **how)
    # As a run is staged, but only with the models that are asked for.
    planned = [item for item in plan_run(folder).sources if item.reader is not None]
    rows = [
        source(
            item.source_id,
            item.source.relative,
            item.reader.role,
            level=item.level,
            level_number=item.level_number,
        )
        for item in planned
        if item.reader is not None
    ]
    files = {item.source_id: (item.reader, item.source.path) for item in planned if item.reader is not None}
    con = build("raw_settings", {"sources": rows}, files=files)
    wanted = {model.name for target in MARTS for model in needed(target, frozenset())}
    build_models(con, tuple(model for model in load_models() if model.name in wanted))
    for mart in MARTS:
        assert is_unique(con, mart)
        assert has_documented_columns(con, mart)
    return con


def reuse(con: duckdb.DuckDBPyConnection) -> Result:
    (result,) = l2_reuse.FINDING.evaluate(con)
    return result


def test_hits_and_traffic_of_every_level_are_those_written(tmp_path: Path) -> None:
    con = sweep(tmp_path, CLIFF)
    assert table(
        con,
        "select level, load, scope, verdict, read_hit_ratio, round(dram_use_ratio, 4), l2_bytes, is_collapse "
        "from l2_reuse order by load",
    ) == [
        (f"c{load}", load, "attention", "present", rate, round((1 - rate) * 0.32, 4), 4e7, load == 4)
        for load, rate in zip(LOADS, CLIFF, strict=True)
    ]


def test_collapse_is_said_with_both_numbers(tmp_path: Path) -> None:
    result = reuse(sweep(tmp_path, CLIFF))
    assert (result.verdict, result.severity, result.confidence) == ("found", "warning", 0.85)
    assert result.summary == (
        "L2 reuse collapses between level c4 and c8: the hit rate of SM reads of attention kernels falls "
        "from 60 % to 20 % while DRAM use goes from 13 % to 26 %; for cache reuse the sensible limit on this "
        "hardware and configuration is 4."
    )


def test_weights_do_not_hide_attention(tmp_path: Path) -> None:
    weights = Counted(GEMM, hits=0, misses=50_000_000)
    con = sweep(tmp_path, CLIFF, kernels=lambda rate: [weights, at_rate(rate)])
    assert table(con, "select level from l2_reuse where is_collapse") == [("c4",)]


def test_levels_may_be_folders(tmp_path: Path) -> None:
    for load, rate in zip(LOADS, CLIFF, strict=True):
        (tmp_path / f"c{load}").mkdir()
        write_level(tmp_path / f"c{load}", 7, [at_rate(rate)])
    con = sweep(tmp_path, (), ())
    assert table(con, "select level from l2_reuse where is_collapse") == [("c4",)]


@pytest.mark.parametrize(
    ("rates", "loads"),
    [
        (CLIFF[1:], LOADS[1:]),
        (CLIFF[:5], LOADS[:5]),
        # The fall lies too close to the end.
        ((0.62, 0.61, 0.6, 0.59, 0.2, 0.19), LOADS),
    ],
)
def test_three_levels_on_each_side_or_no_claim(
    tmp_path: Path, rates: Sequence[float], loads: Sequence[int]
) -> None:
    con = sweep(tmp_path, rates, loads)
    assert table(con, "select level from l2_reuse where is_collapse") == []
    assert reuse(con).verdict == "cannot_tell"


def test_a_fall_within_the_scatter_of_kernels_is_no_collapse(tmp_path: Path) -> None:
    con = sweep(tmp_path, CLIFF, kernels=lambda rate: [at_rate(rate), at_rate(0.4)])
    assert table(con, "select max(drop_ratio) > 0.05, bool_or(is_collapse) from l2_reuse") == [(True, False)]
    assert "within its scatter" in reuse(con).summary


def test_a_slow_decline_is_no_collapse(tmp_path: Path) -> None:
    con = sweep(tmp_path, (0.6, 0.5, 0.4, 0.25, 0.15, 0.05))
    assert table(con, "select level from l2_reuse where drop_ratio > 0.14") == [("c4",)]
    assert table(con, "select bool_or(is_collapse) from l2_reuse") == [(False,)]
    assert "in small steps" in reuse(con).summary


def test_a_fall_without_more_traffic_is_no_collapse(tmp_path: Path) -> None:
    still = {"dram__bytes_read.sum": 1e7}
    con = sweep(tmp_path, CLIFF, kernels=lambda rate: [at_rate(rate, more=still)])
    assert table(con, "select bool_or(is_collapse) from l2_reuse") == [(False,)]
    assert reuse(con).verdict == "cannot_tell"


def test_hits_that_hold_are_a_no(tmp_path: Path) -> None:
    result = reuse(sweep(tmp_path, (0.62, 0.61, 0.6, 0.59, 0.58, 0.57)))
    assert result.verdict == "not_found"
    assert result.summary == (
        "No collapse of L2 reuse up to level c32: SM reads of attention kernels hit 57 % there."
    )


@pytest.mark.parametrize(
    ("options", "more", "verdict", "words"),
    [
        ("--replay-mode application", {}, "flushed", "reuse inside a kernel alone"),
        ("--cache-control none", {}, "flushed", "reuse inside a kernel alone"),
        (
            "--cache-control none --replay-mode range",
            {"gpu__time_duration.sum": 19_999.0},
            "too short",
            "range",
        ),
        (
            "--cache-control none --replay-mode range",
            {"lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum": float("nan")},
            "not collected",
            "were not collected",
        ),
    ],
)
def test_gates(tmp_path: Path, options: str, more: Mapping[str, float], verdict: str, words: str) -> None:
    con = sweep(tmp_path, CLIFF, kernels=lambda rate: [at_rate(rate, more=more)], options=options)
    assert table(con, "select distinct verdict, is_collapse, place_no from l2_reuse") == [
        (verdict, False, None)
    ]
    result = reuse(con)
    assert result.verdict == "cannot_tell"
    assert words in result.summary
    assert result.capture is not None
    assert "--replay-mode app-range --cache-control none" in result.capture


def test_one_pass_of_kernel_replay_sees_the_cache_as_it_was(tmp_path: Path) -> None:
    con = sweep(
        tmp_path,
        CLIFF,
        kernels=lambda rate: [at_rate(rate, more={"profiler__replayer_passes": 1.0})],
        options="--cache-control none",
    )
    assert table(con, "select level from l2_reuse where is_collapse") == [("c4",)]


def test_no_reuse_to_lose_names_what_could_hit(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(GQA, encoding="utf-8")
    result = reuse(sweep(tmp_path, (0.02, 0.01, 0.01, 0.0, 0.0, 0.0)))
    assert result.verdict == "not_found"
    assert result.summary == (
        "No L2 reuse to lose: SM reads of attention kernels hit 2 % at most at each of 6 levels (4 query "
        "heads share a KV head, so that 75 % could hit inside a kernel that does not merge them)."
    )


@pytest.mark.parametrize(
    ("kernel", "capability", "verdict", "cause"),
    [
        ({"fabric_pct": 61.0}, "8.0", "latency", "partition contention"),
        ({"fabric_pct": 59.0}, "8.0", "latency", "memory latency"),
        ({"fabric_pct": 10.0, "slice_max_to_mean": 1.1}, "9.0", "latency", "partition contention"),
        ({"slice_max_to_mean": 1.1}, "8.6", "latency", "uneven slices"),
        ({"slice_max_to_mean": 1.05}, "8.6", "latency", "memory latency"),
    ],
)
def test_contention_only_with_fabric_evidence(
    tmp_path: Path, kernel: dict[str, float], capability: str, verdict: str, cause: str
) -> None:
    con = sweep(tmp_path, (0.1,), (8,), kernels=lambda rate: [at_rate(rate, **kernel)], capability=capability)
    assert table(con, "select verdict, cause from counter_limits where family = 'all'") == [(verdict, cause)]


@pytest.mark.parametrize(
    ("fabric_pct", "capability", "cause"),
    [
        (70.0, "8.0", "partition contention"),
        (20.0, "8.0", "access pattern"),
        (None, "8.0", "fabric not collected"),
        (None, "12.0", "no fabric metric"),
    ],
)
def test_contention_of_an_l2_bound_kernel(
    tmp_path: Path, fabric_pct: float | None, capability: str, cause: str
) -> None:
    busy = {f"lts__throughput{PCT}": 85.0, f"gpu__compute_memory_throughput{PCT}": 85.0}
    kernel = replace(at_rate(0.9), fabric_pct=fabric_pct, more=busy)
    con = sweep(tmp_path, (0.9,), (8,), kernels=lambda _: [kernel], capability=capability)
    assert table(con, "select verdict, cause from counter_limits where family = 'all'") == [("l2", cause)]
    (result,) = counter_limits.FINDING.evaluate(con)
    assert ("contention" in result.summary.replace("not contention", "")) is (cause == "partition contention")


def test_short_kernels_claim_no_contention(tmp_path: Path) -> None:
    kernel = replace(at_rate(0.1), fabric_pct=90.0, more={"gpu__time_duration.sum": 10_000.0})
    con = sweep(tmp_path, (0.1,), (8,), kernels=lambda _: [kernel])
    assert table(con, "select cause from counter_limits where family = 'all'") == [("too short",)]


def test_time_decides_the_verdict_of_a_phase(tmp_path: Path) -> None:
    full = {f"gpu__dram_throughput{PCT}": 90.0, f"gpu__compute_memory_throughput{PCT}": 90.0}
    long = Counted(GEMM, more={**full, "gpu__time_duration.sum": 500_000.0})
    con = sweep(tmp_path, (0.1,), (8,), kernels=lambda rate: [long, *[at_rate(rate)] * 4])
    assert table(
        con, "select phase, family, verdict, round(verdict_ratio, 3) from counter_limits order by 1, 2"
    ) == [
        ("decode", "all", "latency", 1.0),
        ("decode", "attention_decode", "latency", 1.0),
        ("unknown", "all", "bandwidth", 1.0),
        ("unknown", "gemm", "bandwidth", 1.0),
    ]
    (result,) = counter_limits.FINDING.evaluate(con)
    assert result.summary.startswith(
        "Most time of the decode kernels waits for latency: neither compute nor memory is near its peak "
        "(DRAM 29 %, L2 35 %, SM 30 %, occupancy 50 %); most stalled warps wait for memory"
    )


def test_a_run_without_profiled_kernels_is_not_asked(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(GQA, encoding="utf-8")
    con = sweep(tmp_path, (), ())
    assert l2_reuse.FINDING.evaluate(con) == ()
    assert counter_limits.FINDING.evaluate(con) == ()


def test_attention_apart_from_the_rest_of_its_phase(tmp_path: Path) -> None:
    assert ATTENTION.startswith("void flash_fwd_splitkv")
    half = {"launch__waves_per_multiprocessor": 0.5}
    step = "void decode_fused_kernel(int)"
    con = sweep(tmp_path, (0.1,), (8,), kernels=lambda rate: [at_rate(rate, more=half), Counted(step)])
    found = table(con, "select phase, family, verdict from counter_limits order by 1, 2")
    assert ("decode", "attention_decode", "small_grid") in found


def _bench(load: int, tokens_per_s: float) -> str:
    """Return what a load client writes about one level."""
    result = {
        "date": "20260302-100000", "endpoint_type": "openai", "backend": "vllm", "label": None,
        "model_id": "m", "tokenizer_id": "m",
        "num_prompts": 100, "request_rate": "inf", "max_concurrency": load, "duration": 10.0,
        "completed": 100,
        "total_input_tokens": 1000, "total_output_tokens": round(tokens_per_s * 10),
        "request_throughput": 10.0, "output_throughput": tokens_per_s, "total_token_throughput": tokens_per_s,
        "mean_ttft_ms": 10.0, "median_ttft_ms": 10.0, "p99_ttft_ms": 20.0, "mean_tpot_ms": 10.0 + load,
        "median_tpot_ms": 10.0 + load, "p99_tpot_ms": 20.0 + load, "mean_itl_ms": 10.0 + load,
        "median_itl_ms": 10.0 + load, "p99_itl_ms": 20.0 + load,
    }  # fmt: skip
    return json.dumps(result)


def test_a_collapse_at_the_knee_of_throughput_is_its_cause(tmp_path: Path) -> None:
    throughput = (100.0, 200.0, 400.0, 480.0, 500.0, 510.0)
    for load, tokens_per_s in zip(LOADS, throughput, strict=True):
        (tmp_path / f"bench_c{load}.json").write_text(_bench(load, tokens_per_s), encoding="utf-8")
    con = sweep(tmp_path, CLIFF)
    assert table(
        con,
        "select load, read_hit_ratio, is_knee, is_hit_collapse, cause from concurrency_knee order by load",
    ) == [
        (load, rate, load == 4, load == 4, "l2" if load == 4 else None)
        for load, rate in zip(LOADS, CLIFF, strict=True)
    ]
    (result,) = concurrency_knee.FINDING.evaluate(con)
    assert result.summary.startswith(
        "The sensible limit on this hardware and configuration is 4 requests at once, because from there to "
        "8 throughput grows less than 50 % as fast as concurrency: the L2 hit rate of SM reads collapses"
    )


def test_a_step_as_a_range_in_a_report(tmp_path: Path) -> None:
    """Application-range replay gives one result for a step: its whole traffic, weights among it."""
    line = "ncu --replay-mode app-range --cache-control none --clock-control none -o x python step.py"
    for load, rate in zip(LOADS, CLIFF, strict=True):
        metrics = {
            name: float(value)
            for name, value in at_rate(rate).metrics.items()
            if value is not None and not name.startswith("launch__")
        }
        results = [kernel(metrics, scope="range", ranges=("decode",))] * 2
        (tmp_path / f"warm_c{load}.ncu-rep").write_bytes(report(results, line))
    con = sweep(tmp_path, (), ())
    assert table(con, "select distinct scope, verdict, profile_count from l2_reuse") == [
        ("step", "present", 2)
    ]
    assert "the hit rate of SM reads of whole steps falls from 60 % to 20 %" in reuse(con).summary
    assert table(con, "select distinct phase, family from counter_limits order by family") == [
        ("decode", "all"),
        ("decode", "range"),
    ]
