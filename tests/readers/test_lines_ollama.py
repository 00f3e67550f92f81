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
from kvcliff.readers.lines.ollama import OLLAMA

ACCESS = '[GIN] 2030/01/20 - 09:00:05 | 200 |        1m2.5s |       127.0.0.1 | POST     "/api/generate?x=1"'
SIZE = (
    "time=2030-01-20T09:00:05.000+02:00 level=INFO source=ggml.go:100 "
    'msg="kv cache" device=CUDA0 size="1.5 GiB"'
)
CUT = (
    "time=2030-01-20T09:00:10.250Z level=WARN source=runner.go:153 "
    'msg="truncating input prompt" limit=4096 prompt=6021 keep=4 new=4096'
)


def test_access_lines_have_time_and_duration(tmp_path: Path) -> None:
    loaded = load_lines(tmp_path, [ACCESS, ACCESS.replace("/api/generate", "/api/tags")])
    assert [(row["path_class"], row["status"]) for row in loaded.access] == [
        ("completions", 200),
        ("other", 200),
    ]
    assert [row["total_ms"] for row in loaded.requests] == [62500.0]


def test_stamps_with_a_zone_are_utc(tmp_path: Path) -> None:
    loaded = load_lines(tmp_path, [SIZE, CUT])
    assert loaded.facts() == {
        ("", "engine"): "ollama",
        ("cuda0", "kv_cache_bytes"): str(3 << 29),
    }
    assert (loaded.events[0]["kind"], loaded.events[0]["tokens"]) == ("prompt_truncated", 6021)
    assert loaded.events[0]["src_ns"] == ns("2030-01-20T09:00:10.25+00:00")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (ACCESS[:60], "an access line has another form than known"),
        ("[GIN] 2030/01/20 09:00:05", "an access line has no complete head"),
    ],
)
def test_cut_lines_are_counted_with_a_reason(tmp_path: Path, text: str, reason: str) -> None:
    report = load_lines(tmp_path, [text]).report
    assert (report.skipped_count, report.first_skip_reason) == (1, reason)


@needs_corpus
def test_corpus() -> None:
    rows, loaded = corpus_rows("ollama.log"), corpus_log("ollama.log")
    for row in rows:
        if row["kind"] == "access":
            access, request = at(loaded.access, row["line"]), at(loaded.requests, row["line"])
            assert (access["status"], access["after_src_ns"]) == (row["status"], ns(row["time"]))
            assert request["total_ms"] == pytest.approx(row["duration_s"] * 1e3)
        elif row["kind"] == "kv_memory":
            states(loaded, {"kv_cache_bytes": str(3 << 29)})
        elif row["kind"] == "truncation":
            found = at(loaded.events, row["line"])
            assert (found["kind"], found["tokens"]) == ("prompt_truncated", row["prompt"])
            assert found["src_ns"] == ns(row["time"])
        else:
            assert row["kind"] == "live_decode"
            assert row["line"] not in lines_with_rows(loaded)
    states(loaded, {"engine": "ollama"})


# ---------------------------------------------------------------------------------------------- hostile

LINES = (
    ACCESS,
    SIZE,
    CUT,
)


@settings(max_examples=200, deadline=None)
@given(hostile(LINES))
def test_hostile_variants(line: bytes) -> None:
    check_hostile(OLLAMA, line)


@pytest.mark.fuzz
@settings(max_examples=5000, deadline=None)
@given(hostile(LINES))
def test_many_hostile_variants(line: bytes) -> None:
    check_hostile(OLLAMA, line)
