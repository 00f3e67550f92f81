"""Each symptom: just seen, just not seen, and not to be told."""

import pytest

from builders_marts import START, S, add_rows, add_run, empty_marts, kv_row, latency_row, swap_point
from kvcliff.report.document import FindingLine, Paragraph, Table, Verdict
from kvcliff.report.quick_reference import quick_reference_section
from kvcliff.report.symptoms import SYMPTOMS

CALM = Verdict("swap_point", "not_found", "info", 0.8, "No swap point.", None)


@pytest.fixture
def con():
    con = empty_marts()
    add_run(con)
    con.execute(
        "create temp table steps (phase varchar, gpu_busy_ns bigint, bubble_before_ns bigint, "
        "bubble_cause varchar)"
    ).fetchall()
    con.execute(
        "create temp table transfers (is_kv_swap boolean, kind varchar, bytes bigint, copy_ns bigint, "
        "hidden_ns bigint)"
    ).fetchall()
    return con


def _line(finding, verdict="found", severity="warning", action=None, summary="It is so."):
    return FindingLine(1, finding, verdict, severity, 0.9, summary, action, None, None, "because")


def _rows(con, *findings, verdict=CALM):
    section = quick_reference_section(con, findings, verdict)
    return [row for block in section.blocks if isinstance(block, Table) for row in block.rows]


def _words(con):
    section = quick_reference_section(con, (), CALM)
    return [block.text for block in section.blocks if isinstance(block, Paragraph)]


def _symptoms(con, *findings):
    return [row[0] for row in _rows(con, *findings)]


def test_nothing_recorded_is_nothing_told(con):
    (unknown,) = _words(con)
    assert unknown.startswith("Not to be told from this run: the KV cache is hit")
    assert all(symptom.lacks in unknown for symptom in SYMPTOMS)


def test_an_absent_symptom_is_not_an_unknown_one(con):
    add_rows(con, "kv_occupancy", kv_row(0, 0.2))
    absent, unknown = _words(con)
    assert absent == (
        "Looked for and not seen: streams stall while the KV cache is full; KV pressure that is no "
        "swap point; requests queue although KV has room."
    )
    assert "queue" not in unknown


def test_swap_points_are_told_with_their_numbers(con):
    add_rows(con, "kv_occupancy", kv_row(0, 1.0))
    add_rows(con, "swap_points", swap_point(), swap_point(swap_point_id=2, **{"class": "probable"}))
    ((symptom, evidence, cause, _),) = _rows(con)
    assert symptom == "Streams stall while the KV cache is full"
    assert evidence == (
        "2 swap points (confirmed), KV 99.3 %, 28 engine actions, 12 victims, longest stall 6.21 s"
    )
    assert cause == "KV blocks ran out: requests were preempted and computed again"


def test_pressure_alone_is_not_a_stall(con):
    add_rows(con, "swap_points", swap_point(**{"class": "pressure"}, blocked_s=3.5))
    assert _symptoms(con) == ["KV pressure that is no swap point"]
    assert _rows(con)[0][1:3] == (
        "1 episode, KV 99.3 %, 14 engine actions, admission blocked 3.5 s",
        "KV touches its ceiling: the engine acts too rarely, or without measurable harm",
    )
    con.execute("update swap_points set action_count = 0")
    assert _rows(con)[0][2] == "KV touches its ceiling: requests wait for blocks"


def test_jumps_are_told_by_cause(con):
    jump = {"replica_id": "0", "metric": "itl_p50_ms", "before_ms": 16.0, "after_ms": 60.0, "at_ns": START}
    add_rows(
        con,
        "latency_jumps",
        {**jump, "cause": "cpu", "kv_used_ratio": 0.24, "size_mads": 9.0},
        {**jump, "cause": "cpu", "kv_used_ratio": 0.24, "size_mads": 8.0, "after_ms": 40.0},
        {**jump, "cause": "kv"},
    )
    ((_, evidence, cause, action),) = _rows(con)
    assert evidence == "ITL p50 16 ms to 60 ms, KV 24.0 %, 2 such jumps"
    assert cause == "the host CPU was the limit"
    assert action.startswith("Look for other work on the host")


@pytest.mark.parametrize(("ratio", "cause"), [(1.5, "the step reads what it must"), (1.51, "not the bytes")])
def test_a_step_near_its_floor_and_one_far_from_it(con, ratio, cause):
    for line, time_ms, value in (
        ("floor", 10.0, None),
        ("measured", 15.0, None),
        ("ratio_to_floor", None, ratio),
    ):
        row = {"step_class": "decode", "line": line, "time_ms": time_ms, "ratio": value, "replica_id": "0"}
        add_rows(con, "bandwidth_ledger", row)
    ((_, evidence, words, _),) = _rows(con)
    assert evidence == f"decode step 15 ms, floor 10 ms ({ratio} times)"
    assert words.startswith(cause)


