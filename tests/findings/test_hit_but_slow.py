import duckdb
import pytest

from builders_marts import START, S, add_rows, add_run, empty_marts, latency_row, swap_point
from kvcliff.findings.base import Result
from kvcliff.findings.hit_but_slow import FINDING


def _evaluate(con: duckdb.DuckDBPyConnection) -> Result:
    (result,) = FINDING.evaluate(con)
    return result


@pytest.fixture
def hit_run() -> duckdb.DuckDBPyConnection:
    """A run whose prefixes are found in HBM nine times of ten, with token times."""
    con = empty_marts()
    add_run(con)
    _add_hits(con, 1000, 920)
    add_rows(con, "token_latency", latency_row(0, 20.0, 30.0))
    return con


def _add_hits(
    con: duckdb.DuckDBPyConnection, lookups: int | None, hits: int | None, **columns: object
) -> None:
    ratio = hits / lookups if lookups and hits is not None else None
    row = {
        "tier": "hbm", "replica_id": "0", "lookup_tokens": lookups, "hit_tokens": hits, "hit_ratio": ratio,
        "ts_ns": START, "end_ns": START + S,
    }  # fmt: skip
    add_rows(con, "cache_hits", {**row, **columns})


def test_hit_and_fast_is_not_found(hit_run):
    result = _evaluate(hit_run)
    assert result.verdict == "not_found"
    assert result.summary == "The KV cache was hit (engine cache 92 %), and nothing shows that it was slow."


def test_swap_point_with_harm_makes_it_slow(hit_run):
    add_rows(hit_run, "swap_points", swap_point())
    result = _evaluate(hit_run)
    assert (result.verdict, result.severity, result.confidence) == ("found", "critical", 0.9)
    assert result.summary == (
        "The KV cache was hit (engine cache 92 %) and still it is slow: the KV cache was full and the engine "
        "took blocks from running requests 14 times, and 6 of them stood still for up to 6.21 s."
    )
    assert [item.mart for item in result.evidence] == ["cache_hits", "swap_points"]


def test_the_reason_says_what_the_hits_saved_and_what_they_could_not(hit_run):
    add_rows(hit_run, "swap_points", swap_point(lost_s=40.0))
    ledger = {"replica_id": "0", "step_class": "prefill", "line": "measured", "tokens_per_s": 460.0}
    add_rows(hit_run, "bandwidth_ledger", ledger)
    assert (
        "the hits saved the prefill of 920 prompt tokens (about 2 s of it), but not the 40 s that streams "
        "stood still in all"
    ) in (_evaluate(hit_run).reason or "")


def test_the_reason_ranks_what_costs_the_streams_time(hit_run):
    add_rows(hit_run, "swap_points", swap_point(lost_s=40.0))
    # 900 tokens at 20 ms of reading; three steps with a prompt, each 0.5 s longer than a plain one, for 8.
    add_rows(hit_run, "token_latency", latency_row(1, 20.0, 30.0, token_count=100))
    floor = {"replica_id": "0", "step_class": "decode", "line": "floor", "time_ms": 20.0}
    add_rows(hit_run, "bandwidth_ledger", floor)
    hit_run.execute(
        "create temp table step_times (level varchar, replica_id varchar, origin varchar, "
        "step_class varchar, step_count bigint, elapsed_p50_ms double, elapsed_total_s double, "
        "sequence_count double)"
    )
    step = {"replica_id": "0", "origin": "iterations", "step_count": 3}
    decode = {**step, "step_class": "decode", "elapsed_p50_ms": 20.0}
    mixed = {**step, "step_class": "mixed", "elapsed_total_s": 1.56, "sequence_count": 8.0}
    add_rows(hit_run, "step_times", decode, mixed)
    assert (_evaluate(hit_run).reason or "").endswith(
        "time of all streams together: preemption 40 s, bytes of decode 18 s, prefills in the batch 12 s; "
        "cannot tell: loads from slower tiers (no trace of copies)"
    )


def test_what_was_not_measured_has_no_price(hit_run):
    add_rows(hit_run, "swap_points", swap_point(lost_s=None, victim_count=None))
    assert (_evaluate(hit_run).reason or "").endswith(
        "cannot tell: preemption (no token times), bytes of decode (needs the model's shape, the GPU's "
        "bandwidth and token counts), loads from slower tiers (no trace of copies), prefills in the batch "
        "(no times of mixed steps)"
    )


def test_probable_swap_point_without_harm_does_not(hit_run):
    add_rows(hit_run, "swap_points", swap_point(**{"class": "probable"}, l_status="not_worse"))
    assert _evaluate(hit_run).verdict == "not_found"


@pytest.mark.parametrize(("blocked_s", "verdict"), [(4.9, "not_found"), (5.1, "found")])
def test_blocked_admission_counts_from_its_threshold(hit_run, blocked_s, verdict):
    add_rows(hit_run, "swap_points", swap_point(**{"class": "pressure"}, action_count=0, blocked_s=blocked_s))
    assert _evaluate(hit_run).verdict == verdict


