from pathlib import Path

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
    states,
)
from builders_log import load_lines
from kvcliff.readers.lines.base import duration_ms_of
from kvcliff.readers.lines.tgi import TGI

TIMES = (
    'total_time="4.06s" validation_time="440µs" queue_time="1.204s" inference_time="3.6s" '
    'time_per_token="38.98ms" seed="None"}: text_generation_router::server: Success'
)
LINE = "2030-01-19T09:00:01.313569Z  INFO generate{" + TIMES


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("94.981µs", 0.094981),
        ("350ns", 0.00035),
        ("4.06s", 4060.0),
        ("1m2.5s", 62500.0),
        ("1h0m1s", 3601000.0),
        ("", None),
        ("5", None),
        ("s", None),
        ("-1s", None),
        ("1e9s", None),
        ("3 s", None),
    ],
)
def test_durations_of_rust_and_go(text: str, ms: float | None) -> None:
    assert duration_ms_of(text) == ms


def test_parameters_cannot_pose_as_times(tmp_path: Path) -> None:
    fake = 'parameters=GenerateParameters { stop: ["total_time=\\"9s\\""] } '
    row = load_lines(tmp_path, [LINE.replace("generate{", "generate{" + fake)]).requests[0]
    assert (row["total_ms"], row["queue_ms"], row["run_ms"], row["token_ms"]) == (4060, 1204, 3600, 38.98)


def test_times_are_utc(tmp_path: Path) -> None:
    loaded = load_lines(tmp_path, [LINE])
    assert loaded.requests[0]["src_ns"] == ns("2030-01-19T09:00:01.313569+00:00")
    assert loaded.stamp_facts()["log_stamp_zone_known"] == "true"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LINE[:120], "a request line has another form than known"),
        (LINE.replace("4.06s", "soon"), "a request line has a duration of unknown form"),
        (LINE[50:], "a request line has no complete head"),
    ],
)
def test_cut_lines_are_counted_with_a_reason(tmp_path: Path, text: str, reason: str) -> None:
    report = load_lines(tmp_path, [text]).report
    assert (report.skipped_count, report.first_skip_reason) == (1, reason)


@needs_corpus
def test_corpus() -> None:
    rows, loaded = corpus_rows("tgi.log"), corpus_log("tgi.log")
    for row in rows:
        if row["kind"] == "limits":
            states(loaded, {"kv_cache_tokens": str(row["max_batch_total_tokens"])})
        elif row["kind"] == "kv_blocks":
            states(loaded, {"num_gpu_blocks": str(row["blocks"]), "block_size": str(row["block_size"])})
        elif row["kind"] == "request":
            found = at(loaded.requests, row["line"])
            assert found["src_ns"] == ns(row["time"])
            names = {"total_s": "total_ms", "queue_s": "queue_ms", "inference_s": "run_ms"}
            names["time_per_token_s"] = "token_ms"
            for theirs, ours in names.items():
                assert found[ours] == pytest.approx(row[theirs] * 1e3)
            assert at(loaded.events, row["line"])["kind"] == "request_finished"
        else:
            assert row["line"] not in lines_with_rows(loaded)
    assert len(loaded.requests) == sum(row["kind"] == "request" for row in rows) == 20
    # This engine never preempts and prints no occupancy.
    assert (loaded.stats, loaded.facts()["", "engine"]) == ([], "tgi")


JSON_LINE = (
    '{"timestamp":"2030-01-19T08:59:42.5Z","level":"INFO","message":"Success",'
    '"target":"text_generation_router::server","filename":"router/src/server.rs","line_number":500,'
    '"span":{"parameters":"GenerateParameters { stop: [\\"total_time\\"] }","total_time":"4.06s",'
    '"validation_time":"440ms","queue_time":"94.981\u00b5s","inference_time":"1m3.6s",'
    '"time_per_token":"38.98ms","name":"generate"},"spans":[]}'
)
JSON_LIMIT = (
    '{"timestamp":"2030-01-19T08:59:40.5Z","level":"INFO",'
    '"message":"Setting max batch total tokens to 80000",'
    '"target":"text_generation_router","filename":"router/src/lib.rs","line_number":1}'
)


def test_json_output(tmp_path: Path) -> None:
    loaded = load_lines(tmp_path, [JSON_LIMIT, JSON_LINE, JSON_LINE.replace("4.06s", "long")])
    assert loaded.facts()["", "kv_cache_tokens"] == "80000"
    (row,) = loaded.requests
    assert row["src_ns"] == ns("2030-01-19T08:59:42.5+00:00")
    assert (row["total_ms"], row["queue_ms"]) == (4060.0, 0.094981)
    assert (row["run_ms"], row["token_ms"]) == (63600.0, 38.98)
    assert (loaded.report.skipped_count, loaded.report.first_skip_reason) == (
        1,
        "a request line has a duration of unknown form",
    )


# ---------------------------------------------------------------------------------------------- hostile

LINES = (
    LINE,
    LINE.replace("generate{", "chat_completions{parameters=GenerateParameters { best_of: None } "),
    "2030-01-19T08:59:40.000000Z  INFO text_generation_launcher: Setting max batch total tokens to 143872",
    "2030-01-19T08:59:41.000000Z  INFO text_generation_launcher: KV-cache blocks: 143872, size: 1",
    JSON_LINE,
    JSON_LIMIT,
)


@settings(max_examples=200, deadline=None)
@given(hostile(LINES))
def test_hostile_variants(line: bytes) -> None:
    check_hostile(TGI, line)


@pytest.mark.fuzz
@settings(max_examples=5000, deadline=None)
@given(hostile(LINES))
def test_many_hostile_variants(line: bytes) -> None:
    check_hostile(TGI, line)