@pytest.mark.parametrize(("idle", "is_seen"), [(199, False), (201, True)])
def test_idle_before_decode_steps(con, idle, is_seen):
    row = {"phase": "decode", "gpu_busy_ns": 1000 - idle, "bubble_before_ns": idle, "bubble_cause": "host"}
    long = {**row, "bubble_before_ns": 10_000}
    no_step = {**long, "bubble_cause": "idle", "gpu_busy_ns": 1}
    add_rows(con, "steps", row, {**long, "phase": "prefill"}, no_step)
    assert (_symptoms(con) == ["The GPU idles between decode steps"]) == is_seen


def test_copies_of_kv_blocks(con):
    add_rows(
        con,
        "transfers",
        {
            "is_kv_swap": True,
            "kind": "dtoh",
            "bytes": 1 << 30,
            "copy_ns": 100_000_000,
            "hidden_ns": 25_000_000,
        },
        {"is_kv_swap": False, "kind": "htod", "bytes": 5, "copy_ns": 5, "hidden_ns": 0},
    )
    ((_, evidence, _, _),) = _rows(con)
    assert evidence == "1 GiB of KV blocks, 25 % of the time hidden under kernels, 75 ms not"


@pytest.mark.parametrize(("waiting", "used", "is_seen"), [(2, 0.5, True), (1, 0.5, False), (2, 0.8, False)])
def test_a_queue_while_kv_has_room(con, waiting, used, is_seen):
    rows = [kv_row(second, used, waiting_count=3 if second < waiting else 0) for second in range(10)]
    add_rows(con, "kv_occupancy", *rows)
    assert (_symptoms(con) == ["Requests queue although KV has room"]) == is_seen


@pytest.mark.parametrize(("failed", "is_seen"), [(5, False), (6, True)])
def test_failed_requests(con, failed, is_seen):
    for number in range(100):
        add_rows(con, "requests", {"request_no": number, "is_error": number < failed, "arrival_ns": START})
    assert (_symptoms(con) == ["Requests fail"]) == is_seen


def test_a_hit_is_a_symptom_only_when_the_finding_says_so(con):
    hit = {
        "tier": "hbm",
        "lookup_tokens": 100,
        "hit_tokens": 95,
        "replica_id": "0",
        "ts_ns": START,
        "end_ns": START + S,
    }
    add_rows(con, "cache_hits", hit)
    assert _symptoms(con, _line("hit_but_slow", "not_found")) == []
    assert _rows(con, _line("hit_but_slow", action="Do it."))[0][1:] == (
        "hits: engine cache 95 %",
        "a hit saves the prefill of a prefix; it frees no blocks and makes no decode step shorter",
        "Do it.",
    )


def test_an_action_is_said_once(con):
    add_rows(con, "swap_points", swap_point(), swap_point(swap_point_id=2, mechanism="swap"))
    line = _line("swap_point", action="Cap it.")
    assert [row[3] for row in _rows(con, line)] == ["Cap it.", "The same."]
    verdict = Verdict("swap_point", "found", "critical", 0.9, "Swap point.", "Cap it.")
    assert {row[3] for row in _rows(con, line, verdict=verdict)} == {"The first thing to do, at the top."}


def test_an_alarm_that_no_symptom_covers_has_a_row(con):
    rows = _rows(
        con, _line("rank_skew", action="Look."), _line("clock_trust"), _line("mild", severity="info")
    )
    assert rows == [("rank skew", "It is so.", "because", "Look.")]


def test_latency_without_a_jump_is_looked_for(con):
    add_rows(con, "token_latency", latency_row(0, 20.0, 30.0))
    assert "token latency jumps, and KV is not why" in _words(con)[0]


def test_the_knee_is_told_with_the_growth_beyond_it(con):
    for place_no, (level, growth) in enumerate((("8", 0.95), ("16", 0.42), ("32", 0.3)), start=1):
        row = {
            "level": level,
            "place_no": place_no,
            "elasticity": growth,
            "is_knee": level == "8",
            "cause": "kv",
        }
        add_rows(con, "concurrency_knee", row)
    ((symptom, evidence, cause, _),) = _rows(con)
    assert (symptom, cause) == ("More load brings no more tokens", "KV pressure")
    assert evidence == "knee at level 8, beyond it throughput grows 0.42 times as fast as the load"