@pytest.mark.parametrize(("hits", "verdict"), [(499, "not_found"), (500, "found")])
def test_hit_rate_must_be_high(hits, verdict):
    con = empty_marts()
    add_run(con)
    _add_hits(con, 1000, hits)
    add_rows(con, "swap_points", swap_point())
    assert _evaluate(con).verdict == verdict


def test_high_bandwidth_alone_is_not_slow(hit_run):
    _add_indicator(hit_run, "hbm_bandwidth", 0.9, 0.8)
    assert _evaluate(hit_run).verdict == "not_found"


def test_slow_tokens_are_explained_by_decode_bytes(hit_run):
    _add_indicator(hit_run, "hbm_bandwidth", 0.9, 0.8)
    _add_indicator(hit_run, "token_latency", 250.0, 200.0)
    result = _evaluate(hit_run)
    assert (result.verdict, result.confidence) == ("found", 0.8)
    assert "the slow end of ITL is 250 ms, the limit 200 ms, a hit does not save the bytes" in result.summary


def test_slow_tokens_without_a_cause_cannot_tell(hit_run):
    _add_indicator(hit_run, "token_latency", 250.0, 200.0)
    result = _evaluate(hit_run)
    assert (result.verdict, result.confidence) == ("cannot_tell", 0.0)
    assert result.summary == (
        "The KV cache was hit (engine cache 92 %) and the slow end of ITL is 250 ms, the limit 200 ms; "
        "nothing in this run shows why."
    )
    assert result.capture is not None


@pytest.mark.parametrize(("missed", "verdict"), [(4, "not_found"), (5, "found")])
def test_missed_slo_is_slow(hit_run, missed, verdict):
    _add_indicator(hit_run, "hbm_bandwidth", 0.9, 0.8)
    for number in range(100):
        add_rows(
            hit_run, "requests", {"request_no": number, "is_slo_met": number >= missed, "is_warmup": False}
        )
    assert _evaluate(hit_run).verdict == verdict


def test_hidden_tier_loads_cost_nothing(hit_run):
    hit_run.execute(
        "create temp table transfers "
        "(kind varchar, bytes bigint, copy_ns bigint, hidden_ns bigint, is_kv_swap boolean)"
    )
    _add_indicator(hit_run, "token_latency", 250.0, 200.0)
    row = {"kind": "htod", "bytes": 1 << 30, "copy_ns": 4 * S, "hidden_ns": 4 * S, "is_kv_swap": True}
    add_rows(hit_run, "transfers", row)
    assert _evaluate(hit_run).verdict == "cannot_tell"
    add_rows(hit_run, "transfers", {**row, "hidden_ns": S})
    result = _evaluate(hit_run)
    assert result.verdict == "found"
    assert "copied to HBM first (2 GiB, 3 s of it not hidden under kernels)" in result.summary


def test_printed_ratio_stands_in_for_counted_tokens():
    con = empty_marts()
    add_run(con)
    _add_hits(con, None, None, hit_ratio=0.2, end_ns=START + S)
    _add_hits(con, None, None, hit_ratio=0.95, end_ns=START + 2 * S)
    add_rows(con, "swap_points", swap_point())
    assert "(engine cache 95 %)" in _evaluate(con).summary


def test_no_hit_data_cannot_tell():
    con = empty_marts()
    add_run(con)
    add_rows(con, "swap_points", swap_point())
    assert _evaluate(con).verdict == "cannot_tell"


def test_prefix_caching_that_is_off_is_an_answer():
    con = empty_marts()
    add_run(con)
    row = {"scope": "", "name": "enable_prefix_caching", "value": "false", "is_effective": True}
    add_rows(con, "settings", row)
    result = _evaluate(con)
    assert (result.verdict, result.confidence) == ("not_found", 0.9)
    assert "prefix caching is off" in result.summary


def test_scrapes_without_hit_counters_ask_for_prefix_caching_not_for_scrapes():
    con = empty_marts()
    add_run(con)
    row = {"source_id": 1, "path": "metrics.prom", "role": "metrics", "row_count": 40}
    add_rows(con, "sources", row)
    result = _evaluate(con)
    assert result.verdict == "cannot_tell"
    assert "metrics.prom holds no counters of prefix cache hits" in result.summary
    assert "--enable-prefix-caching" in (result.capture or "")


def test_slow_tokens_on_a_cpu_ask_for_no_gpu_trace(hit_run):
    _add_indicator(hit_run, "token_latency", 250.0, 200.0)
    add_rows(hit_run, "settings", {"scope": "", "name": "device_type", "value": "cpu", "is_effective": True})
    result = _evaluate(hit_run)
    assert (result.verdict, result.capture) == ("cannot_tell", None)


def test_hit_without_latency_cannot_tell():
    con = empty_marts()
    add_run(con)
    _add_hits(con, 1000, 920)
    result = _evaluate(con)
    assert result.verdict == "cannot_tell"
    assert "no token latency" in result.summary


def _add_indicator(con: duckdb.DuckDBPyConnection, name: str, value: float, limit: float) -> None:
    add_rows(con, "indicators", {"indicator": name, "value": value, "threshold": limit, "state": "high"})
