"""Sections over rows of marts: levels of a sweep, copies of swap points, files, clocks and settings."""

import pytest

from builders_marts import START, S, add_rows, add_run, empty_marts, kv_row, latency_row, swap_point
from kvcliff.errors import StoreError
from kvcliff.findings.diagnosis import run_findings
from kvcliff.report.capture_section import capture_section, kernel_sum_section
from kvcliff.report.content import build_content
from kvcliff.report.document import Gap, Paragraph, RunLine, Table
from kvcliff.report.event_section import event_section
from kvcliff.report.focus import choose_focus
from kvcliff.report.kv_figure import kv_caption
from kvcliff.report.ledger_sections import ledger_section
from kvcliff.report.level_sections import level_section
from kvcliff.report.markdown import report_markdown
from kvcliff.report.provenance_section import provenance_section
from kvcliff.report.request_trace_section import request_trace_section
from kvcliff.report.sections import build_sections
from kvcliff.report.series import read_series
from kvcliff.report.serving_sections import request_section
from kvcliff.report.swap_sections import swap_point_section
from kvcliff.report.telemetry_section import telemetry_section
from kvcliff.report.transfer_sections import transfer_section

_RUN = RunLine("night", None, "ok", True, True, START, START + 60 * S, 0, 1, "0.1.0")


@pytest.fixture
def con():
    con = empty_marts()
    add_run(con)
    return con


@pytest.fixture
def sweep(con):
    """Levels 8, 16 and 128 one after the other, with swap points at 16 and 128 and the knee at 16."""
    for place_no, load in enumerate((8, 16, 128), start=1):
        add_rows(
            con,
            "concurrency_knee",
            {
                "level": str(load), "load_kind": "concurrency", "load": load, "tokens_per_s": 800.0,
                "running_max": 9, "place_no": place_no, "is_knee": load == 16, "is_saturation": False,
                "cause": "compute" if load == 16 else None,
            },
        )  # fmt: skip
    for number, level in enumerate(("128", "8", "16")):
        for second in range(10):
            at_s = number * 30 + second
            add_rows(con, "kv_occupancy", kv_row(at_s, 0.1 * second, level=level, running_count=second))
            add_rows(con, "token_latency", latency_row(at_s, 20.0, 30.0, level=level))
    add_rows(
        con,
        "swap_points",
        swap_point(swap_point_id=1, level="128", at_ns=START + 4 * S, action_count=7),
        swap_point(swap_point_id=2, level="16", at_ns=START + 65 * S, **{"class": "probable"}),
    )
    return con


def _columns(table: Table, *names: str):
    indexes = [[column.name for column in table.columns].index(name) for name in names]
    return [tuple(row[index] for index in indexes) for row in table.rows]


def test_levels_stand_by_load_with_their_first_swap_point(sweep):
    (table,) = level_section(sweep).blocks
    assert _columns(table, "level", "running_max", "swap_point_count", "class", "first_offset_ns") == [
        ("8", 9, 0, None, None),
        ("16", 9, 1, "probable", 5 * S),
        ("128", 9, 1, "confirmed", 4 * S),
    ]
    assert _columns(table, "tokens_per_s") == [(800.0,)] * 3
    assert _columns(table, "mark", "cause") == [(None, None), ("knee", "compute"), (None, None)]


def test_a_run_without_levels_has_no_table_of_them(con):
    add_rows(con, "kv_occupancy", kv_row(0, 0.5))
    assert level_section(con) is None


def test_the_figure_shows_the_lowest_level_with_a_swap_point_on_its_own_clock(sweep):
    focus = choose_focus(sweep)
    series = read_series(sweep, focus)
    assert (focus.level, focus.reason) == ("16", "it is the lowest level with a swap point")
    assert series.level_start_ns == START + 60 * S


def test_times_in_a_sweep_count_from_the_level(sweep):
    table = swap_point_section(sweep).blocks[0]
    assert _columns(table, "swap_point_id", "since_start_ns") == [(1, 4 * S), (2, 5 * S)]
    assert "Into the level" in [column.title for column in table.columns]


def _copy(**columns):
    row = {
        "kind": "dtoh", "is_kv_swap": True, "bytes": 21 * 10**9, "copy_ns": 10**9, "hidden_ns": 4 * 10**8,
        "start_ns": START + 61 * S, "level": None,
    }  # fmt: skip
    return {**row, **columns}


