import pytest

from builders_marts import START, S, add_rows, add_run, empty_marts, kv_row, latency_row
from kvcliff.findings import FINDINGS, bandwidth_bound, capture_failed, clock_trust, headroom, other_jump
from kvcliff.findings.diagnosis import run_findings


@pytest.fixture
def con():
    con = empty_marts()
    add_run(con)
    return con


def _jump(**columns):
    row = {
        "replica_id": "0", "cause": "prefill", "metric": "itl_p99_ms", "before_ms": 40.0, "after_ms": 160.0,
        "size_mads": 30.0, "kv_used_ratio": 0.34, "at_ns": START + 30 * S, "error_ns": S,
        "end_ns": START + 31 * S,
    }  # fmt: skip
    return {**row, **columns}


def test_other_jump_names_its_cause(con):
    add_rows(
        con, "latency_jumps", _jump(), _jump(size_mads=10.0, after_ms=90.0), _jump(cause="kv", after_ms=900.0)
    )
    (result,) = other_jump.FINDING.evaluate(con)
    assert result.summary == (
        "ITL p99 jumped from 40 ms to 160 ms at 10:00:30.0 UTC ± 1 s (30.0 s into the run) with KV occupancy "
        "at 34 %: a prefill joined the batch (2 such jumps, the largest named)."
    )
    assert result.severity == "warning"


def _levels(con, last_ms, kv=0.28):
    for place, (load, itl) in enumerate([(64, 20.0), (128, 43.0), (192, last_ms)]):
        row = {
            "level": str(load),
            "load": load,
            "itl_p99_ms": itl,
            "kv_used_ratio_max": kv,
            "place_no": place,
        }
        add_rows(con, "concurrency_knee", row)
    add_rows(con, "token_latency", latency_row(0, 20.0, 30.0))


def test_a_rise_between_two_levels_that_is_not_kv_is_told(con):
    _levels(con, last_ms=169.0)
    (result,) = other_jump.FINDING.evaluate(con)
    assert (result.verdict, result.severity) == ("found", "info")
    assert result.summary == (
        "ITL p99 rose from 43 ms to 169 ms between levels 128 and 192, with KV occupancy at most 28 %: "
        "not KV; what it is cannot be proved further from these files."
    )
    assert result.evidence[0].where == "level in ('128', '192')"


@pytest.mark.parametrize(
    ("last_ms", "kv", "is_explained"), [(128.0, 0.28, True), (130.0, 0.28, False), (169.0, 0.9, True)]
)
def test_a_rise_in_step_with_the_load_or_at_the_ceiling_is_not(con, last_ms, kv, is_explained):
    # Half as many more clients: up to 129 ms is less than twice in proportion.
    _levels(con, last_ms, kv)
    (result,) = other_jump.FINDING.evaluate(con)
    assert (result.verdict == "not_found") == is_explained


def test_one_result_per_cause_unknown_last(con):
    add_rows(con, "latency_jumps", _jump(cause="unknown"), _jump(cause="unknown"), _jump(cause="cpu"))
    results = other_jump.FINDING.evaluate(con)
    assert [result.evidence[0].where for result in results] == ["cause = 'cpu'", "cause = 'unknown'"]
    assert results[1].confidence < results[0].confidence


@pytest.mark.parametrize(
    ("cause", "metric", "seconds", "severity"),
    [
        ("concurrency", ("itl_p50", "itl_p50"), 30, "info"),
        ("prefill", ("itl_p50",), 3, "info"),
        ("prefill", ("itl_p50", "itl_max"), 3, "warning"),
        ("cpu", ("itl_p50",), 4, "info"),
        ("cpu", ("itl_p50",), 5, "warning"),
        ("unknown", ("itl_max", "itl_max", "itl_p50"), 3, "info"),
        ("unknown", ("itl_p50", "itl_p50"), 3, "warning"),
    ],
)
def test_a_jump_is_an_alarm_when_it_lasts_or_comes_back(con, cause, metric, seconds, severity):
    for name in metric:
        add_rows(con, "latency_jumps", _jump(cause=cause, metric=name, end_ns=START + (30 + seconds) * S))
    (result,) = other_jump.FINDING.evaluate(con)
    assert result.severity == severity
    assert (result.action is None) == (severity == "info")


