from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from builders_lines import (
    at,
    check_hostile,
    corpus_log,
    corpus_rows,
    hostile,
    lines_with_rows,
    needs_corpus,
    ns,
)
from builders_log import Loaded, load_lines
from kvcliff.readers.lines.llamacpp import LLAMACPP
from kvcliff.readers.log_clock import NOMINAL_YEAR

PROMPT = "prompt eval time =    1200.50 ms /  2048 tokens (    0.59 ms per token,  1705.96 tokens per second)"
DECODE = "       eval time =    5120.00 ms /   256 tokens (   20.00 ms per token,    50.00 tokens per second)"


def test_timings_belong_to_the_slot_named_before(tmp_path: Path) -> None:
    lines = [
        "slot print_timing: id  0 | task 20 | ",
        PROMPT,
        DECODE,
        "      total time =    6320.50 ms /  2304 tokens",
        "slot print_timing: id  1 | task 21 | ",
        PROMPT,
    ]
    rows = load_lines(tmp_path, lines).requests
    assert [row["request_id"] for row in rows] == ["0/20", "0/20", "0/20", "1/21"]
    assert (rows[0]["prompt_tokens"], rows[0]["prefill_ms"]) == (2048, 1200.5)
    assert (rows[1]["output_tokens"], rows[1]["decode_ms"], rows[2]["total_ms"]) == (256, 5120.0, 6320.5)


def test_timings_without_a_slot_stand_alone(tmp_path: Path) -> None:
    assert "request_id" not in load_lines(tmp_path, [PROMPT]).requests[0]


def test_time_since_the_start_is_relative_without_an_outer_stamp(tmp_path: Path) -> None:
    line = "0.17.000.300 W slot update_slots: id  1 | task 41 | forcing full prompt re-processing due to x"
    loaded = load_lines(tmp_path, [line])
    assert loaded.events[0]["src_ns"] == ns(f"{NOMINAL_YEAR}-01-01T00:00:17.0003+00:00")
    assert loaded.stamp_facts()["log_stamp_year_known"] == "false"
    outer = load_lines(tmp_path, ["2030-01-20T09:00:05.25Z " + line])
    assert outer.events[0]["src_ns"] == ns("2030-01-20T09:00:05.25+00:00")
    assert (outer.events[0]["kind"], outer.events[0]["request_id"]) == ("recompute", "1/41")


def test_servers_behind_a_router_are_replicas(tmp_path: Path) -> None:
    line = "[8081] 0.18.000.000 W srv update_slots: purging slot 2 with 1511 tokens"
    row = load_lines(tmp_path, [line]).events[0]
    assert (row["engine"], row["kind"], row["tokens"]) == ("8081/0", "cache_evict", 1511)


def test_a_timing_without_a_number_is_counted(tmp_path: Path) -> None:
    report = load_lines(tmp_path, ["prompt eval time = x ms"]).report
    assert (report.skipped_count, report.first_skip_reason) == (
        1,
        "a timing line has another form than known",
    )


#: Kinds that have no place: progress of requests that go on, and the name in front of timings.
SILENT = {None, "prompt_progress", "live_decode", "timing_header"}


def check_row(loaded: Loaded, row: dict[str, Any]) -> None:
    kind, line_no = row["kind"], row["line"]
    if kind in SILENT:
        assert line_no not in lines_with_rows(loaded)
        return
    name = f"{row['slot']}/{row['task']}" if "task" in row else None
    if kind.startswith("timing_"):
        found = at(loaded.requests, line_no)
        expected = {
            "timing_prompt": {"prompt_tokens": "prompt_tokens", "prompt_ms": "prefill_ms"},
            "timing_decode": {"decode_tokens": "output_tokens", "decode_ms": "decode_ms"},
            "timing_total": {"total_ms": "total_ms"},
        }[kind]
        assert {ours: found[ours] for ours in expected.values()} == {o: row[t] for t, o in expected.items()}
    else:
        found = at(loaded.events, line_no)
        kinds = {
            "kv_full": "kv_full",
            "kv_fatal": "fatal",
            "kv_evict": "cache_evict",
            "recompute": "recompute",
        }
        assert found["kind"] == (kinds | {"release": "request_finished"})[kind]
        tokens = row.get("n_batch", row.get("batch", row.get("tokens")))
        assert kind == "release" or found.get("tokens") == tokens
    assert found.get("request_id") == name


@needs_corpus
def test_corpus() -> None:
    rows, loaded = corpus_rows("llamacpp_eras.log"), corpus_log("llamacpp_eras.log")
    start_ns = ns("2030-01-01T00:00:00+00:00")
    for row in rows:
        check_row(loaded, row)
        if row["kind"] not in SILENT and ("time" in row or "seconds_since_start" in row):
            found = at([*loaded.events, *loaded.requests], row["line"])
            relative_ns = round(row.get("seconds_since_start", 0) * 1e9)
            assert found["src_ns"] == (ns(row["time"]) if "time" in row else start_ns + relative_ns)
    assert len(loaded.requests) == sum((row["kind"] or "").startswith("timing_") for row in rows) - 4


# ---------------------------------------------------------------------------------------------- hostile

LINES = (
    PROMPT,
    DECODE,
    "update_slots : failed to find free space in the KV cache, retrying with smaller n_batch = 512",
    (
        "INFO [  print_timings] prompt eval time     =     812.50 ms /   512 tokens ( 1.59 ms per token) | "
        'tid="1" timestamp=1893456000 id_slot=0 id_task=10 t_prompt_processing=812.5'
    ),
    "slot      release: id  0 | task 20 | stop processing: n_past = 2304, truncated = 0",
    "0.17.000.000 W srv        decode: failed to find free space in the KV cache, off = 766, n_batch = 256",
    "[8081] 0.18.000.000 I slot print_timing: id  0 | task 42 | n_decoded = 100, tg = 30.50 t/s",
)


@settings(max_examples=200, deadline=None)
@given(hostile(LINES))
def test_hostile_variants(line: bytes) -> None:
    check_hostile(LLAMACPP, line)


@pytest.mark.fuzz
@settings(max_examples=5000, deadline=None)
@given(hostile(LINES))
def test_many_hostile_variants(line: bytes) -> None:
    check_hostile(LLAMACPP, line)