def test_copies_of_a_swap_point_are_told_with_their_speed(con):
    con.execute(
        "create temp table transfers (level varchar, kind varchar, is_kv_swap boolean, bytes bigint, "
        "device_id integer, stream_id integer, piece_bytes bigint, copy_count bigint, end_ns bigint, "
        "copy_ns bigint, hidden_ns bigint, start_ns bigint)"
    ).fetchall()
    add_rows(con, "swap_points", swap_point())
    add_rows(
        con,
        "transfers",
        _copy(),
        _copy(start_ns=START + 59 * S + S // 2),
        _copy(start_ns=START + 90 * S),
        _copy(kind="htod", is_kv_swap=False, bytes=1000),
    )
    all_copies, _, _, _, of_points = transfer_section(con).blocks
    assert _columns(all_copies, "kind", "is_kv_swap", "burst_count") == [
        ("GPU to host", True, 3),
        ("host to GPU", False, 1),
    ]
    assert _columns(of_points, "swap_point_id", "kind", "burst_count", "gb_per_s", "visible_ns") == [
        (1, "GPU to host", 2, 21.0, 1_200_000_000)
    ]
    assert _columns(of_points, "hidden_ratio") == [(0.4,)]


def test_a_missing_floor_is_a_sentence_not_a_row(con):
    rows = (("decode", "weights", "read once"), ("decode", "cannot_tell", "no floor: nobody names the GPU"))
    for number, (step_class, line, meaning) in enumerate(rows):
        row = {"step_class": step_class, "line": line, "meaning": meaning, "line_no": number}
        add_rows(con, "bandwidth_ledger", {**row, "bytes": None if number else 7})
    table, words = ledger_section(con).blocks
    assert len(table.rows) == 1
    assert words == Paragraph("No floor for decode: nobody names the GPU.")


def _source(con, source_id, path, **columns):
    row = {"source_id": source_id, "path": path, "status": "read", "row_count": 5, "sha256": "0" * 64}
    add_rows(con, "sources", {**row, **columns})


def test_files_that_are_no_data_are_named_apart(con):
    _source(con, 1, "server.log")
    _source(con, 2, "README.md", status="ignored", reason="no reader knows this format")
    files, ignored = provenance_section(con, _RUN, "night-1").blocks[1:3]
    assert _columns(files, "path") == [("server.log",)]
    assert ignored == Paragraph("Not used, in no format that kvcliff reads: README.md.")


def test_a_damaged_file_is_never_cut_off_a_long_list(con):
    for number in range(50):
        _source(con, number, f"f{number:02}", status="damaged" if number == 49 else "read")
    files = provenance_section(con, _RUN, "night-1").blocks[1]
    assert len(files.rows) == 40
    assert files.rows[-1][1] == "f49"
    assert files.more_count == 10


def test_a_clock_that_was_off_is_told_in_plain_words(con):
    _source(con, 1, "a.prom")
    _source(con, 2, "b.log")
    _source(con, 3, "c.prom")
    note = (
        "local time is UTC+02:00; stated UTC contradicted by shared events: its clock was 0.4 s ahead of it"
    )
    add_rows(
        con,
        "clocks",
        {"source_id": 1, "method": "stated_utc", "offset_ns": 0, "uncertainty_ns": 0, "note": None},
        {"source_id": 2, "method": "counter_steps", "offset_ns": -1, "uncertainty_ns": 5, "note": note},
        {"source_id": 3, "method": "untied", "offset_ns": 0, "note": "the file states no times"},
    )
    clocks = provenance_section(con, _RUN, "night-1").blocks[2]
    assert _columns(clocks, "path", "method") == [("a.prom", "stated utc"), ("b.log", "counter steps")]
    (_, (text,)) = _columns(clocks, "note")
    assert text == (
        "local time is UTC+02:00; the file's clock was 0.4 s ahead: "
        "events that it shares with other files show it; corrected here"
    )


def test_settings_that_all_levels_share_stand_once(con):
    for level, limit in (("1", "8"), ("2", "16")):
        for name, value in (("max_num_seqs", limit), ("block_size", "16"), ("device_clock", "relative")):
            row = {"scope": f"level={level}", "name": name, "value": value, "origin": "s.log"}
            add_rows(con, "settings", {**row, "source_id": 1, "is_effective": True})
    settings = provenance_section(con, _RUN, "night-1").blocks[1]
    assert _columns(settings, "scope", "name", "value") == [
        (None, "block_size", "16"),
        ("level=1", "max_num_seqs", "8"),
        ("level=2", "max_num_seqs", "16"),
    ]


def test_a_run_without_client_results_says_how_to_get_them(con):
    _, gaps = build_sections(con)
    assert [gap.text.split(":")[0] for gap in gaps] == ["What users saw", "Ledgers"]
    assert all(isinstance(gap, Gap) and gap.capture for gap in gaps)


def _markdown(con) -> str:
    run_findings(con)
    return report_markdown(build_content(con, "night-1"))


def test_a_capture_command_is_never_cut(con):
    add_rows(con, "kv_occupancy", kv_row(0, 0.2))
    commands = [line for line in _markdown(con).splitlines() if "Capture:" in line]
    assert commands
    assert all("…" not in line for line in commands)


def test_a_caption_without_latency_names_throughput(con):
    add_rows(con, "kv_occupancy", kv_row(0, 0.2))
    add_rows(con, "token_latency", latency_row(0, 20.0, 30.0, itl_p50_ms=None, itl_p99_ms=None))
    caption = kv_caption(con, choose_focus(con))
    assert caption == "KV occupancy, throughput (no token latency was recorded) and queue on one time axis."


@pytest.mark.parametrize(("failed", "is_said"), [(5, False), (6, True)])
def test_many_failed_requests_are_said_at_the_top(con, failed, is_said):
    for number in range(100):
        row = {"request_no": number, "is_error": number < failed, "is_warmup": False}
        add_rows(con, "requests", {"source_id": 1, "arrival_ns": START, **row})
    assert (f"> {failed} of 100 requests failed" in _markdown(con)) == is_said


@pytest.mark.parametrize(
    ("labels", "is_said"),
    [("synthetic=true", True), ("kind=synthetic", True), ("synthetic=false", False), ("a=b", False)],
)
def test_a_label_says_whether_a_run_is_synthetic(labels, is_said):
    con = empty_marts()
    add_run(con, labels=labels)
    assert ("Synthetic run" in _markdown(con)) == is_said


def test_captures_say_what_is_missing_first(con):
    con.execute(
        "create temp table captures (level varchar, source_id integer, path varchar, capability varchar, "
        "verdict varchar, reason varchar, event_count bigint, data_until_ns bigint)"
    ).fetchall()
    for number in range(50):
        state = "failed" if number == 49 else "present"
        add_rows(
            con,
            "captures",
            {"source_id": number, "path": f"t{number:02}", "capability": "gpu_metrics", "verdict": state},
        )
    table, words = capture_section(con).blocks
    assert len(table.rows) == 40
    assert _columns(table, "path", "capability", "verdict")[-1] == ("t49", "gpu metrics", "failed")
    assert words.text.startswith("Failed: asked for")


def test_kernel_sums_share_their_file(con):
    con.execute(
        "create temp table kernel_sums (level varchar, source_id integer, kernel_id integer, family varchar, "
        "phase varchar, launch_count bigint, gpu_time_ns bigint, min_ns bigint, max_ns bigint)"
    ).fetchall()
    con.execute("create temp table kernel_names (kernel_id integer, short_name varchar)").fetchall()
    for source_id, kernel_id, time_ns in ((1, 1, 30), (1, 2, 10), (2, 1, 5)):
        row = {"source_id": source_id, "kernel_id": kernel_id, "family": "gemm", "gpu_time_ns": time_ns}
        add_rows(con, "kernel_sums", row)
    add_rows(con, "kernel_names", {"kernel_id": 1, "short_name": "ampere_gemm"})
    (table, _) = kernel_sum_section(con).blocks
    assert _columns(table, "short_name", "gpu_time_ns", "share") == [
        ("ampere_gemm", 30, 0.75),
        (None, 10, 0.25),
        ("ampere_gemm", 5, 1.0),
    ]


def test_engine_events_are_counted_by_kind_and_evidence(con):
    add_rows(con, "kv_occupancy", kv_row(0, 0.5))
    for at_s, kind, proof, pressed in (
        (5, "preempt", "counter", True),
        (3, "preempt", "counter", False),
        (4, "preempt", "log", True),
    ):
        row = {
            "replica_id": "0",
            "kind": kind,
            "proof": proof,
            "event_count": 2,
            "is_under_pressure": pressed,
        }
        add_rows(con, "engine_events", {**row, "ts_ns": START + at_s * S})
    (table,) = event_section(con).blocks
    assert _columns(
        table, "kind", "proof", "event_count", "pressure_count", "since_start_ns", "last_offset_ns"
    ) == [
        ("preempt", "counter", 4, 2, 3 * S, 5 * S),
        ("preempt", "log", 2, 2, 4 * S, 4 * S),
    ]


def test_gpu_counters_are_told_by_their_range(con):
    con.execute(
        "create temp table gpu_samples (level varchar, device_id integer, counter varchar, value double)"
    ).fetchall()
    for value in range(1, 101):
        add_rows(con, "gpu_samples", {"device_id": 0, "counter": "sm_active_pct", "value": float(value)})
    (table,) = telemetry_section(con).blocks
    assert table.rows == ((0, "sm_active_pct", 100, 1.0, 50.0, 95.0, 100.0),)


def test_request_traces_show_every_second_cache_size_and_the_largest(con):
    con.execute(
        "create temp table request_trace_summary as select 1 as source_id, 'a.jsonl' as path, "
        "9 as request_count, 0 as failed_count, 60.0 as span_s, 0.15 as requests_per_s, "
        "1.0 as peak_requests_per_s, 5.0 as input_p50, 9.0 as input_p99, "
        "2.0 as output_p50, 3.0 as output_p99, 0.5 as reusable_block_ratio"
    ).fetchall()
    con.execute(
        "create temp table request_trace_reuse as select 1 as source_id, 2 ** n as cache_block_count, "
        "2 ** n * 16 as cache_tokens, n / 10 as reusable_block_ratio from range(4) as sizes(n)"
    ).fetchall()
    summary, _, reuse = request_trace_section(con).blocks
    assert _columns(summary, "path", "request_count", "input_p99") == [("a.jsonl", 9, 9.0)]
    assert _columns(reuse, "cache_block_count", "reusable_block_ratio") == [(2, 0.1), (8, 0.3)]


def test_stalls_are_told_with_the_state_of_kv(con):
    con.execute(
        "create temp table token_gaps (source_id integer, request_no bigint, is_stall boolean, "
        "kv_used_ratio double)"
    ).fetchall()
    add_rows(con, "requests", {"request_no": 1, "arrival_ns": START})
    assert len(request_section(con).blocks) == 1
    for request_no, stalled, ratio in ((1, True, 0.8), (1, True, 0.79), (2, True, None), (3, False, 0.9)):
        row = {"source_id": 1, "request_no": request_no, "is_stall": stalled, "kv_used_ratio": ratio}
        add_rows(con, "token_gaps", row)
    assert request_section(con).blocks[1] == Paragraph(
        "Streams that stood still while others progressed: 3 stalls in 2 requests; KV was high in 1 of the 2 "
        "whose KV occupancy is known."
    )


def test_a_policy_and_a_foreign_run_toml_are_part_of_the_commands(con):
    con.execute(
        "update thresholds set value = 0.9, source = 'policy' where name = 'kv_high_ratio'"
    ).fetchall()
    row = {"scope": "", "name": "max_num_seqs", "value": "8", "origin": "run.toml", "is_effective": True}
    add_rows(con, "settings", row)
    commands = provenance_section(con, _RUN, "night-1").blocks[-1]
    assert commands.lines[:2] == (
        "printf '%s\\n' 'kv_high_ratio = 0.9' > policy.toml",
        "kvcliff diagnose night --policy policy.toml --config run.toml",
    )
    _source(con, 1, "run.toml")
    assert "--config" not in provenance_section(con, _RUN, "night-1").blocks[-1].lines[1]


def test_a_run_of_another_version_is_refused_in_words(con):
    con.execute("alter table swap_points drop column l_status").fetchall()
    add_rows(con, "kv_occupancy", kv_row(0, 0.5))
    with pytest.raises(StoreError, match="another version of kvcliff: its swap_points lacks a column"):
        swap_point_section(con)