def test_what_shows_the_cause_is_the_reason_for_the_confidence(con):
    add_rows(con, "latency_jumps", _jump(evidence="steps with prefill tokens took most of the time"))
    assert other_jump.FINDING.evaluate(con)[0].reason == "steps with prefill tokens took most of the time"


def test_kv_jumps_are_not_other_jumps(con):
    add_rows(con, "latency_jumps", _jump(cause="kv"))
    add_rows(con, "token_latency", latency_row(0, 20.0, 30.0))
    (result,) = other_jump.FINDING.evaluate(con)
    assert result.verdict == "not_found"


def test_no_latency_no_answer_on_jumps(con):
    (result,) = other_jump.FINDING.evaluate(con)
    assert result.verdict == "cannot_tell"


@pytest.mark.parametrize(("peak", "verdict"), [(0.69, "found"), (0.70, "not_found")])
def test_headroom_ends_at_its_threshold(con, peak, verdict):
    add_rows(con, "kv_occupancy", kv_row(0, 0.1), kv_row(1, peak))
    (result,) = headroom.FINDING.evaluate(con)
    assert result.verdict == verdict


def test_headroom_needs_kv(con):
    assert headroom.FINDING.evaluate(con)[0].verdict == "cannot_tell"


def test_bandwidth_high_is_data_movement(con):
    add_rows(
        con,
        "indicators",
        {"indicator": "hbm_bandwidth", "value": 0.86, "threshold": 0.8, "state": "high"},
        {"indicator": "sm_active", "value": 0.31, "threshold": 0.8, "state": "ok"},
    )
    (result,) = bandwidth_bound.FINDING.evaluate(con)
    assert result.summary == "Decode is limited by data movement: HBM bandwidth 86 %, SM 31 %."


def test_compute_bound_is_said(con):
    add_rows(
        con,
        "indicators",
        {"indicator": "hbm_bandwidth", "value": 0.4, "threshold": 0.8, "state": "ok"},
        {"indicator": "sm_active", "value": 0.9, "threshold": 0.8, "state": "high"},
    )
    (result,) = bandwidth_bound.FINDING.evaluate(con)
    assert result.verdict == "not_found"
    assert "by computation" in result.summary


@pytest.mark.parametrize(("ratio", "verdict"), [(1.5, "found"), (1.51, "not_found")])
def test_floor_ratio_stands_in_for_the_counter(con, ratio, verdict):
    add_rows(con, "bandwidth_ledger", {"step_class": "decode", "line": "ratio_to_floor", "ratio": ratio})
    (result,) = bandwidth_bound.FINDING.evaluate(con)
    assert (result.verdict, result.confidence) == (verdict, 0.65)


def test_decode_at_its_floor_outweighs_a_mean_below_the_limit(con):
    add_rows(
        con,
        "indicators",
        {"indicator": "hbm_bandwidth", "value": 0.75, "threshold": 0.8, "state": "ok"},
        {"indicator": "sm_active", "value": 0.85, "threshold": 0.8, "state": "high"},
    )
    add_rows(con, "bandwidth_ledger", {"step_class": "decode", "line": "ratio_to_floor", "ratio": 1.24})
    (result,) = bandwidth_bound.FINDING.evaluate(con)
    assert (result.verdict, result.confidence) == ("found", 0.7)
    assert result.summary == (
        "Decode is limited by data movement: decode steps take 1.24 times their HBM floor, "
        "HBM bandwidth 75 %, SM 85 %."
    )


