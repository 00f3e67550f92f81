"""What limits the kernels of a phase: which rows are told, in which words, and when nothing is."""

import re

import pytest

from builders_marts import add_rows, add_run, empty_marts
from builders_ncu import CORPUS, NO_CORPUS
from builders_raw import build, source
from kvcliff.findings import counter_limits, counter_words
from kvcliff.readers.nsight_compute_csv import READER
from kvcliff.resources import sql_root


@pytest.fixture
def con():
    con = empty_marts()
    add_run(con)
    return con


def _row(phase="decode", family="all", **columns):
    row = {
        "phase": phase, "family": family, "basis": "trace", "verdict": "latency", "cause": "memory latency",
        "l2_reuse": "none", "kernel_count": 10, "time_ns": 1000, "covered_time_ns": 900,
        "verdict_time_ns": 800, "coverage_ratio": 0.9, "verdict_ratio": 0.89, "dram_busy_ratio": 0.41,
        "sm_use_ratio": 0.3, "l2_use_ratio": 0.35, "occupancy_ratio": 0.5, "is_off_gpu": False,
    }  # fmt: skip
    return {**row, **columns}


def _one(con, *rows):
    add_rows(con, "counter_limits", *rows)
    (result,) = counter_limits.FINDING.evaluate(con)
    return result


def test_without_profiled_kernels_nothing_is_asked(con):
    assert counter_limits.FINDING.evaluate(con) == ()


def test_a_phase_is_told_with_its_numbers_and_coverage(con):
    result = _one(con, _row())
    assert (result.verdict, result.severity, result.confidence) == ("found", "info", 0.85)
    assert result.summary == (
        "Most time of the decode kernels waits for latency: neither compute nor memory is near its peak "
        "(DRAM 41 %, L2 35 %, SM 30 %, occupancy 50 %); most stalled warps wait for memory (access pattern, "
        "indirection through block tables); profiled kernels stand for 90 % of the phase's time in the trace."
    )
    assert result.evidence[0].where == "level is null and phase = 'decode' and family = 'all'"


def test_attention_that_the_sum_hides_is_told_beside_it(con):
    attention = _row(family="attention_decode", verdict="small_grid", cause=None)
    result = _one(con, _row(verdict="bandwidth", cause=None), attention)
    assert (
        "decode attention alone is in launches with fewer thread blocks than fill the GPU" in result.summary
    )
    assert result.action == counter_words.ACTIONS["bandwidth"]


@pytest.mark.parametrize(
    ("columns", "confidence"),
    [
        ({"verdict_ratio": 0.66}, 0.7),
        ({"basis": "profile"}, 0.65),
        ({"basis": "profile", "verdict_ratio": 0.66}, 0.5),
    ],
)
def test_how_sure(con, columns, confidence):
    assert _one(con, _row(**columns)).confidence == pytest.approx(confidence)


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("not covered", "stand for only 40 %"),
        ("unknown", "neither compute nor memory throughput was collected"),
        ("failed", "could not measure"),
    ],
)
def test_what_answers_nothing_asks_for_a_capture(con, verdict, words):
    result = _one(con, _row(verdict=verdict, cause=None, coverage_ratio=0.4))
    assert result.verdict == "cannot_tell"
    assert words in result.summary
    assert result.capture is not None
    assert "--section LaunchStats" in result.capture


def test_of_a_sweep_the_highest_load_is_told(con):
    add_rows(con, "l2_reuse", *({"level": f"c{load}", "load": float(load)} for load in (2, 16, 4)))
    rows = [
        _row(level=f"c{load}", verdict="bandwidth" if load == 16 else "latency", cause=None)
        for load in (2, 16, 4)
    ]
    result = _one(con, *rows)
    assert result.summary.startswith("Most time of the decode kernels at level c16 is at the limit of DRAM")


def test_host_memory_is_said(con):
    assert "read host memory or another GPU" in _one(con, _row(is_off_gpu=True)).summary


def test_every_verdict_and_cause_has_words():
    sql = (sql_root() / "marts" / "profiled_kernels.sql").read_text(encoding="utf-8")
    for word in (*counter_words.VERDICT_WORDS, *counter_words.CAUSE_WORDS):
        assert word == "several kinds" or f"'{word}'" in sql, word
    stated = set(re.findall(r"(?:then|else) '([^']+)'", sql))
    known = {*counter_words.VERDICT_WORDS, *counter_words.CAUSE_WORDS, *counter_limits._OPEN}
    others = {"measured_clock", "theoretical", "gpu_facts", "read_pair", "all_clients", "absent"}
    states = {"flushed", "in place", "warmed by itself", "unknown"}
    assert stated - others - states - known == set()


#: Recorded kernels, one a run: the words of their limit, and those that must not stand there.
RECORDED = {
    "k0001_gemv_decode.details.csv": ("fewer thread blocks than fill the GPU", "DRAM bandwidth"),
    "k0003_wmma_gemm.details.csv": ("at the limit of the L2 cache", ": contention"),
    "k0005_gemm_prefill.details.csv": ("too few warps", "limit of DRAM"),
    "k0009_fmha_cutlass.details.csv": ("waits for latency", "limit of DRAM"),
    "k0010_l2bound_elementwise.details.csv": ("this GPU has no counter for it", ": contention"),
    "k0013_flash_splitkv.details.csv": ("fewer thread blocks than fill the GPU", "contention"),
}


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
@pytest.mark.parametrize("name", sorted(RECORDED))
def test_recorded_kernels(name):
    path = CORPUS / "llm-perf-opt" / name
    con = build("counter_limits", {"sources": [source(1, name, "counters")]}, files={1: (READER, path)})
    con.execute("create temp table l2_reuse (level varchar, load double)")
    (result,) = counter_limits.FINDING.evaluate(con)
    wanted, unwanted = RECORDED[name]
    assert wanted in result.summary
    assert unwanted not in result.summary
