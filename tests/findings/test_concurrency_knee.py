"""The sentence about the sensible limit of a sweep, and when none is said."""

import pytest

from builders_marts import add_rows, add_run, empty_marts
from kvcliff.findings import concurrency_knee
from kvcliff.resources import sql_root


@pytest.fixture
def con():
    con = empty_marts()
    add_run(con)
    return con


def _levels(con, *loads, **marks):
    """Add levels; ``marks`` are further columns of single loads (``at_8={...}``)."""
    for place_no, load in enumerate(loads, start=1):
        row = {
            "level": f"c{load}", "load_kind": "concurrency", "load": float(load),
            "tokens_per_s": 100.0 * load, "elasticity": 0.9, "place_no": place_no,
            "is_knee": False, "is_saturation": False, "is_client_late": False,
        }  # fmt: skip
        add_rows(con, "concurrency_knee", {**row, **marks.get(f"at_{load}", {})})


def test_a_run_with_one_load_was_not_asked(con):
    assert concurrency_knee.FINDING.evaluate(con) == ()


def test_knee_and_saturation_are_said_in_one_sentence(con):
    _levels(
        con, 1, 2, 4, 8, 16, 32,
        at_4={
            "is_knee": True, "cause": "compute", "reason": "steps grow faster than the bytes they read",
            "knee_min_load": 3.2, "knee_max_load": 7.75,
        },
        at_8={"kv_used_ratio_max": 0.5},
        at_16={"is_saturation": True, "cause": "kv", "reason": "KV at its ceiling with preemptions"},
    )  # fmt: skip
    (result,) = concurrency_knee.FINDING.evaluate(con)
    assert (result.verdict, result.severity, result.confidence) == ("found", "info", 0.8)
    assert result.summary == (
        "The sensible limit on this hardware and configuration is 4 requests at once, because from there to "
        "8 throughput grows less than 50 % as fast as concurrency: steps take longer with more requests, "
        "more so than the bytes they read: compute (KV occupancy at most 50 %); 95 % of the highest "
        "throughput is reached at 16, where the KV cache is full and requests are preempted."
    )
    assert result.reason == (
        "the knee lies between 3.2 and 7.75, the saturation between 8 and 16: between levels throughput is "
        "not known"
    )
    assert result.evidence[0].numbers == (("levels", 6), ("knee_load", 4.0), ("saturation_load", 16.0))


def test_a_knee_without_a_cause_is_less_sure(con):
    _levels(con, 1, 2, 4, 8, 16, at_4={"is_knee": True, "reason": "nothing recorded shows it"})
    (result,) = concurrency_knee.FINDING.evaluate(con)
    assert result.confidence == 0.5
    assert (
        "and nothing recorded shows why (needed: a client's token times or scrapes of the engine's latency "
        "histograms at each level); no plateau is reached up to 16." in result.summary
    )


@pytest.mark.parametrize(
    ("known", "needed"),
    [
        ({"itl_p50_ms": 20.0}, "(needed: the engine's running, waiting and KV gauges at each level)"),
        (
            {"itl_p50_ms": 20.0, "kv_used_ratio_max": 0.2, "running_max": 8},
            "(needed: SM and DRAM counters of the GPU at each level)",
        ),
    ],
)
def test_a_knee_without_a_cause_says_what_would_show_it(con, known, needed):
    knee = {"is_knee": True, "reason": "nothing recorded shows it"}
    _levels(con, 1, 2, 4, 8, 16, at_4=knee, at_8=known)
    (result,) = concurrency_knee.FINDING.evaluate(con)
    assert needed in result.summary


def test_request_rates_are_named_with_their_stage_and_a_late_client(con):
    rate = {"load_kind": "request rate"}
    limit = "as many requests decode while others wait, KV not recorded"
    _levels(
        con, 1, 2, 4, 8, 16,
        at_4={**rate, "is_knee": True, "is_saturation": True, "cause": "scheduler limit", "reason": limit},
        at_8={**rate, "is_client_late": True},
    )  # fmt: skip
    (result,) = concurrency_knee.FINDING.evaluate(con)
    assert result.confidence == 0.7
    assert "is 4 requests/s (c4), because from there to 8 requests/s (c8)" in result.summary
    assert result.summary.endswith(
        "throughput is on its plateau from there on; the client sends fewer requests than asked for from "
        "8 requests/s (c8) on."
    )


def test_throughput_that_still_grows_has_no_limit_yet(con):
    _levels(con, 1, 2, 4, 8)
    (result,) = concurrency_knee.FINDING.evaluate(con)
    assert (result.verdict, result.confidence) == ("not_found", 0.8)
    assert result.summary == (
        "No limit up to 8: throughput still grows with concurrency (800 tokens/s there)."
    )


@pytest.mark.parametrize("loads", [(1, 2, 4), (1, 2, 4, 8)])
def test_too_few_levels_ask_for_more(con, loads):
    _levels(con, *loads, at_8={"elasticity": 0.2})
    (result,) = concurrency_knee.FINDING.evaluate(con)
    assert result.verdict == "cannot_tell"
    assert result.capture is not None
    assert "--max-concurrency $n" in result.capture


def test_throughput_that_scatters_asks_for_longer_levels(con):
    scattered = {"reason": "throughput scatters too much from level to level"}
    _levels(con, 1, 2, 4, 8, 16, at_16={**scattered, "elasticity": 0.1})
    (result,) = concurrency_knee.FINDING.evaluate(con)
    assert result.verdict == "cannot_tell"
    assert "scatters too much over the 5 levels" in result.summary
    assert "hold each level longer" in result.summary
    mart = (sql_root() / "marts" / "concurrency_knee.sql").read_text(encoding="utf-8")
    assert f"'{concurrency_knee._SCATTERED}'" in mart


def test_every_reason_of_the_mart_has_words():
    sql = (sql_root() / "intermediate" / "int_sweep_causes.sql").read_text(encoding="utf-8")
    for reason in concurrency_knee._CAUSE_WORDS:
        assert sql.count(f"'{reason}'") == 2, reason


def test_each_of_several_sweeps_has_its_answer(con):
    for sweep, knee in (("bf16", 4), ("fp8", None)):
        own = {"sweep": sweep, "load_kind": "request rate"}
        for place_no, load in enumerate((1, 2, 4, 8, 16), start=1):
            mark = {"is_knee": True, "reason": "nothing recorded shows it"} if load == knee else {}
            add_rows(
                con,
                "concurrency_knee",
                {
                    "level": f"{sweep}/stage_{place_no}", "load": float(load), "tokens_per_s": 100.0 * load,
                    "elasticity": 0.9, "place_no": place_no, "is_knee": False, "is_saturation": False,
                    "is_client_late": False, **own, **mark,
                },
            )  # fmt: skip
    first, second = concurrency_knee.FINDING.evaluate(con)
    assert first.summary.startswith(
        "Sweep bf16: the sensible limit on this hardware and configuration is 4 requests/s (stage_3), because"
    )
    assert second.summary == (
        "Sweep fp8: no limit up to 16 requests/s (stage_5): throughput still grows with request rate "
        "(1,600 tokens/s there)."
    )