def test_an_engine_on_a_cpu_is_asked_for_no_gpu_capture(con):
    add_rows(con, "settings", {"scope": "", "name": "device_type", "value": "cpu", "is_effective": True})
    (bandwidth,) = bandwidth_bound.FINDING.evaluate(con)
    (capture,) = capture_failed.FINDING.evaluate(con)
    assert (bandwidth.verdict, bandwidth.capture) == ("cannot_tell", None)
    assert (capture.verdict, capture.capture) == ("not_found", None)


def test_bandwidth_unknown_cannot_tell(con):
    add_rows(con, "indicators", {"indicator": "hbm_bandwidth", "value": None, "state": "unknown"})
    (result,) = bandwidth_bound.FINDING.evaluate(con)
    assert result.verdict == "cannot_tell"
    assert "nsys profile" in (result.capture or "")


def test_trace_without_kernels_is_a_failed_capture(con):
    add_rows(
        con, "sources", {"source_id": 1, "path": "t.sqlite", "role": "trace", "notes": "kernels: not traced"}
    )
    (result,) = capture_failed.FINDING.evaluate(con)
    assert result.verdict == "found"
    assert "(t.sqlite: kernels: not traced)" in result.summary
    add_rows(con, "phase_totals", {"phase": "decode", "kernel_count": 1200, "graph_count": 0})
    (result,) = capture_failed.FINDING.evaluate(con)
    assert (result.verdict, result.summary) == ("not_found", "The GPU trace holds 1,200 kernels.")


def test_trace_of_opaque_graphs_is_no_failed_capture(con):
    add_rows(con, "sources", {"source_id": 1, "path": "t.sqlite", "role": "trace"})
    add_rows(con, "phase_totals", {"phase": "decode", "kernel_count": 0, "graph_count": 900})
    (result,) = capture_failed.FINDING.evaluate(con)
    assert result.verdict == "not_found"
    assert "900 launches of CUDA graphs that are timed as a whole" in result.summary


def test_no_trace_cannot_tell(con):
    assert capture_failed.FINDING.evaluate(con)[0].verdict == "cannot_tell"


def _source(con, source_id, **clock):
    add_rows(con, "sources", {"source_id": source_id, "path": f"f{source_id}", "role": "log", "row_count": 9})
    if clock:
        add_rows(con, "clocks", {"source_id": source_id, "offset_ns": 0, **clock})


