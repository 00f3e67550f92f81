import duckdb
import pytest

from builders_marts import START, S, add_rows, add_run, empty_marts, kv_row, latency_row, swap_point
from kvcliff.findings.base import Result
from kvcliff.findings.swap_point import FINDING
from kvcliff.findings.swap_words import cost_words, read_swap_points


def _evaluate(con: duckdb.DuckDBPyConnection) -> Result:
    (result,) = FINDING.evaluate(con)
    return result


def _quiet_run(*ratios: float, **columns: object) -> duckdb.DuckDBPyConnection:
    con = empty_marts()
    add_run(con)
    for second, ratio in enumerate(ratios):
        add_rows(con, "kv_occupancy", kv_row(second, ratio, **columns))
        add_rows(con, "token_latency", latency_row(second, 20.0, 30.0))
    return con


def test_confirmed_swap_point_is_told_in_one_sentence():
    con = empty_marts()
    add_run(con)
    add_rows(con, "swap_points", swap_point())
    result = _evaluate(con)
    assert (result.verdict, result.severity, result.confidence) == ("found", "critical", 0.95)
    assert result.summary == (
        "Swap point (confirmed) at 10:01:00.0 UTC ± 0.5 s (60.0 s into the run): with KV occupancy at 99.3 % "
        "the engine preempted 14 times and recomputed the victims later, and "
        "6 requests stood still for up to 6.21 s (throughput fell from 812 to 540 tokens/s)."
    )
    assert result.reason == (
        "KV was at its ceiling, its preemption counter proves that the engine acted, "
        "and for users: victims' token gaps"
    )
    assert dict(result.evidence[0].numbers)["at_ns"] == START + 60 * S
    assert result.evidence[0].where == "swap_point_id = 1"


def test_the_surest_class_leads_and_the_rest_is_counted():
    con = empty_marts()
    add_run(con)
    add_rows(
        con,
        "swap_points",
        swap_point(swap_point_id=1, **{"class": "pressure"}, at_ns=START + 10 * S),
        swap_point(swap_point_id=2, **{"class": "probable"}, at_ns=START + 20 * S, longest_gap_ms=9000.0),
        swap_point(swap_point_id=3, at_ns=START + 60 * S),
    )
    result = _evaluate(con)
    assert result.summary.startswith("Swap point (confirmed) at 10:01:00.0")
    assert result.summary.endswith(
        "; 1 more probable and 1 more spell of pressure in this run (stalls up to 9 s)."
    )


def test_probable_says_what_is_certain_and_what_is_not():
    con = empty_marts()
    add_run(con)
    add_rows(
        con,
        "swap_points",
        swap_point(
            **{"class": "probable"}, l_status="not_measurable", l_reason="no token times", longest_gap_ms=None
        ),
    )
    result = _evaluate(con)
    assert (result.severity, result.confidence) == ("warning", 0.75)
    assert "the victims' wait is certain, its size is not (no token times)" in result.summary


def test_pressure_is_no_swap_point():
    con = empty_marts()
    add_run(con)
    add_rows(
        con, "swap_points", swap_point(**{"class": "pressure"}, action_count=0, blocked_s=12.5, e_proof=None)
    )
    result = _evaluate(con)
    assert (result.verdict, result.severity, result.confidence) == ("not_found", "info", 0.75)
    assert result.summary.startswith("No swap point, but KV pressure from 10:01:00.0 UTC")
    assert "requests waited 12.5 s for free blocks; no preemption was seen" in result.summary


