"""Sections over rows of marts: levels of a sweep, copies of swap points, files, clocks and settings."""

import pytest

from builders_marts import START, S, add_rows, add_run, empty_marts, kv_row, latency_row, swap_point
from kvcliff.findings.diagnosis import run_findings
from kvcliff.report.content import build_content
from kvcliff.report.document import Gap, Paragraph, RunLine, Table
from kvcliff.report.focus import choose_focus
from kvcliff.report.ledger_sections import ledger_section
from kvcliff.report.level_sections import level_section
from kvcliff.report.markdown import report_markdown
from kvcliff.report.provenance_section import provenance_section
from kvcliff.report.sections import build_sections
from kvcliff.report.series import read_series
from kvcliff.report.swap_sections import swap_point_section
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
    all_copies, _, of_points = transfer_section(con).blocks
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
    return report_markdown(build_content(con, "night-1"), figure_svg="f.svg", figure_png=None)


def test_a_capture_command_is_never_cut(con):
    add_rows(con, "kv_occupancy", kv_row(0, 0.2))
    commands = [line for line in _markdown(con).splitlines() if "Capture:" in line]
    assert commands
    assert all("…" not in line for line in commands)


def test_a_caption_without_latency_names_throughput(con):
    add_rows(con, "kv_occupancy", kv_row(0, 0.2))
    add_rows(con, "token_latency", latency_row(0, 20.0, 30.0, itl_p50_ms=None, itl_p99_ms=None))
    assert "KV occupancy, throughput (no token latency was recorded) and queue" in _markdown(con)


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