def test_clocks_that_agree(con):
    _source(con, 1, method="utc", uncertainty_ns=S // 2)
    _source(con, 2, method="utc", uncertainty_ns=1000)
    (result,) = clock_trust.FINDING.evaluate(con)
    assert result.summary == "Clocks: all 2 files with times are on one clock, to within 0.5 s."


def test_file_without_a_clock_is_named(con):
    _source(con, 1, method="utc", uncertainty_ns=1000)
    _source(con, 2, method="untied", note="no shared event")
    (result,) = clock_trust.FINDING.evaluate(con)
    assert result.verdict == "found"
    assert "Times of f2 could not be tied" in result.summary


def test_file_without_times_is_no_doubt(con):
    _source(con, 1, method="utc", uncertainty_ns=1000)
    _source(con, 2, method="untied", note="the file states no times")
    (result,) = clock_trust.FINDING.evaluate(con)
    assert result.verdict == "not_found"
    assert result.summary.endswith("to within 1 ms (1 state none).")


def test_wide_clock_of_a_summary_does_not_matter(con):
    _source(con, 1, method="utc", uncertainty_ns=1000)
    _source(con, 2, method="result_date", uncertainty_ns=17 * S)
    con.execute("update sources set role = 'client' where source_id = 2").fetchall()
    assert clock_trust.FINDING.evaluate(con)[0].verdict == "not_found"
    add_rows(con, "requests", {"source_id": 2, "request_no": 0, "arrival_ns": START})
    assert clock_trust.FINDING.evaluate(con)[0].verdict == "found"


@pytest.mark.parametrize(("uncertainty_ns", "verdict"), [(5 * S, "not_found"), (5 * S + 1, "found")])
def test_wide_clock_is_said(con, uncertainty_ns, verdict):
    _source(con, 1, method="shape", uncertainty_ns=uncertainty_ns)
    assert clock_trust.FINDING.evaluate(con)[0].verdict == verdict


def test_run_findings_writes_numbered_rows_with_evidence(con):
    add_rows(con, "kv_occupancy", kv_row(0, 0.3))
    count = run_findings(con)
    rows = con.execute(
        "select finding_no, finding, verdict, evidence from findings order by finding_no"
    ).fetchall()
    # One level of load raises no question about a knee, no profiled kernel and no trace none about them,
    # and a load that was no stress test none about its two curves.
    unasked = {"concurrency_knee", "counter_limits", "l2_reuse", "communication", "kv_stress"}
    asked = [finding.name for finding in FINDINGS if finding.name not in unasked]
    assert count == len(rows) == len(asked)
    assert [row[0] for row in rows] == list(range(1, count + 1))
    assert [row[1] for row in rows] == asked
    assert rows[4][3] == (
        f'[{{"mart": "kv_occupancy", "numbers": {{"ts_ns": {START}, "used_ratio": 0.3}}, '
        f'"where": "tier = \'hbm\' and ts_ns = {START}"}}]'
    )


def test_every_finding_tolerates_a_run_without_marts():
    con = empty_marts("runs")
    add_run(con)
    for finding in FINDINGS:
        assert {result.verdict for result in finding.evaluate(con)} == {"cannot_tell"}, finding.name


def test_clock_that_events_contradict_is_named(con):
    _source(con, 1, method="stated_utc", uncertainty_ns=1000)
    note = "stated UTC contradicted by shared events: its clock was 2.500 s ahead of the run clock"
    _source(con, 2, method="events", uncertainty_ns=S // 10, note=note)
    (result,) = clock_trust.FINDING.evaluate(con)
    assert result.summary == (
        "Clocks disagreed: the clock of f2 was 2.500 s ahead; events that the files share contradict "
        "the times they state, and the report goes by the events."
    )


def _stop(con, *seconds):
    for second in seconds:
        add_rows(
            con,
            "engine_events",
            {"replica_id": "0", "kind": "profiler_stop", "ts_ns": START + second * S, "error_ns": S // 2},
        )


def test_a_profiler_that_stops_is_told_though_nothing_jumped(con):
    _stop(con, 10, 14)
    (result,) = other_jump.FINDING.evaluate(con)
    assert (result.verdict, result.severity) == ("found", "info")
    assert result.summary.startswith("A profiler took 4 s to stop at 10:00:10.0 UTC")
    assert result.summary.endswith("it stood still, not for KV; no token latency jumped with it.")


def test_one_line_of_a_profiler_says_nothing_of_a_stop(con):
    _stop(con, 10)
    assert other_jump.FINDING.evaluate(con)[0].verdict == "cannot_tell"


def test_a_jump_by_the_profiler_is_told_once(con):
    _stop(con, 10, 14)
    add_rows(con, "latency_jumps", _jump(cause="profiler"))
    assert len(other_jump.FINDING.evaluate(con)) == 1


def _growing(con, growth, *, kv_growth=3.0):
    for second in range(40):
        share = second / 39
        latency = latency_row(second, 15.0 * (1 + (growth - 1) * share), 30.0)
        add_rows(con, "token_latency", {**latency, "running_count": 2.0})
        add_rows(con, "kv_occupancy", kv_row(second, 0.1 * (1 + (kv_growth - 1) * share)))


@pytest.mark.parametrize(
    ("growth", "kv_growth", "is_told"), [(1.6, 3.0, True), (1.1, 3.0, False), (1.6, 1.1, False)]
)
def test_contexts_that_grow_are_no_jump(con, growth, kv_growth, is_told):
    _growing(con, growth, kv_growth=kv_growth)
    (result,) = other_jump.FINDING.evaluate(con)
    assert result.verdict == "not_found"
    assert ("contexts grew longer" in result.summary) == is_told