@pytest.mark.parametrize(("step_s", "verdict"), [(4, "not_found"), (5, "cannot_tell")])
def test_coarse_samples_cannot_tell_pressure_from_preemption(step_s: int, verdict: str) -> None:
    con = empty_marts()
    add_run(con)
    add_rows(con, "kv_occupancy", *(kv_row(50 + step_s * number, 0.99) for number in range(6)))
    row = {"class": "pressure", "e_proof": "gauges", "l_status": "not_measurable"}
    add_rows(con, "swap_points", swap_point(**row, action_count=2, victim_count=None, longest_gap_ms=None))
    result = _evaluate(con)
    assert result.verdict == verdict
    if verdict == "cannot_tell":
        assert result.summary.startswith("KV pressure from 10:01:00.0 UTC")
        assert result.summary.endswith("cannot be told from samples 5 s apart.")
        assert result.capture


def test_what_a_swap_point_cost_is_said_in_sentences() -> None:
    con = empty_marts()
    add_run(con)
    row = swap_point(
        most_stalls=5,
        missing_kv_tokens=2048,
        missing_kv_ratio=0.5,
        kv_itl_correlation=0.9,
        recovery="slower_after",
    )
    add_rows(con, "swap_points", row)
    assert cost_words(con, read_swap_points(con)[0]) == (
        "Before it KV and ITL rose together: each step had more to read or to compute. "
        "For what waited at the worst moment KV lacked 2,048 tokens, 50 % of the cache. "
        "One request was stopped 5 times: thrashing. "
        "Afterwards KV had room again, but the steps stayed slow."
    )


def test_a_swap_point_of_which_nothing_more_is_known_has_no_sentences() -> None:
    con = empty_marts()
    add_run(con)
    add_rows(con, "swap_points", swap_point(most_stalls=2, kv_itl_correlation=0.6, recovery="recovered"))
    assert cost_words(con, read_swap_points(con)[0]) == ""


def test_one_preemption_with_a_stall_is_told_and_is_no_swap_point():
    con = empty_marts()
    add_run(con)
    point = swap_point(**{"class": "pressure"}, action_count=1, victim_count=1, longest_gap_ms=1180.0)
    add_rows(con, "swap_points", point)
    result = _evaluate(con)
    assert result.verdict == "not_found"
    assert result.summary.endswith(
        "the engine preempted once and recomputed the victim later, and 1 request stood still for up to "
        "1.18 s; too rare to count as a swap point."
    )


def test_throughput_that_rose_with_the_load_is_no_harm():
    con = empty_marts()
    add_run(con)
    add_rows(con, "swap_points", swap_point(tokens_per_s_before=126.0, tokens_per_s_during=278.0))
    assert "throughput" not in _evaluate(con).summary


def test_the_cap_is_what_the_cache_held_in_the_episode():
    con = empty_marts()
    add_run(con)
    add_rows(con, "swap_points", swap_point())
    for second, running in ((59, 20), (61, 9), (62, 8), (63, 8), (79, 30)):
        add_rows(con, "kv_occupancy", kv_row(second, 0.99, running_count=running))
    add_rows(con, "settings", {"scope": "", "name": "max_num_seqs", "value": "32", "is_effective": True})
    action = _evaluate(con).action or ""
    assert action.startswith("Cap concurrency (max_num_seqs, now 32) at about 8 running requests:")


def _sweep(*hit: str) -> duckdb.DuckDBPyConnection:
    con = empty_marts()
    add_run(con)
    for number, level in enumerate(("8", "64", "128", "16")):
        add_rows(con, "kv_occupancy", kv_row(number * 20, 0.9, level=level))
    for number, level in enumerate(hit):
        point = swap_point(swap_point_id=number + 1, level=level, at_ns=START + (60 + number) * S)
        add_rows(con, "swap_points", point)
    return con


def test_a_sweep_says_from_which_level_on():
    result = _evaluate(_sweep("128", "64"))
    assert result.summary.startswith(
        "Swap points from level 64 on (none up to level 16); the lowest (confirmed) at level 64, "
        "10:01:01.0 UTC ± 0.5 s (41.0 s into the level): with KV occupancy at 99.3 % the engine preempted"
    )
    assert (result.action or "").startswith("Keep the load at level 16 or below")


def test_a_sweep_with_a_hole_lists_its_levels():
    assert "Swap points at levels 8, 64 of 4;" in _evaluate(_sweep("64", "8")).summary
    assert "Swap points at each of the 4 levels;" in _evaluate(_sweep("8", "16", "64", "128")).summary


def test_a_fine_date_has_fine_decimals():
    con = empty_marts()
    add_run(con)
    add_rows(con, "swap_points", swap_point(at_ns=START + 60 * S + 1_234_567, error_ns=0))
    assert "10:01:00.001 UTC ± 1 ms (60.0 s into the run)" in _evaluate(con).summary


def test_error_bar_longer_than_the_harm_is_said():
    con = empty_marts()
    add_run(con)
    add_rows(con, "swap_points", swap_point(longest_gap_ms=400.0, error_ns=S))
    result = _evaluate(con)
    assert result.confidence == 0.85
    assert "the date is no better than ± 1 s, longer than the harm" in result.summary


def test_level_and_replica_are_named():
    con = empty_marts()
    add_run(con)
    add_rows(con, "swap_points", swap_point(level="c64", replica_id="2"))
    assert ", level c64, replica 2: with KV" in _evaluate(con).summary


def test_kv_far_from_its_ceiling_is_a_positive_no():
    result = _evaluate(_quiet_run(0.10, 0.31, 0.25))
    assert (result.verdict, result.confidence) == ("not_found", 0.95)
    assert result.summary == (
        "No swap point: KV occupancy never came within one request's footprint of its ceiling (max 31.0 %)."
    )


def test_kv_full_without_action_is_no_swap_point_either():
    just_below = _evaluate(_quiet_run(0.5, 0.87, running_count=8))
    assert "never came within" in just_below.summary
    just_above = _evaluate(_quiet_run(0.5, 0.97, running_count=8))
    assert just_above.verdict == "not_found"
    assert just_above.summary == (
        "No swap point: KV occupancy reached 97.0 %, but the engine neither preempted nor held requests back."
    )


def test_coarse_sampling_lowers_the_confidence():
    con = empty_marts()
    add_run(con)
    for second in range(0, 60, 10):
        add_rows(con, "kv_occupancy", kv_row(second, 0.3))
    result = _evaluate(con)
    assert result.confidence == 0.7
    assert "sampled every 10 s" in result.summary


def test_kv_full_and_no_gauges_cannot_tell():
    result = _evaluate(_quiet_run(0.5, 0.99, running_count=None, waiting_count=None))
    assert result.verdict == "cannot_tell"
    assert "nothing recorded says what the engine did" in result.summary


def test_no_kv_series_cannot_tell_and_says_what_to_capture():
    con = empty_marts()
    add_run(con)
    add_rows(con, "token_latency", latency_row(0, 20.0, 30.0))
    result = _evaluate(con)
    assert (result.verdict, result.confidence) == ("cannot_tell", 0.0)
    assert result.capture is not None
    assert "/metrics" in result.capture


def test_engine_actions_without_kv_series_are_mentioned():
    con = empty_marts()
    add_run(con)
    add_rows(con, "engine_events", {"kind": "preempt", "proof": "counter", "event_count": 7, "ts_ns": START})
    assert "the engine acted 7 times, but no KV occupancy" in _evaluate(con).summary


def test_all_zero_kv_series_is_missing_data():
    result = _evaluate(_quiet_run(0.0, 0.0))
    assert result.verdict == "cannot_tell"
    assert "wrong metric name" in result.summary


def test_level_without_kv_series_cannot_tell():
    con = _quiet_run(0.2, 0.3, level="c1")
    con.execute("update token_latency set level = 'c1'")
    add_rows(con, "token_latency", latency_row(5, 20.0, 30.0, level="c64"))
    assert _evaluate(con).verdict == "cannot_tell"


def test_absent_marts_are_no_data():
    con = empty_marts("runs")
    add_run(con)
    assert _evaluate(con).verdict == "cannot_tell"
